#include "trainer/data/learned_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/chat/assistant_turns.h"
#include "trainer/data/on_all_cpus.h"
#include "trainer/data/rows.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

std::vector<MaskedTokens> turns_of(const Problem& problem, const text::Tokenizer& tokenizer,
                                   const chat::ChatTemplate& chat_template) {
  const Row json = Row::parse(problem.conversation);
  chat::Conversation conversation;
  conversation.messages = json.at("messages");
  conversation.tools = json.value("tools", Row());
  conversation.variables = json.at("variables");
  std::vector<MaskedTokens> texts;
  for (const chat::TurnsText& turns :
       chat::assistant_turns(chat_template, conversation, json.at("first").get<size_t>()))
    texts.push_back(mask_tokens(turns, tokenizer));
  return texts;
}

MaskedTokens response_of(const Problem& problem, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> response = tokenizer.encode(problem.response);
  response.push_back(tokenizer.eos_id());
  return prompt_and_response(problem.prompt_ids, response);
}

}  // namespace

LearnedCount encode_learned(std::vector<Problem>& problems, const text::Tokenizer& tokenizer,
                            const chat::ChatTemplate* chat_template, const LengthLimit& limit) {
  std::vector<std::string> wrong(problems.size());
  std::vector<int64_t> cut(problems.size(), 0);
  on_all_cpus(problems.size(), [&](size_t i) {
    Problem& problem = problems[i];
    try {
      if (problem.conversation.empty()) {
        problem.learned = {response_of(problem, tokenizer)};
      } else {
        TRIREME_CHECK(chat_template, "{}: a conversation without a chat template", problem.where);
        problem.learned = turns_of(problem, tokenizer, *chat_template);
      }
    } catch (const Error& error) {
      wrong[i] = error.message();
    }
    for (MaskedTokens& tokens : problem.learned) {
      const auto length = static_cast<int64_t>(tokens.ids.size());
      if (length > limit.max_length) {
        ++cut[i];
        if (limit.truncation == "error")
          wrong[i] = fmt::format(
              "the example has {} tokens, sft.max_length is {}: raise it, or set sft.truncation to cut",
              length, limit.max_length);
      }
      if (wrong[i].empty()) tokens = truncated(std::move(tokens), limit.max_length, limit.truncation);
    }
    std::erase_if(problem.learned, [](const MaskedTokens& tokens) { return tokens.num_learned() == 0; });
  });
  RowMistakes mistakes;
  for (size_t i = 0; i < problems.size(); ++i)
    if (!wrong[i].empty()) mistakes.add(problems[i].where, wrong[i]);
  mistakes.throw_if_any(
      fmt::format("{} of {} examples cannot be learned from:", mistakes.count(), problems.size()));
  LearnedCount count;
  for (const int64_t texts : cut) count.cut += texts;
  count.dropped =
      std::count_if(problems.begin(), problems.end(), [](const Problem& p) { return p.learned.empty(); });
  if (count.dropped > 0 && count.dropped == static_cast<int64_t>(problems.size()))
    fail(ErrorCode::invalid_config,
         "nothing is left to learn of any of the {} examples, cut to sft.max_length = {} at their {}: raise "
         "it",
         problems.size(), limit.max_length, limit.truncation == "left" ? "beginning" : "end");
  std::erase_if(problems, [](const Problem& p) { return p.learned.empty(); });
  return count;
}

}  // namespace trireme::data
