#include "trainer/costs/observations.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "runtime/base/error.h"

namespace trireme::costs {
namespace {

std::string published() {
  return std::string(std::getenv("TRIREME_SOURCE_DIR")) + "/docs/published-runs.json";
}

class File {
 public:
  explicit File(const std::string& text) : path_(testing::TempDir() + "runs_" + std::to_string(::getpid())) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Observations, PublishedRunsNameTheirSourceAndSplitInHalves) {
  const auto seen = read_observations(published());
  EXPECT_GE(seen.size(), 16u);
  size_t fitted = 0;
  for (const auto& each : seen) {
    EXPECT_FALSE(each.source.empty()) << each.name;
    fitted += each.fitted;
  }
  EXPECT_GE(fitted, 8u);
  EXPECT_GE(seen.size() - fitted, 8u);
}

// The constants in the source are those that the fit finds, to the digits that are written.
TEST(Observations, ConstantsOfGpusAreTheFitToPublishedRuns) {
  const auto seen = read_observations(published());
  Constants start = gpu_constants();
  for (auto& constant : start.all)
    if (constant.fitted) constant.value *= 1.2 - (&constant - start.all.data()) * 0.05;
  const auto misfit = [&](const Constants& constants) {
    double sum = 0;
    for (const auto& each : compare(seen, constants))
      if (each.fitted) sum += std::abs(std::log(each.ratio()));
    return sum;
  };
  EXPECT_LE(misfit(gpu_constants()), 1.02 * misfit(fit(seen, start)));
}

TEST(Observations, AFitFindsTheConstantsThatMadeTheTimes) {
  auto seen = read_observations(published());
  Constants truth = gpu_constants(), start = truth;
  truth.set(Constant::product_share, 0.31);
  truth.set(Constant::decode_seconds, 0.011);
  for (auto& each : seen) {
    each.fitted = true;
    for (auto& stated : each.stated) {
      auto one = std::vector{each};
      one[0].stated = {stated};
      stated.seconds = compare(one, truth)[0].predicted;
    }
  }
  const Constants found = fit(seen, start);
  EXPECT_NEAR(found.of(Constant::product_share), 0.31, 0.01);
  EXPECT_NEAR(found.of(Constant::decode_seconds), 0.011, 0.0003);
  EXPECT_LT(median_factor(compare(seen, found), true), 1.01);
}

TEST(Observations, EveryMistakeIsNamed) {
  const File file(R"({"runs": [{"name": "one", "machine": "8xH100", "model": "qwen2.5-7b", "ranks": 8,
    "actor": {"tp": 3}, "work": {"prompts": -1}, "stated": {"gen": 0}}, 5]})");
  try {
    read_observations(file.path());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    for (const char* named : {"one", "replicas of 3", "prompts", "stated.gen", "a run must be"})
      EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
  }
}

TEST(Observations, DamagedFilesAreRefused) {
  for (const char* text : {"", "\n\n", "{\"runs\": []}", "[1, 2]", "not json", "{\"name\": \"x\"}"}) {
    const File file(text);
    EXPECT_THROW(read_observations(file.path()), Error) << text;
  }
  EXPECT_THROW(read_observations("/nowhere/runs.json"), Error);
}

}  // namespace
}  // namespace trireme::costs
