// Mini-batches that go to training one by one, while rollout makes the rest of their batch.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <ATen/TensorOperators.h>

#include "runtime/base/error.h"
#include "tests/trainer/steps/small_run.h"
#include "tests/trainer/steps/whole_masters.h"
#include "trainer/steps/group_stream.h"

namespace trireme::steps {
namespace {

namespace fs = std::filesystem;
using placement::Role;

plan::RankEnv env() {
  return plan::RankEnv::from_environment();
}

placement::RoleRanks apart(std::vector<int> actor, std::vector<int> rollout, std::vector<int> reference,
                           bool critic = false) {
  placement::RoleRanks roles;
  roles.actor = std::move(actor);
  roles.rollout = std::move(rollout);
  roles.reference = std::move(reference);
  if (critic) roles.critic = roles.actor;
  return roles;
}

SmallRun run_of(bool stream, int64_t mini_batch = 2) {
  SmallRun run;
  run.rollout.stream = stream;
  run.rollout.max_num_seqs = 4;  // later prompts wait for earlier ones
  run.actor.ppo_mini_batch_size = mini_batch;
  run.actor.optim.lr = 1e-2;
  return run;
}

struct Result {
  at::Tensor masters;
  std::vector<observe::Metrics> metrics;
  std::string learns_late;
};

Result train(const SmallRun& run, const placement::RoleRanks& roles, int64_t steps = 3) {
  SmallRank rank(run, env(), roles);
  OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
  Result result;
  int64_t taken = 0;
  for (int64_t step = 0; step < steps; ++step) {
    result.metrics.push_back(online.run(step, 10, taken));
    taken += online.problems_taken();
    EXPECT_TRUE(online.batches().empty());
  }
  result.learns_late = online.learns_late_because();
  result.masters = whole_masters(rank.models.actor_parameters.get(), run.shape, rank.session.world());
  return result;
}

// What is learned, by which layout and in however many mini-batches, is what would be learned from the batch
// as a whole: the same sums in the same order, so the fast ones have the same bits too.
TEST(Stream, LearnsInTheBitsOfWholeBatches) {
  const placement::RoleRanks layouts[] = {apart({0, 1}, {2, 3}, {0, 1}), apart({0, 1}, {3}, {2}),
                                          apart({2}, {0, 1, 3}, {2}), apart({0, 1, 2}, {3}, {1})};
  for (const char* reduce : {"fast", "exact"})
    for (const auto& roles : layouts)
      for (const int64_t mini_batch : {1, 2, 3}) {
        SmallRun whole = run_of(false, mini_batch), parts = run_of(true, mini_batch);
        whole.parallel.reduce = parts.parallel.reduce = reduce;
        const Result a = train(whole, roles), b = train(parts, roles);
        EXPECT_EQ(b.learns_late, "");
        EXPECT_TRUE(a.masters.equal(b.masters)) << reduce << ", " << mini_batch << " prompts a mini-batch";
        for (const char* same : {"critic/score/mean", "actor/grad_norm", "response_length/mean",
                                 "perf/total_num_tokens", "global_seqlen/balanced_max"})
          EXPECT_NEAR(a.metrics.back().at(same), b.metrics.back().at(same), 1e-12) << same;
        EXPECT_EQ(b.metrics.back().at("training/staleness"), 0.0);
        EXPECT_EQ(b.metrics.back().at("training/rollout_probs_diff_max"), 0.0);
        EXPECT_EQ(b.metrics.back().count("timing_s/wait_prev_gen"), 1u);
        for (const auto& [name, value] : b.metrics.back()) EXPECT_TRUE(observe::is_documented(name)) << name;
      }
}

TEST(Stream, EndsInTheColocatedBits) {
  SmallRun together = run_of(false), streamed = run_of(true);
  together.parallel.reduce = streamed.parallel.reduce = "exact";
  const Result a = train(together, everyone(4)), b = train(streamed, apart({0, 1}, {2, 3}, {1}));
  EXPECT_TRUE(a.masters.equal(b.masters));
}

TEST(Stream, GoesWithRolloutOfSeveralRanksAReplica) {
  placement::RoleRanks roles = apart({0, 1}, {2, 3}, {0});
  roles.axes.rollout.tp = 2;
  SmallRun whole = run_of(false), parts = run_of(true);
  // Another tp rounds otherwise, so the actor would read the batch before it learns.
  whole.algorithm.rollout_correction.bypass_mode = parts.algorithm.rollout_correction.bypass_mode = true;
  const Result a = train(whole, roles), b = train(parts, roles);
  EXPECT_EQ(b.learns_late, "");
  EXPECT_TRUE(a.masters.equal(b.masters));
}

// Where something looks at the whole batch, models read what has come, and learn when all is there.
TEST(Stream, WaitsWithLearningWhereTheWholeBatchIsLookedAt) {
  const placement::RoleRanks with_critic = apart({0, 1}, {3}, {2}, true), without = apart({0, 1}, {3}, {2});
  const auto expect_same = [&](const char* why, const std::function<void(SmallRun&)>& change, bool critic = false) {
    SmallRun whole = run_of(false), parts = run_of(true);
    for (SmallRun* run : {&whole, &parts}) change(*run);
    const auto& roles = critic ? with_critic : without;
    const Result a = train(whole, roles), b = train(parts, roles);
    EXPECT_NE(b.learns_late.find(why), std::string::npos) << b.learns_late;
    EXPECT_EQ(a.learns_late, "");
    EXPECT_TRUE(a.masters.equal(b.masters)) << why;
  };
  expect_same("critic", [](SmallRun& run) { run.algorithm.adv_estimator = "gae"; }, true);
  expect_same("reinforce_plus_plus", [](SmallRun& run) { run.algorithm.adv_estimator = "reinforce_plus_plus"; });
  expect_same("use_kl_in_reward", [](SmallRun& run) {
    run.algorithm.use_kl_in_reward = true;
    run.actor.loss.use_kl_loss = false;
    run.algorithm.kl_ctrl.type = "adaptive";
  });
  expect_same("ppo_epochs = 2", [](SmallRun& run) { run.actor.ppo_epochs = 2; });
}

// The last prompts are judged once training has learned from the first: that must happen.
TEST(Stream, LearnsBeforeTheBatchIsThere) {
  SmallRun run = run_of(true);
  const std::string name = "trireme-stream-" + std::to_string(env().rank == 0 ? ::getpid() : 0);
  fs::path sign;
  const auto observer = [&](const std::string& stage, bool begins) {
    if (stage == "update_actor" && !begins && env().rank == 0) std::ofstream(sign) << "learned";
  };
  SmallRank rank(run, env(), apart({0, 1}, {3}, {2}), at::kFloat, observer);
  sign = fs::temp_directory_path() / rank.session.world().broadcast_string(name, 0);

  struct LateScorer final : rewards::Scorer {
    rewards::Scorer& judge;
    const fs::path& sign;
    std::map<int64_t, bool> is_late;
    int64_t waited = 0;
    LateScorer(rewards::Scorer& scorer, const fs::path& path) : judge(scorer), sign(path) {}
    int64_t submit(rewards::Submission submission) override {
      const bool late = submission.key.name.substr(0, 2) >= "4/";  // of the last mini-batch
      const int64_t ticket = judge.submit(std::move(submission));
      is_late[ticket] = late;
      return ticket;
    }
    bool is_judged(int64_t ticket) override { return !is_late.at(ticket) || fs::exists(sign); }
    rewards::Score wait(int64_t ticket) override {
      for (int tenths = 0; !is_judged(ticket); ++tenths) {
        if (tenths > 600) fail(ErrorCode::io, "nothing was learned meanwhile");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      waited += is_late.at(ticket) ? 1 : 0;
      return judge.wait(ticket);
    }
  } late(*rank.scorer, sign);
  if (rank.context.scorer) rank.context.scorer = &late;
  OnlineStep online(rank.context, run.data, run.rollout, run.algorithm, run.actor, run.critic);
  online.run(0, 10, 0);
  if (rank.context.scorer) {
    EXPECT_EQ(late.waited, 2 * run.rollout.n);
  }
  rank.session.world().barrier();
  if (env().rank == 0) fs::remove(sign);
}

// Parts of any size from any number of replicas, some of which have nothing for a part: each group arrives
// once, in its part.
TEST(Stream, EachGroupArrivesOnceInItsPart) {
  const placement::RoleRanks layouts[] = {apart({0}, {1, 2, 3}, {0}), apart({0, 1, 2}, {3}, {2}),
                                          apart({0, 1}, {2, 3}, {0})};
  for (const auto& roles : layouts)
    for (const auto& [batch, part] : {std::pair<int64_t, int64_t>{1, 1}, {7, 2}, {12, 5}, {9, 9}, {16, 1}}) {
      session::Session session(env(), roles, comm::Device::cpu);
      GroupStream stream(session, batch, part);
      const auto made = [](int64_t id) {
        Group group;
        group.id = id;
        group.prompt.assign(static_cast<size_t>(3 + id % 5), static_cast<int32_t>(id));
        group.samples.resize(2);
        group.samples[1].tokens.assign(static_cast<size_t>(id % 4), 7);
        group.samples[1].score = 0.5 * static_cast<double>(id);
        return group;
      };
      for (int64_t round = 0; round < 2; ++round) {
        if (session.has(Role::rollout)) {
          const auto replicas = static_cast<int64_t>(roles.rollout.size());
          for (int64_t first = 0; first < batch; first += part) {
            std::vector<Group> mine;
            for (int64_t id = first; id < std::min(batch, first + part); ++id)
              if (id % replicas == session.place_in(Role::rollout).d) mine.push_back(made(id));
            stream.send(mine);
          }
          stream.finish();
        }
        std::string got;
        for (int64_t k = 0; k < stream.num_parts() && !session.has(Role::rollout); ++k)
          for (const Group& group : stream.receive(Role::actor)) {
            EXPECT_EQ(group.id / part, k);
            EXPECT_EQ(pack(group), pack(made(group.id)));
            got += std::to_string(group.id) + " ";
          }
        std::multiset<int64_t> ids, all;
        for (const std::string& of_rank : session.world().all_gather_strings(got)) {
          std::istringstream text(of_rank);
          for (int64_t id = 0; text >> id;) ids.insert(id);
        }
        for (int64_t id = 0; id < batch; ++id) all.insert(id);
        EXPECT_EQ(ids, all);
      }
    }
}

}  // namespace
}  // namespace trireme::steps
