// `trireme bench comm`: what communicators take for each operation and size, in the columns and by the
// formulas of nccl-tests.
#include <algorithm>
#include <charconv>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/session/session.h"
#include "trainer/commands/comm_operations.h"
#include "trainer/commands/commands.h"
#include "trainer/commands/compute.h"
#include "trainer/commands/row_options.h"

namespace trireme::commands {
namespace {

constexpr const char* kSummary =
    "Measures the operations between ranks, size by size: time, size over time (algbw), that times what "
    "makes "
    "it\n"
    "comparable with a link's speed (busbw), and how many elements came out wrong (#wrong, checked once a "
    "size).\n"
    "Sizes, columns and formulas are those of nccl-tests. all_reduce and broadcast work in place.\n\n"
    "  trireme bench comm -n 4\n"
    "  trireme bench comm -n 8 --ops all_reduce,all_to_all_v --min-bytes 1M --max-bytes 1G --group all,tp,dp "
    "--tp "
    "2\n";

struct CommOptions {
  std::vector<CommOperation> operations;
  std::vector<std::string> groups;
  std::vector<int64_t> sizes;
  comm::DType dtype = comm::DType::f32;
  std::string type;
  int64_t iterations = 0, warmup = 0, tp = 1;
};

constexpr std::pair<const char*, comm::DType> kTypes[] = {
    {"float32", comm::DType::f32}, {"bfloat16", comm::DType::bf16}, {"float64", comm::DType::f64},
    {"int32", comm::DType::i32},   {"int64", comm::DType::i64},     {"uint8", comm::DType::u8}};

// "8", "64K", "64M", "1G".
int64_t bytes_of(const std::string& option, const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const size_t power = std::string_view("KMG").find(unit);
  if (error != std::errc() || number < 1 || unit.size() > 1 || power == std::string::npos)
    fail(ErrorCode::invalid_config, "--{} '{}': a number of bytes, such as 8, 64K, 64M or 1G", option, text);
  return number << (unit.empty() ? 0 : 10 * (power + 1));
}

CommOptions read_options(const cxxopts::ParseResult& parsed, int num_ranks) {
  CommOptions options;
  for (const auto& word : parsed["ops"].as<std::vector<std::string>>()) {
    const auto found =
        std::ranges::find(kCommOperations, word, [](auto o) { return std::string(to_string(o)); });
    if (found == std::end(kCommOperations))
      fail(ErrorCode::invalid_config,
           "--ops '{}' is none of all_reduce, reduce_scatter, all_gather, broadcast, all_to_all_v, send_recv",
           word);
    options.operations.push_back(*found);
  }
  options.groups = parsed["group"].as<std::vector<std::string>>();
  for (const auto& word : options.groups)
    if (word != "all" && word != "tp" && word != "dp")
      fail(ErrorCode::invalid_config, "--group '{}' is none of all, tp, dp", word);
  options.type = parsed["dtype"].as<std::string>();
  const auto type =
      std::ranges::find(kTypes, options.type, [](const auto& t) { return std::string(t.first); });
  if (type == std::end(kTypes))
    fail(ErrorCode::invalid_config, "--dtype '{}' is none of float32, bfloat16, float64, int32, int64, uint8",
         options.type);
  options.dtype = type->second;
  options.iterations = positive(parsed, "iterations");
  options.warmup = parsed["warmup"].as<int64_t>();
  if (options.warmup < 0) fail(ErrorCode::invalid_config, "--warmup {}: 0 or more", options.warmup);
  options.tp = positive(parsed, "tp");
  if (num_ranks % options.tp)
    fail(ErrorCode::invalid_config, "--tp {} does not divide {} ranks", options.tp, num_ranks);
  const int64_t least = bytes_of("min-bytes", parsed["min-bytes"].as<std::string>());
  const int64_t most = bytes_of("max-bytes", parsed["max-bytes"].as<std::string>());
  const int64_t factor = positive(parsed, "factor");
  if (factor < 2) fail(ErrorCode::invalid_config, "--factor {}: at least 2", factor);
  if (least > most)
    fail(ErrorCode::invalid_config, "--min-bytes {} is more than --max-bytes {}", least, most);
  for (int64_t size = least; size <= most; size *= factor) options.sizes.push_back(size);
  return options;
}

struct CommFigures {
  std::string group;
  int group_size;
  CommOperation operation;
  int64_t bytes, count, wrong;
  std::string op;
  int root;
  double seconds, algbw, busbw;  // GB/s
};

// All groups at once; the ranks' mean, as nccl-tests have it.
CommFigures measure(session::Session& session, comm::Communicator& group, const CommOptions& options,
                    const std::string& name, CommOperation operation, int64_t size) {
  using Clock = std::chrono::steady_clock;
  comm::Communicator& world = session.world();
  CommContest contest(group, operation, options.dtype, size);
  const auto wrong =
      static_cast<int64_t>(world.all_reduce_scalar(static_cast<double>(contest.count_wrong())));
  const auto end = [&] {
    if (group.device() == comm::Device::gpu) comm::gpu_calls()->synchronize(nullptr);
  };
  for (int64_t i = 0; i < options.warmup; ++i) contest.run();
  end();
  world.barrier();
  const auto begin = Clock::now();
  for (int64_t i = 0; i < options.iterations; ++i) contest.run();
  end();
  const double own = std::chrono::duration<double>(Clock::now() - begin).count();
  const double seconds =
      world.all_reduce_scalar(own) / world.size() / static_cast<double>(options.iterations);
  const double algbw = static_cast<double>(contest.bytes()) / seconds / 1e9;
  return {.group = name,
          .group_size = group.size(),
          .operation = operation,
          .bytes = contest.bytes(),
          .count = contest.count(),
          .wrong = wrong,
          .op = contest.op() ? to_string(*contest.op()) : "none",
          .root = contest.root(),
          .seconds = seconds,
          .algbw = algbw,
          .busbw = algbw * bus_factor(operation, group.size())};
}

void print_head(const CommFigures& first) {
  fmt::print("#\n# {}, group {} ({} ranks)\n", to_string(first.operation), first.group, first.group_size);
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>9}  {:>7}  {:>7}  {:>7}\n", "size", "count", "type",
             "redop", "root", "time", "algbw", "busbw", "#wrong");
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>9}  {:>7}  {:>7}\n", "(B)", "(elements)", "", "", "",
             "(us)", "(GB/s)", "(GB/s)");
}

void print_line(const CommFigures& f, const std::string& type) {
  fmt::print("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {:>9.2f}  {:>7.2f}  {:>7.2f}  {:>7}\n", f.bytes, f.count,
             type, f.op, f.root, f.seconds * 1e6, f.algbw, f.busbw, f.wrong);
  std::fflush(stdout);
}

Json json_of(const std::vector<CommFigures>& all, const CommOptions& options, const std::string& device,
             int num_ranks) {
  Json results = Json::array();
  for (const CommFigures& f : all)
    results.push_back({{"group", f.group},
                       {"ranks", f.group_size},
                       {"operation", to_string(f.operation)},
                       {"bytes", f.bytes},
                       {"count", f.count},
                       {"dtype", options.type},
                       {"op", f.op},
                       {"root", f.root},
                       {"us", f.seconds * 1e6},
                       {"algbw", f.algbw},
                       {"busbw", f.busbw},
                       {"wrong", f.wrong}});
  return {{"ranks", num_ranks}, {"device", device}, {"tp", options.tp}, {"results", results}};
}

std::vector<CommFigures> measure_all(session::Session& session, const CommOptions& options, bool print) {
  std::vector<CommFigures> all;
  for (const auto& name : options.groups) {
    constexpr auto role = placement::Role::actor;
    comm::Communicator& group = name == "all"  ? session.group(role)
                                : name == "tp" ? session.tp(role)
                                               : session.dp(role);
    for (const CommOperation operation : options.operations) {
      double bandwidth = 0;
      const size_t begin = all.size();
      for (const int64_t size : options.sizes) {
        all.push_back(measure(session, group, options, name, operation, size));
        bandwidth += all.back().busbw;
        if (!print) continue;
        if (all.size() == begin + 1) print_head(all.back());
        print_line(all.back(), options.type);
      }
      if (print)
        fmt::print("# Avg bus bandwidth: {:.3f} GB/s\n",
                   bandwidth / static_cast<double>(options.sizes.size()));
    }
  }
  return all;
}

cxxopts::Options comm_options() {
  auto options = command_line::options_of("bench", "comm", kSummary);
  const auto number = [](const char* otherwise) {
    return cxxopts::value<int64_t>()->default_value(otherwise);
  };
  const auto word = [](const char* otherwise) {
    return cxxopts::value<std::string>()->default_value(otherwise);
  };
  const auto words = [](const char* otherwise) {
    return cxxopts::value<std::vector<std::string>>()->default_value(otherwise);
  };
  options.add_options()("n,ranks", "number of ranks", number("1"), "RANKS")(
      "ops", "which operations",
      words("all_reduce,reduce_scatter,all_gather,broadcast,all_to_all_v,send_recv"),
      "LIST")("min-bytes", "the smallest size", word("8"), "SIZE")(
      "max-bytes", "the largest size", word("64M"), "SIZE")("factor", "from one size to the next",
                                                            number("2"), "N")(
      "dtype", "float32, bfloat16, float64, int32, int64 or uint8 (its reductions are maxima)",
      word("float32"), "TYPE")("iterations", "runs that are measured", number("20"), "N")(
      "warmup", "runs before them", number("5"), "N")(
      "group", "all ranks; tp: neighbours; dp: ranks of equal place in their tp group", words("all"), "LIST")(
      "tp", "ranks of a tp group", number("1"), "N")("device", "auto, cpu or cuda", word("auto"), "DEVICE")(
      "json", "print one JSON object");
  return options;
}

}  // namespace

int bench_comm(const Arguments& arguments) {
  auto spec = comm_options();
  const auto parsed = command_line::parse(spec, arguments);
  if (!parsed) return 0;
  const auto env = plan::RankEnv::from_environment();
  log::start(log::level_from("warn"), env.num_ranks > 1 ? fmt::format("rank {}", env.rank) : "");
  const CommOptions options = read_options(*parsed, env.num_ranks);
  const bool on_gpu = choose_device((*parsed)["device"].as<std::string>(), env).is_cuda();
  placement::RoleRanks roles{.actor = placement::parse_ranks("", env.num_ranks, "--ranks")};
  roles.axes.actor.tp = static_cast<int>(options.tp);
  session::Session session(env, roles, on_gpu ? comm::Device::gpu : comm::Device::cpu);

  const bool json = parsed->count("json") > 0, first = session.rank() == 0;
  const std::string device = on_gpu ? "GPU" : "CPU";
  if (first && !json) {
    std::string libraries = session::versions();
    std::ranges::replace(libraries, '\n', ',');
    fmt::print("# {} ranks, memory of the {}; {}\n", session.num_ranks(), device, libraries);
  }
  const auto all = measure_all(session, options, first && !json);
  if (first && json) fmt::print("{}\n", json_of(all, options, device, session.num_ranks()).dump());
  return std::ranges::all_of(all, [](const CommFigures& f) { return f.wrong == 0; }) ? 0 : 1;
}

}  // namespace trireme::commands
