#include "trainer/steps/role_models.h"

#include <algorithm>
#include <map>

#include <ATen/ops/empty.h>

#include "runtime/base/error.h"

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
  return layout;
}

void check_layouts(const models::DecoderShape& shape, const session::Session& session) {
  const auto tensors = models::tensor_specs(shape);
  Mistakes mistakes;
  for (const Role role : placement::kRoles) {
    if (session.roles().of(role).empty()) continue;
    const auto layout =
        layout_of(shape, placement::to_string(role), session.roles().mesh(role), at::kFloat, false);
    const Mistakes found = tensors::check(tensors, layout, session.num_ranks());
    for (const auto& line : found.lines()) mistakes.add("", line);
  }
  mistakes.throw_if_any("the model cannot be laid out as [ROLE.parallel] asks:");
}

std::vector<int> nodes_of(const std::vector<std::string>& hosts) {
  std::map<std::string, int> number;
  std::vector<int> nodes;
  for (const auto& host : hosts)
    nodes.push_back(number.emplace(host, static_cast<int>(number.size())).first->second);
  return nodes;
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
      session.world(), tensors::Reshard{tensors, from, destination, nodes_of(session.hosts()), options});
}

// The rollout replicas that are no actor's replica, rank for rank.
Mesh replicas_apart(const placement::RoleRanks& roles, bool actor_has_whole_weights) {
  const Mesh rollout = roles.mesh(Role::rollout);
  const auto actors = roles.mesh(Role::actor).replicas();
  std::vector<int> ranks;
  for (const auto& replica : rollout.replicas())
    if (!actor_has_whole_weights || std::find(actors.begin(), actors.end(), replica) == actors.end())
      ranks.insert(ranks.end(), replica.begin(), replica.end());
  return Mesh::of(ranks, rollout.tp);
}

std::vector<std::byte*> blocks_of(const models::ParameterSet& parameters) {
  std::vector<std::byte*> blocks;
  for (int b = 0; b < parameters.num_blocks(); ++b)
    blocks.push_back(static_cast<std::byte*>(parameters.block(b).data_ptr()));
  return blocks;
}

void reshard(tensors::Resharder& resharder, const RoleModels& models, models::ParameterSet* to) {
  std::vector<std::byte*> source, destination;
  at::Tensor masters, host;
  if (models.actor_parameters) {
    masters = models.actor_parameters->masters().cpu();  // themselves where they lie on the host
    for (int b = 0; b < models.actor_parameters->weights().num_blocks(); ++b)
      source.push_back(static_cast<std::byte*>(masters.data_ptr()) +
                       models.actor_parameters->block_begin(b) * int64_t{sizeof(float)});
  }
  std::unique_ptr<models::ParameterSet> staged;
  if (to) {
    if (!to->device().is_cpu())
      staged = std::make_unique<models::ParameterSet>(to->specs(), at::kCPU, to->dtype());
    destination = blocks_of(staged ? *staged : *to);
  }
  resharder.run({source, comm::DType::f32}, {destination, wire_type(models.compute_dtype)});
  if (staged) to->flat().copy_(staged->flat());
}

}  // namespace

RoleModels make_role_models(const models::DecoderShape& shape, at::ScalarType compute_dtype,
                            at::Device device, session::Session& session,
                            const sharding::TrainingParallelConfig& parallel,
                            const rollout::RolloutConfig& rollout, const std::vector<int32_t>& stop_ids,
                            int64_t max_model_len) {
  check_layouts(shape, session);
  const auto& roles = session.roles();
  RoleModels result;
  result.shape = shape;
  result.compute_dtype = compute_dtype;
  result.device = device;
  if (!models::Decoder::rows_are_exact_on(device))
    result.inexact_because = "on a GPU a row of a matrix product is rounded differently in another batch";
  else if (roles.tp.actor != roles.tp.rollout)
    result.inexact_because =
        fmt::format("the actor's tp is {}, rollout's is {}: sums over other ranks are rounded differently",
                    roles.tp.actor, roles.tp.rollout);
  const auto tensor_parallel = [&](Role role) {
    return models::TensorParallel{roles.tp.of(role) > 1 ? &session.tp(role) : nullptr};
  };
  const auto read_only = [&](Role role) {
    const models::TensorParallel tp = tensor_parallel(role);
    return std::make_unique<models::ParameterSet>(models::parameter_specs(shape, tp.size(), tp.rank()),
                                                  device, compute_dtype);
  };
  const int actor_dp = roles.mesh(Role::actor).dp;
  const bool zero = parallel.zero_stage > 0 && actor_dp > 1;
  const bool whole_weights = !zero || parallel.zero_stage < 3;
  result.actor_is_sharded = zero;
  const Mesh apart = replicas_apart(roles, whole_weights);

  if (session.has(Role::actor)) {
    result.actor_parameters = std::make_unique<sharding::TrainedParameters>(
        shape, device, compute_dtype, static_cast<int>(parallel.zero_stage), parallel.reduce == "exact",
        sharding::TrainingRanks{&session.dp(Role::actor), tensor_parallel(Role::actor)});
    result.actor = std::make_unique<models::Decoder>(shape, result.actor_parameters->weights(), compute_dtype,
                                                     /*packed=*/whole_weights, tensor_parallel(Role::actor));
    result.actor_parameters->attach(*result.actor);
  }
  if (session.has(Role::reference)) {
    result.reference_parameters = read_only(Role::reference);
    result.reference = std::make_unique<models::Decoder>(shape, *result.reference_parameters, compute_dtype,
                                                         /*packed=*/true, tensor_parallel(Role::reference));
  }
  if (session.has(Role::rollout)) {
    const models::Decoder* decoder = result.actor.get();
    if (!decoder || apart.find(session.rank())) {
      result.rollout_parameters = read_only(Role::rollout);
      result.rollout_decoder = std::make_unique<models::Decoder>(
          shape, *result.rollout_parameters, compute_dtype, /*packed=*/true, tensor_parallel(Role::rollout));
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

void publish_actor(RoleModels& models) {
  if (models.actor_parameters) models.actor_parameters->publish();
}

void publish_weights(RoleModels& models) {
  if (!models.to_rollout) return;
  reshard(*models.to_rollout, models, models.rollout_parameters.get());
  if (models.rollout_decoder) models.rollout_decoder->refresh();
}

void copy_actor_to_reference(RoleModels& models) {
  if (!models.to_reference) return;
  reshard(*models.to_reference, models, models.reference_parameters.get());
  if (models.reference) models.reference->refresh();
}

}  // namespace trireme::steps
