#include "runtime/base/files.h"
#include "runtime/comm/mpi_communicator.h"
#include "tests/trainer/weights/held_pattern.h"

namespace trireme::weights {
namespace {

namespace fs = std::filesystem;

// Processes that share nothing but the folder write the files that one of them alone writes.
TEST(ShardedSaveOverMpi, TheBytesAreThoseOfOneRank) {
  comm::MpiThread thread;
  comm::MpiCommunicator world(thread, "world", comm::all_ranks(thread));
  std::string pattern = (fs::temp_directory_path() / "trireme_sharded_XXXXXX").string();
  if (world.rank() == 0) {
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  }
  const fs::path folder = world.broadcast_string(pattern, 0);
  const DecoderShape shape = DecoderShape::from_folder(golden("sharded-fp32"));
  SaveOptions options{.max_shard_bytes = 1500, .staging_bytes = 1 << 14};
  for (int rank = 0; rank < world.size(); ++rank) options.node_of.push_back(rank / 2);
  if (world.rank() == 0)
    save(folder / "one", shape, whole_pattern(shape, comm::DType::f32), at::kBFloat16, options);
  for (const Parallel& parallel : layouts_of(world.size())) {
    SCOPED_TRACE(parallel.text());
    const placement::Mesh mesh =
        placement::Mesh::of(comm::all_ranks(thread), {.pp = parallel.pp, .tp = parallel.tp});
    const auto at = *mesh.find(world.rank());
    HeldPattern held(shape, parallel, at, comm::DType::f32);
    const std::string all = folder / fmt::format("pp{}tp{}zero{}", parallel.pp, parallel.tp, parallel.zero);
    save(world, all, shape, held.values(mesh, parallel.zero), at::kBFloat16, options);
    if (world.rank() != 0) continue;
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder / "one")) {
      EXPECT_TRUE(files::read(entry.path()) == files::read(fs::path(all) / entry.path().filename()))
          << entry.path();
      ++count;
    }
    EXPECT_GT(count, 6u);
    EXPECT_EQ(static_cast<size_t>(std::distance(fs::directory_iterator(all), {})), count);
  }
  world.barrier();
  if (world.rank() == 0) fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme::weights
