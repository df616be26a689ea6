#include "trainer/rewards/outside_judge.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace trireme::rewards {

using nlohmann::json;

std::optional<Outcome> outcome_of(const json& answer) {
  const auto number = [](const json& value) -> std::optional<double> {
    if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
    if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
    return value.get<double>();
  };
  if (!answer.is_object()) return std::nullopt;
  const auto score = answer.find("score");
  if (score == answer.end() || !number(*score)) return std::nullopt;
  Outcome outcome;
  outcome.score = *number(*score);
  const auto extras = answer.find("extras");
  for (const auto& [name, value] : (extras != answer.end() && extras->is_object() ? *extras : answer).items())
    if (const auto extra = number(value); extra && name != "id" && name != "score" && name != "pred")
      outcome.extras[name] = *extra;
  if (const auto pred = answer.find("pred"); pred != answer.end() && !pred->is_null())
    outcome.answer = pred->is_string() ? pred->get<std::string>() : pred->dump();
  return outcome;
}

}  // namespace trireme::rewards
