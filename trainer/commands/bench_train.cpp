// `trireme bench train-step`: forward, backward and update of a model of random weights, on one rank or many.
#include "trainer/commands/bench.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include <ATen/TensorOperators.h>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"
#include "runtime/session/session.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/machine_limits.h"
#include "trainer/costs/device_memory.h"
#include "trainer/optim/adamw.h"
#include "trainer/sharding/state_bytes.h"
#include "trainer/sharding/trained_parameters.h"
#include "trainer/steps/packing.h"

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
  return static_cast<double>(usage.ru_maxrss) / 1e6;
}

namespace {

// What stays resident once freed memory is given back.
double resident_gb() {
  ::malloc_trim(0);
  return static_cast<double>(costs::resident_bytes()) / 1e9;
}

// A replica's share of the batch, and each text's first token is its prompt.
std::vector<steps::Example> examples_of(const BenchOptions& options, int replica, int replicas) {
  std::vector<steps::Example> examples;
  for (int64_t i = replica; i < options.batch; i += replicas) {
    const auto tokens = random_tokens(options.context, options.shape.vocab_size, static_cast<uint64_t>(i));
    examples.push_back({{tokens[0]}, {tokens.begin() + 1, tokens.end()}});
  }
  return examples;
}

struct Training {
  sharding::TrainedParameters parameters;
  models::Decoder decoder;
  optim::AdamW optimizer;

  Training(const BenchOptions& options, const models::DecoderShape& shape, session::Session& session)
      : parameters(shape, at::kCPU, options.dtype, static_cast<int>(options.zero_stage), options.exact,
                   {&session.dp(Role::actor), {options.tp > 1 ? &session.tp(Role::actor) : nullptr}}),
        decoder(shape, parameters.weights(), options.dtype, parameters.holds_whole_weights(),
                parameters.ranks().tp),
        optimizer(parameters, {}) {
    decoder.recompute_blocks(options.recompute);
    parameters.attach(decoder);
    parameters.initialize(1, 0);
    parameters.publish();
  }
};

// A step of a model of next to no weight: libraries' code and buffers are resident from then on, and are not
// taken for a model's memory.
void touch_code(const BenchOptions& options, session::Session& session) {
  models::DecoderShape shape = options.shape;
  shape.num_hidden_layers = 1;
  shape.intermediate_size = 8 * options.tp;
  shape.vocab_size = 64 * options.tp;
  Training training(options, shape, session);
  training.parameters.begin_update(1);
  const steps::Example example{{1}, {2, 3}};
  const auto micros = steps::pack_examples({&example, 1}, 16);
  (-training.decoder
        .token_log_probs(training.decoder.forward_packed(micros[0].batch), micros[0].rows, micros[0].tokens,
                         1.0)
        .log_probs_N.mean())
      .backward();
  training.parameters.end_backward();
  training.optimizer.step(1e-6, training.parameters.sum_gradient());
  training.parameters.publish();
}

}  // namespace

nlohmann::ordered_json bench_train_step(const BenchOptions& options, const plan::RankEnv& env) {
  placement::RoleRanks roles{.actor = placement::parse_ranks("", env.num_ranks, "--ranks")};
  if (env.num_ranks % options.tp != 0)
    fail(ErrorCode::invalid_config, "--tp {} does not divide {} ranks", options.tp, env.num_ranks);
  roles.tp.actor = static_cast<int>(options.tp);
  session::Session session(env, roles, comm::Device::cpu);
  comm::Communicator& world = session.world();
  const auto place = session.place_in(Role::actor);
  const int replicas = roles.mesh(Role::actor).dp;
  if (options.batch < replicas)
    fail(ErrorCode::invalid_config, "--batch {} is less than the {} replicas", options.batch, replicas);

  const auto examples = examples_of(options, place.d, replicas);
  const auto limit = options.exact ? 1 : options.batch * options.context;
  const auto micros = steps::pack_examples(examples, limit);
  touch_code(options, session);
  const double before = resident_gb();
  Training training(options, options.shape, session);
  auto& [parameters, decoder, optimizer] = training;

  std::vector<double> forward, backward, update, whole;
  for (int64_t round = 0; round <= options.repeats; ++round) {
    double forward_s = 0, backward_s = 0;
    world.barrier();
    const double whole_s = seconds_of([&] {
      parameters.begin_update(micros.size());
      for (const steps::MicroBatch& micro : micros) {
        at::Tensor loss;
        forward_s += seconds_of([&] {
          loss = -decoder.token_log_probs(decoder.forward_packed(micro.batch), micro.rows, micro.tokens, 1.0)
                      .log_probs_N.mean();
        });
        backward_s += seconds_of([&] {
          loss.backward();
          parameters.end_backward();
        });
      }
      optimizer.step(1e-6, parameters.sum_gradient());
      parameters.publish();
      world.barrier();
    });
    if (round == 0) continue;  // memory is touched
    forward.push_back(forward_s);
    backward.push_back(backward_s);
    update.push_back(whole_s - forward_s - backward_s);
    whole.push_back(whole_s);
  }
  const double state = resident_gb() - before,
               peak = peak_gb();  // before the limits take memory of their own
  const auto predicted = sharding::state_bytes(options.shape, options.dtype == at::kFloat ? 4 : 2, replicas,
                                               static_cast<int>(options.tp),
                                               static_cast<int>(options.zero_stage), /*packed=*/true);
  const MachineLimits limits = measure_machine_limits(options.dtype);
  const auto tokens = static_cast<double>(options.batch * options.context);
  const auto most = [&](double value) { return world.all_reduce_scalar(value, comm::ReduceOp::max); };
  const double seconds = most(median(whole));
  return {{"tokens_per_second", tokens / seconds},
          {"step_ms", seconds * 1e3},
          {"best_step_ms", most(*std::ranges::min_element(whole)) * 1e3},
          {"forward_ms", most(median(forward)) * 1e3},
          {"backward_ms", most(median(backward)) * 1e3},
          {"update_ms", most(median(update)) * 1e3},
          {"share_of_product_limit", 3 * flops_of_token(options.shape) * tokens / limits.flops_per_second /
                                         seconds / session.num_ranks()},
          {"memory_gb_per_second", limits.bytes_per_second / 1e9},
          {"product_gflops", limits.flops_per_second / 1e9},
          {"state_gb", most(state)},
          {"predicted_state_gb", static_cast<double>(predicted.total()) / 1e9},
          {"peak_gb", most(peak)},
          {"ranks", session.num_ranks()}};
}

}  // namespace trireme::commands
