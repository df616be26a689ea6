// What every step needs of the rank it runs on. All of it is borrowed and outlives the steps.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/pipeline/stage.h"
#include "runtime/session/session.h"
#include "trainer/data/problem.h"
#include "trainer/rewards/reward.h"
#include "trainer/steps/role_models.h"
#include "trainer/text/tokenizer.h"

namespace trireme::steps {

struct StepContext {
  session::Session& session;
  pipeline::StageRunner& stages;
  RoleModels& models;
  const text::Tokenizer& tokenizer;
  const rewards::Reward& reward;
  const data::ProblemSet& problems;
  uint64_t seed;
};

}  // namespace trireme::steps
