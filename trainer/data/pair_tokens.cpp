#include "trainer/data/pair_tokens.h"

#include <algorithm>
#include <string>

#include "trainer/data/prompt_tokens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

using Ids = std::vector<int32_t>;

// A chat template has ended its answers already.
Ids whole(const text::Tokenizer& tokenizer, const std::string& text, bool is_chat) {
  Ids ids = tokenizer.encode(text);
  if (!is_chat && (ids.empty() || ids.back() != tokenizer.eos_id())) ids.push_back(tokenizer.eos_id());
  return ids;
}

size_t common(const Ids& a, const Ids& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

Ids answer_of(const Ids& ids, size_t begin, int64_t max_length) {
  const size_t end = std::min(ids.size(), begin + static_cast<size_t>(max_length));
  return {ids.begin() + static_cast<ptrdiff_t>(begin), ids.begin() + static_cast<ptrdiff_t>(end)};
}

}  // namespace

PairTokens pair_tokens(const Problem& problem, const text::Tokenizer& tokenizer, const DataConfig& config) {
  Ids prompt = tokenizer.encode(problem.prompt);
  Ids chosen = whole(tokenizer, problem.prompt + problem.response, problem.is_chat);
  Ids rejected = whole(tokenizer, problem.prompt + problem.rejected, problem.is_chat);
  // Tokens that reach from the prompt into an answer belong to the answers.
  size_t begin =
      std::min({common(prompt, chosen), common(prompt, rejected), chosen.size() - 1, rejected.size() - 1});
  if (begin == 0) {  // all of the prompt would: then the texts are encoded by themselves
    chosen = whole(tokenizer, problem.response, problem.is_chat);
    rejected = whole(tokenizer, problem.rejected, problem.is_chat);
  } else {
    prompt.resize(begin);
  }
  return {truncated(prompt, config.max_prompt_length, config.truncation),
          answer_of(chosen, begin, config.max_response_length),
          answer_of(rejected, begin, config.max_response_length)};
}

}  // namespace trireme::data
