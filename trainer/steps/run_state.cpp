#include "trainer/steps/run_state.h"

#include <array>
#include <exception>
#include <filesystem>
#include <functional>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/sharded_save.h"

namespace trireme::steps {

using placement::Role;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMasters = "masters";
constexpr const char* kKeptSamples = "kept_samples.jsonl";
constexpr const char* kBatches = "batches";
constexpr const char* kCritic = "critic";
constexpr std::array kMoments{std::pair{optim::AdamW::first, "first_moment"},
                              std::pair{optim::AdamW::second, "second_moment"}};

// A model in training: who holds it, and what this rank has of it, null on ranks that are none of its role's.
struct Trained {
  const models::DecoderShape& shape;
  placement::Mesh mesh;
  bool is_sharded = false;
  sharding::TrainedParameters* parameters = nullptr;
  optim::AdamW* optimizer = nullptr;
  sharding::ModelMemory& memory;
};

Trained actor_of(RoleModels& models, const session::Session& session) {
  return {models.shape, session.roles().mesh(Role::actor), models.actor_is_sharded,
          models.actor_parameters.get(), models.optimizer.get(), models.actor_memory};
}
Trained critic_of(RoleModels& models, const session::Session& session) {
  return {*models.critic_shape, session.roles().mesh(Role::critic), models.critic_is_sharded,
          models.critic_parameters.get(), models.critic_optimizer.get(), models.critic_memory};
}

// What this rank holds of something that has the layout of the masters. `flat` lies on the host, or is
// undefined on ranks that do not hold the model.
weights::HeldValues held(const Trained& model, const at::Tensor& flat) {
  weights::HeldValues values;
  values.mesh = model.mesh;
  values.zero = model.is_sharded;
  if (!flat.defined()) return values;
  values.blocks = model.parameters->blocks_of(flat);
  return values;
}

// Everything of a checkpoint that many ranks hold, of one model.
void save_values(const fs::path& folder, const Trained& model, at::ScalarType dtype,
                 const weights::SaveOptions& options, comm::Communicator& world) {
  const auto trainer = folder / "trainer";
  const sharding::ModelMemory::Use present = model.memory.masters();
  const at::Tensor masters = model.parameters ? model.parameters->masters().cpu() : at::Tensor();
  const auto values = held(model, masters);
  weights::save(world, folder, model.shape, values, dtype, options);
  if (dtype != at::kFloat)  // in fp32 model.safetensors is the masters
    weights::save_values(world, trainer / kMasters, model.shape, values, at::kFloat, options);
  for (const auto& [which, name] : kMoments) {
    const at::Tensor moment = model.optimizer ? model.optimizer->moment(which) : at::Tensor();
    weights::save_values(world, trainer / name, model.shape, held(model, moment), at::kFloat, options);
  }
}

// Runs `part`, which may fail on some ranks only; then all throw.
void together(comm::Communicator& world, const char* what, const std::function<void()>& part) {
  std::exception_ptr mine;
  try {
    part();
  } catch (...) {
    mine = std::current_exception();
  }
  const bool any = world.all_reduce_scalar(mine ? 1 : 0, comm::ReduceOp::max) > 0;
  if (mine) std::rethrow_exception(mine);
  if (any) fail(ErrorCode::peer_failed, "another rank could not {} its part of the checkpoint", what);
}

// What many ranks have a part of: the actor, a critic that has learned, and batches for steps to come.
void save_parts(const std::string& folder, const RunState& state, RoleModels& models, bool critic,
                const weights::SaveOptions& options, session::Session& session) {
  save_values(folder, actor_of(models, session), models.compute_dtype, options, session.world());
  if (critic)
    save_values(fs::path(folder) / kCritic, critic_of(models, session), models.compute_dtype, options,
                session.world());
  if (!state.batches.empty())
    together(session.world(), "write", [&] {
      save_batches((fs::path(folder) / "trainer" / kBatches).string(), state.batches, session);
    });
}

nlohmann::ordered_json json_of(const RunState& state, int64_t optimizer_updates,
                               std::optional<int64_t> critic_updates) {
  nlohmann::ordered_json json;
  json["format"] = 2;
  json["phase"] = state.phase;
  json["step"] = state.step;
  json["seed"] = state.seed;
  json["data"] = {{"taken", state.taken},
                  {"problems", state.num_problems},
                  {"fingerprint", fmt::format("{:016x}", state.fingerprint)}};
  json["optimizer_updates"] = optimizer_updates;
  if (critic_updates) json["critic_updates"] = *critic_updates;
  if (state.kl_coefficient) json["kl_coefficient"] = *state.kl_coefficient;
  for (const Batch& batch : state.batches)
    json["batches"].push_back({{"step", batch.step}, {"weights", batch.weights}, {"taken", batch.taken}});
  json["kernels"] = state.kernels;
  json["reference"] = state.reference;
  json["results"] = state.results;
  return json;
}

}  // namespace

std::string masters_of(const std::string& folder) {
  const auto masters = fs::path(folder) / "trainer" / kMasters;
  return fs::exists(masters) ? masters.string() : folder;
}

void save(const std::string& folder, const RunState& state, RoleModels& models,
          const text::Tokenizer& tokenizer, session::Session& session) {
  comm::Communicator& world = session.world();
  const int writer = session.roles().actor.front();
  std::optional<int64_t> critic_updates;
  if (models.critic_shape && state.phase != "sft" && state.step > 0)
    critic_updates = static_cast<int64_t>(world.all_reduce_scalar(
        models.critic_optimizer ? static_cast<double>(models.critic_optimizer->updates()) : 0.0,
        comm::ReduceOp::max));
  const weights::SaveOptions options{.node_of = session.nodes(),
                                     .generation_config = models.generation_config,
                                     .special = {tokenizer.stop_ids(), std::nullopt, tokenizer.pad_id()}};
  if (session.rank() != writer) {
    const std::string inside = world.broadcast_string("", writer);
    if (inside.empty()) fail(ErrorCode::peer_failed, "rank {} could not make {}", writer, folder);
    return save_parts(inside, state, models, critic_updates.has_value(), options, session);
  }
  bool told = false;
  try {
    checkpoint::write_folder(folder, [&](const std::string& inside) {
      told = true;
      world.broadcast_string(inside, writer);
      save_parts(inside, state, models, critic_updates.has_value(), options, session);
      tokenizer.save(inside);
      if (!state.kept_samples.empty())
        files::write_atomically(fs::path(inside) / "trainer" / kKeptSamples, state.kept_samples);
      files::write_atomically(fs::path(inside) / "trainer" / "state.json",
                              json_of(state, models.optimizer->updates(), critic_updates).dump(2) + "\n");
    });
  } catch (...) {
    if (!told) world.broadcast_string("", writer);  // the others wait for it
    throw;
  }
}

namespace {

std::vector<weights::Piece> pieces_of(const sharding::TrainedParameters& parameters, const at::Tensor& flat) {
  std::vector<weights::Piece> pieces;
  for (const sharding::Stretch& stretch : parameters.stretches())
    pieces.push_back({stretch.parameter, stretch.begin, flat.narrow(0, stretch.at, stretch.numel())});
  return pieces;
}

void load_part(const std::string& path, const models::DecoderShape& shape,
               const sharding::TrainedParameters& parameters, const at::Tensor& flat) {
  weights::load(path, shape, parameters.weights().specs(), pieces_of(parameters, flat));
}

// Weights and the optimizer's state, on the ranks that hold the model.
void restore_model(const std::string& folder, const Trained& model, int64_t updates) {
  if (!model.parameters) return;
  {
    const sharding::ModelMemory::Use present = model.memory.masters(/*change=*/true);
    load_part(masters_of(folder), model.shape, *model.parameters, model.parameters->masters());
  }
  for (const auto& [which, name] : kMoments) {
    const at::Tensor moment = model.optimizer->moment(which);
    load_part((fs::path(folder) / "trainer" / name).string(), model.shape, *model.parameters, moment);
    model.optimizer->set_moment(which, moment);
  }
  model.optimizer->set_updates(updates);
}

}  // namespace

void load_masters(const std::string& path, RoleModels& models) {
  const sharding::ModelMemory::Use present = models.actor_memory.masters(/*change=*/true);
  load_part(path, models.shape, *models.actor_parameters, models.actor_parameters->masters());
}

void initialize_actor(uint64_t seed, double embedding_std, RoleModels& models) {
  const sharding::ModelMemory::Use present = models.actor_memory.masters(/*change=*/true);
  models.actor_parameters->initialize(seed, embedding_std);
}

void load_critic(const std::string& path, RoleModels& models) {
  const sharding::ModelMemory::Use present = models.critic_memory.masters(/*change=*/true);
  load_part(path, *models.critic_shape, *models.critic_parameters, models.critic_parameters->masters());
}

RunState read_state(const std::string& folder, uint64_t seed) {
  const auto path = (fs::path(folder) / "trainer" / "state.json").string();
  RunState state;
  try {
    const auto json = nlohmann::json::parse(files::read(path));
    state.phase = json.at("phase").get<std::string>();
    state.step = json.at("step").get<int64_t>();
    state.seed = json.at("seed").get<uint64_t>();
    const auto& data = json.at("data");
    state.taken = data.at("taken").get<int64_t>();
    state.num_problems = data.at("problems").get<int64_t>();
    state.fingerprint = std::stoull(data.at("fingerprint").get<std::string>(), nullptr, 16);
    state.optimizer_updates = json.at("optimizer_updates").get<int64_t>();
    if (json.contains("critic_updates")) state.critic_updates = json.at("critic_updates").get<int64_t>();
    if (json.contains("kl_coefficient")) state.kl_coefficient = json.at("kl_coefficient").get<double>();
    for (const auto& batch : json.value("batches", nlohmann::json::array()))
      state.batches.push_back({.step = batch.at("step").get<int64_t>(),
                               .weights = batch.at("weights").get<int64_t>(),
                               .taken = batch.at("taken").get<int64_t>()});
    state.kernels = json.value("kernels", "");
    state.reference = json.at("reference").get<std::string>();
    state.results = json.at("results").get<std::map<std::string, double>>();
  } catch (const std::exception& error) {
    fail(ErrorCode::corrupt_data, "{}: {}", path, error.what());
  }
  if (const auto kept = fs::path(folder) / "trainer" / kKeptSamples; fs::exists(kept))
    state.kept_samples = files::read(kept.string());
  if (state.seed != seed)
    fail(ErrorCode::invalid_config,
         "{} was written with run.seed = {}, this run has {}: give the same seed, or another folder", folder,
         state.seed, seed);
  return state;
}

void require_same_data(const std::string& folder, const RunState& checkpoint, const RunState& run) {
  if (checkpoint.num_problems == run.num_problems && checkpoint.fingerprint == run.fingerprint) return;
  fail(ErrorCode::invalid_config,
       "the training problems are not those of {}: {} then, {} now{}. Its run is {} problems into its order, "
       "which has no meaning for others. Give the same files and [data] settings; or, to train its weights "
       "on these "
       "problems, begin a new run with model.path = \"{}\"",
       folder, checkpoint.num_problems, run.num_problems,
       checkpoint.num_problems == run.num_problems ? ", with other contents or in another order" : "",
       checkpoint.taken, folder);
}

void restore(const std::string& folder, RunState& state, RoleModels& models,
             session::Session& session) {
  comm::Communicator& world = session.world();
  together(world, "read", [&] {
    if (session.rank() == session.roles().actor.front()) checkpoint::verify_folder(folder);
  });
  together(world, "read", [&] {
    restore_model(folder, actor_of(models, session), state.optimizer_updates);
    if (models.critic_shape && state.critic_updates)
      restore_model((fs::path(folder) / kCritic).string(), critic_of(models, session), *state.critic_updates);
    if (session.has(Role::rollout))
      load_batches((fs::path(folder) / "trainer" / kBatches).string(), state.batches, session);
  });
  publish_actor(models);
  publish_weights(models);
  publish_critic(models);
}

void load_reference(const std::string& folder, RoleModels& models) {
  if (!models.reference) return;
  const auto present = models.reference_memory.masters(/*change=*/true);
  weights::load(masters_of(folder), models.shape, *models.reference_parameters);
  refresh_reference(models);
}

}  // namespace trireme::steps
