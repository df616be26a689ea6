// The keys of preference data and of [algorithm.dpo].
#include <iterator>

#include "trainer/config/schema_rules.h"

namespace trireme::config {

void add_preference_columns(Keys& k) {
  k.push_back(
      {"data.chosen_key", AT(data.chosen_key), any(), "",
       "algorithm.name = \"dpo\": the column with the better answer, as text or as messages. Rows without "
       "a column data.prompt_key begin with the prompt in both answers."});
  k.push_back({"data.rejected_key", AT(data.rejected_key), any(), "",
               "algorithm.name = \"dpo\": the column with the worse answer."});
}

void add_preferences(Keys& k) {
  std::vector<std::string> types(std::begin(losses::kPreferenceLosses), std::end(losses::kPreferenceLosses));
  k.push_back({"algorithm.dpo.loss_type", AT(algorithm.dpo.loss_type), one_of(std::move(types)), "",
               "What a pair costs, by TRL's names: sigmoid is DPO (with label_smoothing above 0 conservative "
               "DPO), ipo IPO, sigmoid_norm DPO by mean log-probability of a token (without a reference "
               "SimPO without its margin), hinge SLiC; robust and exo_pair take label_smoothing too."});
  k.push_back({"algorithm.dpo.beta", AT(algorithm.dpo.beta), above(0), "",
               "How strongly the policy is held to the reference, and the unit of rewards and margins; of "
               "ipo its tau. 0.1 is usual, up to 2 for sigmoid_norm."});
  k.push_back({"algorithm.dpo.label_smoothing", AT(algorithm.dpo.label_smoothing), from_below(0, 0.5), "",
               "How probable it is that a pair's answers stand the wrong way round (sigmoid, robust, "
               "exo_pair)."});
  k.push_back({"algorithm.dpo.reference_free", AT(algorithm.dpo.reference_free), any(), "",
               "Compares log-probabilities themselves, not their ratios to a reference; saves its memory and "
               "its forward."});
  k.push_back({"algorithm.dpo.sft_coef", AT(algorithm.dpo.sft_coef), at_least(0), "",
               "Weight of the chosen answers' mean negative log-probability of a token, added to the loss: "
               "keeps them from becoming less likely together with the rejected ones. 0 adds nothing."});
}

}  // namespace trireme::config
