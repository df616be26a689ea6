#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/observe/metrics.h"

namespace trireme::observe {
namespace {

TEST(MetricCatalogue, KnowsVerlsNames) {
  for (const char* name : {"critic/score/mean",
                           "critic/rewards/max",
                           "critic/advantages/min",
                           "critic/returns/mean",
                           "actor/pg_loss",
                           "actor/pg_clipfrac",
                           "actor/pg_clipfrac_lower",
                           "actor/ppo_kl",
                           "actor/entropy",
                           "actor/kl_loss",
                           "actor/kl_coef",
                           "actor/grad_norm",
                           "actor/lr",
                           "actor/reward_kl_penalty",
                           "response_length/mean",
                           "response_length/max",
                           "response_length/min",
                           "response_length/clip_ratio",
                           "prompt_length/mean",
                           "prompt_length/clip_ratio",
                           "timing_s/gen",
                           "timing_s/reward",
                           "timing_s/old_log_prob",
                           "timing_s/ref",
                           "timing_s/adv",
                           "timing_s/update_actor",
                           "timing_s/update_weights",
                           "timing_s/save_checkpoint",
                           "timing_s/testing",
                           "timing_s/step",
                           "timing_per_token_ms/gen",
                           "timing_per_token_ms/update_actor",
                           "perf/total_num_tokens",
                           "perf/time_per_step",
                           "perf/throughput",
                           "global_seqlen/min",
                           "global_seqlen/max",
                           "global_seqlen/minmax_diff",
                           "global_seqlen/balanced_min",
                           "global_seqlen/balanced_max",
                           "global_seqlen/mean",
                           "training/global_step",
                           "training/epoch",
                           "training/rollout_probs_diff_mean",
                           "training/rollout_probs_diff_max",
                           "training/rollout_probs_diff_std",
                           "val-core/openai/gsm8k/acc/mean@1",
                           "val-core/arithmetic/acc/mean@1"})
    EXPECT_TRUE(is_documented(name)) << name;
}

TEST(MetricCatalogue, FamiliesTakeAnyNonEmptyText) {
  EXPECT_FALSE(is_documented("val-core/acc/mean@1"));
  EXPECT_FALSE(is_documented("val-core//acc/mean@1"));
  EXPECT_FALSE(is_documented("val-core/x/acc/mean@"));
  EXPECT_TRUE(is_documented("val-core/x/acc/mean@2"));
  EXPECT_FALSE(is_documented("actor/loss"));
  EXPECT_FALSE(is_documented("actor/"));
  EXPECT_FALSE(is_documented("actor/lr/x"));
  EXPECT_FALSE(is_documented(""));
}

TEST(MetricCatalogue, SaysEachMetricOnceWithUnitAndMeaning) {
  std::set<std::string> names;
  for (const auto& [name, unit, meaning] : metric_catalogue()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(unit.empty() || meaning.empty()) << name;
    EXPECT_EQ(meaning.find('|'), std::string::npos) << name << ": a '|' would break the table";
    EXPECT_NE(metrics_markdown().find("| `" + name + "` |"), std::string::npos) << name << " is in no group";
  }
}

TEST(MetricCatalogue, TheDocumentationIsTheCatalogue) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TRIREME_SOURCE_DIR is not set";
  const std::string path = std::string(source) + "/docs/metrics.md";
  if (std::getenv("TRIREME_WRITE_DOCS") != nullptr) std::ofstream(path) << metrics_markdown();
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(written.str(), metrics_markdown())
      << "write docs/metrics.md anew: TRIREME_WRITE_DOCS=1 ctest -R metric_catalogue_test";
}

}  // namespace
}  // namespace trireme::observe
