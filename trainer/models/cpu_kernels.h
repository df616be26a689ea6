// Row kernels for the CPU, compiled once per instruction set and chosen once per process, so that
// every rank, stage and batch runs the same arithmetic. No kernel looks at how many rows there are to
// decide how a row is computed: for one token history a row's bits are the same in prefill, decode and
// the training forward. Torch-free.
#pragma once

#include <cstdint>

namespace trireme::models {

struct SlotSpan;

/// Elements are fp32 or bf16 in memory; arithmetic is fp32.
enum class Element : uint8_t { f32, bf16 };

/// Keys are visited in blocks of this many absolute positions, merged in ascending order.
inline constexpr int kKeyBlock = 64;

/// One segment as the kernels see it; see forward_batch.h. Where keys come a stretch of positions at a time,
/// `spans` are those from first_key on, a multiple of kKeyBlock, up to end_key, another one or the last.
struct SegmentView {
  int32_t row, length, position;
  const SlotSpan* spans;
  int32_t num_spans;
  int32_t first_key = 0;
  int32_t end_key = INT32_MAX;

  int32_t keys_end() const { return position + length < end_key ? position + length : end_key; }
};

/// Where a row's softmax stands after some of its keys, [T, heads] and of `weighted` [T, heads, head_dim]:
/// from there the next keys give it the bits that all of them together would. Of rows from first_key 0 on
/// nothing is read.
struct SoftmaxState {
  float *maximum = nullptr, *sum = nullptr, *weighted = nullptr;
};

struct AttentionShape {
  int32_t heads, kv_heads, head_dim;
};

/// Strides are in elements. Scratch is the kernel's own.
struct AttentionForward {
  AttentionShape shape;
  Element element;
  const void* q;  // [T, heads, head_dim], row stride q_stride
  int64_t q_stride;
  const void *keys, *values;  // [S, kv_heads, head_dim], slot stride kv_stride
  int64_t kv_stride;
  void* out;           // [T, heads, head_dim], contiguous
  float* lse;          // [T, heads]: log sum exp of the scaled scores
  SoftmaxState state;  // where keys come a stretch at a time: read and written, as are out and lse each time
};

struct AttentionBackward {
  AttentionForward forward;        // its inputs and results
  const void* grad_out;            // [T, heads, head_dim], contiguous
  float* grad_q;                   // [T, heads, head_dim], written by the first keys, added to by later ones
  float *grad_keys, *grad_values;  // [S, kv_heads, head_dim], zero at entry, summed in segment order
};

/// Rows of q | k | v as the projection gives them: q and k are rotated by the row's position (pairs
/// (i, i + head_dim / 2)), and each part goes to its place.
struct RotaryTask {
  AttentionShape shape;
  Element element;
  const void* qkv;  // [rows, (heads + 2 kv_heads) * head_dim], row stride qkv_stride
  int64_t qkv_stride;
  int64_t rows;
  const int32_t* positions;  // [rows]
  const float* table;        // [positions, head_dim]: cos in the first half of a row, sin in the second
  void* q;                   // [rows, heads, head_dim], row stride q_stride; may be qkv itself
  int64_t q_stride;
  void *keys, *values;  // [S, kv_heads, head_dim], slot stride kv_stride
  int64_t kv_stride;
  const int32_t* slots;  // [rows] where keys and values go; null: row r to slot r
};

/// Back again: fp32 gradients of q, keys and values to those of the projection.
struct RotaryBackwardTask {
  AttentionShape shape;
  Element element;  // of grad_qkv
  int64_t rows;
  const int32_t* positions;
  const float* table;
  const float* grad_q;                   // [rows, heads, head_dim]
  const float *grad_keys, *grad_values;  // [rows, kv_heads, head_dim]
  void* grad_qkv;                        // [rows, (heads + 2 kv_heads) * head_dim]
};

/// A token's share of the gradient of the logits.
struct ChosenToken {
  int64_t column;
  float gradient;  // of its log-probability
};

/// One row's logits of some columns of the vocabulary, to their gradient.
struct SoftmaxBackward {
  float* logits;  // [columns], fp32, not yet divided by the temperature; overwritten
  int64_t columns;
  float inverse_temperature, lse, entropy;
  float gradient;          // of all log-probabilities of the row together
  float entropy_gradient;  // of the row's entropy
  const ChosenToken* chosen;
  int64_t num_chosen;
  uint16_t* narrow;  // [columns]: the gradient in bf16; null where fp32 is wanted, which stays in logits
};

struct CpuKernels {
  const char* name;  // "avx512", "avx2", "portable"

  /// Of one kv head, writes the segments' rows of out and lse. The segments' first `shared` positions lie
  /// in the same slots and are read once for all of them: whole blocks, before every row. 0 for a single
  /// segment. Keys and values must be finite.
  void (*attention_forward)(const AttentionForward& task, const SegmentView* segments, int32_t num_segments,
                            int32_t shared, int32_t kv_head);
  /// One segment, one kv head; adds to grad_keys and grad_values of that head.
  void (*attention_backward)(const AttentionBackward& task, const SegmentView& segment, int32_t kv_head);

  /// out[r] = x[r] / rms(x[r]) * weight; inverse_rms[r] is kept for the backward pass.
  void (*rms_norm)(Element element, const void* x, const void* weight, float eps, int64_t rows, int64_t dim,
                   void* out, float* inverse_rms);
  /// grad_x written, grad_weight (fp32) added to, rows in order.
  void (*rms_norm_backward)(Element element, const void* x, const void* weight, const float* inverse_rms,
                            const void* grad_out, int64_t rows, int64_t dim, void* grad_x,
                            float* grad_weight);

  /// out[r] = silu(gate_up[r][:dim]) * gate_up[r][dim:].
  void (*silu_mul)(Element element, const void* gate_up, int64_t rows, int64_t dim, void* out);
  void (*silu_mul_backward)(Element element, const void* gate_up, const void* grad_out, int64_t rows,
                            int64_t dim, void* grad_gate_up);

  void (*rotary)(const RotaryTask& task);
  void (*rotary_backward)(const RotaryBackwardTask& task);

  /// Of each row of logits / temperature (fp32, in place scaled): log sum exp and entropy.
  void (*softmax_stats)(float* logits, float inverse_temperature, int64_t rows, int64_t vocab, float* lse,
                        float* entropy);
  /// d log p(token) = onehot - p;  d entropy = -p (log p + entropy).
  void (*softmax_backward)(const SoftmaxBackward& task);
};

/// Those of instruction_set() (instruction_set.h).
const CpuKernels& cpu_kernels();

}  // namespace trireme::models
