// A problem: what is asked, the ground truth that a reward compares with, and what SFT and DPO learn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/masked_tokens.h"

namespace trireme::data {

struct Problem {
  int64_t index = 0;  // place among the problems read with it, before any split; unique in a list
  // Which reward rule applies: the column "data_source", else the task's or file's name.
  std::string data_source;
  std::string prompt;               // as the model reads it: in data.prompt_template and the chat template
  std::vector<int32_t> prompt_ids;  // its tokens, at most data.max_prompt_length; empty before encode_prompts
  bool is_judged = true;  // false: it has no ground truth, and perhaps no prompt; it is only learned
  std::string answer;     // ground truth
  std::string response;   // the text that SFT learns and DPO prefers; empty where there is none
  std::string rejected;   // the text that DPO holds against it; empty where there is none
  bool is_chat = false;   // of a pair: a chat template wrote both answers, and ended them
  /// What SFT learns instead of prompt and response, as JSON: {"messages", "tools", "variables", "first"},
  /// where turns from messages[first] on are learned. Empty where it is no conversation.
  std::string conversation;
  std::vector<MaskedTokens> learned;  // what SFT learns, as tokens; empty before encode_learned
  /// The conversation that the prompt was written from, a JSON list; empty where it was text, or nobody asks.
  std::string messages;
  std::string extra_info;  // the column "extra_info" as JSON, for rewards; empty where there is none
  std::string where;       // "file:line", "file: row N", or how it was generated: for messages
};

struct ProblemSet {
  std::vector<Problem> train;
  std::vector<Problem> val;   // before a run: those with a ground truth first
  std::vector<Problem> bare;  // arithmetic only: bare expressions, for the SFT warm start
};

}  // namespace trireme::data
