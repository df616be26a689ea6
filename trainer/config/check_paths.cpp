#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainer/config/checks.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) || fs::is_character_file(path, ignored) ||
         fs::is_fifo(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string in(const std::string& folder, const char* file) {
  return (fs::path(folder) / file).string();
}

// For a relative path: where it was looked for, and the nearest name that does exist there.
std::string looked_for(const std::string& path) {
  std::error_code ignored;
  std::string text;
  if (fs::path(path).is_relative())
    text = fmt::format(" (looked for in {})", fs::current_path(ignored).string());
  const fs::path parent = fs::path(path).parent_path();
  std::vector<std::string> siblings;
  constexpr size_t kEnough = 1000;
  for (fs::directory_iterator entry(parent.empty() ? "." : parent, ignored), end; entry != end && !ignored;
       entry.increment(ignored)) {
    siblings.push_back(entry->path().filename().string());
    if (siblings.size() == kEnough) break;
  }
  std::sort(siblings.begin(), siblings.end());
  if (const std::string near = nearest(fs::path(path).filename().string(), siblings); !near.empty())
    text += fmt::format("; did you mean {}?", (parent / near).string());
  return text;
}

// "Qwen/Qwen2.5-0.5B-Instruct": one slash, no folder of that name.
bool looks_like_hub_name(const std::string& path) {
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' && path.front() != '.' &&
         path.back() != '/' && !exists(path.substr(0, path.find('/')));
}

bool has_weights(const std::string& folder) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end && !ignored; entry.increment(ignored))
    if (entry->path().extension() == ".safetensors") return true;
  return false;
}

class PathChecker {
 public:
  explicit PathChecker(Written& written) : w_(written), c_(written.config) {}

  void data_files(const char* key, const std::vector<std::string>& paths) {
    if (c_.data.task != "files") return;
    for (const std::string& path : paths) {
      if (is_folder(path))
        wrong(key, fmt::format("{}: {} is a folder: name the files in it", key, path));
      else if (!is_file(path))
        wrong(key,
              fmt::format("{}: there is no file {}{}", key, path.empty() ? "\"\"" : path, looked_for(path)));
    }
  }

  void model() {
    const std::string& path = c_.model.path;
    const std::string& tokenizer = c_.model.tokenizer_path;
    if (!path.empty() && folder("model.path", path)) {
      if (!is_file(in(path, "config.json")))
        wrong("model.path",
              fmt::format("model.path: {} holds no config.json: it must be the folder of a Hugging Face "
                          "checkpoint",
                          path));
      if (tokenizer.empty() && !is_file(in(path, "tokenizer.json")))
        wrong("model.path", fmt::format("model.path: {} holds no tokenizer.json: copy it there, or set "
                                        "model.tokenizer_path to the folder that has it",
                                        path));
      if (!c_.model.random_weights && !has_weights(path))
        wrong("model.path",
              fmt::format("model.path: {} holds no *.safetensors: download the weights too, or set "
                          "model.random_weights = true to draw them",
                          path));
    }
    critic();
    reward_model();
    if (!tokenizer.empty() && folder("model.tokenizer_path", tokenizer) &&
        !is_file(in(tokenizer, "tokenizer.json")))
      wrong("model.tokenizer_path",
            fmt::format("model.tokenizer_path: {} holds no tokenizer.json", tokenizer));
  }

  void reward() {
    const std::string& journal = c_.reward.scorer.replay;
    if (!journal.empty() && !is_folder(journal))
      wrong("reward.scorer.replay",
            fmt::format("reward.scorer.replay: there is no folder {}{}", journal, looked_for(journal)));
    const std::string& path = c_.reward.function.path;
    if (path.empty() || is_file(path)) return;
    wrong("reward.function.path",
          is_folder(path) ? fmt::format("reward.function.path: {} is a folder: name the Python file in it", path)
                          : fmt::format("reward.function.path: there is no file {}{}", path, looked_for(path)));
  }

  void run_folders() {
    const std::string& output = c_.run.output_dir;
    if (exists(output) && !is_folder(output))
      wrong("run.output_dir", fmt::format("run.output_dir: {} is a file, not a folder", output));
    const std::string& resume = c_.trainer.resume;
    if (resume != "auto" && resume != "never" && !is_folder(resume))
      wrong("trainer.resume",
            fmt::format("trainer.resume must be \"auto\", \"never\" or a checkpoint's folder, and there "
                        "is no folder {}{}",
                        resume.empty() ? "\"\"" : resume, looked_for(resume)));
  }

 private:
  void critic() {
    const std::string& path = c_.critic.path;
    if (path.empty() || !folder("critic.model.path", path)) return;
    if (!is_file(in(path, "config.json")) || (!c_.model.random_weights && !has_weights(path)))
      wrong("critic.model.path",
            fmt::format("critic.model.path: {} does not hold config.json and *.safetensors: it must be the "
                        "folder of a Hugging Face checkpoint, of a language model or of a classifier with "
                        "one label; empty takes the actor's",
                        path));
  }

  void reward_model() {
    const steps::RewardModelConfig& model = c_.reward_model;
    if (model.path.empty() || !folder("reward_model.path", model.path)) return;
    const std::string mistake = reward_model_mistake(model.path, model.input != "tokens");
    if (!mistake.empty()) wrong("reward_model.path", "reward_model.path: " + mistake);
  }

  bool folder(const char* key, const std::string& path) {
    if (is_folder(path)) return true;
    if (is_file(path))
      wrong(key, fmt::format("{}: {} is a file: name the folder it lies in", key, path));
    else if (looks_like_hub_name(path))
      wrong(key,
            fmt::format(
                "{0}: there is no folder {1}. If that is a name on the Hugging Face hub, download it first "
                "(`hf download {1} --local-dir models/{2}`) and set {0} to that folder",
                key, path, path.substr(path.find('/') + 1)));
    else
      wrong(key, fmt::format("{}: there is no folder {}{}; it must hold config.json and tokenizer.json", key,
                             path, looked_for(path)));
    return false;
  }

  void wrong(const char* key, std::string what) {
    if (!w_.in_doubt.count(key)) w_.mistakes.add(w_.where(key), std::move(what));
  }

  Written& w_;
  const RunConfig& c_;
};

}  // namespace

void check_paths(Written& written) {
  PathChecker checker(written);
  checker.data_files("data.train_files", written.config.data.train_files);
  checker.data_files("data.val_files", written.config.data.val_files);
  checker.model();
  checker.reward();
  checker.run_folders();
}

}  // namespace trireme::config
