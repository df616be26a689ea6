// A run's state on disk: a checkpoint is a Hugging Face folder that `transformers` loads, with what the
// trainer needs to go on beside it, in trainer/.
//
//   checkpoints/step_40/{config.json, model.safetensors, tokenizer.json, ...}
//   checkpoints/step_40/trainer/{state.json, masters/, first_moment/, second_moment/}
//
// The three folders hold safetensors under the parameters' own names; so a run goes on in any other layout.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/session/session.h"
#include "trainer/steps/role_models.h"
#include "trainer/text/tokenizer.h"

namespace trireme::steps {

struct RunState {
  std::string phase;  // "sft" | the algorithm's name, "rl"
  int64_t step = 0;   // steps of this phase that are done
  uint64_t seed = 0;
  int64_t taken = 0;         // problems that this phase's steps took: where it goes on in their order
  int64_t num_problems = 0;  // to train on
  uint64_t fingerprint = 0;  // of their contents and order (data::fingerprint)
  int64_t optimizer_updates = 0;
  std::optional<double> kl_coefficient;   // of KL in the reward, where it adapts
  std::string kernels;                    // the instruction set that computed it; empty on a GPU
  std::map<std::string, double> results;  // eval_before, eval_after_sft, seconds so far, ...
  std::string
      reference;  // a checkpoint's folder name ("sft") that holds the reference's weights; empty: model.path
};

/// All ranks write their parts of `folder`, which all of them see. Collective over: world.
void save(const std::string& folder, const RunState& state, RoleModels& models,
          const text::Tokenizer& tokenizer, session::Session& session);

/// Where a checkpoint's fp32 weights lie, as weights::load takes it: beside the folder's own where those are
/// rounded.
std::string masters_of(const std::string& folder);

/// What a checkpoint says of itself. Local. Throws corrupt_data naming the file, invalid_config if it belongs
/// to a run with another seed.
RunState read_state(const std::string& folder, uint64_t seed);

/// Throws invalid_config where a checkpoint's run trained on other problems than this one does: its place in
/// their order would mean nothing here.
void require_same_data(const std::string& folder, const RunState& checkpoint, const RunState& run);

/// Verifies `folder` and takes weights and the optimizer's state from it; the optimizer must be that of the
/// checkpoint's phase. Collective over: world. Throws corrupt_data naming the file.
void restore(const std::string& folder, const RunState& state, RoleModels& models, session::Session& session);

/// This rank's part of the masters, from a folder that weights::load takes. Local.
void load_masters(const std::string& path, const RoleModels& models);

/// The reference's weights from a checkpoint's masters. Collective over: world.
void load_reference(const std::string& folder, RoleModels& models);

}  // namespace trireme::steps
