// The models that this rank holds, by role. Roles on the same ranks share what they can: a rollout replica on
// the ranks of an actor's replica reads the actor's own weights, so nothing moves after an update.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/session/session.h"
#include "runtime/tensors/resharder.h"
#include "trainer/memory/offload_config.h"
#include "trainer/memory/outside.h"
#include "trainer/memory/shelf.h"
#include "trainer/models/decoder.h"
#include "trainer/optim/adamw.h"
#include "trainer/rollout/engine.h"
#include "trainer/sharding/model_memory.h"
#include "trainer/sharding/pipeline.h"
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

  // Where something is offloaded: what is not in the device's memory, and how.
  memory::OffloadConfig offload;
  std::unique_ptr<memory::Outside> outside;
  std::unique_ptr<memory::Shelf> shelf;  // of activations
  memory::Outside* place_of(const memory::RoleOffload& role) const {  // of the optimizer's state
    return role.optimizer ? outside.get() : nullptr;
  }

  // On actor ranks.
  std::unique_ptr<sharding::TrainedParameters> actor_parameters;
  std::unique_ptr<models::Decoder> actor;  // its stage of a pipeline
  sharding::ModelMemory actor_memory;
  std::unique_ptr<sharding::Pipeline> actor_passes;
  std::unique_ptr<optim::AdamW> optimizer;
  /// dp ranks hold parts of the masters (ZeRO). The same on all ranks.
  bool actor_is_sharded = false;

  // On critic ranks; where there is a critic, its shape and how its masters lie are known to all.
  std::optional<models::DecoderShape> critic_shape;
  std::unique_ptr<sharding::TrainedParameters> critic_parameters;
  std::unique_ptr<models::Decoder> critic;
  sharding::ModelMemory critic_memory;
  std::unique_ptr<sharding::Pipeline> critic_passes;
  std::unique_ptr<optim::AdamW> critic_optimizer;
  bool critic_is_sharded = false;

  // On reference ranks, where there is a reference.
  std::unique_ptr<models::ParameterSet> reference_parameters;
  std::unique_ptr<models::Decoder> reference;
  sharding::ModelMemory reference_memory;
  std::unique_ptr<sharding::Pipeline> reference_passes;

  // On the reward model's ranks, where there is one.
  std::unique_ptr<models::ParameterSet> reward_parameters;
  std::unique_ptr<models::Decoder> reward_model;
  std::unique_ptr<sharding::Pipeline> reward_passes;

  // On rollout ranks. rollout_parameters only where the actor's weights cannot be read in their place.
  std::unique_ptr<models::ParameterSet> rollout_parameters;
  std::unique_ptr<models::Decoder> rollout_decoder;
  std::unique_ptr<rollout::Engine> engine;

  // The actor's masters to the weights above: on all ranks, or null where nothing moves.
  std::unique_ptr<tensors::Resharder> to_rollout, to_reference;
};

/// Allocates the models of this rank's roles; weights are undefined until load or initialize. `parallel` is
/// the actor's; the axes' sizes are the session's. Collective over: world, and the roles' groups. Throws
/// invalid_config naming every tensor that a layout does not fit, with the tp sizes that do; io where there is
/// no place for what is offloaded.
RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, session::Session& session,
                            const sharding::TrainingParallelConfig& parallel,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len, const memory::OffloadConfig& offload = {});

/// Allocates the critic, a decoder with a value head, and its optimizer, offloaded as said before. Collective over: world, and the
/// critic's groups. Throws as make_role_models().
void add_critic(RoleModels& models, const models::DecoderShape& shape, session::Session& session,
                const sharding::TrainingParallelConfig& parallel, const optim::OptimConfig& optim);

/// Allocates the reward model, a decoder with a value head, and reads its weights from `folder`. Collective
/// over: world. Throws as make_role_models(), and invalid_config where the folder has no value head.
void add_reward_model(RoleModels& models, const models::DecoderShape& shape, const std::string& folder,
                      session::Session& session);

/// The masters have changed: brings them to the actor's own weights (collective over its ranks), or the
/// critic's.
void publish_actor(RoleModels& models);
void publish_critic(RoleModels& models);

/// The reference's weights have changed: the same for what its decoder reads. Local.
void refresh_reference(RoleModels& models);

/// After publish_actor(): brings the weights to the rollout ranks that do not share them. Collective over:
/// world.
void publish_weights(RoleModels& models);

/// The reference becomes a copy of the actor as it is now. Collective over: world.
void copy_actor_to_reference(RoleModels& models);

}  // namespace trireme::steps
