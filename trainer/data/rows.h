// Rows of a data file, whatever its format: an object with the row's columns, and where it stands.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme::data {

/// ordered_json: messages name the columns as the file does.
using Row = nlohmann::ordered_json;

/// `where` is "path:line", or "path: row N" in files without lines; rows count from 1.
using RowVisitor = std::function<void(const Row& row, const std::string& where)>;

/// The value under `key`: the column of that name, else, where the key has dots, the way through nested
/// objects ("reward_model.ground_truth"). Null if there is none.
const Row* find_value(const Row& row, std::string_view key);

/// Mistakes in data, of which a file may have one per row: the first few are kept, the rest counted.
class RowMistakes {
 public:
  static constexpr int64_t kShown = 20;
  void add(std::string where, std::string what);
  int64_t count() const { return count_; }
  /// Throws invalid_config with those kept and the number of the others.
  void throw_if_any(const std::string& heading) const;

 private:
  Mistakes shown_;
  int64_t count_ = 0;
};

}  // namespace trireme::data
