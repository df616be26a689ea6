#include "trainer/rollout/gpu_step_runner.h"

#include <algorithm>
#include <cstring>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/error.h"
#include "trainer/models/attention_work.h"
#include "trainer/models/device_ops.h"
#include "trainer/rollout/philox.h"
#include "trainer/rollout/scheduler.h"

namespace trireme::rollout {
namespace {

// Logits that exist at one time: 512 MiB of fp32.
constexpr int64_t kMaxLogits = 128 << 20;
// Of attention's partial results in captured steps: segments beyond are not split.
constexpr int64_t kMaxPartialBytes = 128 << 20;

// Where the inputs of N rows and M draws lie in one block of bytes.
struct DrawLayout {
  int64_t rows, draws;
  int64_t uniforms() const { return rows * static_cast<int64_t>(sizeof(DrawSettings)); }
  int64_t temperatures() const { return uniforms() + draws * static_cast<int64_t>(sizeof(double)); }
  int64_t bytes() const { return temperatures() + rows * static_cast<int64_t>(sizeof(float)); }
};

// Rows of the plan, padded to `rows` by rows that are drawn from greedily.
void fill_draws(const StepPlan& plan, const Scheduler& scheduler, int64_t rows, std::byte* bytes) {
  const int64_t padding = rows - static_cast<int64_t>(plan.sampled_rows.size());
  const DrawLayout layout{rows, plan.num_draws + padding};
  auto* settings = reinterpret_cast<DrawSettings*>(bytes);
  auto* uniforms = reinterpret_cast<double*>(bytes + layout.uniforms());
  auto* inverse_temperature = reinterpret_cast<float*>(bytes + layout.temperatures());
  for (const SampledRow& row : plan.sampled_rows) {
    const Request& request = scheduler.request_of(row.sequence);
    const SamplingConfig& sampling = request.sampling;
    DrawSettings own;
    own.top_p = sampling.top_p;
    own.min_p = static_cast<float>(sampling.min_p);
    own.top_k = static_cast<int32_t>(std::clamp<int64_t>(sampling.top_k, 0, INT32_MAX));
    own.greedy = request.greedy || sampling.temperature == 0;
    own.first_draw = row.first_draw;
    own.num_draws = row.num_draws;
    *settings++ = own;
    *inverse_temperature++ =
        static_cast<float>(1.0 / (sampling.temperature == 0 ? 1.0 : sampling.temperature));
    const PhiloxKey key = sampling_key(request.seed, request.step);
    for (int32_t i = 0; i < row.num_draws; ++i)
      uniforms[row.first_draw + i] = sampling_uniform(key, request.id, scheduler.sample_of(row.sequence + i),
                                                      scheduler.num_sampled(row.sequence));
  }
  for (int64_t i = 0; i < padding; ++i) {
    DrawSettings none;
    none.greedy = none.num_draws = 1;
    none.first_draw = plan.num_draws + static_cast<int32_t>(i);
    *settings++ = none;
    *inverse_temperature++ = 1.0f;
    uniforms[none.first_draw] = 0.0;
  }
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

// A decode step's batch with rows up to `rows` that read and write the spare slot.
models::ForwardBatch padded(const models::ForwardBatch& batch, int64_t rows, int64_t spare_slot) {
  models::ForwardBatch result = batch;
  const auto spare = static_cast<int32_t>(spare_slot);
  for (int64_t row = batch.num_rows(); row < rows; ++row) {
    result.tokens.push_back(0);
    result.positions.push_back(0);
    result.slots.push_back(spare);
    result.segments.push_back({static_cast<int32_t>(row), 1, 0, {{spare, 1}}});
  }
  return result;
}

// Of what captured steps read, for the largest of them.
struct BufferSizes {
  int64_t partial_width, partial_rows, most_items, words, draw_bytes, drawn_bytes;

  BufferSizes(const models::AttentionDims& dims, const StepLimits& limits) {
    const int64_t rows = limits.max_num_seqs;
    const auto group = static_cast<int32_t>(dims.heads / dims.kv_heads);
    partial_width = dims.kv_heads * (dims.head_dim + 2);
    partial_rows = std::min(models::most_partial_rows(rows, limits.max_model_len, group),
                            kMaxPartialBytes / (partial_width * static_cast<int64_t>(sizeof(float))));
    // A row has an item for each kQueries heads; an item of a split has a partial row of its own at least.
    most_items = rows * ((group + models::kQueries - 1) / models::kQueries) + partial_rows;
    // Pages are rarely read by so few tokens each; a step with more spans is not replayed.
    const int64_t spans = rows * (limits.max_model_len / 4 + 8);
    words = models::work_offset(rows) +
            static_cast<int64_t>(
                (sizeof(models::AttentionWorkHeader) + most_items * sizeof(models::AttentionItem) +
                 most_items / 2 * sizeof(models::AttentionMerge) + spans * sizeof(models::SlotSpan)) /
                sizeof(int32_t));
    draw_bytes = DrawLayout{rows, rows}.bytes();
    drawn_bytes = rows * static_cast<int64_t>(sizeof(SampledToken));
  }

  int64_t bytes() const { return (partial_rows * partial_width + words) * 4 + draw_bytes + drawn_bytes; }
};

bool is_decode(const StepPlan& plan) {
  const auto rows = static_cast<size_t>(plan.batch.num_rows());
  return plan.batch.segments.size() == rows && plan.sampled_rows.size() == rows &&
         plan.num_draws == plan.batch.num_rows();
}

}  // namespace

std::vector<int64_t> graph_ladder(int64_t max_num_seqs) {
  std::vector<int64_t> ladder;
  for (int64_t rows = 1; rows < max_num_seqs; rows = rows < 16 ? 2 * rows : rows + 16) ladder.push_back(rows);
  ladder.push_back(max_num_seqs);
  return ladder;
}

GpuStepBytes gpu_step_bytes(const models::Decoder& decoder, const StepLimits& limits) {
  const models::DecoderShape& shape = decoder.shape();
  const models::AttentionDims& dims = decoder.attention_dims();
  const int64_t element = decoder.kv_bytes_per_slot() /
                          (2 * shape.num_hidden_layers * dims.kv_heads * dims.head_dim),
                rows = std::max(limits.max_num_seqs, limits.max_num_batched_tokens);
  const int64_t q_width = dims.heads * dims.head_dim, widths = 5 * shape.hidden_size + 2 * dims.qkv_width() +
                                                               2 * q_width + 3 * shape.intermediate_size;
  const int64_t logits = std::min(limits.max_num_seqs, std::max<int64_t>(1, kMaxLogits / shape.vocab_size)),
                chunks = models::vocab_chunks(shape.vocab_size);
  const BufferSizes sizes(dims, limits);
  GpuStepBytes result;
  result.buffers = sizes.bytes() + decoder.kv_bytes_per_slot() +
                   static_cast<int64_t>(decoder.rope_on_device(limits.max_model_len).nbytes());
  result.activations = rows * widths * element +
                       models::kPartialRows * sizes.partial_width * int64_t{sizeof(float)} +
                       logits * (shape.vocab_size * int64_t{sizeof(float)} +
                                 chunks * static_cast<int64_t>(sizeof(models::ChunkStats) + 12) +
                                 static_cast<int64_t>(sizeof(models::SoftmaxRow)));
  return result;
}

GpuStepRunner::GpuStepRunner(const models::Decoder& decoder, const StepLimits& limits, DrawKernel draw,
                             std::unique_ptr<StepGraphs> graphs)
    : decoder_(decoder),
      spare_slot_(limits.num_slots),
      group_(static_cast<int32_t>(decoder.attention_dims().heads / decoder.attention_dims().kv_heads)),
      draw_(draw),
      graphs_(std::move(graphs)),
      ladder_(graph_ladder(limits.max_num_seqs)),
      kv_(decoder.make_kv_slots(limits.num_slots + 1)) {
  if (!graphs_) return;
  const BufferSizes sizes(decoder.attention_dims(), limits);
  partial_rows_ = sizes.partial_rows;
  most_items_ = sizes.most_items;
  const auto on_device = at::TensorOptions(decoder.device());
  const auto on_host = at::TensorOptions().pinned_memory(!decoder.device().is_cpu());
  partials_ = at::empty({partial_rows_, sizes.partial_width}, on_device.dtype(at::kFloat));
  words_ = at::zeros({sizes.words}, on_device.dtype(at::kInt));
  host_words_ = at::empty({sizes.words}, on_host.dtype(at::kInt));
  draws_ = at::zeros({sizes.draw_bytes}, on_device.dtype(at::kByte));
  host_draws_ = at::empty({sizes.draw_bytes}, on_host.dtype(at::kByte));
  drawn_ = at::zeros({sizes.drawn_bytes}, on_device.dtype(at::kByte));
  rope_ = decoder.rope_on_device(limits.max_model_len);
}

int64_t GpuStepRunner::buffer_bytes() const {
  int64_t bytes = decoder_.kv_bytes_per_slot();  // of the spare slot
  for (const at::Tensor* buffer : {&partials_, &words_, &draws_, &drawn_, &rope_})
    if (buffer->defined()) bytes += static_cast<int64_t>(buffer->nbytes());
  return bytes;
}

std::span<const SampledToken> GpuStepRunner::run(const StepPlan& plan, const Scheduler& scheduler) {
  const at::NoGradGuard no_gradients;
  result_.clear();
  if (!graphs_ || !replay(plan, scheduler)) run_call_by_call(plan, scheduler);
  return result_;
}

void GpuStepRunner::take_cache() {
  models::take_memory(kv_);
  if (!captured_ || kv_.front().keys.data_ptr() == captured_cache_) return;
  graphs_->clear();
  captured_ = false;
}

void GpuStepRunner::give_cache_back() {
  models::give_memory_back(kv_);
}

bool GpuStepRunner::replay(const StepPlan& plan, const Scheduler& scheduler) {
  if (!is_decode(plan) || plan.batch.num_rows() > ladder_.back()) return false;
  const int64_t rows = *std::lower_bound(ladder_.begin(), ladder_.end(), plan.batch.num_rows());
  const std::vector<int32_t> words =
      models::words_of(padded(plan.batch, rows, spare_slot_), group_, partial_rows_);
  const auto num_words = static_cast<int64_t>(words.size());
  if (num_words > words_.size(0)) return false;
  if (!captured_) capture_ladder();
  std::memcpy(host_words_.mutable_data_ptr(), words.data(), words.size() * sizeof(int32_t));
  words_.narrow(0, 0, num_words).copy_(host_words_.narrow(0, 0, num_words), true);
  const int64_t num_bytes = DrawLayout{rows, rows}.bytes();
  fill_draws(plan, scheduler, rows, bytes_of(host_draws_));
  draws_.narrow(0, 0, num_bytes).copy_(host_draws_.narrow(0, 0, num_bytes), true);
  graphs_->replay(rows);
  ++num_replays_;
  fetch(drawn_, plan, scheduler);
  return true;
}

void GpuStepRunner::capture_ladder() {
  for (auto rows = ladder_.rbegin(); rows != ladder_.rend(); ++rows) {
    // Something to compute for the call that goes before the capture: padding alone.
    const std::vector<int32_t> words =
        models::words_of(padded({}, *rows, spare_slot_), group_, partial_rows_);
    const auto num_words = static_cast<int64_t>(words.size());
    words_.narrow(0, 0, num_words)
        .copy_(at::from_blob(const_cast<int32_t*>(words.data()), {num_words}, at::kInt));
    graphs_->capture(*rows, [this, rows = *rows] { enqueue_decode(rows); });
  }
  captured_ = true;
  captured_cache_ = kv_.front().keys.data_ptr();
}

void GpuStepRunner::enqueue_decode(int64_t rows) {
  models::DeviceBatch batch = models::parts_of(words_, rows);
  batch.partials = partials_;
  batch.rope = rope_;
  batch.most_items = most_items_;
  draw(decoder_.forward_paged(batch, kv_), {rows, rows, draws_, drawn_});
}

void GpuStepRunner::run_call_by_call(const StepPlan& plan, const Scheduler& scheduler) {
  const at::Tensor hidden_TD = decoder_.forward_paged(plan.batch, kv_);
  const auto num_rows = static_cast<int64_t>(plan.sampled_rows.size());
  if (num_rows == 0) return;
  std::vector<int64_t> rows;
  for (const SampledRow& row : plan.sampled_rows) rows.push_back(row.row);
  const at::Tensor hidden_ND =
      hidden_TD.index_select(0, at::from_blob(rows.data(), {num_rows}, at::kLong).to(decoder_.device()));
  const at::Tensor on_host = at::empty({DrawLayout{num_rows, plan.num_draws}.bytes()}, at::kByte);
  fill_draws(plan, scheduler, num_rows, bytes_of(on_host));
  DrawBlock block{num_rows, plan.num_draws, on_host.to(decoder_.device()), {}};
  block.drawn =
      at::empty({plan.num_draws * static_cast<int64_t>(sizeof(SampledToken))}, block.inputs.options());
  draw(hidden_ND, block);
  fetch(block.drawn, plan, scheduler);
}

void GpuStepRunner::draw(const at::Tensor& hidden, const DrawBlock& block) const {
  const DrawLayout layout{block.rows, block.draws};
  const int64_t vocab = decoder_.shape().vocab_size, rows_at_once = std::max<int64_t>(1, kMaxLogits / vocab);
  for (int64_t first = 0; first < block.rows; first += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, block.rows - first);
    const at::Tensor logits = decoder_.logits(hidden.narrow(0, first, rows)).contiguous();
    const at::Tensor temperatures =
        block.inputs.narrow(0, layout.temperatures(), block.rows * 4).view(at::kFloat).narrow(0, first, rows);
    const models::device::SoftmaxStats stats = models::device::softmax_stats(logits, temperatures);
    const int64_t chunks = models::vocab_chunks(vocab);
    const at::Tensor masses = at::empty({rows, chunks}, logits.options().dtype(at::kLong));
    const at::Tensor ties = at::empty({rows, chunks}, logits.options().dtype(at::kInt));
    const std::byte* const inputs = bytes_of(block.inputs);
    GpuDraw task{};
    task.logits = logits.const_data_ptr<float>();
    task.rows = rows;
    task.vocab = vocab;
    task.inverse_temperature = temperatures.const_data_ptr<float>();
    task.chunks = static_cast<const models::ChunkStats*>(stats.chunks.const_data_ptr());
    task.stats = static_cast<const models::SoftmaxRow*>(stats.rows.const_data_ptr());
    task.settings = reinterpret_cast<const DrawSettings*>(inputs) + first;
    task.uniforms = reinterpret_cast<const double*>(inputs + layout.uniforms());
    task.masses = static_cast<uint64_t*>(masses.mutable_data_ptr());
    task.ties = static_cast<uint32_t*>(ties.mutable_data_ptr());
    task.drawn = reinterpret_cast<SampledToken*>(bytes_of(block.drawn));
    draw_(task, models::device::stream(decoder_.device()));
  }
}

void GpuStepRunner::fetch(const at::Tensor& drawn, const StepPlan& plan, const Scheduler& scheduler) {
  result_.resize(static_cast<size_t>(plan.num_draws));
  const auto bytes = static_cast<int64_t>(result_.size() * sizeof(SampledToken));
  at::from_blob(result_.data(), {bytes}, at::kByte).copy_(drawn.narrow(0, 0, bytes));  // waits for the device
  for (const SampledRow& row : plan.sampled_rows)
    if (result_[static_cast<size_t>(row.first_draw)].token < 0) fail_not_numbers(scheduler, row.sequence);
}

}  // namespace trireme::rollout
