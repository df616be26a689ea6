#include "trainer/memory/parking.h"

#include <utility>

#include "runtime/base/error.h"
#include "trainer/memory/block_memory.h"

namespace trireme::memory {

Parking::Parking(Outside& outside, std::vector<at::Tensor> tensors)
    : outside_(outside), tensors_(std::move(tensors)) {
  for (const at::Tensor& tensor : tensors_)
    TRIREME_CHECK(tensor.is_contiguous() && tensor.storage().nbytes() == tensor.nbytes(),
                  "a view of {} bytes cannot be parked alone", tensor.nbytes());
}

Parking::~Parking() {
  if (last_.valid()) last_.wait();
  for (const Outside::Slot slot : slots_) outside_.give_back(slot);
}

void Parking::park(bool changed) {
  if (state_ == State::leaving) return;
  if (state_ == State::coming) fetch();
  if (slots_.empty()) {
    for (const at::Tensor& tensor : tensors_)
      slots_.push_back(outside_.take(static_cast<int64_t>(tensor.nbytes())));
    changed = true;
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto release = [tensor = tensors_[i]] { release_memory(tensor); };
    last_ = changed ? outside_.write(slots_[i], tensors_[i], 0, release) : outside_.after(release);
  }
  state_ = State::leaving;
}

void Parking::expect() {
  if (state_ != State::leaving) return;
  last_.get();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    allocate_memory(tensors_[i]);
    last_ = outside_.read(slots_[i], tensors_[i]);
  }
  state_ = State::coming;
}

void Parking::fetch() {
  expect();
  if (state_ == State::coming) last_.get();
  state_ = State::there;
}

int64_t Parking::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors_) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace trireme::memory
