// The rows of a Parquet file, a row group at a time, of the columns that are asked for only.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/rows.h"

namespace trireme::data {

/// One thread at a time. A damaged or hostile file ends in an Error, never in a crash or a large allocation:
/// Arrow's memory is capped by the file's size, and what it decoded is validated before it is looked at.
class ParquetFile {
 public:
  /// Maps the file and reads its footer. Throws io if it cannot be opened, corrupt_data if it is no Parquet
  /// file; both name it.
  explicit ParquetFile(const std::string& path);
  ~ParquetFile();

  /// "data_source", "prompt", "reward_model.style": columns, and the fields of those that are structs.
  const std::vector<std::string>& columns() const;
  /// A column, or a path into one: see find_value.
  bool has(const std::string& key) const;
  int64_t num_rows() const;

  /// Visits each row with the columns in `keys` that there are, and with nothing else. Lists become arrays,
  /// structs and maps objects, decimals and times strings; bytes are taken as text. Bytes that are not UTF-8
  /// go to `mistakes`, and their row is left out. Throws corrupt_data naming file, and column and row where
  /// they are known; invalid_config for a column whose type has no equal in JSON.
  void for_each_row(const std::vector<std::string>& keys, RowMistakes& mistakes, const RowVisitor& visit);

 private:
  struct Parts;
  void visit_batch(const arrow::RecordBatch& batch, int64_t rows_before, RowMistakes& mistakes,
                   const RowVisitor& visit) const;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme::data
