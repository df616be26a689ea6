#include "trainer/models/packed_gemm.h"
#include "trainer/models/instruction_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "runtime/base/error.h"
#include "trainer/models/packed_linear.h"

namespace trireme::models {
namespace {

uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

// Numbers in an element's own bytes.
struct Numbers {
  Element element;
  std::vector<float> values;  // as the element holds them
  std::vector<std::byte> bytes;

  Numbers(Element element, int64_t count, uint32_t seed) : element(element) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const size_t size = element == Element::f32 ? 4 : 2;
    bytes.resize(static_cast<size_t>(count) * size);
    for (int64_t i = 0; i < count; ++i) {
      float value = normal(random);
      if (element == Element::f32) {
        std::memcpy(bytes.data() + static_cast<size_t>(i) * 4, &value, 4);
      } else {
        const uint16_t narrow = to_bf16(value);
        std::memcpy(bytes.data() + static_cast<size_t>(i) * 2, &narrow, 2);
        value = from_bf16(narrow);
      }
      values.push_back(value);
    }
  }
  const void* at(int64_t index) const { return bytes.data() + index * (element == Element::f32 ? 4 : 2); }
};

PackedMatrix packed(const Numbers& weight, int64_t n, int64_t k) {
  PackedMatrix matrix(weight.element, n, k);
  matrix.pack(weight.at(0), k, 0, matrix.num_panels());
  return matrix;
}

std::vector<float> run(const PackedMatrix& weight, const Numbers& x, int64_t first, int64_t rows,
                       const Numbers* bias = nullptr) {
  std::vector<float> out(static_cast<size_t>(rows * weight.n()));
  gemm(weight,
       {x.at(first * weight.k()), weight.k(), rows, bias ? bias->at(0) : nullptr, out.data(), weight.n(),
        Element::f32},
       0, weight.num_panels());
  return out;
}

bool same_bits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * 4) == 0;
}

const Element kElements[] = {Element::f32, Element::bf16};

TEST(PackedGemm, EqualsTheSumInDoubles) {
  struct Shape {
    int64_t n, k, rows;
  };
  for (const Element element : kElements)
    for (const Shape& shape : {Shape{1, 1, 1},
                               {31, 5, 3},
                               {32, 32, 16},
                               {33, 33, 17},
                               {100, 63, 33},
                               {64, 64, 48},
                               {70, 1000, 270},
                               {96, 4864, 2}}) {
      const Numbers weight(element, shape.n * shape.k, 1), x(element, shape.rows * shape.k, 2),
          bias(element, shape.n, 3);
      const auto out = run(packed(weight, shape.n, shape.k), x, 0, shape.rows, &bias);
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int64_t c = 0; c < shape.n; ++c) {
          double sum = bias.values[static_cast<size_t>(c)], size = std::abs(sum);
          for (int64_t k = 0; k < shape.k; ++k) {
            const double product = static_cast<double>(x.values[static_cast<size_t>(r * shape.k + k)]) *
                                   weight.values[static_cast<size_t>(c * shape.k + k)];
            sum += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(out[static_cast<size_t>(r * shape.n + c)], sum, 1e-6 * size + 1e-30)
              << name_of(instruction_set()) << ' ' << shape.n << 'x' << shape.k << " row " << r << " column "
              << c;
        }
    }
}

TEST(PackedGemm, ARowHasTheSameBitsAloneAndAmongAnyOthers) {
  for (const Element element : kElements)
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{96, 4864}, {45, 77}, {64, 512}, {33, 896}}) {
      constexpr int64_t kRows = 300;
      const Numbers weight(element, n * k, 4), x(element, kRows * k, 5), bias(element, n, 6);
      const PackedMatrix matrix = packed(weight, n, k);
      const auto all = run(matrix, x, 0, kRows, &bias);
      for (const int64_t rows :
           {1, 2, 3, 7, 12, 13, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 255, 256, 257})
        for (const int64_t first : {int64_t{0}, int64_t{5}, kRows - rows}) {
          if (first + rows > kRows) continue;
          const auto part = run(matrix, x, first, rows, &bias);
          ASSERT_TRUE(same_bits(part.data(), all.data() + first * n, rows * n))
              << name_of(instruction_set()) << ' ' << n << 'x' << k << ": rows " << first << " to "
              << first + rows;
        }
    }
}

TEST(PackedGemm, OtherRowsMayHoldAnything) {
  constexpr int64_t kN = 40, kK = 100, kRows = 35;
  for (const Element element : kElements) {
    const Numbers weight(element, kN * kK, 7);
    Numbers x(element, kRows * kK, 8);
    const PackedMatrix matrix = packed(weight, kN, kK);
    const auto before = run(matrix, x, 0, kRows);
    const size_t row_bytes = x.bytes.size() / kRows;
    std::memset(x.bytes.data() + 3 * row_bytes, 0xff, row_bytes);  // NaN
    const auto after = run(matrix, x, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      if (r == 3)
        EXPECT_TRUE(std::isnan(after[static_cast<size_t>(r * kN)]));
      else
        EXPECT_TRUE(same_bits(after.data() + r * kN, before.data() + r * kN, kN)) << "row " << r;
    }
  }
}

TEST(PackedGemm, PanelsMayBeSharedOutToThreads) {
  constexpr int64_t kN = 200, kK = 130, kRows = 40;
  for (const Element element : kElements) {
    const Numbers weight(element, kN * kK, 9), x(element, kRows * kK, 10);
    PackedMatrix matrix(element, kN, kK);
    std::vector<float> out(kRows * kN);
    const auto whole = run(packed(weight, kN, kK), x, 0, kRows);
    const GemmRows rows{x.at(0), kK, kRows, nullptr, out.data(), kN, Element::f32};
    for (const int64_t each : {1, 2, 3}) {
      std::vector<std::thread> threads;
      for (int64_t p = 0; p < matrix.num_panels(); p += each)
        threads.emplace_back([&, p, each] {
          const int64_t end = std::min(p + each, matrix.num_panels());
          matrix.pack(weight.at(0), kK, p, end);
          gemm(matrix, rows, p, end);
        });
      for (std::thread& thread : threads) thread.join();
      EXPECT_TRUE(same_bits(out.data(), whole.data(), kRows * kN)) << each << " panels each";
    }
  }
}

TEST(PackedGemm, WritesOnlyItsColumnsAndRoundsToNearestEven) {
  constexpr int64_t kN = 70, kK = 48, kStride = 83;
  const Numbers weight(Element::bf16, kN * kK, 11), x(Element::bf16, 40 * kK, 12);
  const PackedMatrix matrix = packed(weight, kN, kK);
  for (const int64_t rows : {1, 16, 17, 40}) {
    const auto exact = run(matrix, x, 0, rows);
    std::vector<uint16_t> out(static_cast<size_t>(rows * kStride), 0x1234);
    gemm(matrix, {x.at(0), kK, rows, nullptr, out.data(), kStride, Element::bf16}, 0, matrix.num_panels());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < kStride; ++c)
        ASSERT_EQ(out[static_cast<size_t>(r * kStride + c)],
                  c < kN ? to_bf16(exact[static_cast<size_t>(r * kN + c)]) : 0x1234)
            << "row " << r << " column " << c;
  }
}

TEST(PackedGemm, LargeResultsWrittenPastTheCachesAreTheSame) {
  constexpr int64_t kN = 1056, kK = 64, kRows = 700;
  for (const Element element : kElements) {
    const Numbers weight(element, kN * kK, 13), x(element, kRows * kK, 14);
    const PackedMatrix matrix = packed(weight, kN, kK);
    void* memory = std::aligned_alloc(64, kRows * kN * 4);
    gemm(matrix, {x.at(0), kK, kRows, nullptr, memory, kN, Element::f32}, 0, matrix.num_panels());
    for (int64_t r = 0; r < kRows; r += 10) {
      const auto few = run(matrix, x, r, 10);
      ASSERT_TRUE(same_bits(few.data(), static_cast<float*>(memory) + r * kN, 10 * kN)) << "row " << r;
    }
    std::free(memory);
  }
}

TEST(PackedGemm, PacksATransposeAlike) {
  for (const Element element : kElements)
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{96, 64}, {45, 77}, {1, 1}, {33, 250}}) {
      const size_t size = element == Element::f32 ? 4 : 2;
      const Numbers weight(element, n * k, 17), x(element, 40 * k, 18);
      std::vector<std::byte> turned(weight.bytes.size());
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < k; ++c)
          std::memcpy(turned.data() + static_cast<size_t>(c * n + r) * size, weight.at(r * k + c), size);
      PackedMatrix other(element, n, k);
      other.pack_transposed(turned.data(), n, 0, other.num_panels());
      const PackedMatrix matrix = packed(weight, n, k);
      for (const int64_t rows : {3, 40}) {
        const auto once = run(matrix, x, 0, rows);
        EXPECT_TRUE(same_bits(run(other, x, 0, rows).data(), once.data(), rows * n)) << n << 'x' << k;
      }
    }
}

TEST(PackedLinear, BackwardProductIsTheSumInDoubles) {
  for (const auto& [rows, out, in] : {std::array<int64_t, 3>{300, 96, 64}, {17, 45, 77}}) {
    const at::Tensor grad = at::randn({rows, out}, at::kFloat).to(at::kBFloat16),
                     weight = at::randn({out, in}, at::kFloat).to(at::kBFloat16);
    const at::Tensor exact = at::mm(grad.to(at::kDouble), weight.to(at::kDouble));
    const at::Tensor apart = (packed_grad_x(grad, weight, grad.scalar_type()).to(at::kDouble) - exact).abs();
    EXPECT_LT(apart.max().item<double>(), exact.abs().max().item<double>() / 256);  // half a unit of bf16
    EXPECT_TRUE(packed_grad_x(grad, weight, grad.scalar_type())
                    .equal(packed_grad_x(grad, weight, grad.scalar_type())));
  }
}

// LibTorch's products configure the tile registers for themselves.
TEST(PackedGemm, LivesBesideLibTorchsProducts) {
  constexpr int64_t kN = 64, kK = 96, kRows = 20;
  const Numbers weight(Element::bf16, kN * kK, 15), x(Element::bf16, kRows * kK, 16);
  const PackedMatrix matrix = packed(weight, kN, kK);
  const auto tensor = [](const Numbers& n, int64_t rows, int64_t columns) {
    return at::from_blob(const_cast<void*>(n.at(0)), {rows, columns},
                         at::TensorOptions().dtype(at::kBFloat16));
  };
  const at::Tensor left = tensor(x, kRows, kK), right = tensor(weight, kN, kK).t();
  const at::Tensor theirs = at::mm(left, right);
  const auto ours = run(matrix, x, 0, kRows), one = run(matrix, x, 0, 1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(at::mm(left, right).equal(theirs));
    const auto again = run(matrix, x, 0, i % 2 ? 1 : kRows);
    EXPECT_TRUE(same_bits(again.data(), ours.data(), static_cast<int64_t>(again.size())));
  }
  EXPECT_TRUE(same_bits(one.data(), ours.data(), kN));
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Each a little more than a large page: what is left must not take another one.
TEST(PackedGemm, HoldsItsPanelsAndNoMore) {
  constexpr int64_t kN = 288, kK = 2048;
  const std::vector<float> weight(kN * kK, 1.0f);
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  const int64_t before = resident_bytes();
  int64_t bytes = 0;
  for (int i = 0; i < 16; ++i) {
    matrices.push_back(std::make_unique<PackedMatrix>(Element::f32, kN, kK));
    matrices.back()->pack(weight.data(), kK, 0, matrices.back()->num_panels());
    bytes += matrices.back()->bytes();
  }
  EXPECT_GT(bytes, 16 * (int64_t{2} << 20));
  EXPECT_LT(resident_bytes() - before, bytes * 11 / 10);
}

TEST(PackedGemm, RefusesPanelsThatDoNotExist) {
  PackedMatrix matrix(Element::f32, 10, 10);
  EXPECT_THROW(matrix.pack(nullptr, 10, 0, 2), Error);
  EXPECT_THROW(gemm(matrix, {}, 0, 2), Error);
  EXPECT_THROW(PackedMatrix(Element::f32, 0, 3), Error);
}

}  // namespace
}  // namespace trireme::models
