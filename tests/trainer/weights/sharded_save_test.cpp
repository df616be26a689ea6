#include "trainer/weights/sharded_save.h"

#include <sys/resource.h>

#include <csignal>
#include <map>
#include <mutex>

#include "runtime/base/files.h"
#include "runtime/comm/local_communicator.h"
#include "tests/oracle_python.h"
#include "tests/trainer/weights/held_pattern.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;
using comm::DType;
using comm::LocalWorld;

std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all[fs::relative(entry.path(), folder)] = files::read(entry.path());
  return all;
}

void expect_same_folders(const std::string& a, const std::string& b) {
  const auto left = contents(a), right = contents(b);
  ASSERT_GT(left.size(), 0u);
  for (const auto& [name, bytes] : left) {
    ASSERT_TRUE(right.contains(name)) << name;
    EXPECT_TRUE(bytes == right.at(name)) << name << " differs between " << a << " and " << b;
  }
  EXPECT_EQ(left.size(), right.size());
}

class ShardedSave : public InFolder {
 protected:
  DecoderShape tied_ = DecoderShape::from_folder(golden("tied-bf16"));
  DecoderShape untied_ = DecoderShape::from_folder(golden("sharded-fp32"));

  // Ranks last to first: their order in the mesh need not be theirs in the world.
  static placement::Mesh mesh_of(const Parallel& parallel) {
    placement::Mesh mesh{.dp = parallel.dp, .pp = parallel.pp, .tp = parallel.tp};
    for (int rank = parallel.dp * parallel.pp * parallel.tp; rank-- > 0;) mesh.ranks.push_back(rank);
    return mesh;
  }
  void save_by_all(const std::string& folder, const DecoderShape& shape, const Parallel& parallel,
                   DType memory, at::ScalarType disk, const SaveOptions& options, bool values_only = false) {
    const placement::Mesh mesh = mesh_of(parallel);
    LocalWorld::run(parallel.dp * parallel.pp * parallel.tp, [&](Communicator& world) {
      const auto at = *mesh.find(world.rank());
      HeldPattern held(shape, parallel, at, memory);
      const HeldValues values = held.values(mesh, parallel.zero);
      values_only ? save_values(world, folder, shape, values, disk, options)
                  : save(world, folder, shape, values, disk, options);
    });
  }
};

TEST_F(ShardedSave, TheBytesAreThoseOfOneRankWhateverTheLayout) {
  for (const DType memory : {DType::f32, DType::bf16})
    for (const at::ScalarType disk : {at::kFloat, at::kBFloat16})
      for (const int64_t limit : {int64_t{3000}, int64_t{1} << 30}) {
        const SaveOptions options{.max_shard_bytes = limit, .special = {.eos = {3}}};
        const DecoderShape& shape = disk == at::kFloat ? untied_ : tied_;
        fs::remove_all(path("one"));
        save(path("one"), shape, whole_pattern(shape, memory), disk, options);
        for (const int num_ranks : {1, 2, 3, 4})
          for (const Parallel& parallel : layouts_of(num_ranks)) {
            SCOPED_TRACE(fmt::format("{} limit {}", parallel.text(), limit));
            fs::remove_all(path("all"));
            save_by_all(path("all"), shape, parallel, memory, disk, options);
            expect_same_folders(path("one"), path("all"));
          }
      }
  EXPECT_TRUE(fs::exists(path("all/model.safetensors")));
}

// A folder of each kind: masters and moments, under the parameters' own names.
TEST_F(ShardedSave, AnyLayoutLoadsWhatAnyOtherSaved) {
  const SaveOptions options{.max_shard_bytes = 4000};
  for (const int savers : {1, 2, 3, 4})
    for (const Parallel& saved : layouts_of(savers)) {
      const std::string folder = path("trainer/first_moment");
      fs::remove_all(folder);
      save_by_all(folder, untied_, saved, DType::f32, at::kFloat, options, true);
      EXPECT_FALSE(fs::exists(folder + "/config.json"));
      for (const int loaders : {1, 2, 3, 4})
        for (const Parallel& loading : layouts_of(loaders))
          for (const int rank : mesh_of(loading).ranks) {
            const HeldPattern held(untied_, loading, *mesh_of(loading).find(rank), DType::f32);
            const std::vector<Piece> pieces = held.pieces();
            load(folder, untied_, held.specs(), pieces);
            held.expect_read(pieces);
          }
    }
}

TEST_F(ShardedSave, ASmallStagingIsEnough) {
  const SaveOptions options{.max_shard_bytes = 5000, .staging_bytes = 4096};
  save(path("one"), tied_, whole_pattern(tied_, DType::f32), at::kBFloat16, options);
  save_by_all(path("all"), tied_, {2, 2, true}, DType::f32, at::kBFloat16, options);
  expect_same_folders(path("one"), path("all"));
}

TEST_F(ShardedSave, RanksOutsideTheMeshHaveNoPart) {
  const Parallel parallel{2, 1, false};
  const placement::Mesh mesh{.tp = 2, .ranks = {3, 1}};
  LocalWorld::run(4, [&](Communicator& world) {
    const auto at = mesh.find(world.rank());
    if (!at) return save(world, path("all"), tied_, HeldValues{mesh, false, DType::f32, {}}, at::kFloat);
    HeldPattern held(tied_, parallel, *at, DType::f32);
    save(world, path("all"), tied_, held.values(mesh, false), at::kFloat);
  });
  save(path("one"), tied_, whole_pattern(tied_, DType::f32), at::kFloat);
  expect_same_folders(path("one"), path("all"));
}

// One rank cannot write: it says why, the others say who, nobody waits, and nothing is left.
class ShardedSaveFails : public ShardedSave {
 protected:
  std::map<std::string, int> codes_of(const SaveOptions& options) {
    std::map<std::string, int> codes;
    std::mutex mutex;
    const Parallel parallel{2, 2, true};
    LocalWorld::run(4, [&](Communicator& world) {
      HeldPattern held(untied_, parallel, {.d = world.rank() / 2, .t = world.rank() % 2}, DType::f32);
      try {
        save(world, path("all"), untied_, held.values({.dp = 2, .tp = 2, .ranks = {0, 1, 2, 3}}, true),
             at::kFloat, options);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        ++codes[to_string(error.code())];
        EXPECT_HAS(error.message(), path("all"));
      }
      world.barrier();
    });
    return codes;
  }
};

TEST_F(ShardedSaveFails, AFolderThatCannotBeMade) {
  put("all", "a file");
  EXPECT_EQ(codes_of({}), (std::map<std::string, int>{{"io", 1}, {"peer_failed", 3}}));
}

TEST_F(ShardedSaveFails, ADiskThatIsFull) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{6000, before.rlim_max};  // of a file
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto codes = codes_of({});
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old);
  EXPECT_EQ(codes, (std::map<std::string, int>{{"io", 1}, {"peer_failed", 3}}));
  EXPECT_TRUE(fs::is_empty(path("all")));
}

TEST_F(ShardedSave, TransformersLoadsWhatFourRanksSaved) {
  const auto python = oracle_python("transformers");
  if (!python) GTEST_SKIP() << "no Python with transformers";
  save_by_all(path("all"), untied_, {2, 2, true}, DType::f32, at::kFloat, {.max_shard_bytes = 4000});
  put("read.py", R"(
import sys, torch
from transformers import AutoModelForCausalLM
model, info = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="auto", output_loading_info=True)
assert not any(info.values()), info
for name, values in model.state_dict().items():
    flat = values.flatten()
    i = torch.arange(flat.numel())
    steps = (i * 37 + sum(name.encode())) % 251 - 125
    expected = (steps / 64).float() * torch.tensor(1.003) + i.float() * torch.tensor(1e-4)
    assert flat.dtype == torch.float32 and torch.equal(flat, expected), name
assert torch.isfinite(model(torch.arange(12)[None]).logits).all()
)");
  EXPECT_EQ(std::system(
                (*python + " " + path("read.py") + " " + path("all") + " >" + path("log") + " 2>&1").c_str()),
            0)
      << files::read(path("log"));
}

}  // namespace
}  // namespace trireme::weights
