#include "trainer/steps/kept_samples.h"

#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace trireme::steps {

const std::set<std::vector<int32_t>>& KeptSamples::of(int64_t problem) const {
  static const std::set<std::vector<int32_t>> none;
  const auto found = by_problem_.find(problem);
  return found == by_problem_.end() ? none : found->second;
}

void KeptSamples::add(Kept kept) {
  by_problem_[kept.problem].insert(kept.response);
  kept_.push_back(std::move(kept));
}

void KeptSamples::add(const Group& group) {
  for (const Sample& sample : group.samples) add({group.problem, sample.tokens});
}

void KeptSamples::clear() {
  kept_.clear();
  by_problem_.clear();
}

std::string KeptSamples::to_lines() const {
  std::string lines;
  for (const Kept& kept : kept_)
    lines += nlohmann::ordered_json{{"problem", kept.problem}, {"response", kept.response}}.dump() + "\n";
  return lines;
}

KeptSamples KeptSamples::from_lines(std::string_view lines, int64_t num_problems, const std::string& where) {
  KeptSamples samples;
  int64_t number = 0;
  while (!lines.empty()) {
    ++number;
    const size_t end = lines.find('\n');
    try {
      const auto json = nlohmann::json::parse(lines.substr(0, end));
      Kept kept{json.at("problem").get<int64_t>(), json.at("response").get<std::vector<int32_t>>()};
      if (kept.problem < 0 || kept.problem >= num_problems)
        fail(ErrorCode::corrupt_data, "there is no training problem {}", kept.problem);
      samples.add(std::move(kept));
    } catch (const Error& error) {
      fail(ErrorCode::corrupt_data, "{}:{}: {}", where, number, error.message());
    } catch (const std::exception& error) {
      fail(ErrorCode::corrupt_data, "{}:{}: {}", where, number, error.what());
    }
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
  return samples;
}

}  // namespace trireme::steps
