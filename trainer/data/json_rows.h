// The rows of a JSONL file (an object a line) or of a JSON file (one array of objects).
#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/rows.h"

namespace trireme::data {

/// Blank lines and a byte order mark are skipped. Whatever is not an object in JSON and UTF-8 goes to
/// `mistakes` as "path:line", with the column. Returns the number of objects. Throws io if the file
/// cannot be read.
int64_t for_each_json_row(const std::string& path, RowMistakes& mistakes, const RowVisitor& visit);

}  // namespace trireme::data
