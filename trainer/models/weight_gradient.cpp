#include "trainer/models/weight_gradient.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include <ATen/Parallel.h>

#include "runtime/base/error.h"
#include "trainer/models/instruction_set.h"
#include "trainer/models/packed_linear.h"
#include "trainer/models/weight_gradient_kernels.h"

namespace trireme::models {
namespace {

constexpr int64_t kDepth = 512;       // rows in a block: a tile's panels then lie in a core's caches
constexpr int64_t kOutputs = 6144;    // whose panels exist at a time
constexpr int64_t kPanelsAtOnce = 4;  // packed by a thread that is worth waking

const WeightGradientKernels& kernels() {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::amx:
    case InstructionSet::avx512_bf16:
      return avx512_bf16::kWeightGradient;
    case InstructionSet::avx512:
      return avx512::kWeightGradient;
    case InstructionSet::avx2:
      return avx2::kWeightGradient;
    case InstructionSet::portable:
      break;
  }
#endif
  return portable::kWeightGradient;
}

// Memory for panels; it grows and stays.
class Panels {
 public:
  std::byte* reserve(int64_t bytes) {
    if (bytes > size_) {
      size_ = (bytes + 4095) / 4096 * 4096;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(size_))));
      if (!memory_) {
        size_ = 0;
        throw std::bad_alloc();
      }
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  int64_t size_ = 0;
};

// One of the two operands: `columns` columns of a matrix [T, ...], of which a block of rows is packed.
struct Operand {
  const std::byte* data;
  int64_t stride, columns, width;  // width of a panel
  std::byte* panels = nullptr;
  int64_t num_panels() const { return (columns + width - 1) / width; }
};

using Pack = void (*)(Element, const void*, int64_t, int64_t, int, void*);

void pack(Pack pack_panel, Element element, const Operand& operand, int64_t row, int64_t depth,
          int64_t panel_bytes) {
  const int64_t bytes = element == Element::f32 ? 4 : 2;
  at::parallel_for(0, operand.num_panels(), kPanelsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t column = p * operand.width;
      pack_panel(element, operand.data + (row * operand.stride + column) * bytes, operand.stride, depth,
                 static_cast<int>(std::min(operand.width, operand.columns - column)),
                 operand.panels + p * panel_bytes);
    }
  });
}

}  // namespace

void add_weight_gradient(const at::Tensor& grad_y, const at::Tensor& x, const at::Tensor& gradient) {
  TRIREME_CHECK(grad_y.dim() == 2 && x.dim() == 2 && grad_y.size(0) == x.size(0) &&
                    grad_y.scalar_type() == x.scalar_type() && gradient.scalar_type() == at::kFloat &&
                    gradient.size(0) == grad_y.size(1) && gradient.size(1) == x.size(1),
                "a gradient of {} x {} is no product of {} x {} and {} x {}", gradient.size(0),
                gradient.size(1), grad_y.size(0), grad_y.size(1), x.size(0), x.size(1));
  TRIREME_CHECK(grad_y.stride(1) == 1 && x.stride(1) == 1 && gradient.stride(1) == 1,
                "the columns of a weight gradient's operands must be contiguous");
  const WeightGradientKernels& set = kernels();
  const Element element = element_of(x.scalar_type());
  const int64_t bytes = x.element_size(), rows = x.size(0), depth_at_most = std::min(kDepth, rows);
  const int64_t left_bytes = set.steps(element, depth_at_most) * set.rows * 4;
  const int64_t right_bytes = set.steps(element, depth_at_most) * set.columns * 4;
  const int64_t outputs_at_once = kOutputs / set.rows * set.rows;
  static thread_local Panels left_memory, right_memory;
  Operand right{static_cast<const std::byte*>(x.const_data_ptr()), x.stride(0), x.size(1), set.columns};
  right.panels = right_memory.reserve(right.num_panels() * right_bytes);
  for (int64_t row = 0; row < rows; row += kDepth) {
    const int64_t depth = std::min(kDepth, rows - row), steps = set.steps(element, depth);
    pack(set.pack_right, element, right, row, depth, right_bytes);
    for (int64_t output = 0; output < grad_y.size(1); output += outputs_at_once) {
      Operand left{static_cast<const std::byte*>(grad_y.const_data_ptr()) + output * bytes, grad_y.stride(0),
                   std::min(outputs_at_once, grad_y.size(1) - output), set.rows};
      left.panels = left_memory.reserve(left.num_panels() * left_bytes);
      pack(set.pack_left, element, left, row, depth, left_bytes);
      float* out = gradient.mutable_data_ptr<float>() + output * gradient.stride(0);
      const int64_t tall = left.num_panels();
      // A tile each; the right panel stays in the cache while the left ones pass.
      at::parallel_for(0, tall * right.num_panels(), 16, [&](int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) {
          const int64_t r = tile % tall, c = tile / tall;
          set.add(element, left.panels + r * left_bytes, right.panels + c * right_bytes, steps,
                  static_cast<int>(std::min<int64_t>(set.rows, left.columns - r * set.rows)),
                  static_cast<int>(std::min<int64_t>(set.columns, right.columns - c * set.columns)),
                  out + r * set.rows * gradient.stride(0) + c * set.columns, gradient.stride(0));
        }
      });
    }
  }
}

}  // namespace trireme::models
