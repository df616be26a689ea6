#include "trainer/steps/role_models.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

#include "runtime/base/error.h"
#include "trainer/sharding/data_parallel.h"

namespace trireme::steps {
namespace {

// Sends the first actor rank's masters to everyone; ranks that need them give a place to put them.
void broadcast_actor(const RoleModels& models, session::Session& session, models::ParameterSet* destination) {
  const int root = session.roles().actor.front();
  models::ParameterSet* mine = models.actor_parameters ? models.actor_parameters.get() : destination;
  // Ranks that need nothing still take part: the operation is over the world.
  std::unique_ptr<models::ParameterSet> unused;
  if (!mine) {
    unused = std::make_unique<models::ParameterSet>(models::parameter_specs(models.shape), at::kCPU);
    mine = unused.get();
  }
  at::Tensor host = mine->flat().cpu();  // the masters themselves where they lie on the host
  session.world().broadcast(sharding::view_of(host), root);
  if (!host.is_same(mine->flat())) mine->flat().copy_(host);
}

}  // namespace

RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, const session::Session& session,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len) {
  using placement::Role;
  const auto specs = models::parameter_specs(shape);
  RoleModels result;
  result.shape = shape;
  result.compute_dtype = compute_dtype;
  result.device = device;
  if (!models::Decoder::rows_are_exact_on(device))
    result.inexact_because = "on a GPU a row of a matrix product is rounded differently in another batch";
  if (session.has(Role::actor)) {
    result.actor_parameters = std::make_unique<models::ParameterSet>(specs, device);
    result.actor_parameters->enable_gradients();
    result.actor = std::make_unique<models::Decoder>(shape, *result.actor_parameters, compute_dtype);
  }
  if (session.has(Role::reference)) {
    result.reference_parameters = std::make_unique<models::ParameterSet>(specs, device);
    result.reference = std::make_unique<models::Decoder>(shape, *result.reference_parameters, compute_dtype);
  }
  if (session.has(Role::rollout)) {
    const models::Decoder* decoder = result.actor.get();
    if (!decoder) {
      result.rollout_parameters = std::make_unique<models::ParameterSet>(specs, device);
      result.rollout_decoder =
          std::make_unique<models::Decoder>(shape, *result.rollout_parameters, compute_dtype);
      decoder = result.rollout_decoder.get();
    }
    const auto ranks_on_host = std::count(session.hosts().begin(), session.hosts().end(), session.host());
    result.engine =
        std::make_unique<rollout::Engine>(*decoder, rollout, stop_ids, max_model_len, ranks_on_host);
  }
  const auto& roles = session.roles();
  result.weights_move = std::any_of(roles.rollout.begin(), roles.rollout.end(),
                                    [&](int rank) { return !roles.has(Role::actor, rank); });
  return result;
}

void publish_weights(RoleModels& models, session::Session& session) {
  if (!models.weights_move) return;
  broadcast_actor(models, session, models.rollout_parameters.get());
  if (models.rollout_decoder) models.rollout_decoder->refresh();
}

void copy_actor_to_reference(RoleModels& models, session::Session& session) {
  const auto& roles = session.roles();
  if (roles.reference.empty()) return;
  const bool moves = std::any_of(roles.reference.begin(), roles.reference.end(),
                                 [&](int rank) { return !roles.has(placement::Role::actor, rank); });
  if (moves) broadcast_actor(models, session, models.reference_parameters.get());
  if (!models.reference) return;
  if (models.actor_parameters) models.reference_parameters->flat().copy_(models.actor_parameters->flat());
  models.reference->refresh();
}

}  // namespace trireme::steps
