// How well held-out problems are answered: asked of the rollout ranks, judged as in training.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/placement/mesh.h"
#include "trainer/data/problem.h"
#include "trainer/rewards/scorer.h"
#include "trainer/rollout/engine.h"
#include "trainer/text/tokenizer.h"

namespace trireme::evaluation {

/// How problems are asked.
struct Asking {
  int64_t n = 1;                     // responses to each
  rollout::SamplingConfig sampling;  // temperature 0: greedily. Stop strings are the engine's own
  uint64_t seed = 0;                 // the same seed asks alike, whatever was asked before
  int64_t max_response_length = 0;   // tokens
  rewards::JudgementKey key = {};    // of the evaluation in the journal of judgements
};

/// What a model says of responses, beside the scorer or alone.
struct ModelScores {
  /// A problem, by its place, and the tokens of its responses.
  struct Answered {
    size_t index = 0;
    std::vector<std::vector<int32_t>> responses;
  };
  /// One number a response. Asked once, on all ranks together; the first rank of each replica has problems.
  /// Empty: there is no model.
  std::function<std::vector<std::vector<double>>(std::span<const Answered>)> judge;
  double weight = 1.0;  // in the score; the number itself is the component "model"
  bool alone = false;   // the scorer does not say which responses are right
};

struct Evaluation {
  int64_t problems = 0, responses = 0, correct = 0;
  double reward = 0;  // mean over responses
  std::map<std::string, double> metrics;  // validation_metrics.h

  double fraction() const {
    return responses > 0 ? static_cast<double>(correct) / static_cast<double>(responses) : 0.0;
  }
};

/// Where samples go: lines of JSON {"index", "sample", "data_source", "prompt", "response", "ground_truth",
/// "score", "correct", "answer", "components"}, of the problems in their order.
struct SampleWriter {
  int64_t most = 0;  // problems of which samples are kept, the first; below 0: all
  std::function<void(const std::string&)> write;  // on the first rank; called several times
};

/// Answers every problem and judges the answers. Collective over: `world`, all ranks; ranks without an
/// engine (null) answer nothing. `engines`: whose ranks have one, those of a replica together; `scorer`: on
/// the first of each replica, else null. The same result everywhere. Throws what Scorer::wait throws.
Evaluation evaluate(comm::Communicator& world, const placement::Mesh& engines, rollout::Engine* engine,
                    const text::Tokenizer& tokenizer, rewards::Scorer* scorer,
                    std::span<const data::Problem> problems, const Asking& asking,
                    const SampleWriter& samples = {}, const ModelScores& model = {});

}  // namespace trireme::evaluation
