// A run's state on disk: a checkpoint is a Hugging Face folder that `transformers` loads, with what the
// trainer needs to go on beside it, in trainer/.
//
//   checkpoints/step_40/{config.json, model.safetensors, tokenizer.json, ...}
//   checkpoints/step_40/trainer/{state.json, masters/, first_moment/, second_moment/}
//
// Responses that no step has learned from yet (rollout.steps_ahead) lie in trainer/batches/.
//
// A critic that has learned lies in critic/, a Hugging Face folder (of a token classifier) with a trainer/ of
// its own.
//
// The three folders hold safetensors under the parameters' own names; so a run goes on in any other layout.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/session/session.h"
#include "trainer/steps/batch.h"
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
  std::optional<int64_t> critic_updates;  // where the checkpoint holds a critic
  std::optional<double> kl_coefficient;   // of KL in the reward, where it adapts
  std::string kept_samples;               // rft.accumulate: KeptSamples::to_lines()
  Batches batches;                        // rollout.steps_ahead: generated for steps to come
  std::string kernels;                    // the instruction set that computed it; empty on a GPU
  std::map<std::string, double> results;  // eval_before, eval_after_sft, seconds so far, ...
  std::string
      reference;  // a checkpoint's folder name ("sft") that holds the reference's weights; empty: model.path
};

/// All ranks write their parts of `folder`, which all of them see; a critic's too, once a step of its phase
/// is done. Collective over: world.
void save(const std::string& folder, const RunState& state, RoleModels& models,
          const text::Tokenizer& tokenizer, session::Session& session);

/// Where a checkpoint's fp32 weights lie, as weights::load takes it: beside the folder's own where those are
/// rounded.
std::string masters_of(const std::string& folder);

/// What a checkpoint says of itself; of its batches all but what is in them. Local. Throws corrupt_data naming the file, invalid_config if it belongs
/// to a run with another seed.
RunState read_state(const std::string& folder, uint64_t seed);

/// Throws invalid_config where a checkpoint's run trained on other problems than this one does: its place in
/// their order would mean nothing here.
void require_same_data(const std::string& folder, const RunState& checkpoint, const RunState& run);

/// Verifies `folder` and takes weights and the optimizer's state from it, and the critic's where both have
/// one; the optimizer must be that of the checkpoint's phase. The batches of `state` get their responses, on
/// rollout ranks. Collective over: world. Throws corrupt_data naming the file.
void restore(const std::string& folder, RunState& state, RoleModels& models, session::Session& session);

/// This rank's part of the masters, from a folder that weights::load takes. Local.
void load_masters(const std::string& path, RoleModels& models);

/// Random ones (TrainedParameters::initialize). Local.
void initialize_actor(uint64_t seed, double embedding_std, RoleModels& models);

/// The same of the critic's; a value head that `path` lacks stays as it is.
void load_critic(const std::string& path, RoleModels& models);

/// The reference's weights from a checkpoint's masters. Collective over: world.
void load_reference(const std::string& folder, RoleModels& models);

}  // namespace trireme::steps
