#include "trainer/memory/shelf.h"

#include <iterator>
#include <utility>

#include <ATen/ops/empty.h>

namespace trireme::memory {

class Shelf::Item {
 public:
  Item(Shelf& shelf, int64_t number, const at::Tensor& values)
      : shelf_(shelf),
        number_(number),
        sizes_(values.sizes().vec()),
        options_(values.options()),
        slot_(shelf.outside_.take(static_cast<int64_t>(values.nbytes()))) {}
  ~Item() {
    shelf_.outside_.give_back(slot_);
    shelf_.items_.erase(number_);
  }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;

 private:
  friend class Shelf;
  Shelf& shelf_;
  const int64_t number_;
  const std::vector<int64_t> sizes_;
  const at::TensorOptions options_;
  const Outside::Slot slot_;
  at::Tensor values_;  // on their way back, or there
  Outside::Copy copy_;
};

std::shared_ptr<Shelf::Item> Shelf::put(at::Tensor values) {
  constexpr size_t kMostBehind = 2;
  auto item = std::make_shared<Item>(*this, next_, values);
  items_[next_++] = item;
  behind_.push_back(outside_.write(item->slot_, std::move(values)));
  for (; behind_.size() > kMostBehind; behind_.pop_front()) behind_.front().get();
  return item;
}

void Shelf::send_for(Item& item) {
  if (item.values_.defined()) return;
  item.values_ = at::empty(item.sizes_, item.options_);
  item.copy_ = outside_.read(item.slot_, item.values_);
}

at::Tensor Shelf::get(Item& item) {
  send_for(item);
  if (const auto here = items_.find(item.number_); here != items_.begin())
    if (const auto before = std::prev(here)->second.lock()) send_for(*before);
  item.copy_.get();
  return std::move(item.values_);
}

}  // namespace trireme::memory
