// How many responses the pool of scorers judges in a second, by a function that does nothing.
//     cmake --build build/cpu --target scorers_bench && build/cpu/bin/scorers_bench [PROCESSES] [RESPONSES]
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "trainer/rewards/scorer.h"

using namespace trireme::rewards;

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const int64_t processes = argc > 1 ? std::atoll(argv[1]) : 2, count = argc > 2 ? std::atoll(argv[2]) : 100000;
  const auto file = std::filesystem::temp_directory_path() / fmt::format("scorer_bench.{}.py", processes);
  std::ofstream(file) << "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                         "    return 1.0 if solution_str.endswith(ground_truth) else 0.0\n";
  RewardConfig config;
  config.function.path = file;
  config.scorer.num_workers = processes;
  const auto rule = make_reward({.name = "exact_match"});
  const auto scorer = make_scorer(config, *rule);
  scorer->wait_until_ready();
  const std::string response(500, 'x');  // a short answer's length
  for (int round = 0; round < 4; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int64_t> tickets;
    for (int64_t i = 0; i < count; ++i) tickets.push_back(scorer->submit({"source", response + "18", "18", R"({"index": 7})"}));
    double sum = 0;
    for (const int64_t ticket : tickets) sum += scorer->wait(ticket).value;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{} responses by {} processes: {:.0f} a second{}\n", count, processes,
               static_cast<double>(count) / seconds, sum == static_cast<double>(count) ? "" : ", WRONG SCORES");
  }
  std::filesystem::remove(file);
}
