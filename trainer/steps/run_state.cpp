#include "trainer/steps/run_state.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "trainer/weights/hf_checkpoint.h"
#include "trainer/weights/tensors.h"

namespace trireme::steps {

using placement::Role;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMastersFile = "masters.safetensors";

void copy_into(at::Tensor& target, const std::map<std::string, at::Tensor>& tensors, const std::string& name,
               const std::string& path) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.numel() != target.numel())
    fail(ErrorCode::corrupt_data, "{}: '{}' does not fit this model", path, name);
  target.copy_(found->second.view(target.sizes()));
}

}  // namespace

std::string masters_of(const std::string& folder) {
  const auto masters = fs::path(folder) / "trainer" / kMastersFile;
  return fs::exists(masters) ? masters.string() : folder;
}

void save(const std::string& folder, const RunState& state, RoleModels& models,
          const text::Tokenizer& tokenizer, session::Session& session) {
  if (session.rank() != session.roles().actor.front()) return;
  checkpoint::write_folder(folder, [&](const std::string& inside) {
    weights::save(inside, models.shape, models.actor_parameters->weights(), models.compute_dtype,
                  {.generation_config = models.generation_config,
                   .special = {tokenizer.stop_ids(), std::nullopt, tokenizer.pad_id()}});
    tokenizer.save(inside);
    const auto trainer = fs::path(inside) / "trainer";
    fs::create_directory(trainer);
    if (models.compute_dtype != at::kFloat)  // in fp32 model.safetensors is the masters
      weights::save_file(trainer / kMastersFile, models.shape, models.actor_parameters->weights(),
                         at::kFloat);
    weights::write_tensors(trainer / "optimizer.safetensors",
                           {{"first_moment", models.optimizer->first_moment()},
                            {"second_moment", models.optimizer->second_moment()}});
    nlohmann::ordered_json json;
    json["format"] = 1;
    json["phase"] = state.phase;
    json["step"] = state.step;
    json["seed"] = state.seed;
    json["data"] = {{"taken", state.taken},
                    {"problems", state.num_problems},
                    {"fingerprint", fmt::format("{:016x}", state.fingerprint)}};
    json["optimizer_updates"] = models.optimizer->updates();
    json["kernels"] = state.kernels;
    json["reference"] = state.reference;
    json["results"] = state.results;
    files::write_atomically(trainer / "state.json", json.dump(2) + "\n");
  });
}

namespace {

void load_masters(const std::string& folder, const RoleModels& models, models::ParameterSet& parameters) {
  weights::load(masters_of(folder), models.shape, parameters);
}

}  // namespace

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

void restore(const std::string& folder, const RunState& state, RoleModels& models, session::Session&) {
  if (models.actor) {
    checkpoint::verify_folder(folder);
    load_masters(folder, models, models.actor_parameters->weights());
    const auto path = (fs::path(folder) / "trainer" / "optimizer.safetensors").string();
    const auto tensors = weights::read_tensors(path);
    copy_into(models.optimizer->first_moment(), tensors, "first_moment", path);
    copy_into(models.optimizer->second_moment(), tensors, "second_moment", path);
    models.optimizer->set_updates(state.optimizer_updates);
  }
  publish_actor(models);
  publish_weights(models);
}

void load_reference(const std::string& folder, RoleModels& models) {
  if (!models.reference) return;
  load_masters(folder, models, *models.reference_parameters);
  models.reference->refresh();
}

}  // namespace trireme::steps
