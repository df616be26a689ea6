#include "runtime/observe/step_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme::observe {
namespace {

TEST(StepLine, ShowsValuesStagesAndSpeed) {
  const StepLine line{.phase = "step",
                      .step = 12,
                      .total = 200,
                      .values = {{"reward", 0.41}, {"kl", 0.003}},
                      .stages = {{"gen", 0.1849},
                                 {"reward", 0.002},
                                 {"ref", 0.042},
                                 {"adv", 0.001},
                                 {"update_actor", 0.19},
                                 {"update_weights", 0.0031}},
                      .tokens_per_second = 3240.3};
  EXPECT_EQ(
      step_line(line),
      "step 12/200  reward 0.41  kl 0.003  rollout 185 ms | reward 2 | ref 42 | adv 1 | actor 190 | sync 3"
      "  3,240 tok/s");
}

TEST(StepLine, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(step_line({.phase = "sft", .step = 3}), "sft 3");
  EXPECT_EQ(step_line({.step = 3, .total = 4, .values = {{"loss", 2.5}}}), "step 3/4  loss 2.50");
  EXPECT_EQ(step_line({.step = 3, .stages = {{"gen", 0.0004}}}), "step 3  rollout 0 ms");
  EXPECT_EQ(step_line({.step = 3, .tokens_per_second = NAN}), "step 3");
  EXPECT_EQ(step_line({.step = 3, .tokens_per_second = INFINITY}), "step 3");
}

TEST(StepLine, LongStagesAreInSeconds) {
  EXPECT_EQ(step_line({.step = 1, .stages = {{"gen", 10.0}, {"ref", 0.2}}}),
            "step 1  rollout 10,000 ms | ref 200");
  EXPECT_EQ(step_line({.step = 1, .stages = {{"ref", 0.26}, {"gen", 1234.56}}}),
            "step 1  ref 0.3 s | rollout 1234.6");
}

TEST(StepLine, ValuesAreBrief) {
  const auto shown = [](double value) { return step_line({.step = 1, .values = {{"x", value}}}); };
  EXPECT_EQ(shown(0), "step 1  x 0");
  EXPECT_EQ(shown(-0.0), "step 1  x 0");
  EXPECT_EQ(shown(1), "step 1  x 1.00");
  EXPECT_EQ(shown(-0.4137), "step 1  x -0.41");
  EXPECT_EQ(shown(0.00312), "step 1  x 0.0031");
  EXPECT_EQ(shown(1e-6), "step 1  x 1e-06");
  EXPECT_EQ(shown(1234567.8), "step 1  x 1,234,568");
  EXPECT_EQ(shown(NAN), "step 1  x nan");
  EXPECT_EQ(shown(-INFINITY), "step 1  x -inf");
}

TEST(StepLine, KnowsTheStagesByShortNames) {
  EXPECT_EQ(stage_label("gen"), "rollout");
  EXPECT_EQ(stage_label("update_critic"), "critic");
  EXPECT_EQ(stage_label("testing"), "eval");
  EXPECT_EQ(stage_label("ref"), "ref");
  EXPECT_EQ(stage_label("something_new"), "something_new");
}

TEST(WithThousands, GroupsDigitsByThree) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999.4), "999");
  EXPECT_EQ(with_thousands(999.6), "1,000");
  EXPECT_EQ(with_thousands(-1234), "-1,234");
  EXPECT_EQ(with_thousands(-0.2), "0");
  EXPECT_EQ(with_thousands(1e15), "1,000,000,000,000,000");
  EXPECT_EQ(with_thousands(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace trireme::observe
