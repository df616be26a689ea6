// Greedy accuracy on problems, shared out over the rollout ranks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/placement/mesh.h"
#include "trainer/data/problem.h"
#include "trainer/rewards/reward.h"
#include "trainer/rollout/engine.h"
#include "trainer/text/tokenizer.h"

namespace trireme::evaluation {

struct Accuracy {
  int64_t problems = 0, correct = 0;
  double score = 0.0;  // summed rewards

  double fraction() const {
    return problems > 0 ? static_cast<double>(correct) / static_cast<double>(problems) : 0.0;
  }
};

struct Evaluation {
  Accuracy all;
  std::map<std::string, Accuracy> by_source;
};

/// Answers every problem greedily, up to the engine's stop strings, and judges it. Collective over: `world`,
/// all ranks; ranks without an engine (null) answer nothing. `engines`: whose ranks have one, those of a
/// replica together. The same result everywhere.
Evaluation evaluate(comm::Communicator& world, const placement::Mesh& engines, rollout::Engine* engine,
                    const text::Tokenizer& tokenizer, const rewards::Reward& reward,
                    std::span<const data::Problem> problems, int64_t max_response_length);

}  // namespace trireme::evaluation
