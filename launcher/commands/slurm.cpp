#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "launcher/commands/batch_script.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/make_plan.h"
#include "launcher/commands/parse.h"
#include "launcher/commands/shell_line.h"
#include "launcher/commands/trainer_program.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/config/load.h"

namespace trireme::commands {
namespace {

cxxopts::Options slurm_options() {
  auto options = options_of(
      "slurm", "CONFIG [key=value ...]",
      "Writes a batch script for Slurm that runs CONFIG, is warned before its time is up, writes a\n"
      "checkpoint then, and goes on when it is its turn again. Prints it, unless --output or --submit.\n");
  options.add_options()("nodes", "nodes of the job", cxxopts::value<int>()->default_value("1"), "NODES")(
      "spare", "nodes more, one of which takes the place of a node that is lost",
      cxxopts::value<int>()->default_value("0"), "NODES")(
      "nproc-per-node", "ranks on each node (default: its GPUs, else 1)", cxxopts::value<int>(), "RANKS")(
      "gpus-per-node", "GPUs to ask for on each node", cxxopts::value<int>()->default_value("0"), "GPUS")(
      "cpus-per-node", "CPUs to ask for on each node (default: all, by --exclusive)",
      cxxopts::value<int>()->default_value("0"),
      "CPUS")("time", "limit, as Slurm writes it", cxxopts::value<std::string>()->default_value("24:00:00"),
              "TIME")("warn", "seconds before the limit at which the checkpoint is asked for",
                      cxxopts::value<int>()->default_value("300"), "SECONDS")(
      "job-name", "(default: the configuration's)", cxxopts::value<std::string>()->default_value(""), "NAME")(
      "run-dir", "the run's folder, seen by all nodes (default: run.output_dir/NAME-JOBID)",
      cxxopts::value<std::string>()->default_value(""),
      "DIR")("sbatch", "one more line of options, \"--account=x --partition=y\"; may be repeated",
             cxxopts::value<std::vector<std::string>>(),
             "OPTIONS")("sweep", "a job array with one run for each value, \"actor.optim.lr=1e-4,3e-4\"",
                        cxxopts::value<std::string>()->default_value(""),
                        "KEY=VALUES")("max-requeues", "how often the job may go back into the queue",
                                      cxxopts::value<int>()->default_value("20"), "TIMES")(
      "max-restarts", "how often a run that failed is started again within the job",
      cxxopts::value<int>()->default_value("3"),
      "TIMES")("launcher", "auto, mpirun or srun", cxxopts::value<std::string>()->default_value("auto"),
               "NAME")("container", "an image for pyxis and enroot, in which the ranks run",
                       cxxopts::value<std::string>()->default_value(""),
                       "IMAGE")("container-mounts", "FROM:TO,... that the container sees",
                                cxxopts::value<std::string>()->default_value(""), "DIRS")(
      "setup", "a shell line before the run, \"module load openmpi\"; may be repeated",
      cxxopts::value<std::vector<std::string>>(),
      "LINE")("o,output", "write the script to a file", cxxopts::value<std::string>()->default_value(""),
              "FILE")("submit", "give it to sbatch");
  return options;
}

int positive(const cxxopts::ParseResult& parsed, const char* name, int least) {
  const int value = parsed[name].as<int>();
  if (value < least) fail(ErrorCode::invalid_config, "--{} {}: at least {}", name, value, least);
  return value;
}

BatchJob job_from(const cxxopts::ParseResult& parsed, const ConfigArguments& given,
                  const config::RunConfig& config) {
  namespace fs = std::filesystem;
  BatchJob job;
  job.program = program_folder() + "/trireme";
  job.config = fs::absolute(given.path).lexically_normal().string();
  job.overrides = given.overrides;
  job.folder = fs::current_path().string();
  job.nodes = positive(parsed, "nodes", 1);
  job.spare = positive(parsed, "spare", 0);
  job.ranks_per_node = parsed.count("nproc-per-node") ? positive(parsed, "nproc-per-node", 1) : 0;
  job.gpus_per_node = positive(parsed, "gpus-per-node", 0);
  job.cpus_per_node = positive(parsed, "cpus-per-node", 0);
  job.time = parsed["time"].as<std::string>();
  job.warn_seconds = positive(parsed, "warn", 10);
  job.name = parsed["job-name"].as<std::string>();
  if (job.name.empty())
    job.name = config.run.name.empty() ? fs::path(given.path).stem().string() : config.run.name;
  job.run_dir = parsed["run-dir"].as<std::string>();
  job.runs_folder = fs::absolute(config.run.output_dir).lexically_normal().string();
  if (parsed.count("sbatch")) job.options = parsed["sbatch"].as<std::vector<std::string>>();
  if (parsed.count("setup")) job.setup = parsed["setup"].as<std::vector<std::string>>();
  job.max_requeues = positive(parsed, "max-requeues", 0);
  job.max_restarts = positive(parsed, "max-restarts", 0);
  job.launcher = parsed["launcher"].as<std::string>();
  job.container = parsed["container"].as<std::string>();
  job.container_mounts = parsed["container-mounts"].as<std::string>();
  read_sweep(parsed["sweep"].as<std::string>(), job);
  if (!job.sweep_values.empty() && !job.run_dir.empty())
    fail(ErrorCode::invalid_config, "--run-dir: the runs of a sweep have a folder each");
  return job;
}

int submit(const std::string& path) {
  return run_and_wait({"sbatch", path});
}

}  // namespace

int slurm(const Arguments& arguments) {
  auto options = slurm_options();
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto given = config_arguments(positional(*parsed), "slurm");
  const auto config = config::load(given.path, given.overrides);  // mistakes now, not after hours in a queue
  const auto job = job_from(*parsed, given, config);
  for (const auto& value : job.sweep_values) {
    auto overrides = given.overrides;
    overrides.push_back(job.sweep_key + "=" + value);
    config::load(given.path, overrides);
  }
  const auto script = batch_script(job);
  auto path = (*parsed)["output"].as<std::string>();
  const bool submits = parsed->count("submit") > 0;
  if (path.empty() && submits) path = job.name + ".sbatch";
  if (path.empty()) {
    fmt::print("{}", script);
    return 0;
  }
  files::write_atomically(path, script);
  ::chmod(path.c_str(), 0755);
  if (submits) return submit(path);
  fmt::print("{}\n", path);
  return 0;
}

}  // namespace trireme::commands
