#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "launcher/commands/commands.h"
#include "launcher/commands/examine_host.h"
#include "launcher/commands/parse.h"
#include "launcher/doctor/checks.h"
#include "runtime/base/error.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using doctor::Finding;

// Where a configuration does not say more: a model of some million parameters.
constexpr int64_t kSmallCheckpoint = 256 << 20;

cxxopts::Options doctor_options() {
  auto options = options_of(
      "doctor", "[CONFIG [key=value ...]]",
      "Looks for what would stop or slow down a run, on every host at the same time: versions, network,\n"
      "HCAs, GPUs, limits, the folder of checkpoints, the configuration's model and data. Trains nothing.\n"
      "Exit status 1 if something is wrong that would stop a run, else 0.\n");
  add_where_options(options);
  options.add_options()("json", "findings for programs")("no-network",
                                                         "do not measure how fast hosts reach each other")(
      "sysfs-root",
      "look at a recorded machine instead (`trireme topo --save`, or a folder that stands for /); may be "
      "repeated",
      cxxopts::value<std::vector<std::string>>(), "FILE");
  return options;
}

struct Subject {
  doctor::ProbeRequest request;
  int64_t checkpoint_bytes = kSmallCheckpoint;
};

std::string absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

// Weights as they lie there in two bytes a parameter; a checkpoint has these, masters and two moments in four
// each.
int64_t checkpoint_bytes(const std::string& model) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(model, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".safetensors") bytes += static_cast<int64_t>(it->file_size(error));
  return std::max(kSmallCheckpoint, 7 * bytes);
}

Subject subject_of(const std::vector<std::string>& arguments, const Where& where) {
  Subject subject;
  subject.request.trainer = where.program_folder() + "/trireme-trainer";
  subject.request.folder = absolute(".");
  if (arguments.empty()) return subject;
  const auto given = config_arguments(arguments, "doctor");
  const auto config = config::load(given.path, given.overrides, config::Paths::ignore);
  auto& read = subject.request.read;
  for (const auto& path : {config.model.path, config.model.tokenizer_path})
    if (!path.empty()) read.push_back(absolute(path));
  for (const auto* files : {&config.data.train_files, &config.data.val_files})
    if (config.data.task == "files")
      for (const auto& path : *files) read.push_back(absolute(path));
  subject.request.folder = absolute(config.run.output_dir);
  if (!config.model.path.empty()) subject.checkpoint_bytes = checkpoint_bytes(config.model.path);
  return subject;
}

std::vector<Finding> check_all(const Examined& examined, const Subject& subject,
                               const doctor::Collective& collective) {
  const auto& patients = examined.patients;
  std::vector<std::string> hosts;
  for (const auto& patient : patients) hosts.push_back(patient.host);
  std::vector<Finding> all;
  for (auto found :
       {doctor::check_versions(patients), doctor::check_settings(patients),
        doctor::check_links(hosts, examined.links), doctor::check_collective(hosts, collective),
        doctor::check_ports(patients), doctor::check_pcie(patients), doctor::check_gpus(patients),
        doctor::check_devices(patients), doctor::check_limits(patients),
        doctor::check_shared_memory(patients), doctor::check_files(patients),
        doctor::check_folder(patients, subject.request.folder, subject.checkpoint_bytes,
                             subject.request.write_bytes),
        doctor::check_clocks(patients, examined.clock_skew_ns), doctor::check_kernel_logs(patients)})
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  return sorted(std::move(all));
}

Examined recorded(const std::vector<std::string>& roots) {
  Examined examined;
  for (const auto& root : roots) {
    topology::SysFiles files(root);
    doctor::read_for_checks(files);
    auto name = topology::discover(files).host;
    examined.patients.push_back(doctor::Patient::from(name.empty() ? root : name, std::move(files)));
    examined.clock_skew_ns.push_back(0);
  }
  return examined;
}

// What is found already would stop a collective: it is not worth waiting for.
bool may_talk(const Examined& examined) {
  const bool same = doctor::check_versions(examined.patients).empty();
  return same && std::all_of(examined.links.begin(), examined.links.end(),
                             [](const doctor::Link& link) { return link.error.empty(); });
}

// What was looked at, where nothing was wrong with it.
std::string summary(const Examined& examined, const std::vector<Finding>& findings,
                    const doctor::Collective& collective) {
  std::string text =
      fmt::format("{} {}, ", examined.patients.size(), examined.patients.size() == 1 ? "host" : "hosts");
  const auto errors = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == doctor::Severity::error;
  });
  text += findings.empty() ? "nothing wrong"
                           : fmt::format("{} wrong, {} to look at", errors,
                                         static_cast<std::ptrdiff_t>(findings.size()) - errors);
  double slowest = 0.0;
  for (const auto& link : examined.links)
    if (link.error.empty() && (slowest == 0.0 || link.slower() < slowest)) slowest = link.slower();
  if (slowest > 0.0)
    text += fmt::format("; {} {} over TCP, {} at least", examined.links.size(),
                        examined.links.size() == 1 ? "pair" : "pairs", doctor::rate_text(slowest));
  if (collective.bytes_a_second > 0)
    text += fmt::format("; an all-reduce of all {}", doctor::rate_text(collective.bytes_a_second));
  return text;
}

}  // namespace

int doctor(const Arguments& arguments) {
  auto options = doctor_options();
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  Subject subject;
  Examined examined;
  doctor::Collective collective;
  if (parsed->count("sysfs-root")) {
    examined = recorded((*parsed)["sysfs-root"].as<std::vector<std::string>>());
  } else {
    const auto where = where_to_run(*parsed);
    subject = subject_of(positional(*parsed), where);
    const bool with_network = parsed->count("no-network") == 0;
    examined = examine(where, subject.request, with_network);
    if (with_network && where.hosts.size() > 1 && may_talk(examined)) collective = try_collective(where);
  }
  const auto findings = check_all(examined, subject, collective);
  if (parsed->count("json")) {
    std::vector<std::string> hosts;
    for (const auto& patient : examined.patients) hosts.push_back(patient.host);
    fmt::print("{}", doctor::to_json(findings, hosts));
  } else {
    fmt::print("{}{}{}\n", doctor::to_text(findings), findings.empty() ? "" : "\n",
               summary(examined, findings, collective));
  }
  const bool stops = !findings.empty() && findings.front().severity == doctor::Severity::error;
  return static_cast<int>(stops ? ExitStatus::failed : ExitStatus::ok);
}

}  // namespace trireme::commands
