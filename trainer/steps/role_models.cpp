#include "trainer/steps/role_models.h"

#include <algorithm>
#include <initializer_list>

#include <ATen/ops/empty.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/weight_files.h"

namespace trireme::steps {
namespace {

using placement::Mesh;
using placement::Role;

comm::DType wire_type(at::ScalarType dtype) {
  return dtype == at::kFloat ? comm::DType::f32 : comm::DType::bf16;
}

tensors::Layout layout_of(const models::DecoderShape& shape, const std::string& role, Mesh mesh,
                          at::ScalarType dtype, bool zero) {
  tensors::Layout layout;
  layout.role = role;
  layout.mesh = std::move(mesh);
  layout.splits = models::tensor_splits(shape);
  layout.dtype = wire_type(dtype);
  layout.zero = zero;
  layout.blocks_of_stages = models::blocks_of_stages(shape, layout.mesh.pp);
  return layout;
}

void check_layouts(const models::DecoderShape& shape, const session::Session& session,
                   std::initializer_list<Role> roles) {
  const auto tensors = models::tensor_specs(shape);
  Mistakes mistakes;
  for (const Role role : roles) {
    if (session.roles().of(role).empty()) continue;
    const auto layout =
        layout_of(shape, placement::to_string(role), session.roles().mesh(role), at::kFloat, false);
    const Mistakes found = tensors::check(tensors, layout, session.num_ranks());
    for (const auto& line : found.lines()) mistakes.add("", line);
  }
  mistakes.throw_if_any("the model cannot be laid out as [ROLE.parallel] asks:");
}

// Who shares the role's model with this rank.
sharding::TrainingRanks ranks_of(session::Session& session, Role role) {
  const placement::ReplicaAxes& axes = session.roles().axes.of(role);
  return {&session.same_weights(role),
          {axes.tp > 1 ? &session.tp(role) : nullptr},
          axes.pp > 1 ? &session.along(placement::Axis::pp, role) : nullptr};
}

models::ContextParallel context_parallel(session::Session& session, Role role) {
  return {session.roles().axes.of(role).cp > 1 ? &session.along(placement::Axis::cp, role) : nullptr};
}

// Of a role that only reads its model.
std::unique_ptr<models::ParameterSet> parameters_of(session::Session& session, Role role,
                                                    const models::DecoderShape& shape,
                                                    const RoleModels& models) {
  const sharding::TrainingRanks ranks = ranks_of(session, role);
  return std::make_unique<models::ParameterSet>(
      models::parameter_specs(shape, ranks.tp.size(), ranks.tp.rank(), ranks.pipeline()), models.device,
      models.compute_dtype);
}

std::unique_ptr<models::Decoder> reader_of(session::Session& session, Role role,
                                           const models::DecoderShape& shape,
                                           models::ParameterSet& parameters, const RoleModels& models) {
  const sharding::TrainingRanks ranks = ranks_of(session, role);
  return std::make_unique<models::Decoder>(shape, parameters, models.compute_dtype, /*packed=*/true, ranks.tp,
                                           context_parallel(session, role), ranks.pipeline());
}

// From the actor's masters to `to`; null if that has no ranks.
std::unique_ptr<tensors::Resharder> resharder(const RoleModels& models, session::Session& session,
                                              const std::string& role, Mesh to) {
  if (to.ranks.empty()) return nullptr;
  const auto tensors = models::tensor_specs(models.shape);
  const auto from = layout_of(models.shape, "actor", session.roles().mesh(Role::actor), at::kFloat,
                              models.actor_is_sharded);
  const auto destination = layout_of(models.shape, role, std::move(to), models.compute_dtype, false);
  tensors::ReshardOptions options;
  options.share = false;  // the masters change while the weights are read
  options.staging_bytes = int64_t{256} << 20;
  return std::make_unique<tensors::Resharder>(
      session.weights(), tensors::Reshard{tensors, from, destination, session.nodes(), options});
}

// How many ranks hold the same weights, or share them out (ZeRO).
int copies(const Mesh& mesh) {
  return mesh.dp * mesh.cp;
}

// The rollout replicas without an actor's whole weights, rank for rank.
Mesh replicas_apart(const placement::RoleRanks& roles, bool actor_has_whole_weights) {
  const Mesh rollout = roles.mesh(Role::rollout), actor = roles.mesh(Role::actor);
  std::vector<int> ranks;
  for (const auto& replica : rollout.replicas()) {
    const auto place = actor.find(replica.front());
    const bool reads_actor = actor_has_whole_weights && place && actor.pp == 1 &&
                             actor.along(placement::Axis::tp, *place) == replica;
    if (!reads_actor) ranks.insert(ranks.end(), replica.begin(), replica.end());
  }
  return Mesh::of(ranks, roles.axes.rollout);
}

// Where each block of the whole model begins, null for those of other stages.
std::vector<std::byte*> blocks_of(const models::DecoderShape& shape, const models::ParameterSet& parameters,
                                  const models::PipelineStage& stage) {
  std::vector<std::byte*> blocks(static_cast<size_t>(shape.num_hidden_layers) + 2);
  const std::vector<int> own = models::blocks_of_stages(shape, stage.count)[stage.index];
  for (size_t b = 0; b < own.size(); ++b)
    blocks[own[b]] = static_cast<std::byte*>(parameters.block(static_cast<int>(b)).data_ptr());
  return blocks;
}

void reshard(tensors::Resharder& resharder, const RoleModels& models, const models::ParameterSet* to,
             const models::Decoder* reader) {
  std::vector<std::byte*> source, destination;
  if (models.actor_parameters)
    source = models.actor_parameters->blocks_of(models.actor_parameters->masters());
  if (to) destination = blocks_of(models.shape, *to, reader->stage());
  resharder.run({source, comm::DType::f32}, {destination, wire_type(models.compute_dtype)});
}

}  // namespace

RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, session::Session& session,
                            const sharding::TrainingParallelConfig& parallel,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len, const memory::OffloadConfig& offload) {
  check_layouts(shape, session, {Role::actor, Role::reference, Role::rollout});
  const auto& roles = session.roles();
  RoleModels result;
  result.shape = shape;
  result.compute_dtype = compute_dtype;
  result.device = device;
  result.offload = offload;
  if (offload.any()) result.outside = std::make_unique<memory::Outside>(device, offload.folder);
  if (offload.activations) result.shelf = std::make_unique<memory::Shelf>(*result.outside);
  if (!models::Decoder::rows_are_exact_on(device))
    result.inexact_because = "on a GPU a row of a matrix product is rounded differently in another batch";
  else if (roles.axes.actor.tp != roles.axes.rollout.tp)
    result.inexact_because =
        fmt::format("the actor's tp is {}, rollout's is {}: sums over other ranks are rounded differently",
                    roles.axes.actor.tp, roles.axes.rollout.tp);
  const auto read_only = [&](Role role) { return parameters_of(session, role, shape, result); };
  const auto reader = [&](Role role, models::ParameterSet& parameters) {
    return reader_of(session, role, shape, parameters, result);
  };
  const bool zero = parallel.zero_stage > 0 && copies(roles.mesh(Role::actor)) > 1;
  const bool whole_weights = !zero || parallel.zero_stage < 3;
  result.actor_is_sharded = zero;
  const Mesh apart = replicas_apart(roles, whole_weights);

  if (session.has(Role::actor)) {
    const sharding::TrainingRanks ranks = ranks_of(session, Role::actor);
    result.actor_parameters = std::make_unique<sharding::TrainedParameters>(
        shape, device, compute_dtype, static_cast<int>(parallel.zero_stage), parallel.reduce == "exact",
        ranks);
    result.actor = std::make_unique<models::Decoder>(
        shape, result.actor_parameters->weights(), compute_dtype, /*packed=*/whole_weights, ranks.tp,
        context_parallel(session, Role::actor), ranks.pipeline());
    result.actor_parameters->attach(*result.actor);
    result.actor_passes =
        std::make_unique<sharding::Pipeline>(*result.actor, result.actor_parameters.get(), ranks.pp);
  }
  if (session.has(Role::reference)) {
    result.reference_parameters = read_only(Role::reference);
    result.reference = reader(Role::reference, *result.reference_parameters);
    result.reference_passes = std::make_unique<sharding::Pipeline>(*result.reference, nullptr,
                                                                   ranks_of(session, Role::reference).pp);
    if (offload.reference.params)
      result.reference_memory = {*result.outside, *result.reference_parameters, *result.reference};
  }
  if (result.actor && offload.actor.params) {
    // The same on all of its ranks: weights come back by a collective.
    const bool read_in_place = apart.ranks.size() < roles.rollout.size();
    if (read_in_place && result.actor_parameters->passes_read_masters())
      log::warn(
          "actor.param_offload has no effect: rollout reads the actor's weights in their place, and in fp32 "
          "with zero_stage 0 these are the masters");
    else
      result.actor_memory = {*result.outside, *result.actor_parameters, read_in_place};
  }
  // The KV cache may take what is not there by then.
  result.actor_memory.rest();
  result.reference_memory.rest();
  if (session.has(Role::rollout)) {
    const models::Decoder* decoder = result.actor.get();
    if (!decoder || apart.find(session.rank())) {
      result.rollout_parameters = read_only(Role::rollout);
      result.rollout_decoder = reader(Role::rollout, *result.rollout_parameters);
      decoder = result.rollout_decoder.get();
    }
    const auto ranks_on_host = std::count(session.hosts().begin(), session.hosts().end(), session.host());
    result.engine =
        std::make_unique<rollout::Engine>(*decoder, rollout, stop_ids, max_model_len, ranks_on_host);
  }
  result.to_rollout = resharder(result, session, "rollout", apart);
  result.to_reference = resharder(result, session, "reference", roles.mesh(Role::reference));
  return result;
}

void add_critic(RoleModels& models, const models::DecoderShape& shape, session::Session& session,
                const sharding::TrainingParallelConfig& parallel, const optim::OptimConfig& optim) {
  check_layouts(shape, session, {Role::critic});
  const bool zero = parallel.zero_stage > 0 && copies(session.roles().mesh(Role::critic)) > 1;
  models.critic_shape = shape;
  models.critic_is_sharded = zero;
  if (!session.has(Role::critic)) return;
  const sharding::TrainingRanks ranks = ranks_of(session, Role::critic);
  models.critic_parameters = std::make_unique<sharding::TrainedParameters>(
      shape, models.device, models.compute_dtype, static_cast<int>(parallel.zero_stage),
      parallel.reduce == "exact", ranks);
  models.critic =
      std::make_unique<models::Decoder>(shape, models.critic_parameters->weights(), models.compute_dtype,
                                        models.critic_parameters->holds_whole_weights(), ranks.tp,
                                        context_parallel(session, Role::critic), ranks.pipeline());
  models.critic_parameters->attach(*models.critic);
  models.critic_passes =
      std::make_unique<sharding::Pipeline>(*models.critic, models.critic_parameters.get(), ranks.pp);
  models.critic_optimizer = std::make_unique<optim::AdamW>(*models.critic_parameters, optim,
                                                           models.place_of(models.offload.critic));
  if (models.offload.critic.params)
    models.critic_memory = {*models.outside, *models.critic_parameters, /*weights_stay=*/false};
}

void add_reward_model(RoleModels& models, const models::DecoderShape& shape, const std::string& folder,
                      session::Session& session) {
  check_layouts(shape, session, {Role::reward_model});
  if (!weights::WeightFiles(folder, shape).has("score.weight"))
    fail(ErrorCode::invalid_config,
         "reward_model.path: {} has no score.weight: a reward model is a classifier with one label, not a "
         "language model",
         folder);
  if (!session.has(Role::reward_model)) return;
  models.reward_parameters = parameters_of(session, Role::reward_model, shape, models);
  if (models.reward_parameters->contains("score.bias"))  // sequence classifiers have none
    models.reward_parameters->parameter("score.bias").zero_();
  weights::load(folder, shape, *models.reward_parameters);
  models.reward_model =
      reader_of(session, Role::reward_model, shape, *models.reward_parameters, models);
  models.reward_model->refresh();
  models.reward_passes = std::make_unique<sharding::Pipeline>(*models.reward_model, nullptr,
                                                              ranks_of(session, Role::reward_model).pp);
}

void publish_actor(RoleModels& models) {
  if (models.actor_parameters && models.actor_memory.weights_are_there()) {
    const auto present = models.actor_memory.masters();
    models.actor_parameters->publish();
  }
}

void publish_critic(RoleModels& models) {
  if (models.critic_parameters && models.critic_memory.weights_are_there()) {
    const auto present = models.critic_memory.masters();
    models.critic_parameters->publish();
  }
}

void publish_weights(RoleModels& models) {
  if (!models.to_rollout) return;
  const auto present = models.actor_memory.masters();
  reshard(*models.to_rollout, models, models.rollout_parameters.get(), models.rollout_decoder.get());
  if (models.rollout_decoder) models.rollout_decoder->refresh();
}

void refresh_reference(RoleModels& models) {
  if (models.reference && models.reference_memory.weights_are_there()) models.reference->refresh();
}

void copy_actor_to_reference(RoleModels& models) {
  if (!models.to_reference) return;
  const auto source = models.actor_memory.masters();
  const auto destination = models.reference_memory.masters(/*change=*/true);
  reshard(*models.to_reference, models, models.reference_parameters.get(), models.reference.get());
  refresh_reference(models);
}

}  // namespace trireme::steps
