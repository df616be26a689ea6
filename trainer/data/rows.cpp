#include "trainer/data/rows.h"

namespace trireme::data {

const Row* find_value(const Row& row, std::string_view key) {
  if (!row.is_object()) return nullptr;
  if (const auto found = row.find(std::string(key)); found != row.end()) return &*found;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    const auto outer = row.find(std::string(key.substr(0, dot)));
    if (outer == row.end()) continue;
    if (const Row* value = find_value(*outer, key.substr(dot + 1))) return value;
  }
  return nullptr;
}

void RowMistakes::add(std::string where, std::string what) {
  if (++count_ <= kShown) shown_.add(std::move(where), std::move(what));
}

void RowMistakes::throw_if_any(const std::string& heading) const {
  if (count_ <= kShown) return shown_.throw_if_any(heading);
  Mistakes all = shown_;
  all.add("", fmt::format("... and {} more mistakes", count_ - kShown));
  all.throw_if_any(heading);
}

}  // namespace trireme::data
