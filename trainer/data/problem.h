// A problem: what is asked, the ground truth that a reward compares with, and what SFT learns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::data {

struct Problem {
  int64_t index = 0;  // place among the problems read with it, before any split; unique in a list
  // Which reward rule applies: the column "data_source", else the task's or file's name.
  std::string data_source;
  std::string prompt;               // as the model reads it: in data.prompt_template and the chat template
  std::vector<int32_t> prompt_ids;  // its tokens, at most data.max_prompt_length; empty before encode_prompts
  std::string answer;               // ground truth
  std::string response;             // the text that SFT learns; empty where there is none
  std::string extra_info;           // the column "extra_info" as JSON, for rewards; empty where there is none
  std::string where;                // "file:line", "file: row N", or how it was generated: for messages
};

struct ProblemSet {
  std::vector<Problem> train, val;
  std::vector<Problem> bare;  // arithmetic only: bare expressions, for the SFT warm start
};

}  // namespace trireme::data
