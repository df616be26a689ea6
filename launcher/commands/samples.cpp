// `trireme samples`: what a run's evaluations asked, what the model answered, and how that was judged.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/commands/commands.h"
#include "launcher/commands/find_run.h"
#include "launcher/commands/parse.h"
#include "runtime/base/error.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The evaluations' files by their steps.
std::map<int64_t, std::string> files_of(const std::string& run_dir) {
  std::map<int64_t, std::string> files;
  std::error_code ignored;
  for (fs::directory_iterator entry(fs::path(run_dir) / "samples", ignored), end; entry != end && !ignored;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kStart = "step_", kEnd = ".jsonl";
    if (!name.starts_with(kStart) || !name.ends_with(kEnd)) continue;
    const std::string digits = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
    if (!digits.empty() && digits.size() < 18 &&
        std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
      files[std::stoll(digits)] = entry->path().string();
  }
  return files;
}

std::vector<Json> read_samples(const std::string& path, const std::string& grep) {
  std::ifstream in(path);
  if (!in) fail(ErrorCode::io, "{} cannot be read", path);
  std::vector<Json> samples;
  for (std::string line; std::getline(in, line);) {
    Json sample = Json::parse(line, nullptr, false);
    if (!sample.is_object()) continue;  // the last line of a run that was killed while it wrote
    const auto has = [&](const char* key) {
      return sample.contains(key) && sample[key].is_string() &&
             sample[key].get_ref<const std::string&>().find(grep) != std::string::npos;
    };
    if (grep.empty() || has("prompt") || has("response") || has("ground_truth"))
      samples.push_back(std::move(sample));
  }
  return samples;
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) {
    out.push_back(c);
    if (c == '\n') out += "  ";
  }
  return out;
}

std::string shown(const Json& sample) {
  std::string components;
  if (sample.contains("components"))
    for (const auto& [name, value] : sample["components"].items())
      if (value.is_number()) components += fmt::format(", {} {}", name, number(value.get<double>()));
  const auto text = [&](const char* key) { return sample.value(key, std::string()); };
  std::string out = fmt::format(
      "step {}, problem {} of {}, sample {}: score {}, {}{}\n", sample.value("step", int64_t{0}),
      sample.value("index", int64_t{0}), text("data_source"), sample.value("sample", int64_t{0}),
      number(sample.value("score", 0.0)), sample.value("correct", false) ? "right" : "wrong", components);
  out += "prompt\n" + indented(text("prompt")) + "\nresponse\n" + indented(text("response")) +
         "\nground truth\n" + indented(text("ground_truth")) + "\n";
  return out;
}

}  // namespace

int samples(const Arguments& arguments) {
  auto options =
      options_of("samples", "RUN",
                 "Shows responses of a run's newest evaluation, with their prompts, ground truths and "
                 "scores.\n");
  options.add_options()("step", "of the evaluation after this step instead", cxxopts::value<int64_t>(),
                        "STEP")("worst", "the lowest scores first")("best", "the highest scores first")(
      "grep", "only those that hold this text", cxxopts::value<std::string>()->default_value(""), "TEXT")(
      "n,count", "how many; 0: all", cxxopts::value<int64_t>()->default_value("5"), "N")(
      "json", "as they are kept, a JSON object a line");
  const auto parsed = parse(options, arguments);
  if (!parsed) return 0;
  const auto run = only_run(*parsed, "samples");
  const auto files = files_of(run.run_dir);
  if (files.empty())
    fail(ErrorCode::invalid_config,
         "{} has no samples yet: they are written by each evaluation of answers, if "
         "trainer.log_val_generations is not "
         "0",
         run.run_dir);
  if (parsed->count("worst") && parsed->count("best"))
    fail(ErrorCode::invalid_config, "--worst and --best: one of them");
  auto chosen = std::prev(files.end());
  if (parsed->count("step")) {
    chosen = files.find((*parsed)["step"].as<int64_t>());
    if (chosen == files.end()) {
      std::string steps;
      for (const auto& [step, path] : files) steps += (steps.empty() ? "" : ", ") + std::to_string(step);
      fail(ErrorCode::invalid_config, "{} has no samples of step {}; there are those of {}", run.run_dir,
           (*parsed)["step"].as<int64_t>(), steps);
    }
  }
  auto found = read_samples(chosen->second, (*parsed)["grep"].as<std::string>());
  const auto score = [](const Json& sample) { return sample.value("score", 0.0); };
  if (parsed->count("worst")) std::ranges::stable_sort(found, std::less{}, score);
  if (parsed->count("best")) std::ranges::stable_sort(found, std::greater{}, score);
  const auto count = (*parsed)["count"].as<int64_t>();
  const size_t most = count > 0 ? std::min(found.size(), static_cast<size_t>(count)) : found.size();
  const bool as_json = parsed->count("json") > 0;
  for (size_t i = 0; i < most; ++i)
    fmt::print("{}{}",
               as_json ? found[i].dump(-1, ' ', false, Json::error_handler_t::replace) : shown(found[i]),
               i + 1 < most || as_json ? "\n" : "");
  if (!as_json)
    fmt::print("\n{} of {} samples of step {}, from {}\n", most, found.size(), chosen->first, chosen->second);
  return 0;
}

}  // namespace trireme::commands
