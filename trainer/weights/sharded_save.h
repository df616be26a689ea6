// A model saved by all the ranks that hold it. What each rank has goes to the ranks that write: "each tensor
// whole on one rank" is one more layout of runtime/tensors, whose memory is a file. The bytes on disk are
// those that one rank alone would write, whatever the layout; so any layout loads what any other saved
// (load() in hf_checkpoint.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/placement/mesh.h"
#include "trainer/weights/hf_checkpoint.h"

namespace trireme::weights {

/// One value for each element of the parameters (weights, masters, a moment of the optimizer), as the ranks
/// of a role hold it: stages' blocks as models::blocks_of_stages says, tp slices as models::tensor_splits.
struct HeldValues {
  placement::Mesh mesh;  // ranks of the communicator
  bool zero = false;     // dp ranks each have an equal cut of each block's line; else they repeat the slices
  comm::DType dtype = comm::DType::f32;
  /// Where this rank's part of each block begins, in host memory; its parameters end to end. Null for blocks
  /// of other stages. None on ranks outside the mesh.
  std::vector<std::byte*> blocks;
};

// Collective over: `world`, all ranks, same arguments but for the blocks; `folder` is one that all see, and
// is made if absent. Each file is written by one rank, as many ranks of the mesh as there are files; memory
// is bounded by options.staging_bytes. `dtype` is fp32 or bf16 (rounded to nearest even). All ranks return,
// or all throw: io on those that could not write, peer_failed on the others. Each file is whole or absent,
// and all are absent if one could not be filled.

/// Under the parameters' names, without config.json. load() takes the folder.
void save_values(comm::Communicator& world, const std::string& folder, const models::DecoderShape& shape,
                 const HeldValues& values, at::ScalarType dtype, const SaveOptions& options = {});

/// A Hugging Face folder, as save() in hf_checkpoint.h writes it.
void save(comm::Communicator& world, const std::string& folder, const models::DecoderShape& shape,
          const HeldValues& values, at::ScalarType dtype, const SaveOptions& options = {});

}  // namespace trireme::weights
