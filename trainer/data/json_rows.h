// The objects of a JSONL file (one a line) or of a JSON file (one array of them), each with its line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/error.h"

namespace trireme::data {

/// Mistakes in data, of which a file may have one per line: the first few are kept, the rest counted.
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

/// Called with each object and its line, from 1. ordered_json: messages name the columns as the file does.
using RowVisitor = std::function<void(const nlohmann::ordered_json& row, int64_t line)>;

/// Blank lines and a byte order mark are skipped. Whatever is not an object in JSON and UTF-8 goes to
/// `mistakes` as "path:line", with the column. Returns the number of objects. Throws io if the file
/// cannot be read.
int64_t for_each_row(const std::string& path, RowMistakes& mistakes, const RowVisitor& visit);

}  // namespace trireme::data
