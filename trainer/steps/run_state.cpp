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
constexpr std::array<const char*, 2> kMoments{"first_moment", "second_moment"};

std::array<at::Tensor*, 2> moments_of(optim::AdamW& optimizer) {
  return {&optimizer.first_moment(), &optimizer.second_moment()};
}

// What this rank holds of something that has the layout of the masters. `flat` lies on the host, or is
// undefined on ranks that are no actors.
weights::HeldValues held(const RoleModels& models, const session::Session& session, const at::Tensor& flat) {
  weights::HeldValues values;
  values.mesh = session.roles().mesh(Role::actor);
  values.zero = models.actor_is_sharded;
  if (!flat.defined()) return values;
  const sharding::TrainedParameters& parameters = *models.actor_parameters;
  for (int b = 0; b < parameters.weights().num_blocks(); ++b)
    values.blocks.push_back(reinterpret_cast<std::byte*>(flat.data_ptr<float>() + parameters.block_begin(b)));
  return values;
}

// Everything of a checkpoint that many ranks hold.
void save_values(const std::string& folder, const RoleModels& models, const weights::SaveOptions& options,
                 session::Session& session) {
  comm::Communicator& world = session.world();
  const auto trainer = fs::path(folder) / "trainer";
  const auto on_host = [&](const at::Tensor* flat) { return flat ? flat->cpu() : at::Tensor(); };
  const at::Tensor masters = on_host(models.actor_parameters ? &models.actor_parameters->masters() : nullptr);
  const auto values = held(models, session, masters);
  weights::save(world, folder, models.shape, values, models.compute_dtype, options);
  if (models.compute_dtype != at::kFloat)  // in fp32 model.safetensors is the masters
    weights::save_values(world, trainer / kMasters, models.shape, values, at::kFloat, options);
  for (size_t m = 0; m < kMoments.size(); ++m) {
    const at::Tensor moment = on_host(models.optimizer ? moments_of(*models.optimizer)[m] : nullptr);
    weights::save_values(world, trainer / kMoments[m], models.shape, held(models, session, moment),
                         at::kFloat, options);
  }
}

nlohmann::ordered_json json_of(const RunState& state, int64_t optimizer_updates) {
  nlohmann::ordered_json json;
  json["format"] = 2;
  json["phase"] = state.phase;
  json["step"] = state.step;
  json["seed"] = state.seed;
  json["data"] = {{"taken", state.taken},
                  {"problems", state.num_problems},
                  {"fingerprint", fmt::format("{:016x}", state.fingerprint)}};
  json["optimizer_updates"] = optimizer_updates;
  if (state.kl_coefficient) json["kl_coefficient"] = *state.kl_coefficient;
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
  const weights::SaveOptions options{.generation_config = models.generation_config,
                                     .special = {tokenizer.stop_ids(), std::nullopt, tokenizer.pad_id()}};
  if (session.rank() != writer) {
    const std::string inside = world.broadcast_string("", writer);
    if (inside.empty()) fail(ErrorCode::peer_failed, "rank {} could not make {}", writer, folder);
    return save_values(inside, models, options, session);
  }
  bool told = false;
  try {
    checkpoint::write_folder(folder, [&](const std::string& inside) {
      told = true;
      world.broadcast_string(inside, writer);
      save_values(inside, models, options, session);
      tokenizer.save(inside);
      files::write_atomically(fs::path(inside) / "trainer" / "state.json",
                              json_of(state, models.optimizer->updates()).dump(2) + "\n");
    });
  } catch (...) {
    if (!told) world.broadcast_string("", writer);  // the others wait for it
    throw;
  }
}

std::vector<weights::Piece> pieces_of(const sharding::TrainedParameters& parameters, const at::Tensor& flat) {
  std::vector<weights::Piece> pieces;
  for (const sharding::Stretch& stretch : parameters.stretches())
    pieces.push_back({stretch.parameter, stretch.begin, flat.narrow(0, stretch.at, stretch.numel())});
  return pieces;
}

void load_masters(const std::string& path, const RoleModels& models) {
  sharding::TrainedParameters& parameters = *models.actor_parameters;
  weights::load(path, models.shape, parameters.weights().specs(),
                pieces_of(parameters, parameters.masters()));
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
    if (json.contains("kl_coefficient")) state.kl_coefficient = json.at("kl_coefficient").get<double>();
    state.kernels = json.value("kernels", "");
    state.reference = json.at("reference").get<std::string>();
    state.results = json.at("results").get<std::map<std::string, double>>();
  } catch (const std::exception& error) {
    fail(ErrorCode::corrupt_data, "{}: {}", path, error.what());
  }
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

namespace {

// Runs `part`, which may fail on some ranks only; then all throw.
void together(comm::Communicator& world, const std::function<void()>& part) {
  std::exception_ptr mine;
  try {
    part();
  } catch (...) {
    mine = std::current_exception();
  }
  const bool any = world.all_reduce_scalar(mine ? 1 : 0, comm::ReduceOp::max) > 0;
  if (mine) std::rethrow_exception(mine);
  if (any) fail(ErrorCode::peer_failed, "another rank could not read its part of the checkpoint");
}

}  // namespace

void restore(const std::string& folder, const RunState& state, RoleModels& models,
             session::Session& session) {
  comm::Communicator& world = session.world();
  together(world, [&] {
    if (session.rank() == session.roles().actor.front()) checkpoint::verify_folder(folder);
  });
  together(world, [&] {
    if (!models.actor) return;
    load_masters(masters_of(folder), models);
    const auto moments = moments_of(*models.optimizer);
    for (size_t m = 0; m < kMoments.size(); ++m)
      weights::load((fs::path(folder) / "trainer" / kMoments[m]).string(), models.shape,
                    models.actor_parameters->weights().specs(),
                    pieces_of(*models.actor_parameters, *moments[m]));
    models.optimizer->set_updates(state.optimizer_updates);
  });
  publish_actor(models);
  publish_weights(models);
}

void load_reference(const std::string& folder, RoleModels& models) {
  if (!models.reference) return;
  weights::load(masters_of(folder), models.shape, *models.reference_parameters);
  models.reference->refresh();
}

}  // namespace trireme::steps
