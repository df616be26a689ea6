#include "trainer/data/parquet_rows.h"

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "trainer/data/arrow_values.h"
#include "trainer/text/utf8.h"

namespace trireme::data {
namespace {

constexpr int64_t kBatchRows = 1024;
// Arrow's buffers: pages of a file are decompressed one at a time, so even a small file that compresses well
// stays far below this.
constexpr int64_t kMemoryFloor = int64_t{64} << 20, kMemoryPerByte = 64;
// Equal rows take almost no bytes, but a file of nothing else is no dataset.
constexpr int64_t kRowsFloor = 1'000'000, kRowsPerByte = 100;
constexpr int32_t kMaxSchemaDepth = 50;

// Arrow's reasons may run over several lines, and quote the file's bytes.
std::string in_one_line(std::string text) {
  text = text::replace_not_utf8(std::move(text));
  if (const size_t end = text.find('\n'); end != std::string::npos) text.erase(end);
  constexpr size_t kLongest = 300;
  if (text.size() > kLongest) text = text::replace_not_utf8(text.substr(0, kLongest)) + "...";
  return text;
}

void require(const arrow::Status& status) {
  if (!status.ok()) fail(ErrorCode::corrupt_data, "{}", status.message());
}

template <typename T>
T require(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

// Runs `body`; whatever goes wrong in it is told as a mistake in `where`.
template <typename Body>
auto reading(const std::string& where, Body&& body) {
  const auto wrong = [&](const std::string& reason) {
    fail(ErrorCode::corrupt_data, "{}: {}", where, in_one_line(reason));
  };
  try {
    return body();
  } catch (const Error& error) {
    wrong(error.message());
  } catch (const std::bad_alloc&) {
    wrong("there is not enough memory for what it claims to hold");
  } catch (const std::exception& error) {  // parquet::ParquetException, std::length_error
    wrong(error.what());
  }
  std::abort();  // wrong() has thrown
}

bool is_within(const std::string& path, const std::string& key) {
  return path == key ||
         (path.size() > key.size() && path[key.size()] == '.' && path.compare(0, key.size(), key) == 0);
}

// Columns, and the fields of structs; what is inside lists and maps has no name of its own.
void add_names(const parquet::schema::GroupNode& group, const std::string& prefix,
               std::vector<std::string>& names) {
  for (int i = 0; i < group.field_count(); ++i) {
    const auto& field = *group.field(i);
    const std::string name = prefix + field.name();
    const bool is_struct =
        field.is_group() && !field.is_repeated() && field.converted_type() == parquet::ConvertedType::NONE;
    if (is_struct && static_cast<const parquet::schema::GroupNode&>(field).field_count() > 0)
      add_names(static_cast<const parquet::schema::GroupNode&>(field), name + ".", names);
    else
      names.push_back(name);
  }
}

}  // namespace

struct ParquetFile::Parts {
  std::string path;
  std::unique_ptr<arrow::MemoryPool> pool;  // outlives the reader
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::vector<std::string> names, leaves;
  int64_t num_rows = 0;

  // The leaf columns of keys, in the file's order.
  std::vector<int> leaves_of(const std::vector<std::string>& keys) const {
    std::vector<int> found;
    for (size_t i = 0; i < leaves.size(); ++i)
      if (std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return is_within(leaves[i], key); }))
        found.push_back(static_cast<int>(i));
    return found;
  }

  int64_t rows_of(int group) const {
    return reader->parquet_reader()->metadata()->RowGroup(group)->num_rows();
  }
};

namespace {

// The batches of one row group.
class GroupReader {
 public:
  GroupReader(parquet::arrow::FileReader& reader, int group, int64_t num_rows, const std::vector<int>& leaves)
      : group_(group), num_rows_(num_rows), batches_(require(reader.GetRecordBatchReader({group}, leaves))) {}

  /// Validated; null after the last one.
  std::shared_ptr<arrow::RecordBatch> next() {
    std::shared_ptr<arrow::RecordBatch> batch;
    require(batches_->ReadNext(&batch));
    if (!batch && done_ != num_rows_)
      fail(ErrorCode::corrupt_data, "row group {} ends after {} of its {} rows", group_, done_, num_rows_);
    if (!batch) return nullptr;
    if (batch->num_rows() > num_rows_ - done_)
      fail(ErrorCode::corrupt_data, "row group {} holds more than its {} rows", group_, num_rows_);
    for (const auto& column : batch->columns()) require(column->ValidateFull());
    done_ += batch->num_rows();
    return batch;
  }

 private:
  const int group_;
  const int64_t num_rows_;
  int64_t done_ = 0;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

}  // namespace

ParquetFile::ParquetFile(const std::string& path) : parts_(std::make_unique<Parts>()) {
  parts_->path = path;
  const auto file = arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ);
  if (!file.ok()) fail(ErrorCode::io, "{}: {}", path, in_one_line(file.status().message()));
  reading(path, [&] {
    const int64_t size = require((*file)->GetSize());
    parts_->pool = std::make_unique<arrow::CappedMemoryPool>(arrow::system_memory_pool(),
                                                             kMemoryFloor + kMemoryPerByte * size);
    parquet::ReaderProperties properties(parts_->pool.get());
    // Whatever the footer counts takes at least a byte of the file each.
    const auto most = static_cast<int32_t>(std::min<int64_t>(size, 1'000'000));
    properties.set_thrift_container_size_limit(most);
    properties.set_thrift_string_size_limit(static_cast<int32_t>(std::min<int64_t>(size, 100'000'000)));
    properties.set_schema_depth_limit(kMaxSchemaDepth);
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_batch_size(kBatchRows);
    arrow_properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(*file, properties));
    builder.memory_pool(parts_->pool.get());
    builder.properties(arrow_properties);
    require(builder.Build(&parts_->reader));

    const auto metadata = parts_->reader->parquet_reader()->metadata();
    parts_->num_rows = metadata->num_rows();
    if (parts_->num_rows < 0 || parts_->num_rows > kRowsFloor + kRowsPerByte * size)
      fail(ErrorCode::corrupt_data, "claims to hold {} rows in {} bytes", parts_->num_rows, size);
    int64_t in_groups = 0;
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      const int64_t rows = metadata->RowGroup(group)->num_rows();
      if (rows < 0 || rows > parts_->num_rows - in_groups)
        fail(ErrorCode::corrupt_data, "row group {} claims to hold {} rows", group, rows);
      in_groups += rows;
    }
    if (in_groups != parts_->num_rows)
      fail(ErrorCode::corrupt_data, "{} rows in all, but {} in its row groups", parts_->num_rows, in_groups);
    for (int i = 0; i < metadata->num_columns(); ++i) {
      const std::string& path =
          parts_->leaves.emplace_back(metadata->schema()->Column(i)->path()->ToDotString());
      if (text::find_not_utf8(path) != std::string_view::npos)
        fail(ErrorCode::corrupt_data, "the name of column {} is not UTF-8", i);
    }
    add_names(*metadata->schema()->group_node(), "", parts_->names);
  });
}

ParquetFile::~ParquetFile() = default;

const std::vector<std::string>& ParquetFile::columns() const {
  return parts_->names;
}

bool ParquetFile::has(const std::string& key) const {
  return std::any_of(parts_->names.begin(), parts_->names.end(),
                     [&](const std::string& name) { return is_within(name, key); });
}

int64_t ParquetFile::num_rows() const {
  return parts_->num_rows;
}

void ParquetFile::for_each_row(const std::vector<std::string>& keys, RowMistakes& mistakes,
                               const RowVisitor& visit) {
  const std::vector<int> leaves = parts_->leaves_of(keys);
  if (leaves.empty()) return;
  int64_t number = 0;
  const int num_groups = parts_->reader->parquet_reader()->metadata()->num_row_groups();
  for (int group = 0; group < num_groups; ++group) {
    const std::string where = fmt::format("{}: after row {}", parts_->path, number);
    const auto open = [&](const std::vector<int>& columns) {
      return std::make_unique<GroupReader>(*parts_->reader, group, parts_->rows_of(group), columns);
    };
    // Arrow does not say in which column it failed: it is the first that fails when it is read alone.
    const auto blame = [&] {
      for (const std::string& key : keys)
        if (const std::vector<int> columns = parts_->leaves_of({key}); !columns.empty())
          reading(fmt::format("{}, column '{}'", where, key), [&] {
            for (const auto rows = open(columns); rows->next();) {
            }
          });
    };
    const auto rows = reading(where, [&] { return open(leaves); });
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      try {
        batch = reading(where, [&] { return rows->next(); });
      } catch (const Error&) {
        blame();
        throw;
      }
      if (!batch) break;
      visit_batch(*batch, number, mistakes, visit);
      number += batch->num_rows();
    }
  }
}

void ParquetFile::visit_batch(const arrow::RecordBatch& batch, int64_t rows_before, RowMistakes& mistakes,
                              const RowVisitor& visit) const {
  const auto& fields = batch.schema()->fields();
  for (const auto& field : fields)
    if (!has_json_form(*field->type()))
      fail(ErrorCode::invalid_config,
           "{}: column '{}' is of type {}, which cannot be read: write it as another", parts_->path,
           field->name(), field->type()->ToString());
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    const std::string where = fmt::format("{}: row {}", parts_->path, rows_before + i + 1);
    Row row = Row::object();
    bool good = true;
    for (int column = 0; column < batch.num_columns(); ++column) {
      const std::string& name = fields[static_cast<size_t>(column)]->name();
      try {
        row[name] = json_of(*batch.column(column), i);
      } catch (const Error& error) {
        mistakes.add(where, fmt::format("column '{}': {}", name, error.message()));
        good = false;
      }
    }
    if (good) visit(row, where);
  }
}

}  // namespace trireme::data
