// What every step needs of the rank it runs on. All of it is borrowed and outlives the steps.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/pipeline/stage.h"
#include "runtime/session/session.h"
#include "trainer/data/problem.h"
#include "trainer/memory/stage_memory.h"
#include "trainer/rewards/scorer.h"
#include "trainer/steps/role_models.h"
#include "trainer/text/tokenizer.h"

namespace trireme::steps {

struct RewardModelInput;

struct StepContext {
  session::Session& session;
  pipeline::StageRunner& stages;
  RoleModels& models;
  const text::Tokenizer& tokenizer;
  rewards::Scorer* scorer;  // on the first rank of each rollout replica; null elsewhere
  const data::ProblemSet& problems;
  uint64_t seed;
  const RewardModelInput* reward_input = nullptr;  // null: there is no reward model. The same on all ranks
  memory::StageMemory* memory = nullptr;  // null: not measured
};

}  // namespace trireme::steps
