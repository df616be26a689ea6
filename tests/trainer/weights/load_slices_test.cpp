// Checkpoints read by ranks that hold slices, blocks, or stretches of masters.
#include <fstream>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "tests/trainer/weights/held_pattern.h"
#include "trainer/weights/hf_checkpoint.h"

namespace trireme::weights {
namespace {

using models::ParameterSet;

constexpr const char* kFolders[] = {"tied-bf16", "sharded-fp32"};

void expect_pattern(const ParameterSpec& spec, int64_t begin, const at::Tensor& values) {
  const at::Tensor floats = values.to(at::kDouble).contiguous();
  for (int64_t k = 0; k < floats.numel(); ++k)
    ASSERT_EQ(floats.const_data_ptr<double>()[k], pattern(spec.name, in_whole(spec, begin + k)))
        << spec.name << " element " << begin + k << " of the slice";
}

TEST(LoadSlices, EachRankGetsItsSlicesInAnyTypeFlatOrInBlocks) {
  for (const char* folder : kFolders) {
    const DecoderShape shape = DecoderShape::from_folder(golden(folder));
    for (const int tp : {1, 2, 4})
      for (int t = 0; t < tp; ++t)
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          const auto specs = models::parameter_specs(shape, tp, t);
          ParameterSet flat(specs, at::kCPU, dtype);
          ParameterSet blocks(specs, at::kCPU, dtype, ParameterSet::Blocks{3});
          for (ParameterSet* set : {&flat, &blocks}) {
            load(golden(folder), shape, *set);
            for (size_t i = 0; i < specs.size(); ++i) expect_pattern(specs[i], 0, set->parameter(i));
          }
        }
  }
}

TEST(LoadSlices, StretchesOfMastersBeginAndEndAnywhere) {
  std::mt19937_64 random(3);
  const DecoderShape shape = DecoderShape::from_folder(golden("tied-bf16"));
  for (int round = 0; round < 50; ++round) {
    const int tp = 1 << random() % 3, t = static_cast<int>(random() % static_cast<uint64_t>(tp));
    const auto specs = models::parameter_specs(shape, tp, t);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto numel = static_cast<uint64_t>(specs[i].numel());
      const uint64_t begin = random() % (numel + 1), end = begin + random() % (numel + 1 - begin);
      pieces.push_back({i, static_cast<int64_t>(begin), at::empty({static_cast<int64_t>(end - begin)})});
    }
    load(golden("tied-bf16"), shape, specs, pieces);
    for (const Piece& piece : pieces) expect_pattern(specs[piece.parameter], piece.begin, piece.values);
  }
}

int64_t bytes_read_so_far() {
  std::ifstream io("/proc/self/io");
  std::string word;
  int64_t bytes = 0;
  io >> word >> bytes;
  return word == "rchar:" ? bytes : -1;
}

TEST(LoadSlices, ARankReadsOnlyItsOwnPart) {
  if (bytes_read_so_far() < 0) GTEST_SKIP() << "this system does not count what a process reads";
  const DecoderShape shape = DecoderShape::from_folder(golden("sharded-fp32"));
  const auto read_by = [&](const std::vector<ParameterSpec>& specs, std::span<const Piece> pieces) {
    const int64_t before = bytes_read_so_far();
    load(golden("sharded-fp32"), shape, specs, pieces);
    return bytes_read_so_far() - before;
  };
  const int64_t nothing = read_by(models::parameter_specs(shape), {});  // the headers
  for (const int tp : {1, 2, 4}) {
    ParameterSet set(models::parameter_specs(shape, tp, 0), at::kCPU);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < set.size(); ++i) pieces.push_back({i, 0, set.parameter(i).view({-1})});
    const int64_t own = 4 * set.num_parameters(), bytes = read_by(set.specs(), pieces) - nothing;
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(own), 64) << tp;  // and the counter itself
  }
}

TEST(LoadSlices, RefusesElementsThatDoNotExist) {
  const DecoderShape shape = DecoderShape::from_folder(golden("tied-bf16"));
  const auto specs = models::parameter_specs(shape, 2, 1);
  const auto load_one = [&](int64_t begin, int64_t count) {
    const std::vector<Piece> pieces{{0, begin, at::empty({count})}};
    load(golden("tied-bf16"), shape, specs, pieces);
  };
  const int64_t numel = specs[0].numel();
  EXPECT_NO_THROW(load_one(numel - 3, 3));
  EXPECT_THROW(load_one(numel - 3, 4), Error);
  EXPECT_THROW(load_one(-1, 2), Error);
  ParameterSet released(specs, at::kCPU, at::kFloat, {});
  released.memory(1).release();
  EXPECT_THROW(load(golden("tied-bf16"), shape, released), Error);
}

}  // namespace
}  // namespace trireme::weights
