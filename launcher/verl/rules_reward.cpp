// What judges: a reward model, code, or a rule.
#include <fmt/format.h>

#include <string>

#include "launcher/verl/rules.h"

namespace trireme::verl {
namespace {

// Both places in which verl takes them.
constexpr const char* kRewardFunctions[] = {"reward.custom_reward_function.", "custom_reward_function."};
constexpr const char* kRewardModels[] = {"reward.reward_model.", "reward_model."};

// The prefix of the one that is switched on; empty: none is.
std::string reward_model_of(const Draft& draft) {
  for (const std::string prefix : kRewardModels)
    if (draft.flag(prefix + "enable", false)) return prefix;
  return "";
}

bool has_function(const Draft& draft) {
  for (const std::string prefix : kRewardFunctions)
    if (draft.given(prefix + "path")) return true;
  return false;
}

}  // namespace

void reward_model(Draft& draft) {
  const std::string model = reward_model_of(draft), tokenizer = "reward_model.model.input_tokenizer";
  for (const std::string prefix : kRewardModels) {
    if (prefix == model)
      draft.mapped(prefix + "enable", "reward_model.path names it");
    else
      draft.needless(prefix + "enable", "reward_model.path would name one");
  }
  if (model.empty()) return;
  // verl's model reads what its own chat template writes, unless it is told that both templates are one.
  const auto* given = draft.settings().find(tokenizer);
  const bool same = given && given->value.is_null();
  if (given && same) draft.map(tokenizer, "reward_model.input", scalar("tokens"), "the policy's tokens");
  if (given && !same) draft.map(tokenizer, "reward_model.input", scalar("text"), "the model's own");
  if (!given) draft.set("reward_model.input", scalar("text"), "");
  if (has_function(draft))
    draft.note(fmt::format(
        "with {}enable verl asks the reward model, and the function only where it calls the model itself; here "
        "what both say is added, by reward.weight and reward_model.weight: set reward.weight = 0 to have the "
        "model alone",
        model));
}

// verl asks a reward model alone where there is one; else it looks at each row's data_source, and so does
// by_source; files of GSM8K alone need no more than its rule.
void reward_rule(Draft& draft) {
  if (has_function(draft)) return;
  if (const std::string model = reward_model_of(draft); !model.empty()) {
    draft.set("reward.name", scalar("none"), model + "enable=True");
    return;
  }
  const Setting* files = draft.given("data.train_files");
  if (!files) {
    draft.note(
        "data.train_files is not set: verl reads ~/data/rlhf/gsm8k/train.parquet then; name your files");
    return;
  }
  const auto about_gsm8k = [](const std::string& path) { return path.find("gsm8k") != std::string::npos; };
  const auto& items = files->value.items;
  const bool all = files->value.kind == Value::Kind::list
                       ? std::all_of(items.begin(), items.end(), about_gsm8k)
                       : about_gsm8k(files->value.text);
  draft.set("reward.name", scalar(all ? "gsm8k" : "by_source"), all ? shown(*files) : "");
}

}  // namespace trireme::verl
