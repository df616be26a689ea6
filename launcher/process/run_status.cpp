#include "launcher/process/run_status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::process {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// When a process began, in the kernel's ticks; 0 if there is none.
int64_t birth_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number)
    if (number == 22) return std::stoll(field);
  return 0;
}

fs::path list_folder() {
  const auto state = variable("XDG_STATE_HOME");
  return fs::path(state.empty() ? variable("HOME") + "/.local/state" : state) / "trireme" / "runs";
}

}  // namespace

void save(const RunStatus& s) {
  const Json all = {{"state", s.state},     {"host", s.host},           {"pid", s.pid},
                    {"birth", s.birth},     {"started_s", s.started_s}, {"ranks", s.ranks},
                    {"hosts", s.hosts},     {"attempt", s.attempt},     {"exit_status", s.exit_status},
                    {"message", s.message}, {"slurm_job", s.slurm_job}};
  files::write_atomically(s.run_dir + "/status.json",
                          all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<RunStatus> load_status(const std::string& run_dir) {
  const auto path = run_dir + "/status.json";
  if (!fs::exists(path)) return std::nullopt;
  try {
    const auto all = Json::parse(files::read(path));
    return RunStatus{.run_dir = run_dir,
                     .state = all.at("state"),
                     .host = all.at("host"),
                     .pid = all.at("pid"),
                     .birth = all.at("birth"),
                     .started_s = all.at("started_s"),
                     .ranks = all.at("ranks"),
                     .hosts = all.at("hosts"),
                     .attempt = all.at("attempt"),
                     .exit_status = all.at("exit_status"),
                     .slurm_job = all.at("slurm_job"),
                     .message = all.at("message")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

RunStatus status_of_this_process() {
  RunStatus status{.host = own_host(), .pid = ::getpid(), .birth = birth_of(::getpid())};
  status.started_s = std::time(nullptr);
  status.slurm_job = variable("SLURM_JOB_ID");
  if (const auto array = variable("SLURM_ARRAY_JOB_ID"); !array.empty())
    status.slurm_job = array + "_" + variable("SLURM_ARRAY_TASK_ID");
  return status;
}

std::optional<bool> launcher_lives(const RunStatus& status) {
  if (status.host != own_host()) return std::nullopt;
  return status.birth != 0 && birth_of(status.pid) == status.birth;
}

void add_to_list(const ListedRun& run) {
  std::error_code error;
  fs::create_directories(list_folder(), error);
  const Json line = {{"run_dir", run.run_dir}, {"slurm_job", run.slurm_job}};
  try {
    files::write_atomically(
        list_folder() / fmt::format("{:016x}.json", std::hash<std::string>()(run.run_dir)),
        line.dump() + "\n");
  } catch (const Error&) {  // a home that is read-only or full costs the list, not the run
  }
}

std::vector<ListedRun> listed_runs() {
  std::vector<std::pair<fs::file_time_type, ListedRun>> found;
  std::error_code error;
  for (fs::directory_iterator it(list_folder(), error), end; !error && it != end; it.increment(error)) {
    const auto line = Json::parse(std::ifstream(it->path()), nullptr, false);
    if (line.is_discarded() || !line.contains("run_dir")) continue;
    ListedRun run{.run_dir = line.at("run_dir"), .slurm_job = line.value("slurm_job", "")};
    std::error_code gone;
    if (!fs::exists(run.run_dir, gone) && run.slurm_job.empty()) {
      fs::remove(it->path(), gone);
      continue;
    }
    found.emplace_back(it->last_write_time(gone), std::move(run));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ListedRun> runs;
  for (auto& [time, run] : found) runs.push_back(std::move(run));
  return runs;
}

}  // namespace trireme::process
