#include "trainer/models/device_batch.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "trainer/models/attention_work.h"

namespace trireme::models {

int64_t work_offset(int64_t rows) {
  return (3 * rows + 3) / 4 * 4;
}

std::vector<int32_t> words_of(const ForwardBatch& batch, int32_t group, int64_t partial_rows) {
  std::vector<int32_t> words;
  words.reserve(static_cast<size_t>(work_offset(batch.num_rows())) + 16 * batch.segments.size());
  for (const auto* part : {&batch.tokens, &batch.positions, &batch.slots})
    words.insert(words.end(), part->begin(), part->end());
  words.resize(static_cast<size_t>(work_offset(batch.num_rows())));
  lay_out_work(batch.segments, group, partial_rows, words);
  return words;
}

DeviceBatch parts_of(const at::Tensor& words, int64_t rows) {
  DeviceBatch parts;
  parts.tokens_T = words.narrow(0, 0, rows);
  parts.positions_T = words.narrow(0, rows, rows);
  parts.slots_T = words.narrow(0, 2 * rows, rows);
  parts.work = words.narrow(0, work_offset(rows), words.size(0) - work_offset(rows));
  return parts;
}

DeviceBatch upload(const ForwardBatch& batch, int32_t group, PartialRows partial_rows, at::Device device) {
  std::vector<int32_t> words = words_of(batch, group, partial_rows.most);
  AttentionWorkHeader header;
  std::memcpy(&header, &words[static_cast<size_t>(work_offset(batch.num_rows()))], sizeof header);
  const at::Tensor on_host = at::from_blob(words.data(), {static_cast<int64_t>(words.size())}, at::kInt);
  DeviceBatch parts = parts_of(on_host.to(device, at::kInt, false, true), batch.num_rows());
  parts.most_items = header.num_items;
  if (header.num_merges > 0)
    parts.partials =
        at::empty({partial_rows.most, partial_rows.width}, at::TensorOptions(device).dtype(at::kFloat));
  return parts;
}

}  // namespace trireme::models
