// What of a model is in the device's memory, and when.
//
// Of a model in training the masters are what is kept; weights and the decoder's copies of them are made anew
// when they are needed, and gradients begin anew with each update. Of a model that is only read its weights
// are kept.
#pragma once

#include <memory>

#include "trainer/memory/outside.h"
#include "trainer/models/decoder.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::sharding {

class ModelMemory {
 public:
  /// Everything is there all the time: what follows does nothing.
  ModelMemory();
  /// Of a model in training, which a decoder is attached to. `weights_stay`: others read its weights in their
  /// place, so only masters and gradient go. Borrows both.
  ModelMemory(memory::Outside& outside, TrainedParameters& parameters, bool weights_stay);
  /// Of a model that is only read. Borrows all.
  ModelMemory(memory::Outside& outside, models::ParameterSet& parameters, models::Decoder& reader);
  ModelMemory(ModelMemory&&) noexcept;
  ModelMemory& operator=(ModelMemory&&) noexcept;
  ~ModelMemory();

  /// While one lives what it is of is there.
  class Use;

  /// What passes read, and an update's gradient. Where weights were away this is collective over the ranks
  /// that publish() is.
  [[nodiscard]] Use weights();
  /// The masters, or the weights of a model that is only read; to `change` them, or not. Local.
  [[nodiscard]] Use masters(bool change = false);

  /// Begins to bring the masters: they will be needed soon. Local.
  void expect();
  /// What is not in use goes; so it does after each use. Local.
  void rest();
  /// If not, they are made of the masters, as these will be by then, when they are needed.
  bool weights_are_there() const;

  /// Bytes that are outside while nothing is in use.
  int64_t parked_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class ModelMemory::Use {
 public:
  Use() = default;
  Use(Use&& other) noexcept;
  Use& operator=(Use&&) = delete;
  ~Use();

 private:
  friend class ModelMemory;
  Use(State* state, bool weights) : state_(state), weights_(weights) {}
  State* state_ = nullptr;
  bool weights_ = false;
};

}  // namespace trireme::sharding
