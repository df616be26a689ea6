// `trireme bench rollout|train-step`: how fast this machine generates and trains, on random weights.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/commands/bench.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/machine_limits.h"
#include "trainer/commands/row_options.h"
#include "trainer/rollout/engine.h"
#include "trainer/weights/hf_checkpoint.h"

namespace trireme::commands {
namespace {

constexpr const char* kSummary =
    "Measures generation (rollout) or a training step (train-step) of a model of random weights, of the "
    "shape that\n"
    "a config.json says, and beside it what the machine's memory and matrix products could do at best.\n\n"
    "  trireme bench rollout --shape models/Qwen2.5-0.5B/config.json --batch 16 --context 256\n"
    "  trireme bench train-step --shape models/Qwen2.5-0.5B/config.json --batch 8 --context 256 --json\n"
    "  trireme bench train-step -n 4 --zero-stage 3 --shape models/Qwen2.5-0.5B/config.json\n"
    "  trireme bench train-step -n 2 --pp 2 --micro-batches 8 --shape models/Qwen2.5-0.5B/config.json\n"
    "  trireme bench comm --help        (operations between ranks)\n";

using Clock = std::chrono::steady_clock;

// Weights that neither overflow nor decide anything.
void fill(models::ParameterSet& parameters, const models::DecoderShape& shape) {
  parameters.flat().uniform_(-0.05, 0.05);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters.spec(i).kind == models::ParameterSpec::Kind::norm) parameters.parameter(i).fill_(1.0);
  TRIREME_CHECK(parameters.num_parameters() == shape.num_parameters(), "a set of another model");
}

// What one decode step cannot do without: every weight but the embedding's unread rows, and all keys and
// values.
double bytes_of_step(const BenchOptions& options, const models::Decoder& decoder) {
  const auto& shape = options.shape;
  const double element = options.dtype == at::kFloat ? 4 : 2;
  const double weights =
      static_cast<double>(shape.num_parameters() -
                          (shape.tie_word_embeddings ? 0 : shape.vocab_size * shape.hidden_size)) *
      element;
  const double middle = static_cast<double>(options.context) + 0.5 * static_cast<double>(options.new_tokens);
  return weights +
         static_cast<double>(options.batch) * middle * static_cast<double>(decoder.kv_bytes_per_slot());
}

Json bench_rollout(const BenchOptions& options) {
  models::ParameterSet parameters(models::parameter_specs(options.shape), at::kCPU, options.dtype);
  fill(parameters, options.shape);
  const models::Decoder decoder(options.shape, parameters, options.dtype);
  // All prompts in one forward, a last request of one token with them: when that one is finished, decoding
  // begins.
  rollout::RolloutConfig config;
  config.max_num_seqs = options.batch + 1;
  config.max_num_batched_tokens = options.batch * options.context + 1;
  rollout::Engine engine(decoder, config, {}, options.context + options.new_tokens + 1);
  std::vector<double> prefill, decode;
  for (int64_t round = 0; round <= options.repeats; ++round) {
    // At first weights are touched and threads started: short prompts do.
    const int64_t context = round == 0 ? 2 : options.context,
                  new_tokens = round == 0 ? 1 : options.new_tokens;
    std::vector<rollout::Request> requests(static_cast<size_t>(options.batch + 1));
    for (int64_t i = 0; i <= options.batch; ++i) {
      const bool last = i == options.batch;
      rollout::Request& request = requests[static_cast<size_t>(i)];
      request.id = i;
      request.prompt = random_tokens(last ? 1 : context, options.shape.vocab_size,
                                     static_cast<uint64_t>(round * 1000003 + i));
      request.max_new_tokens = last ? 1 : new_tokens + 1;
      request.step = round;
    }
    const auto begin = Clock::now();
    auto decoding = begin;
    engine.generate(std::move(requests), [&](size_t request, size_t, const rollout::Response&) {
      if (request == static_cast<size_t>(options.batch)) decoding = Clock::now();
    });
    if (round == 0) continue;
    prefill.push_back(std::chrono::duration<double>(decoding - begin).count());
    decode.push_back(std::chrono::duration<double>(Clock::now() - decoding).count() /
                     static_cast<double>(options.new_tokens));
  }
  const double peak = peak_gb();  // before the limits take memory of their own
  const MachineLimits limits = measure_machine_limits(options.dtype);
  const double step = median(decode), best_step = *std::ranges::min_element(decode);
  const double bytes = bytes_of_step(options, decoder);
  const double flops = flops_of_token(options.shape) * static_cast<double>(options.batch);
  return {
      {"tokens_per_second", static_cast<double>(options.batch) / step},
      {"step_ms", step * 1e3},
      {"best_step_ms", best_step * 1e3},
      {"prefill_tokens_per_second", static_cast<double>(options.batch * options.context) / median(prefill)},
      {"bytes_per_step", bytes},
      {"share_of_memory_limit", bytes / limits.bytes_per_second / step},
      {"share_of_product_limit", flops / limits.flops_per_second / step},
      {"memory_gb_per_second", limits.bytes_per_second / 1e9},
      {"product_gflops", limits.flops_per_second / 1e9},
      {"peak_gb", peak}};
}

models::DecoderShape shape_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) return models::DecoderShape::from_folder(path);
  const Json config = Json::parse(files::read(path), nullptr, false);
  if (config.is_discarded()) fail(ErrorCode::invalid_config, "{} is not valid JSON", path);
  return models::DecoderShape::from_json(config, path);
}

BenchOptions read_options(const cxxopts::ParseResult& parsed) {
  BenchOptions options;
  if (!parsed.count("shape"))
    fail(ErrorCode::invalid_config, "no shape is named: `trireme bench rollout --shape config.json`");
  options.shape = shape_of(parsed["shape"].as<std::string>());
  const auto& word = parsed["dtype"].as<std::string>();
  if (word != "float32" && word != "bfloat16")
    fail(ErrorCode::invalid_config, "--dtype '{}' is none of float32, bfloat16", word);
  options.dtype = weights::dtype_of_word(word);
  options.batch = positive(parsed, "batch");
  options.context = positive(parsed, "context");
  options.new_tokens = positive(parsed, "new-tokens");
  options.repeats = positive(parsed, "repeats");
  options.recompute = parsed.count("recompute") > 0;
  if (parsed.count("offload"))
    for (const auto& what : parsed["offload"].as<std::vector<std::string>>()) {
      if (what != "params" && what != "optimizer" && what != "activations")
        fail(ErrorCode::invalid_config, "--offload '{}' is none of params, optimizer, activations", what);
      options.offload.params |= what == "params";
      options.offload.optimizer |= what == "optimizer";
      options.offload_activations |= what == "activations";
    }
  if (options.offload_activations && !options.recompute)
    fail(ErrorCode::invalid_config, "--offload activations needs --recompute: it is of what that keeps");
  options.offload_dir = parsed["offload-dir"].as<std::string>();
  options.observe = parsed.count("observe") > 0;
  options.memory = parsed.count("memory") > 0;
  options.tp = positive(parsed, "tp");
  options.cp = positive(parsed, "cp");
  options.ring = parsed.count("ring") > 0;
  options.pp = positive(parsed, "pp");
  options.micro_batches = positive(parsed, "micro-batches");
  options.zero_stage = parsed["zero-stage"].as<int64_t>();
  if (options.zero_stage < 0 || options.zero_stage > 3)
    fail(ErrorCode::invalid_config, "--zero-stage {} is none of 0, 1, 2, 3", options.zero_stage);
  if (options.zero_stage == 3 && options.pp > 1)
    fail(ErrorCode::invalid_config, "--zero-stage 3 does not go with --pp {}; 2 is the most", options.pp);
  const auto& reduce = parsed["reduce"].as<std::string>();
  if (reduce != "fast" && reduce != "exact")
    fail(ErrorCode::invalid_config, "--reduce '{}' is none of fast, exact", reduce);
  options.exact = reduce == "exact";
  if (options.context < 2) fail(ErrorCode::invalid_config, "--context 1: a text has at least 2 tokens");
  const int64_t longest = options.context + options.new_tokens + 1;
  if (longest > options.shape.max_position_embeddings)
    fail(ErrorCode::invalid_config, "{} tokens are more than the model takes, {} (max_position_embeddings)",
         longest, options.shape.max_position_embeddings);
  if (parsed.count("threads")) at::set_num_threads(static_cast<int>(positive(parsed, "threads")));
  return options;
}

}  // namespace

int bench(const Arguments& arguments) {
  if (arguments.size() > 1 && arguments[1] == "comm") return bench_comm(arguments);
  auto options = command_line::options_of("bench", "rollout|train-step|comm", kSummary);
  const auto number = [](const char* otherwise) {
    return cxxopts::value<int64_t>()->default_value(otherwise);
  };
  options.add_options()("shape", "a config.json, or the folder that holds it", cxxopts::value<std::string>(),
                        "FILE")("batch", "sequences at a time", number("16"), "N")(
      "context", "tokens of each before generation; of each in training", number("256"), "TOKENS")(
      "new-tokens", "steps of generation that are measured", number("32"), "TOKENS")(
      "dtype", "float32 or bfloat16", cxxopts::value<std::string>()->default_value("bfloat16"), "TYPE")(
      "threads", "of this process (default: all CPUs)", cxxopts::value<int64_t>(), "N")(
      "repeats", "measurements, of which the median counts", number("3"), "N")(
      "recompute", "train-step: keep only each layer's input (model.enable_gradient_checkpointing)")(
      "tp", "train-step: ranks that share out every matrix of a replica", number("1"), "N")(
      "pp", "train-step: ranks that share out the layers of a replica", number("1"), "N")(
      "cp", "train-step: ranks that share out the rows of each text", number("1"), "N")(
      "ring", "train-step: with cp, keys and values come round even where heads divide")(
      "micro-batches", "train-step: what each replica's texts are cut into", number("1"), "N")(
      "zero-stage", "train-step: what dp ranks share out", number("0"), "0-3")(
      "offload", "train-step: params, optimizer, activations: bring these out while they are not needed",
      cxxopts::value<std::vector<std::string>>(), "WHAT,...")(
      "offload-dir", "train-step: folder for them", cxxopts::value<std::string>()->default_value("/tmp"),
      "DIR")("observe", "train-step: print a line that `trireme plan --calibration` reads")(
      "memory",
      "train-step: give freed memory back at once, so that what is resident is what is in use; slower")(
      "reduce", "train-step: fast or exact", cxxopts::value<std::string>()->default_value("fast"), "HOW")(
      "json", "print one JSON object");
  const auto parsed = command_line::parse(options, arguments);
  if (!parsed) return 0;
  const auto what = command_line::positional(*parsed);
  if (what.size() != 1 || (what[0] != "rollout" && what[0] != "train-step"))
    fail(ErrorCode::invalid_config,
         "say what is to be measured: `trireme bench rollout`, `trireme bench train-step` or `trireme bench "
         "comm`");
  const BenchOptions bench = read_options(*parsed);
  pin_matrix_products();
  const auto env = plan::RankEnv::from_environment();
  if (env.num_ranks > 1 && what[0] == "rollout")
    fail(ErrorCode::invalid_config, "bench rollout runs on one rank; {} were started", env.num_ranks);
  Json result = what[0] == "rollout" ? bench_rollout(bench) : bench_train_step(bench, env);
  if (env.rank != 0) return 0;
  if (bench.observe) {
    fmt::print("{}\n", result.dump());
    return 0;
  }
  result["parameters"] = bench.shape.num_parameters();
  result["threads"] = at::get_num_threads();
  if (parsed->count("json")) {
    fmt::print("{}\n", result.dump());
    return 0;
  }
  for (const auto& item : result.items())
    fmt::print("{:28}{}\n", item.key(),
               item.value().is_number_float() ? fmt::format("{:.4g}", item.value().get<double>())
                                              : item.value().dump());
  return 0;
}

}  // namespace trireme::commands
