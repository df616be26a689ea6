// The models that this rank holds, by role. Roles on the same ranks share what they can: a rollout replica on
// the ranks of an actor's replica reads the actor's own weights, so nothing moves after an update.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/session.h"
#include "runtime/tensors/resharder.h"
#include "trainer/models/decoder.h"
#include "trainer/optim/adamw.h"
#include "trainer/rollout/engine.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::steps {

struct RoleModels {
  models::DecoderShape shape;
  std::string generation_config;  // the text that model.path brings, carried into checkpoints
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// Why rollout may give a token another log-probability than the actor's forward; empty where both give the
  /// same bits. The same on all ranks.
  std::string inexact_because;
  bool is_exact() const { return inexact_because.empty(); }

  // On actor ranks.
  std::unique_ptr<sharding::TrainedParameters> actor_parameters;
  std::unique_ptr<models::Decoder> actor;
  std::unique_ptr<optim::AdamW> optimizer;
  /// dp ranks hold parts of the masters (ZeRO). The same on all ranks.
  bool actor_is_sharded = false;

  // On reference ranks, where there is a reference.
  std::unique_ptr<models::ParameterSet> reference_parameters;
  std::unique_ptr<models::Decoder> reference;

  // On rollout ranks. rollout_parameters only where the actor's weights cannot be read in their place.
  std::unique_ptr<models::ParameterSet> rollout_parameters;
  std::unique_ptr<models::Decoder> rollout_decoder;
  std::unique_ptr<rollout::Engine> engine;

  // The actor's masters to the weights above: on all ranks, or null where nothing moves. On a GPU they go
  // through host memory.
  std::unique_ptr<tensors::Resharder> to_rollout, to_reference;
};

/// Allocates the models of this rank's roles; weights are undefined until load or initialize. `parallel` is
/// the actor's; tp sizes are the session's. Collective over: world, and the roles' groups. Throws
/// invalid_config naming every tensor that a layout does not fit, with the tp sizes that do.
RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, session::Session& session,
                            const sharding::TrainingParallelConfig& parallel,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len);

/// The masters have changed: brings them to the actor's own weights (collective over its dp and tp groups).
void publish_actor(RoleModels& models);

/// After publish_actor(): brings the weights to the rollout ranks that do not share them. Collective over:
/// world.
void publish_weights(RoleModels& models);

/// The reference becomes a copy of the actor as it is now. Collective over: world.
void copy_actor_to_reference(RoleModels& models);

}  // namespace trireme::steps
