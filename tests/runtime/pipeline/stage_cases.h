// What stages promise, on any ranks.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/pipeline/stage.h"

namespace trireme::pipeline {

// What run() threw on this rank; fails the test if it returned.
inline Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::internal, "nothing");
}

inline void expect_stages_go_on(comm::Communicator& world) {
  std::vector<std::string> heard;
  StageRunner stages(
      world, [&](const std::string& stage, bool begins) { heard.push_back((begins ? "+" : "-") + stage); });
  int ran = 0;
  for (int step = 0; step < 3; ++step) {
    stages.run("gen", [&] { ++ran; });
    stages.run("ref", world.rank() == 0, [&] { ++ran; });
  }
  EXPECT_EQ(ran, world.rank() == 0 ? 6 : 3);
  ASSERT_EQ(heard.size(), 12u);
  EXPECT_EQ((std::vector<std::string>(heard.begin(), heard.begin() + 4)),
            (std::vector<std::string>{"+gen", "-gen", "+ref", "-ref"}));
}

inline void expect_times_of_the_slowest(comm::Communicator& world) {
  using namespace std::chrono_literals;
  StageRunner stages(world);
  for (int i = 0; i < 2; ++i) {
    stages.run("late", [&] {
      if (world.rank() == world.size() - 1) std::this_thread::sleep_for(20ms);
    });
    stages.run("nobody", false, [] { FAIL(); });
  }
  const auto times = stages.times_over_ranks();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].first, "late");
  EXPECT_GE(times[0].second, 0.04);  // a sleep never ends early
  EXPECT_EQ(times[1].first, "nobody");
  stages.reset();
  EXPECT_TRUE(stages.times_over_ranks().empty());
}

inline void expect_one_error_is_everybodys(comm::Communicator& world, int failing) {
  StageRunner stages(world);
  stages.run("gen", [] {});
  const Error error = error_of([&] {
    stages.run("reward", [&] {
      if (world.rank() == failing) fail(ErrorCode::corrupt_data, "no answer in line 7");
    });
  });
  EXPECT_EQ(error.rank(), failing);
  EXPECT_FALSE(error.host().empty());
  EXPECT_NE(error.where().find("stage reward"), std::string::npos);
  if (world.rank() == failing) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_EQ(error.message(), "no answer in line 7");
  } else {
    EXPECT_EQ(error.code(), ErrorCode::peer_failed);
    EXPECT_EQ(error.message(),
              fmt::format("rank {} ({}) failed in stage reward: no answer in line 7", failing, error.host()));
  }
  stages.run("adv", [] {});  // the ranks are still in step
}

inline void expect_the_cause_is_named(comm::Communicator& world) {
  StageRunner stages(world);
  const int last = world.size() - 1;
  const Error error = error_of([&] {
    stages.run("gen", [&] {
      if (world.rank() == last) throw std::runtime_error("out of pages");
      fail(ErrorCode::peer_failed, "somebody else");  // these are consequences
    });
  });
  if (world.rank() == last) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_EQ(error.message(), "out of pages");
  } else {
    EXPECT_EQ(error.code(), ErrorCode::peer_failed);
    EXPECT_EQ(error.rank(), world.rank());  // its own error is not replaced
  }
}

inline void expect_different_stages_are_noticed(comm::Communicator& world) {
  StageRunner stages(world);
  const Error error = error_of([&] { stages.run(world.rank() == 0 ? "ref" : "values", [] {}); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_NE(error.message().find(world.rank() == 0 ? "'ref'" : "'values'"), std::string::npos);
}

// A rank that throws while the others are inside a collective of the world: nobody hangs, and the world's
// next collective (the agreement) shows both sides that they are out of step.
inline void expect_no_hang_out_of_step(comm::Communicator& world) {
  StageRunner stages(world);
  std::vector<float> data(1000);
  const Error error = error_of([&] {
    stages.run("update_actor", [&] {
      if (world.rank() == 0) fail(ErrorCode::io, "disk full");
      world.all_reduce({data.data(), 1000, comm::DType::f32});
    });
  });
  EXPECT_EQ(error.code(), world.rank() == 0 ? ErrorCode::io : ErrorCode::internal);
}

// Rank 0 is one lane, all others are the other; `lane` is this rank's.
inline void expect_lanes_walk_by_themselves(comm::Communicator& world, comm::Communicator& lane) {
  StageRunner stages(world);
  const bool alone = world.rank() == 0;
  const Lane first(stages, alone ? &lane : nullptr), second(stages, alone ? nullptr : &lane);
  EXPECT_EQ(first.is_mine(), alone);
  int ran = 0;
  for (int step = 0; step < 3; ++step) {
    stages.run("exchange", [] {});
    second.run("ref", world.rank() == 1, [&] { ++ran; });
    second.run("update", [&] { ++ran; });
    for (int batch = 0; batch < (alone ? 2 : 1); ++batch) first.run("gen", [&] { ++ran; });
  }
  EXPECT_EQ(ran, alone ? 6 : world.rank() == 1 ? 6 : 3);
  std::vector<std::string> names;
  for (const auto& [name, seconds] : stages.times_over_ranks()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"exchange", "ref", "update", "gen"}));
}

// The lane with the error knows which rank of the world it was; the other one goes on.
inline void expect_an_error_stays_in_its_lane(comm::Communicator& world, comm::Communicator& lane) {
  StageRunner stages(world);
  const bool alone = world.rank() == 0;
  const Lane first(stages, alone ? &lane : nullptr), second(stages, alone ? nullptr : &lane);
  first.run("gen", [] {});
  const auto fails = [&] {
    second.run("update", [&] {
      if (world.rank() == 1) fail(ErrorCode::io, "disk full");
    });
  };
  if (alone) return fails();
  const Error error = error_of(fails);
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.code(), world.rank() == 1 ? ErrorCode::io : ErrorCode::peer_failed);
  if (world.rank() != 1) {
    EXPECT_EQ(error.message(), fmt::format("rank 1 ({}) failed in stage update: disk full", error.host()));
  }
}

}  // namespace trireme::pipeline
