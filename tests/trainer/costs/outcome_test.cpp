// What must hold of plans, whatever the sizes: better machines are never worse.
#include "trainer/costs/outcome.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "trainer/costs/advice.h"
#include "trainer/costs/explore.h"
#include "trainer/costs/memory.h"

namespace trireme::costs {
namespace {

Job grpo(const std::string& model, const std::string& machine, Layout actor, int64_t rollout_tp) {
  Job job;
  job.model = job.critic_model = find_shape(model);
  job.machine = parse_machine(machine);
  const int64_t ranks = job.machine.devices();
  actor.dp = ranks / (actor.pp * actor.cp * actor.tp);
  job.role(PlannedRole::actor) = {true, 0, actor};
  job.role(PlannedRole::reference) = {true, 0, actor};
  job.role(PlannedRole::rollout) = {true, 0, {.dp = ranks / rollout_tp, .tp = rollout_tp}};
  job.work = {.prompts = 256, .samples = 8, .response_limit = 1024};
  job.constants = gpu_constants();
  return job;
}

std::vector<Job> many() {
  std::vector<Job> jobs;
  for (const char* model : {"qwen2.5-0.5b", "qwen2.5-7b", "llama-3.1-70b"})
    for (const char* machine : {"8xA100-40GB", "8xH100", "4x8xH200", "4x3090"})
      for (const int64_t tp : {1, 2, 4})
        for (const int64_t zero : {0, 1, 2, 3})
          for (const bool recompute : {false, true})
            jobs.push_back(grpo(model, machine, {.tp = tp, .zero_stage = zero, .recompute = recompute}, tp));
  return jobs;
}

TEST(Outcome, MoreMemoryNeverMakesAPlanInfeasible) {
  for (Job job : many()) {
    bool fitted = false;
    for (const double factor : {0.25, 0.5, 1.0, 1.5, 4.0, 200.0}) {
      Job larger = job;
      larger.machine.device.memory_bytes *= factor;
      const bool fits = outcome_of(larger).fits;
      EXPECT_TRUE(fits || !fitted) << job.model.name << " " << job.machine.text() << " " << factor;
      fitted = fits;
    }
    EXPECT_TRUE(fitted) << "200 times the memory is not enough";
  }
}

TEST(Outcome, FasterDevicesNeverMakeAStepLonger) {
  for (const Job& job : many()) {
    const double now = outcome_of(job).time.seconds;
    for (double Device::*rate :
         {&Device::bf16_flops, &Device::memory_rate, &Device::fabric_rate, &Device::network_rate}) {
      Job faster = job;
      faster.machine.device.*rate *= 2;
      EXPECT_LE(outcome_of(faster).time.seconds, now * (1 + 1e-9));
    }
  }
}

TEST(Outcome, WhatIsOffloadedIsNotHeld) {
  for (Job job : many()) {
    job.limits.kv_cache_tokens = 4096;
    const RoleJob& actor = job.role(PlannedRole::actor);
    const StateBytes state = state_bytes(job.model, actor.layout, job.target);
    const bool stays = job.shares_weights();
    const auto with = [&](const auto& change) {
      Job changed = job;
      change(changed.role(PlannedRole::actor).layout, changed);
      return outcome_of(changed).memory.front();
    };
    const RankMemory now = with([](Layout&, Job&) {}),
                     optimizer = with([](Layout& l, Job&) { l.optimizer_offload = true; }),
                     params = with([](Layout& l, Job&) { l.param_offload = true; }),
                     reference = with([](Layout&, Job& j) {
                       j.role(PlannedRole::reference).layout.param_offload = true;
                     }),
                     cache = with([](Layout&, Job& j) { j.limits.free_cache_engine = true; }),
                     inputs = with([](Layout& l, Job&) { l.recompute = l.activation_offload = true; }),
                     kept = with([](Layout& l, Job&) { l.recompute = true; });
    EXPECT_EQ(now.held_bytes() - optimizer.held_bytes(), state.moments);
    EXPECT_EQ(now.held_bytes() - params.held_bytes(),
              state.masters + state.gradient + (stays ? 0 : state.weights + state.packed));
    EXPECT_EQ(now.held_bytes() - reference.held_bytes(),
              weight_bytes(job.model, job.role(PlannedRole::reference).layout, job.target, false));
    EXPECT_EQ(now.held_bytes() - cache.held_bytes(),
              4096 * job.model.kv_bytes_per_token(2, job.role(PlannedRole::rollout).layout.tp));
    for (const RankMemory& less : {optimizer, params, reference, cache}) {
      EXPECT_LE(less.peak_bytes(), now.peak_bytes());
    }
    EXPECT_LE(inputs.peak_bytes(), kept.peak_bytes());
  }
}

TEST(Outcome, SmallerPassesShardsAndRecomputationNeedNoMoreMemory) {
  for (const Job& job : many()) {
    const auto peak = [&](const auto& change) {
      Job changed = job;
      changed.limits.kv_cache_tokens = 4096;
      change(changed.role(PlannedRole::actor).layout);
      return outcome_of(changed).memory.front().peak_bytes();
    };
    EXPECT_LE(peak([](Layout& l) { l.micro_tokens = 2048; }), peak([](Layout& l) { l.micro_tokens = 8192; }));
    EXPECT_LE(peak([](Layout& l) { l.recompute = true; }), peak([](Layout& l) { l.recompute = false; }));
    if (job.role(PlannedRole::actor).layout.dp > 3) {
      EXPECT_LE(peak([](Layout& l) { l.zero_stage = 1; }), peak([](Layout& l) { l.zero_stage = 0; }));
    }
  }
}

TEST(Outcome, TheLargestMicroBatchFitsAndALargerOneDoesNot) {
  for (const Job& job : many()) {
    const int64_t most = largest_micro_tokens(job);
    if (most == 0 || most == 1 << 20) continue;
    Job at = job;
    at.role(PlannedRole::actor).layout.micro_tokens = most;
    EXPECT_TRUE(outcome_of(at).fits);
    at.role(PlannedRole::actor).layout.micro_tokens = most + std::max<int64_t>(16, most / 32);
    EXPECT_FALSE(outcome_of(at).fits) << most;
  }
}

TEST(Outcome, SaysWhichRanksLackWhat) {
  const Outcome outcome = outcome_of(grpo("llama-3.1-70b", "8xA100-40GB", {.tp = 8}, 8));
  EXPECT_FALSE(outcome.fits);
  EXPECT_NE(outcome.why_not.find("ranks 0 to 7 need"), std::string::npos) << outcome.why_not;
}

TEST(Outcome, SharesOfIdleTimeAreThoseOfTheStages) {
  Job job = grpo("qwen2.5-7b", "8xH100", {.zero_stage = 2, .recompute = true}, 1);
  const Outcome outcome = outcome_of(job);
  double idle = 0, stages = 0, work = 0;
  for (const auto& each : outcome.idle) idle += each.share;
  for (const auto& stage : outcome.time.stages) {
    stages += stage.total();
    work += stage.work;
  }
  EXPECT_NEAR(stages, outcome.time.seconds, 1e-6 * stages);
  EXPECT_NEAR(idle + work / stages, 1, 0.005);  // all roles on all ranks
}

TEST(Outcome, RolloutThatReadsTheActorsWeightsHoldsNone) {
  const auto holds = [](const Job& job) {
    const Outcome outcome = outcome_of(job);
    for (const auto& part : outcome.memory.front().held)
      if (part.name == "rollout weights") return true;
    return false;
  };
  EXPECT_FALSE(holds(grpo("qwen2.5-7b", "8xH100", {.tp = 2}, 2)));
  EXPECT_TRUE(holds(grpo("qwen2.5-7b", "8xH100", {.tp = 2}, 1)));
  EXPECT_TRUE(holds(grpo("qwen2.5-7b", "8xH100", {.tp = 2, .zero_stage = 3}, 2)));
}

TEST(Advice, ItsFirstChangeIsAsGoodAsItSays) {
  for (const Job& job : many()) {
    const Outcome now = outcome_of(job);
    const auto good = worthwhile(changes_of(job, now));
    for (size_t i = 0; i < good.size(); ++i) {
      EXPECT_TRUE(good[i].outcome.fits);
      EXPECT_DOUBLE_EQ(outcome_of(good[i].job).time.seconds, good[i].outcome.time.seconds);
      if (i > 0) {
        EXPECT_LE(good[i - 1].outcome.time.seconds, good[i].outcome.time.seconds);
      }
      if (now.fits) {
        EXPECT_LE(good[i].outcome.time.seconds, 0.99 * now.time.seconds * (1 + 1e-9));
      }
    }
  }
}

TEST(Advice, SaysThatBothSidesMayWorkAtOnceWhereRolloutIsApart) {
  const auto settings = [](const Job& job) {
    std::string all;
    for (const Change& change : worthwhile(changes_of(job, outcome_of(job)))) all += change.setting + "\n";
    return all;
  };
  Job job = grpo("qwen2.5-0.5b", "8xH100", {.tp = 2, .recompute = true}, 2);
  job.work.updates = 8;
  EXPECT_EQ(settings(job).find("rollout.st"), std::string::npos);
  job.role(PlannedRole::actor).layout.dp = job.role(PlannedRole::rollout).layout.dp = 2;
  job.role(PlannedRole::reference) = job.role(PlannedRole::actor);
  job.role(PlannedRole::rollout).first = 4;
  EXPECT_NE(settings(job).find("rollout.steps_ahead = 1"), std::string::npos);
  EXPECT_NE(settings(job).find("rollout.stream = true"), std::string::npos);
  job.work.updates = 1;  // one mini-batch is the batch
  EXPECT_EQ(settings(job).find("rollout.stream = true"), std::string::npos);
  job.steps_ahead = true;
  EXPECT_EQ(settings(job).find("rollout.st"), std::string::npos);
}

TEST(Explore, FindsNothingBetterAmongItsOwnChanges) {
  Job job = grpo("qwen2.5-7b", "2x8xH100", {}, 1);
  const Search search = explore(job, 16, {});
  ASSERT_FALSE(search.best.empty());
  const Candidate& best = search.best.front();
  EXPECT_TRUE(best.outcome.fits);
  EXPECT_EQ(best.job.ranks(), 16);
  EXPECT_LE(search.because.size(), 5u);
  EXPECT_GE(search.because.size(), 4u);
  for (size_t i = 1; i < search.best.size(); ++i)
    EXPECT_LE(search.best[i - 1].outcome.time.seconds, search.best[i].outcome.time.seconds);
  for (const Change& change : changes_of(best.job, best.outcome))
    if (change.outcome.fits && (change.kind == "ZeRO" || change.kind == "recompute")) {
      EXPECT_GE(change.outcome.time.seconds, 0.999 * best.outcome.time.seconds) << change.setting;
    }
}

TEST(Explore, MoreRanksOfAKindAreNeverSlower) {
  double before = 1e30;
  for (const int64_t nodes : {2, 4, 8, 16}) {
    Job job = grpo("qwen2.5-7b", fmt::format("{}x8xH100", nodes), {}, 1);
    const double now = explore(job, 8 * nodes, {}).best.at(0).outcome.time.seconds;
    EXPECT_LT(now, before * 1.001) << nodes;
    before = now;
  }
}

// What the trainer refuses is not proposed.
TEST(Explore, StagesOfAPipelineGoWithoutZero3) {
  Job job = grpo("llama-3.1-70b", "8x8xH100", {}, 8);
  for (const Candidate& candidate : explore(job, 64, {.most_pp = 8}, 1000).best) {
    const Layout& layout = candidate.job.role(PlannedRole::actor).layout;
    EXPECT_TRUE(layout.pp == 1 || layout.zero_stage < 3) << candidate.text();
  }
}

TEST(Explore, RefusesWhatTheMachineHasNot) {
  Job job = grpo("qwen2.5-7b", "8xH100", {}, 1);
  EXPECT_THROW(explore(job, 9, {}), Error);
  EXPECT_THROW(explore(job, 0, {}), Error);
  job.model = find_shape("llama-3.1-70b");
  job.machine = parse_machine("1x3090");
  EXPECT_TRUE(explore(job, 1, {}).best.empty());
}

TEST(Machine, ReadsDescriptionsAndDriversNames) {
  EXPECT_EQ(parse_machine("8xH100").devices(), 8);
  EXPECT_EQ(parse_machine("16x8xA100-40GB").devices(), 128);
  EXPECT_EQ(parse_machine("16x8xa100-40gb").nodes, 16);
  EXPECT_EQ(parse_machine("4x3090").device.name, "3090");
  EXPECT_EQ(parse_machine("8xMI300X").text(), "8 x MI300X");
  for (const char* bad : {"8xH1000", "0xH100", "", "8x", "xH100", "-1xH100", "8x8x8xH100"})
    EXPECT_THROW(parse_machine(bad), Error) << bad;
  EXPECT_EQ(find_device("NVIDIA H100 80GB HBM3")->name, "H100");
  EXPECT_EQ(find_device("NVIDIA A100-SXM4-40GB")->name, "A100-40GB");
  EXPECT_EQ(find_device("NVIDIA H200")->name, "H200");
  EXPECT_EQ(find_device("NVIDIA GeForce RTX 3090")->name, "3090");
  EXPECT_EQ(find_device("MI300X")->name, "MI300X");
  EXPECT_EQ(find_device("Tesla T4"), nullptr);
}

}  // namespace
}  // namespace trireme::costs
