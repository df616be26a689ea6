#include "trainer/evaluation/validation_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace trireme::evaluation {
namespace {

constexpr size_t kDraws = 1000;
constexpr uint32_t kSeed = 42;

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of the values themselves, not of what they are a sample of.
double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// kDraws times `size` of the numbers below `count`, as numpy.random.seed(42) and choice draw them.
std::vector<uint32_t> draws(uint32_t count, size_t size) {
  std::mt19937 random(kSeed);
  uint32_t mask = count - 1;
  for (const int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
  std::vector<uint32_t> indices(kDraws * size);
  for (uint32_t& index : indices) {
    if (count == 1) continue;  // it draws nothing then
    do {
      index = static_cast<uint32_t>(random()) & mask;
    } while (index >= count);
  }
  return indices;
}

class Bootstrap {
 public:
  /// For each draw what `reduce` makes of its responses.
  template <typename Reduce>
  std::vector<double> run(size_t count, size_t size, Reduce reduce) {
    auto& indices = cache_[{count, size}];
    if (indices.empty()) indices = draws(static_cast<uint32_t>(count), size);
    std::vector<double> results;
    results.reserve(kDraws);
    for (size_t draw = 0; draw < kDraws; ++draw)
      results.push_back(reduce(std::span<const uint32_t>(indices).subspan(draw * size, size)));
    return results;
  }

 private:
  std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> cache_;
};

// The first value of the answer that was given most often; of several such answers, the first one's.
double majority(std::span<const uint32_t> drawn, std::span<const size_t> votes,
                std::span<const double> values, std::vector<size_t>& counts) {
  counts.assign(values.size(), 0);
  for (const uint32_t index : drawn) ++counts[votes[index]];
  size_t most = 0;
  for (const uint32_t index : drawn) most = std::max(most, counts[votes[index]]);
  for (const uint32_t index : drawn)
    if (counts[votes[index]] == most) return values[index];
  return 0;
}

// Each answer as the place of the first response that gave it.
std::vector<size_t> votes_of(const std::vector<std::string>& answers) {
  std::vector<size_t> votes;
  for (const std::string& answer : answers)
    votes.push_back(static_cast<size_t>(std::ranges::find(answers, answer) - answers.begin()));
  return votes;
}

std::vector<size_t> sizes_up_to(size_t count) {
  std::vector<size_t> sizes;
  if (count <= 1) return sizes;
  for (size_t size = 2; size < count; size *= 2) sizes.push_back(size);
  sizes.push_back(count);
  return sizes;
}

using Statistics = std::map<std::string, double>;

Statistics statistics_of(std::span<const double> values, const std::vector<size_t>& votes,
                         Bootstrap& bootstrap) {
  const size_t count = values.size();
  Statistics result;
  const auto add = [&](const std::string& name, const std::vector<double>& drawn) {
    result[name + "/mean"] = mean_of(drawn);
    result[name + "/std"] = deviation_of(drawn);
  };
  result[fmt::format("mean@{}", count)] = mean_of(values);
  if (count > 1) result[fmt::format("std@{}", count)] = deviation_of(values);
  std::vector<size_t> counts;
  for (const size_t size : sizes_up_to(count)) {
    const auto extreme = [&](bool best) {
      return bootstrap.run(count, size, [&](std::span<const uint32_t> drawn) {
        double value = values[drawn[0]];
        for (const uint32_t index : drawn)
          value = best ? std::max(value, values[index]) : std::min(value, values[index]);
        return value;
      });
    };
    add(fmt::format("best@{}", size), extreme(true));
    add(fmt::format("worst@{}", size), extreme(false));
    if (!votes.empty())
      add(fmt::format("maj@{}", size), bootstrap.run(count, size, [&](std::span<const uint32_t> drawn) {
        return majority(drawn, votes, values, counts);
      }));
  }
  return result;
}

bool is_core(const std::string& value, const std::string& statistic, size_t count) {
  if (value != "reward" && value != "acc") return false;
  const size_t at = statistic.find('@');
  const std::string kind = statistic.substr(0, at);
  const std::string size = statistic.substr(at + 1, statistic.find('/') - at - 1);
  return (kind == "mean" || kind == "best" || kind == "maj") && size == std::to_string(count);
}

}  // namespace

std::map<std::string, double> validation_metrics(std::span<const JudgedProblem> problems) {
  Bootstrap bootstrap;
  struct Sum {
    double total = 0;
    size_t problems = 0;
  };
  std::map<std::string, Sum> sums;
  for (const JudgedProblem& problem : problems) {
    const auto votes = votes_of(problem.answers);
    for (const auto& [value, each] : problem.values) {
      if (each.empty()) continue;
      for (const auto& [statistic, number] : statistics_of(each, votes, bootstrap)) {
        Sum& sum =
            sums[fmt::format("{}/{}/{}/{}", is_core(value, statistic, each.size()) ? "val-core" : "val-aux",
                             problem.data_source, value, statistic)];
        sum.total += number;
        ++sum.problems;
      }
    }
  }
  std::map<std::string, double> metrics;
  for (const auto& [name, sum] : sums) metrics[name] = sum.total / static_cast<double>(sum.problems);
  return metrics;
}

}  // namespace trireme::evaluation
