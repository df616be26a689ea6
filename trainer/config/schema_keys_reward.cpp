// [reward]: rules, and code of the user's own.
#include "trainer/config/schema_rules.h"

namespace trireme::config {
namespace {

void add_rule(Keys& k) {
  k.push_back(
      {"reward.name", AT(reward.name), one_of(rewards::rule_names()), "",
       "The rule that judges a response by its answer: gsm8k compares the number after ####, "
       "gsm8k_flexible the last number, math an expression found anywhere, math_boxed in \\boxed, "
       "math_answer behind \"Answer:\", exact_match the whole text, regex what reward.pattern finds, qa "
       "the words in <answer>, arithmetic the number after the equals sign; code runs a program "
       "against tests ([reward.code]); by_source takes the rule that verl has for each row's data_source, or "
       "that of reward.sources; none judges nothing, where a reward model does it all. Not asked where reward.function.path, reward.command or reward.http.url is set."});
  k.push_back(
      {"reward.weight", AT(reward.weight), any(), "",
       "Weight of the answer in the sum, where [reward.format], [reward.repetition], [reward.cosine] or "
       "[reward_model] have weights too."});
  k.push_back({"reward.pattern", AT(reward.pattern), any(), "",
               "reward.name = \"regex\": a regular expression (Perl's). The first group of its last match in "
               "the response is the answer; a dot matches line ends too."});
  k.push_back({"reward.sources", AT(reward.sources), any(), "",
               "reward.name = \"by_source\": rules of more sources, or other ones, each SOURCE=RULE; a * at "
               "SOURCE's end stands for any text."});
  k.push_back({"reward.correct", AT(reward.correct), any(), "",
               "Reward of a correct answer. A response that a function of your own judges counts as correct "
               "from this score on, unless the function returns acc."});
  k.push_back({"reward.format_only", AT(reward.format_only), any(), "",
               "Reward of a wrong answer in the right form; a little (0.1) helps a model that does not yet "
               "know the form."});
  k.push_back({"reward.wrong", AT(reward.wrong), any(), "", "Reward of everything else."});
}

void add_code(Keys& k) {
  k.push_back({"reward.command", AT(reward.command), any(), "",
               "A program that judges, with its arguments: it reads a line of JSON for each response and "
               "answers with one, {\"id\": ..., \"score\": ...}."});
  k.push_back({"reward.function.path", AT(reward.function.path), any(), "",
               "The Python file. Its function may be async, and returns a number, or a dict with score and "
               "more numbers, which are logged as reward/NAME/mean.",
               "reward.custom_reward_function.path"});
  k.push_back({"reward.function.name", AT(reward.function.name), any(), "", "The function in it.",
               "reward.custom_reward_function.name"});
  k.push_back({"reward.function.kwargs", AT(reward.function.kwargs), any(), "",
               "More arguments for it, as a JSON object.", "reward.custom_reward_function.reward_kwargs"});
  k.push_back({"reward.function.python", AT(reward.function.python), any(), "",
               "The interpreter that runs it: that of the virtual environment that has what it imports."});
}

void add_http(Keys& k) {
  k.push_back({"reward.http.url", AT(reward.http.url), any(), "",
               "The service's address, http:// or https://. Each response is a POST of the JSON that "
               "reward.command would read, answered by {\"score\": ...} and perhaps more numbers."});
  k.push_back({"reward.http.connections", AT(reward.http.connections), between(1, 4096), "requests",
               "Requests that each rank which judges has under way at once."});
  k.push_back({"reward.http.max_per_second", AT(reward.http.max_per_second), at_least(0), "requests",
               "Requests that each rank which judges begins in a second at most; 0: no limit."});
  k.push_back({"reward.http.timeout_s", AT(reward.http.timeout_s), above(0), "s",
               "Time limit of one request, from the connection to the end of the answer."});
  k.push_back({"reward.http.retries", AT(reward.http.retries), between(0, 1000), "",
               "How often a response is sent again where the service could not be reached, gave no answer in "
               "time, or answered 408, 425, 429 or 5xx. After that reward.scorer.on_failure says what becomes "
               "of it; any other status is a failure at once."});
  k.push_back({"reward.http.backoff_s", AT(reward.http.backoff_s), at_least(0), "s",
               "The pause before a response is sent again; it doubles each time, less up to a half so that not "
               "all come together. A longer Retry-After of the service holds."});
  k.push_back({"reward.http.max_backoff_s", AT(reward.http.max_backoff_s), at_least(0), "s",
               "The longest pause, whatever the service asks for."});
  k.push_back({"reward.http.headers", AT(reward.http.headers), any(), "",
               "More headers of a request, as \"Authorization: Bearer ${TOKEN}\": ${NAME} is an environment "
               "variable of the ranks."});
}

void add_scorer(Keys& k) {
  k.push_back({"reward.scorer.num_workers", AT(reward.scorer.num_workers), between(0, 4096), "processes",
               "Of each rank that generates; 0: as many as it has cores, 8 at most.", "reward.num_workers"});
  k.push_back({"reward.scorer.max_concurrent", AT(reward.scorer.max_concurrent), between(1, 1 << 20), "calls",
               "Calls that one process has under way at once, of an async function."});
  k.push_back({"reward.scorer.timeout_s", AT(reward.scorer.timeout_s), above(0), "s",
               "Time limit of one call. A process that goes beyond it is ended, and another one started."});
  k.push_back({"reward.scorer.start_timeout_s", AT(reward.scorer.start_timeout_s), above(0), "s",
               "Time that a process may take until it has imported the function."});
  k.push_back({"reward.scorer.retries", AT(reward.scorer.retries), between(0, 1000), "",
               "How often a response is handed out again whose call raised, took too long or ended its "
               "process."});
  k.push_back({"reward.scorer.on_failure", AT(reward.scorer.on_failure), one_of({"stop", "default"}), "",
               "What becomes of a response that could not be judged after all: stop ends the run with the "
               "reason, default gives it reward.scorer.default_score."});
  k.push_back({"reward.scorer.default_score", AT(reward.scorer.default_score), any(), "reward",
               "See reward.scorer.on_failure."});
  k.push_back({"reward.scorer.memory_limit_mb", AT(reward.scorer.memory_limit_mb), between(0, 1 << 24), "MiB",
               "Data that one process may allocate; one that asks for more is started anew. 0: no limit."});
  k.push_back({"reward.scorer.replay", AT(reward.scorer.replay), any(), "",
               "The journal of rewards (RUN/journal/rewards) that is heard before the code is asked; left "
               "empty, this run's own: so that a step that is done again after a failure gets the same "
               "scores."});
}

void add_programs(Keys& k) {
  k.push_back({"reward.code.python", AT(reward.code.python), any(), "",
               "The interpreter that runs the programs: what is installed in it, they may import."});
  k.push_back({"reward.code.timeout_s", AT(reward.code.timeout_s), above(0), "s",
               "Time that a program may take for one test."});
  k.push_back({"reward.code.memory_limit_mb", AT(reward.code.memory_limit_mb), between(64, 1 << 24), "MiB",
               "Memory that a program may have.", "reward.sandbox_fusion.memory_limit_mb"});
  k.push_back({"reward.code.max_concurrent", AT(reward.code.max_concurrent), between(0, 4096), "programs",
               "Programs that each rank which judges runs at once; 0: as many as it has cores, 8 at most.",
               "reward.sandbox_fusion.max_concurrent"});
  k.push_back(
      {"reward.code.scoring", AT(reward.code.scoring), one_of({"all", "fraction"}), "",
       "all gives reward.correct for a program that passes all tests, and stops at the first that fails; "
       "fraction gives a share of it for the share of the tests that are passed."});
  k.push_back({"reward.code.partial_tests", AT(reward.code.partial_tests), at_least(1), "tests",
               "scoring = \"fraction\": so many tests are run whatever becomes of them, and the others up to "
               "the first failure."});
}

void add_shaping(Keys& k) {
  k.push_back(
      {"reward.format.weight", AT(reward.format.weight), any(), "",
       "Weight of the form: its component is 1 for a response of this form, else 0. 0 leaves it out."});
  k.push_back({"reward.format.pattern", AT(reward.format.pattern), any(), "",
               "A regular expression (Perl's) that must match the whole response; empty: any will do."});
  k.push_back(
      {"reward.format.tags", AT(reward.format.tags), any(), "",
       "Elements that the response must consist of, in this order: [\"think\", \"answer\"] is "
       "<think>...</think> <answer>...</answer>. The first one's opening tag may stand in the prompt."});
  k.push_back(
      {"reward.repetition.weight", AT(reward.repetition.weight), any(), "",
       "Weight of repetitions: their component is minus the share of n-grams that occurred before, from 0 "
       "to nearly -1. 0 leaves it out."});
  k.push_back({"reward.repetition.ngram_size", AT(reward.repetition.ngram_size), between(1, 1000), "words",
               "Words that count as one repetition."});
  k.push_back({"reward.cosine.weight", AT(reward.cosine.weight), any(), "",
               "Weight of the length: its component goes from the value of the shortest response to that of "
               "the longest "
               "along half a cosine. 0 leaves it out. algorithm.overlong_buffer is DAPO's penalty instead."});
  k.push_back({"reward.cosine.correct_short", AT(reward.cosine.correct_short), any(), "reward",
               "Value of the shortest right response."});
  k.push_back({"reward.cosine.correct_long", AT(reward.cosine.correct_long), any(), "reward",
               "Value of a right response of reward.cosine.max_tokens."});
  k.push_back(
      {"reward.cosine.wrong_short", AT(reward.cosine.wrong_short), any(), "reward",
       "Value of the shortest wrong response: below the next, it makes the model think longer before it "
       "fails."});
  k.push_back({"reward.cosine.wrong_long", AT(reward.cosine.wrong_long), any(), "reward",
               "Value of a wrong response of reward.cosine.max_tokens."});
  k.push_back({"reward.cosine.max_tokens", AT(reward.cosine.max_tokens), at_least(0), "tokens",
               "Length of the longest response; 0: data.max_response_length."});
}

void add_reward_model(Keys& k) {
  k.push_back({"reward_model.path", AT(reward_model.path), any(), "",
               "Folder of a Hugging Face checkpoint of a classifier with one label "
               "(Qwen2ForSequenceClassification, Qwen3..., Llama...), computed in model.dtype. Empty: there is "
               "no reward model.",
               "reward.reward_model.model_path, reward_model.model.path"});
  k.push_back({"reward_model.weight", AT(reward_model.weight), any(), "",
               "Weight of its number in the reward, beside those of reward.weight and of the other "
               "components. To have it alone, set reward.name = \"none\"."});
  k.push_back({"reward_model.input", AT(reward_model.input), one_of({"auto", "tokens", "text"}), "",
               "What it reads. tokens: the prompt's and the response's ids as they are. text: the "
               "conversation and the response, written by its own chat template and cut into tokens by its "
               "own tokenizer. auto: tokens where its tokenizer means the same by every id of the policy's, "
               "else text.",
               "reward_model.model.input_tokenizer"});
  k.push_back({"reward_model.max_token_len_per_rank", AT(reward_model.max_token_len_per_rank),
               between(1, 1 << 28), "tokens",
               "Tokens of one forward pass of the reward model on one rank. A longer sequence is a pass of "
               "its own.",
               "reward_model.forward_max_token_len_per_gpu"});
}

}  // namespace

void add_reward(Keys& k) {
  add_rule(k);
  add_code(k);
  add_programs(k);
  add_shaping(k);
  add_http(k);
  add_scorer(k);
  add_reward_model(k);
}

}  // namespace trireme::config
