#include "trainer/commands/row_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/commands/compute.h"

namespace trireme::commands {
namespace {

plan::RankEnv environment() {
  const auto env = plan::RankEnv::from_environment();
  log::start(log::level_from("warn"), env.num_ranks > 1 ? fmt::format("rank {}", env.rank) : "");
  return env;
}

// Between the lines of one row and the next; never within JSON.
constexpr char kRowEnd = '\f';

}  // namespace

RowJob::RowJob(const std::string& input, const std::string& output, const std::string& wish)
    : session_(environment(), {}, comm::Device::cpu),
      stages_(session_.world()),
      device_(at::kCPU),
      output_(output) {
  together("setup", true, [&] { device_ = choose_device(wish, plan::RankEnv::from_environment()); });
  agree_on_instruction_set(stages_, session_.world());
  const bool first = session_.rank() == 0;
  // One rank finds the mistakes, then the others read.
  together("input", first, [&] {
    if (input == "-" && session_.num_ranks() > 1)
      fail(ErrorCode::invalid_config, "several ranks cannot share standard input: name a file with --input");
    rows_ = read_text_rows(input);
    if (output_ == "-") return;
    part_ = fmt::format("{}.{}.part", output_, ::getpid());
    out_ = std::make_unique<std::ofstream>(part_, std::ios::binary);
    if (!*out_) fail(ErrorCode::io, "cannot write {}: {}", part_, std::strerror(errno));
  });
  together("input", !first, [&] { rows_ = read_text_rows(input); });
}

RowJob::~RowJob() {
  std::error_code ignored;
  if (out_) std::filesystem::remove(part_, ignored);
}

void RowJob::run(size_t chunk, const Answer& answer) {
  const auto ranks = static_cast<size_t>(session_.num_ranks()), rank = static_cast<size_t>(session_.rank());
  for (size_t begin = 0; begin < rows_.size(); begin += chunk * ranks) {
    const size_t end = std::min(rows_.size(), begin + chunk * ranks);
    std::vector<size_t> mine;
    for (size_t i = begin + rank; i < end; i += ranks) mine.push_back(i);
    std::string answers;
    together("rows", true, [&] {
      for (const std::string& lines : answer(mine)) answers += lines + kRowEnd;
    });
    const auto all = session_.world().all_gather_strings(answers);
    together("output", rank == 0, [&] { write(all, end - begin); });
  }
  together("output", rank == 0, [&] { finish(); });
}

void RowJob::write(const std::vector<std::string>& by_rank, size_t num_rows) {
  std::ostream& out = out_ ? *out_ : std::cout;
  std::vector<size_t> at(by_rank.size(), 0);
  for (size_t i = 0; i < num_rows; ++i) {
    const std::string& lines = by_rank[i % by_rank.size()];
    size_t& begin = at[i % by_rank.size()];
    const size_t end = lines.find(kRowEnd, begin);
    TRIREME_CHECK(end != std::string::npos, "a rank has answered too few rows");
    out.write(lines.data() + begin, static_cast<std::streamsize>(end - begin));
    begin = end + 1;
  }
  out.flush();
  if (!out) fail(ErrorCode::io, "cannot write {}: {}", output_, std::strerror(errno));
}

void RowJob::finish() {
  if (!out_) return;
  out_.reset();
  std::error_code error;
  std::filesystem::rename(part_, output_, error);
  if (error) fail(ErrorCode::io, "cannot rename {} to {}: {}", part_, output_, error.message());
}

int64_t RowJob::ranks_on_host() const {
  return std::count(session_.hosts().begin(), session_.hosts().end(), session_.host());
}

void RowJob::say(const std::string& line) const {
  if (session_.rank() == 0) fmt::print(stderr, "trireme: {}\n", line);
}

// The first rank that has an error tells it; the others end with the same status and say nothing. Ranks that
// read the same input make the same mistake.
void RowJob::together(const std::string& stage, bool takes_part, const std::function<void()>& work) {
  try {
    stages_.run(stage, takes_part, work);
  } catch (const Error& error) {
    // All ranks come here, since they agree on errors.
    const bool mine = error.code() != ErrorCode::peer_failed;
    const auto codes = session_.world().all_gather_strings(mine ? to_string(error.code()) : "");
    const auto teller = std::ranges::find_if(codes, [](const auto& code) { return !code.empty(); });
    if (teller == codes.end() || (mine && error.code() == ErrorCode::internal)) throw;
    // These commands have no stages that a user knows of: nothing is said of where.
    const bool tells = teller - codes.begin() == session_.rank();
    throw Error(error_code_from(*teller), tells ? error.message() : "");
  }
}

}  // namespace trireme::commands
