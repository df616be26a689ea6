// `trireme bench train-step`: forward, backward and update of a model of random weights, on one rank or many.
#include "trainer/commands/bench.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include <ATen/TensorOperators.h>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"
#include "runtime/session/session.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/machine_limits.h"
#include "trainer/costs/device_memory.h"
#include "trainer/costs/memory.h"
#include "trainer/memory/outside.h"
#include "trainer/memory/shelf.h"
#include "trainer/memory/tensor_memory.h"
#include "trainer/optim/adamw.h"
#include "trainer/sharding/activation_bytes.h"
#include "trainer/sharding/model_memory.h"
#include "trainer/sharding/pipeline.h"
#include "trainer/sharding/pipeline_schedule.h"
#include "trainer/sharding/state_bytes.h"
#include "trainer/steps/passes.h"

namespace trireme::commands {

using placement::Role;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t key) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(
        below(random_bits(key, 0, static_cast<uint64_t>(i)), static_cast<uint64_t>(vocab))));
  return tokens;
}

double flops_of_token(const models::DecoderShape& shape) {
  const int64_t embedding = shape.vocab_size * shape.hidden_size;
  return 2.0 * static_cast<double>(shape.num_parameters() - (shape.tie_word_embeddings ? 0 : embedding));
}

double peak_gb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

namespace {

// What stays resident once freed memory is given back.
double resident_gb() {
  ::malloc_trim(0);
  return static_cast<double>(costs::resident_bytes()) / 1e9;
}

// The most that stays resident at a time is counted from here on, where the kernel allows it.
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

costs::ModelShape costs_shape(const models::DecoderShape& shape) {
  costs::ModelShape result{shape.model_type,          shape.vocab_size,        shape.hidden_size,
                           shape.intermediate_size,   shape.num_hidden_layers, shape.num_attention_heads,
                           shape.num_key_value_heads, shape.head_dim};
  result.tie_word_embeddings = shape.tie_word_embeddings;
  result.qkv_bias = shape.qkv_bias;
  result.attention_output_bias = shape.attention_output_bias;
  result.qk_norm = shape.qk_norm;
  return result;
}

// A replica's share of the batch, and each text's first token is its prompt.
std::vector<steps::Example> examples_of(const BenchOptions& options, int replica, int replicas) {
  std::vector<steps::Example> examples;
  for (int64_t i = replica; i < options.batch; i += replicas) {
    const auto tokens = random_tokens(options.context, options.shape.vocab_size, static_cast<uint64_t>(i));
    examples.push_back({data::prompt_and_response({tokens[0]}, {tokens.begin() + 1, tokens.end()})});
  }
  return examples;
}

struct Training {
  std::unique_ptr<memory::Outside> outside;
  std::unique_ptr<memory::Shelf> shelf;
  sharding::TrainedParameters parameters;
  models::Decoder decoder;
  sharding::Pipeline passes;
  sharding::ModelMemory memory;
  optim::AdamW optimizer;

  Training(const BenchOptions& options, const models::DecoderShape& shape, session::Session& session)
      : outside(options.offload.any() || options.offload_activations
                    ? std::make_unique<memory::Outside>(at::kCPU, options.offload_dir)
                    : nullptr),
        shelf(options.offload_activations ? std::make_unique<memory::Shelf>(*outside) : nullptr),
        parameters(shape, at::kCPU, options.dtype, static_cast<int>(options.zero_stage), options.exact,
                   {&session.same_weights(Role::actor),
                    {options.tp > 1 ? &session.tp(Role::actor) : nullptr},
                    options.pp > 1 ? &session.along(placement::Axis::pp, Role::actor) : nullptr}),
        decoder(shape, parameters.weights(), options.dtype, parameters.holds_whole_weights(),
                parameters.ranks().tp,
                {options.cp > 1 ? &session.along(placement::Axis::cp, Role::actor) : nullptr, options.ring},
                parameters.ranks().pipeline()),
        passes(decoder, &parameters, parameters.ranks().pp),
        optimizer(parameters, {}, options.offload.optimizer ? outside.get() : nullptr) {
    decoder.recompute_blocks(options.recompute, shelf.get());
    parameters.attach(decoder);
    parameters.initialize(1, 0);
    parameters.publish();
    if (options.offload.params) memory = {*outside, parameters, /*weights_stay=*/false};
    memory.rest();
    settle();
  }
  // All copies are done.
  void settle() {
    if (outside) outside->after([] {}).get();
  }

  void pass(std::span<const steps::MicroBatch> micros) {
    steps::train(passes, micros, [&](const steps::MicroBatch& micro, const at::Tensor& hidden) {
      return -decoder.token_log_probs(hidden, micro.rows, micro.tokens, 1.0).log_probs_N.mean();
    });
  }
  void update() { steps::finish_update(parameters, memory, optimizer, 1e-6); }
};

// A step of a model of next to no weight: libraries' code and buffers are resident from then on, and are not
// taken for a model's memory.
void touch_code(const BenchOptions& options, session::Session& session) {
  models::DecoderShape shape = options.shape;
  shape.num_hidden_layers = options.pp;
  shape.intermediate_size = 8 * options.tp;
  shape.vocab_size = 64 * options.tp;
  Training training(options, shape, session);
  const steps::Example example{{{1, 2, 3}, {0, 1, 1}}};
  const auto present = training.memory.weights();
  training.pass(steps::pack_examples({&example, 1}, {16, training.decoder}));
  training.update();
}

// One line of what `trireme plan --calibration` and `--against` read.
nlohmann::ordered_json observation(const BenchOptions& options, const costs::Layout& layout,
                                   const MachineLimits& limits, double seconds, int ranks) {
  const models::DecoderShape& shape = options.shape;
  const bool fp32 = options.dtype == at::kFloat;
  const char* rate = fp32 ? "fp32_gflops" : "bf16_gflops";
  return {{"name", fmt::format("{} {}x{} x {} layers, {} x {} tokens, {}, {}", shape.model_type,
                               shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers,
                               options.batch, options.context, fp32 ? "fp32" : "bf16", layout.text())},
          {"source", "trireme bench train-step --observe"},
          {"use", "fit"},
          {"machine",
           {{rate, limits.flops_per_second / 1e9},
            {"memory_gb_per_second", limits.bytes_per_second / 1e9},
            {"memory_gb", static_cast<double>(costs::host_memory(ranks).total) / 1e9}}},
          {"dtype", fp32 ? "fp32" : "bf16"},
          {"ranks", ranks},
          {"model",
           {{"vocab_size", shape.vocab_size},
            {"hidden_size", shape.hidden_size},
            {"intermediate_size", shape.intermediate_size},
            {"num_hidden_layers", shape.num_hidden_layers},
            {"num_attention_heads", shape.num_attention_heads},
            {"num_key_value_heads", shape.num_key_value_heads},
            {"head_dim", shape.head_dim},
            {"tie_word_embeddings", shape.tie_word_embeddings},
            {"qkv_bias", shape.qkv_bias},
            {"qk_norm", shape.qk_norm}}},
          {"actor",
           {{"tp", layout.tp},
            {"pp", layout.pp},
            {"cp", layout.cp},
            {"zero", layout.zero_stage},
            {"recompute", layout.recompute},
            {"exact", layout.exact},
            {"micro_tokens", layout.micro_tokens}}},
          {"work",
           {{"prompts", options.batch},
            {"samples", 1},
            {"prompt_tokens", 0},
            {"response_tokens", options.context},
            {"response_limit", options.context}}},
          {"stated", {{"update_actor", seconds}}}};
}

}  // namespace

nlohmann::ordered_json bench_train_step(const BenchOptions& options, const plan::RankEnv& env) {
  placement::RoleRanks roles{.actor = placement::parse_ranks("", env.num_ranks, "--ranks")};
  roles.axes.actor = {static_cast<int>(options.pp), static_cast<int>(options.cp),
                      static_cast<int>(options.tp)};
  if (env.num_ranks % roles.axes.actor.num_ranks() != 0)
    fail(ErrorCode::invalid_config, "--pp {} x --cp {} x --tp {} does not divide {} ranks", options.pp,
         options.cp, options.tp, env.num_ranks);
  session::Session session(env, roles, comm::Device::cpu);
  comm::Communicator& world = session.world();
  const auto place = session.place_in(Role::actor);
  const int replicas = roles.mesh(Role::actor).dp;
  if (options.batch < replicas)
    fail(ErrorCode::invalid_config, "--batch {} is less than the {} replicas", options.batch, replicas);

  // The C library's heap keeps what was freed with what still lies between; how large such pieces are grows
  // to 32 MB, unless it is told to stay at what it begins with.
  if (options.memory) ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const auto examples = examples_of(options, place.d, replicas);
  const auto texts = static_cast<int64_t>(examples.size());
  const auto limit =
      options.exact ? 1 : (texts + options.micro_batches - 1) / options.micro_batches * options.context;
  // A pass has room for the rows of all cp ranks; here each takes its share of a micro-batch.
  const auto micros = steps::pack_examples(
      examples, {options.exact ? 1 : (limit + options.cp - 1) / options.cp, static_cast<int>(options.cp)});
  memory::TensorMemory memory;
  touch_code(options, session);
  const double before = resident_gb();
  Training training(options, options.shape, session);
  forget_peak();

  std::vector<double> forward, backward, update, whole, idle;
  int64_t activations = 0, rows = 0, judged = 0;
  for (const steps::MicroBatch& micro : micros) {
    rows = std::max(rows, micro.batch.num_rows());
    judged = std::max(judged, micro.num_pairs());
  }
  for (int64_t round = 0; round <= options.repeats; ++round) {
    world.barrier();
    const double whole_s = seconds_of([&] {
      const auto present = training.memory.weights();
      const int64_t held = memory.held();
      memory.restart();
      training.pass(micros);
      activations = std::max(activations, memory.most() - held);
      training.update();
      world.barrier();
    });
    if (round == 0) continue;  // memory is touched
    const sharding::Pipeline::Seconds& seconds = training.passes.seconds();
    forward.push_back(seconds.forward);
    backward.push_back(seconds.backward);
    update.push_back(whole_s - seconds.all);
    const double busy = world.all_reduce_scalar(seconds.forward + seconds.backward) / session.num_ranks();
    idle.push_back(1 - busy / world.all_reduce_scalar(seconds.all, comm::ReduceOp::max));
    whole.push_back(whole_s);
  }
  training.settle();
  const double state = resident_gb() - before,
               peak = peak_gb();  // before the limits take memory of their own
  const int element = options.dtype == at::kFloat ? 4 : 2, tp = static_cast<int>(options.tp),
            cp = static_cast<int>(options.cp);
  const costs::Target target{.element = element, .on_cpu = true};
  const auto all_state =
      sharding::state_bytes(options.shape, element, replicas * cp, tp, static_cast<int>(options.zero_stage),
                            /*packed=*/true, training.decoder.stage());
  const costs::Layout layout{.dp = replicas,
                             .pp = options.pp,
                             .cp = options.cp,
                             .tp = options.tp,
                             .zero_stage = options.zero_stage,
                             .recompute = options.recompute,
                             .exact = options.exact,
                             .micro_tokens = limit,
                             .param_offload = options.offload.params,
                             .optimizer_offload = options.offload.optimizer,
                             .activation_offload = options.offload_activations};
  const costs::ModelShape shape = costs_shape(options.shape);
  const costs::StateBytes fullest = costs::state_bytes(shape, layout, target);
  const costs::PassBytes pass = costs::training_pass_bytes(shape, layout, target, rows, options.context,
                                                           static_cast<int64_t>(micros.size()));
  const MachineLimits limits = measure_machine_limits(options.dtype);
  const auto tokens = static_cast<double>(options.batch * options.context);
  const auto most = [&](double value) { return world.all_reduce_scalar(value, comm::ReduceOp::max); };
  const double seconds = most(median(whole));
  if (options.observe)
    return observation(options, layout, limits, most(*std::ranges::min_element(whole)), session.num_ranks());
  nlohmann::ordered_json result{
      {"tokens_per_second", tokens / seconds},
      {"step_ms", seconds * 1e3},
      {"best_step_ms", most(*std::ranges::min_element(whole)) * 1e3},
      {"forward_ms", most(median(forward)) * 1e3},
      {"backward_ms", most(median(backward)) * 1e3},
      {"update_ms", most(median(update)) * 1e3},
      {"share_of_product_limit",
       3 * flops_of_token(options.shape) * tokens / limits.flops_per_second / seconds / session.num_ranks()},
      {"memory_gb_per_second", limits.bytes_per_second / 1e9},
      {"product_gflops", limits.flops_per_second / 1e9},
      {"state_gb", most(state)},
      {"predicted_state_gb",
       most(static_cast<double>(costs::presence_of({.masters = all_state.masters,
                                                    .gradient = all_state.gradient,
                                                    .moments = all_state.moments,
                                                    .weights = all_state.weights,
                                                    .packed = all_state.packed,
                                                    .exact = fullest.exact},
                                                   layout, target, /*weights_stay=*/false)
                                    .between +
                                pass.panels) /
            1e9)},
      {"activation_gb", most(static_cast<double>(activations)) / 1e9},
      {"training_gb", most(peak - before)},
      {"peak_gb", most(peak)},
      {"ranks", session.num_ranks()}};
  const costs::Presence there = costs::presence_of(fullest, layout, target, /*weights_stay=*/false);
  costs::PassBytes step = pass;  // the state of each moment beside what comes and goes
  step.kept += there.passes;
  step.update = std::max(step.update, there.pieces) + there.update;
  result["predicted_training_gb"] = static_cast<double>(step.total()) / 1e9;
  if (options.pp == 1) {
    const int64_t predicted_activations = sharding::activation_bytes(
        options.shape, {rows, judged, element, tp, cp, options.ring, options.recompute});
    result["predicted_activation_gb"] = static_cast<double>(predicted_activations) / 1e9;
  } else {
    // Which part of the passes' time the stages wait for each other, and what equal passes would leave.
    result["pipeline_idle"] = median(idle);
    result["pipeline_bubble"] = sharding::pipeline_bubble(static_cast<int>(options.pp), micros.size());
    result["micro_batches"] = micros.size();
  }
  return result;
}

}  // namespace trireme::commands
