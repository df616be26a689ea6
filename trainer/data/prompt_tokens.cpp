#include "trainer/data/prompt_tokens.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "trainer/data/on_all_cpus.h"
#include "trainer/data/rows.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {

std::vector<int32_t> truncated(const std::vector<int32_t>& ids, int64_t length,
                               const std::string& truncation) {
  const auto size = static_cast<int64_t>(ids.size());
  if (size <= length) return ids;
  if (truncation == "left") return {ids.end() - length, ids.end()};
  if (truncation == "right") return {ids.begin(), ids.begin() + length};
  TRIREME_CHECK(truncation == "middle", "data.truncation: '{}'", truncation);
  std::vector<int32_t> kept(ids.begin(), ids.begin() + length / 2);
  kept.insert(kept.end(), ids.end() - (length - length / 2), ids.end());
  return kept;
}

int64_t encode_prompts(std::vector<Problem>& problems, const text::Tokenizer& tokenizer,
                       const DataConfig& config) {
  on_all_cpus(problems.size(),
              [&](size_t i) { problems[i].prompt_ids = tokenizer.encode(problems[i].prompt); });
  const auto is_overlong = [&](const Problem& problem) {
    return static_cast<int64_t>(problem.prompt_ids.size()) > config.max_prompt_length;
  };
  const int64_t overlong = std::count_if(problems.begin(), problems.end(), is_overlong);
  const bool filter = config.filter_overlong_prompts;
  if (overlong == 0) return 0;
  const bool none_left = filter && static_cast<size_t>(overlong) == problems.size();
  if (none_left || (!filter && config.truncation == "error")) {
    RowMistakes mistakes;
    for (const Problem& problem : problems)
      if (is_overlong(problem))
        mistakes.add(problem.where, fmt::format("the prompt has {} tokens, data.max_prompt_length is {}",
                                                problem.prompt_ids.size(), config.max_prompt_length));
    mistakes.throw_if_any(fmt::format("{} prompts are too long; raise data.max_prompt_length{}:", overlong,
                                      none_left ? " (data.filter_overlong_prompts would leave none)"
                                                : ", or set data.filter_overlong_prompts = true to leave "
                                                  "them out or data.truncation to cut them"));
  }
  if (filter)
    std::erase_if(problems, is_overlong);
  else
    for (Problem& problem : problems)
      problem.prompt_ids = truncated(problem.prompt_ids, config.max_prompt_length, config.truncation);
  return overlong;
}

uint64_t fingerprint(const std::vector<Problem>& problems) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  // Each part with its length, so that no two lists of texts run into the same bytes.
  const auto add = [&](const void* bytes, uint64_t size) {
    XXH3_64bits_update(state.get(), &size, sizeof size);
    XXH3_64bits_update(state.get(), bytes, size);
  };
  for (const Problem& problem : problems) {
    for (const std::string* text : {&problem.data_source, &problem.prompt, &problem.answer, &problem.response,
                                    &problem.rejected, &problem.extra_info})
      add(text->data(), text->size());
    if (!problem.conversation.empty()) add(problem.conversation.data(), problem.conversation.size());
    add(problem.prompt_ids.data(), problem.prompt_ids.size() * sizeof(int32_t));
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace trireme::data
