// The models that this rank holds, by role. Roles on the same ranks share what they can: a colocated
// rollout reads the actor's own weights, so nothing moves after an update.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/session.h"
#include "trainer/models/decoder.h"
#include "trainer/optim/adamw.h"
#include "trainer/rollout/engine.h"

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
  std::unique_ptr<models::ParameterSet> actor_parameters;
  std::unique_ptr<models::Decoder> actor;
  std::unique_ptr<optim::AdamW> optimizer;

  // On reference ranks, where there is a reference.
  std::unique_ptr<models::ParameterSet> reference_parameters;
  std::unique_ptr<models::Decoder> reference;

  // On rollout ranks. rollout_parameters only where the rank is no actor.
  std::unique_ptr<models::ParameterSet> rollout_parameters;
  std::unique_ptr<models::Decoder> rollout_decoder;
  std::unique_ptr<rollout::Engine> engine;

  /// Some rollout rank is no actor rank, so an update must be sent.
  bool weights_move = false;
};

/// Allocates the models of this rank's roles; weights are zeros until load or initialize.
RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, const session::Session& session,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len);

/// After the actor was refreshed (Decoder::refresh): brings its weights to the rollout ranks that do not
/// share them. Collective over: world.
void publish_weights(RoleModels& models, session::Session& session);

/// The reference becomes a copy of the actor as it is now. Collective over: world.
void copy_actor_to_reference(RoleModels& models, session::Session& session);

}  // namespace trireme::steps
