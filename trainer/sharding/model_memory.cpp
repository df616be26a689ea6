#include "trainer/sharding/model_memory.h"

#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/memory/parking.h"

namespace trireme::sharding {

struct ModelMemory::State {
  memory::Parking masters;
  TrainedParameters* trained;  // or null, and
  models::Decoder* reader;
  bool weights_stay;
  bool weights_there = true, changed = false;
  int weights_users = 0, masters_users = 0;

  bool passes_read_masters() const { return !trained || trained->passes_read_masters(); }
  bool masters_are_needed() const {
    return masters_users > 0 || (weights_users > 0 && passes_read_masters());
  }

  void derive() {
    if (trained)
      trained->publish();
    else
      reader->refresh();
  }

  void use_weights() {
    ++weights_users;
    if (masters_are_needed() || !weights_there) masters.fetch();
    if (!std::exchange(weights_there, true)) derive();
    if (!masters_are_needed()) masters.park(false);
  }
  void leave_weights() {
    if (--weights_users > 0) return;
    if (trained) trained->release_gradient();
    if (!weights_stay && std::exchange(weights_there, false))
      trained ? trained->release_weights() : reader->release_copies();
    if (!masters_are_needed()) masters.park(std::exchange(changed, false));
  }
  void use_masters(bool change) {
    ++masters_users;
    masters.fetch();
    changed |= change;
  }
  void leave_masters() {
    --masters_users;
    if (!masters_are_needed()) masters.park(std::exchange(changed, false));
  }
};

namespace {

std::vector<at::Tensor> kept_of(models::ParameterSet& parameters) {
  return {parameters.flat()};
}

}  // namespace

ModelMemory::ModelMemory(memory::Outside& outside, TrainedParameters& parameters, bool weights_stay)
    : state_(new State{.masters{outside, {parameters.masters()}},
                       .trained = &parameters,
                       .reader = nullptr,
                       .weights_stay = weights_stay}) {
  TRIREME_CHECK(!weights_stay || !parameters.passes_read_masters(),
                "masters that are the weights others read cannot go");
}

ModelMemory::ModelMemory(memory::Outside& outside, models::ParameterSet& parameters, models::Decoder& reader)
    : state_(new State{.masters{outside, kept_of(parameters)},
                       .trained = nullptr,
                       .reader = &reader,
                       .weights_stay = false}) {}

ModelMemory::ModelMemory() = default;
ModelMemory::ModelMemory(ModelMemory&&) noexcept = default;
ModelMemory& ModelMemory::operator=(ModelMemory&&) noexcept = default;
ModelMemory::~ModelMemory() = default;

ModelMemory::Use ModelMemory::weights() {
  if (state_) state_->use_weights();
  return {state_.get(), true};
}

ModelMemory::Use ModelMemory::masters(bool change) {
  if (state_) state_->use_masters(change);
  return {state_.get(), false};
}

void ModelMemory::expect() {
  if (state_) state_->masters.expect();
}

void ModelMemory::rest() {
  if (!state_ || state_->weights_users > 0) return;
  ++state_->weights_users;
  state_->leave_weights();
}

bool ModelMemory::weights_are_there() const {
  return !state_ || state_->weights_there;
}

int64_t ModelMemory::parked_bytes() const {
  return state_ ? state_->masters.bytes() : 0;
}

ModelMemory::Use::Use(Use&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), weights_(other.weights_) {}

// Errors of the way out are told when the tensors are asked for again.
ModelMemory::Use::~Use() {
  if (!state_) return;
  try {
    weights_ ? state_->leave_weights() : state_->leave_masters();
  } catch (const Error& error) {
    log::error("{}", error.message());
  }
}

}  // namespace trireme::sharding
