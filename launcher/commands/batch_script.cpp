#include "launcher/commands/batch_script.h"

#include <sstream>

#include "launcher/commands/shell_line.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

std::string directives(const BatchJob& job) {
  std::string text =
      fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n", job.name, job.nodes + job.spare);
  text += job.cpus_per_node
              ? fmt::format("#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task={}\n", job.cpus_per_node)
              : "#SBATCH --exclusive\n";
  if (job.gpus_per_node) text += fmt::format("#SBATCH --gpus-per-node={}\n", job.gpus_per_node);
  text += fmt::format("#SBATCH --time={}\n", job.time);
  text += fmt::format(
      "# So long before the limit this script gets SIGUSR1, and the run writes a checkpoint.\n"
      "#SBATCH --signal=B:USR1@{}\n"
      "# The job goes back into the queue when it has written one, or when a node fails.\n"
      "#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n",
      job.warn_seconds);
  if (job.spare)
    text += "# A node that fails does not end the job: a spare one takes its place.\n#SBATCH --no-kill\n";
  if (!job.sweep_values.empty()) text += fmt::format("#SBATCH --array=0-{}\n", job.sweep_values.size() - 1);
  text += fmt::format("#SBATCH --output={}-{}.out\n", job.name, job.sweep_values.empty() ? "%j" : "%A_%a");
  for (const auto& line : job.options) text += "#SBATCH " + line + "\n";
  return text;
}

std::string run_folder(const BatchJob& job) {
  if (!job.run_dir.empty()) return shell_word(job.run_dir);
  const auto stem = shell_word(job.runs_folder + "/" + job.name);
  // Of an array's tasks SLURM_JOB_ID changes with a requeue; these do not.
  return job.sweep_values.empty() ? stem + "-$SLURM_JOB_ID"
                                  : stem + "-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID";
}

std::string run_command(const BatchJob& job) {
  std::vector<std::string> words{job.program, "run", job.config};
  words.insert(words.end(), job.overrides.begin(), job.overrides.end());
  std::string line = shell_line(words);
  if (!job.sweep_values.empty())
    line += " " + shell_word(job.sweep_key) + "=\"${values[$SLURM_ARRAY_TASK_ID]}\"";
  line +=
      fmt::format(" --nnodes {} --max-restarts {} --launcher {}", job.nodes, job.max_restarts, job.launcher);
  if (job.ranks_per_node) line += fmt::format(" --nproc-per-node {}", job.ranks_per_node);
  if (!job.container.empty()) {
    line += " --container-image " + shell_word(job.container);
    if (!job.container_mounts.empty()) line += " --container-mounts " + shell_word(job.container_mounts);
  }
  return line + " --run-dir \"$run\"";
}

}  // namespace

void read_sweep(const std::string& text, BatchJob& job) {
  if (text.empty()) return;
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ErrorCode::invalid_config, "--sweep '{}': a key and its values, actor.optim.lr=1e-4,3e-4", text);
  job.sweep_key = text.substr(0, equals);
  std::istringstream values(text.substr(equals + 1));
  for (std::string value; std::getline(values, value, ',');)
    if (!value.empty()) job.sweep_values.push_back(value);
  if (job.sweep_values.empty()) fail(ErrorCode::invalid_config, "--sweep '{}': no values", text);
}

std::string batch_script(const BatchJob& job) {
  std::string text =
      "#!/usr/bin/env bash\n# Written by `trireme slurm`; change it as you like.\n" + directives(job);
  // Slurm looks at the time every 30 s and warns as early as it has to, perhaps before anything runs.
  text +=
      "\nset -u\n"
      "launcher= warned=\n"
      "trap 'warned=1; [ -z \"$launcher\" ] || kill -USR1 $launcher 2>/dev/null' USR1\n";
  text += "cd " + shell_word(job.folder) + "\n";
  for (const auto& line : job.setup) text += line + "\n";
  if (!job.sweep_values.empty()) text += "values=(" + shell_line(job.sweep_values) + ")\n";
  text += "# The same folder after every requeue: the run goes on from its last checkpoint.\nrun=" +
          run_folder(job) + "\nrm -f \"$run/stop\"\n\n";
  text += fmt::format(
      "{} &\n"
      "launcher=$!\n"
      "trap 'kill -TERM $launcher 2>/dev/null' TERM\n"
      "# A signal ends `wait`, not the run.\n"
      "while :; do\n"
      "  # Again: what comes between its fork and its exec is lost.\n"
      "  [ -z \"$warned\" ] || {{ sleep 1; kill -USR1 $launcher 2>/dev/null; }}\n"
      "  wait $launcher\n"
      "  status=$?\n"
      "  kill -0 $launcher 2>/dev/null || break\n"
      "done\n\n",
      run_command(job));
  text += fmt::format(
      "# 75: a checkpoint was written. 4: a rank or a node was lost, and no spare one was left. 129 and "
      "more: the\n"
      "# launcher itself was killed. A job that was cancelled is not RUNNING any more,\n"
      "# and one that `trireme stop` has ended has left a file.\n"
      "job=${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}}}\n"
      "job=${{job:-$SLURM_JOB_ID}}\n"
      "if [ $status = 75 ] || [ $status = 4 ] || [ $status -gt 128 ] && [ $status != 130 ]; then\n"
      "  if [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {} ] && [ ! -e \"$run/stop\" ] &&\n"
      "    [ \"$(squeue -h -j \"$job\" -o %T)\" = RUNNING ]; "
      "then\n"
      "    echo \"trireme: job $job goes back into the queue (status $status)\"\n"
      "    scontrol requeue \"$job\" && sleep 60  # until Slurm ends this script\n"
      "  fi\n"
      "fi\n"
      "exit $status\n",
      job.max_requeues);
  return text;
}

}  // namespace trireme::commands
