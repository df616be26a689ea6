#include "trainer/data/arrow_values.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "trainer/text/utf8.h"

namespace trireme::data {
namespace {

template <typename ArrayType>
const ArrayType& as(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

Row text(std::string_view bytes) {
  if (const size_t bad = text::find_not_utf8(bytes); bad != std::string_view::npos)
    fail(ErrorCode::corrupt_data, "{} bytes that are not UTF-8 text (0x{:02X} at byte {})", bytes.size(),
         static_cast<unsigned char>(bytes[bad]), bad);
  return std::string(bytes);
}

// The number that is written with the float's own digits: 0.1, not 0.10000000149011612.
Row number(float value) {
  return std::isfinite(value) ? std::strtod(fmt::format("{}", value).c_str(), nullptr) : double{value};
}

template <typename ListType>
Row list(const arrow::Array& array, int64_t at) {
  const auto& lists = as<ListType>(array);
  Row out = Row::array();
  const int64_t begin = lists.value_offset(at), end = begin + lists.value_length(at);
  for (int64_t i = begin; i < end; ++i) out.push_back(json_of(*lists.values(), i));
  return out;
}

Row map(const arrow::Array& array, int64_t at) {
  const auto& maps = as<arrow::MapArray>(array);
  Row out = Row::object();
  const int64_t begin = maps.value_offset(at), end = begin + maps.value_length(at);
  for (int64_t i = begin; i < end; ++i) {
    const Row key = json_of(*maps.keys(), i);
    out[key.is_string() ? key.get<std::string>() : key.dump()] = json_of(*maps.items(), i);
  }
  return out;
}

Row object(const arrow::Array& array, int64_t at) {
  const auto& structs = as<arrow::StructArray>(array);
  Row out = Row::object();
  for (int i = 0; i < structs.num_fields(); ++i)
    out[structs.struct_type()->field(i)->name()] = json_of(*structs.field(i), at);
  return out;
}

}  // namespace

bool has_json_form(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::SPARSE_UNION:
    case arrow::Type::DENSE_UNION:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW:
    case arrow::Type::RUN_END_ENCODED:
    case arrow::Type::INTERVAL_MONTHS:
    case arrow::Type::INTERVAL_DAY_TIME:
    case arrow::Type::INTERVAL_MONTH_DAY_NANO:
    case arrow::Type::MAX_ID:
      return false;
    case arrow::Type::DICTIONARY:
      return has_json_form(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::EXTENSION:
      return has_json_form(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    default:
      for (const auto& field : type.fields())
        if (!has_json_form(*field->type())) return false;
      return true;
  }
}

Row json_of(const arrow::Array& array, int64_t at) {
  if (array.IsNull(at)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::NA:
      return nullptr;
    case arrow::Type::BOOL:
      return as<arrow::BooleanArray>(array).Value(at);
    case arrow::Type::INT8:
      return as<arrow::Int8Array>(array).Value(at);
    case arrow::Type::INT16:
      return as<arrow::Int16Array>(array).Value(at);
    case arrow::Type::INT32:
      return as<arrow::Int32Array>(array).Value(at);
    case arrow::Type::INT64:
      return as<arrow::Int64Array>(array).Value(at);
    case arrow::Type::UINT8:
      return as<arrow::UInt8Array>(array).Value(at);
    case arrow::Type::UINT16:
      return as<arrow::UInt16Array>(array).Value(at);
    case arrow::Type::UINT32:
      return as<arrow::UInt32Array>(array).Value(at);
    case arrow::Type::UINT64:
      return as<arrow::UInt64Array>(array).Value(at);
    case arrow::Type::FLOAT:
      return number(as<arrow::FloatArray>(array).Value(at));
    case arrow::Type::DOUBLE:
      return as<arrow::DoubleArray>(array).Value(at);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return text(as<arrow::BinaryArray>(array).GetView(at));
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return text(as<arrow::LargeBinaryArray>(array).GetView(at));
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return text(as<arrow::BinaryViewArray>(array).GetView(at));
    case arrow::Type::FIXED_SIZE_BINARY:
      return text(as<arrow::FixedSizeBinaryArray>(array).GetView(at));
    case arrow::Type::LIST:
      return list<arrow::ListArray>(array, at);
    case arrow::Type::LARGE_LIST:
      return list<arrow::LargeListArray>(array, at);
    case arrow::Type::FIXED_SIZE_LIST:
      return list<arrow::FixedSizeListArray>(array, at);
    case arrow::Type::MAP:
      return map(array, at);
    case arrow::Type::STRUCT:
      return object(array, at);
    case arrow::Type::DICTIONARY: {
      const auto& encoded = as<arrow::DictionaryArray>(array);
      return json_of(*encoded.dictionary(), encoded.GetValueIndex(at));
    }
    case arrow::Type::EXTENSION:
      return json_of(*as<arrow::ExtensionArray>(array).storage(), at);
    default: {  // decimals, dates, times: as Arrow writes them
      const auto scalar = array.GetScalar(at);
      if (!scalar.ok()) fail(ErrorCode::corrupt_data, "{}", scalar.status().message());
      return text((*scalar)->ToString());
    }
  }
}

}  // namespace trireme::data
