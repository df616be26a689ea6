// A value of an Arrow array as JSON.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

#include "trainer/data/rows.h"

namespace trireme::data {

/// False for a type that has no equal in JSON: half floats, unions, views of lists.
bool has_json_form(const arrow::DataType& type);

/// The array must have been validated in full, and its type have a JSON form. Throws corrupt_data, saying
/// what is wrong but not where, for bytes that are not UTF-8.
Row json_of(const arrow::Array& array, int64_t at);

}  // namespace trireme::data
