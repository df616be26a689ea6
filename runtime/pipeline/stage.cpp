#include "runtime/pipeline/stage.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "runtime/base/error.h"

namespace trireme::pipeline {
namespace {

// How a rank's part ended. A rank that was ended by another's failure is not the one to be named.
enum Outcome : int64_t { kFine = 0, kConsequence = 1, kCause = 2 };

int64_t hash(const std::string& name) {
  uint64_t h = 14695981039346656037ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<int64_t>(h);
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::optional<Error> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what());
  }
}

}  // namespace

StageRunner::StageRunner(comm::Communicator& world, Observer observer)
    : world_(world), observer_(std::move(observer)) {}

void StageRunner::run(const std::string& name, bool takes_part, const std::function<void()>& work) {
  run_in(&world_, name, takes_part, work);
}

void StageRunner::run_in(comm::Communicator* ranks, const std::string& name, bool takes_part,
                         const std::function<void()>& work) {
  if (!ranks) return add(name, 0);
  if (observer_) observer_(name, true);
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Error> own;
  if (takes_part) own = attempt(work);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (own)
    own = Error(own->code(), own->message(), own->where().empty() ? "stage " + name : own->where())
              .on(world_.rank(), host_name());
  agree(*ranks, name, own);
  add(name, seconds);
  if (observer_) observer_(name, false);
}

void StageRunner::add(const std::string& name, double seconds) {
  const auto entry =
      std::find_if(seconds_.begin(), seconds_.end(), [&](const auto& s) { return s.first == name; });
  if (entry == seconds_.end())
    seconds_.emplace_back(name, seconds);
  else
    entry->second += seconds;
}

void StageRunner::agree(comm::Communicator& ranks, const std::string& name,
                        const std::optional<Error>& own) const {
  struct End {
    int64_t outcome, stage, rank;  // the rank as the world counts
  };
  constexpr int64_t kNumbers = sizeof(End) / sizeof(int64_t);
  const int64_t outcome = !own ? kFine : own->code() == ErrorCode::peer_failed ? kConsequence : kCause;
  const End mine{outcome, hash(name), world_.rank()};
  std::vector<End> all(ranks.size());
  try {
    ranks.all_gather({&mine, kNumbers, comm::DType::i64},
                     {all.data(), kNumbers * ranks.size(), comm::DType::i64});
  } catch (const Error&) {
    if (own) throw Error(*own);
    throw;
  }
  int failed = -1;
  for (int r = 0; r < ranks.size(); ++r) {
    TRIREME_CHECK(all[r].stage == mine.stage,
                  "rank {} is at the end of another stage than rank {}, which ends '{}'", all[r].rank,
                  world_.rank(), name);
    if (all[r].outcome != kFine && (failed < 0 || all[r].outcome > all[failed].outcome)) failed = r;
  }
  if (failed < 0) return;
  const std::string told =
      ranks.broadcast_string(own ? fmt::format("{}\nrank {} ({}) failed in stage {}: {}", own->host(),
                                                own->rank(), own->host(), name, own->message())
                                  : "",
                              failed);
  if (own) throw Error(*own);
  const size_t line = told.find('\n');
  throw Error(ErrorCode::peer_failed, told.substr(line + 1), "stage " + name)
      .on(static_cast<int>(all[failed].rank), told.substr(0, line));
}

std::vector<std::pair<std::string, double>> StageRunner::times_over_ranks() {
  std::vector<double> seconds;
  for (const auto& [name, s] : seconds_) seconds.push_back(s);
  world_.all_reduce({seconds.data(), static_cast<int64_t>(seconds.size()), comm::DType::f64},
                    comm::ReduceOp::max);
  auto result = seconds_;
  for (size_t i = 0; i < result.size(); ++i) result[i].second = seconds[i];
  return result;
}

void StageRunner::reset() {
  seconds_.clear();
}

}  // namespace trireme::pipeline
