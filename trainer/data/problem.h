// A problem: what is asked, the ground truth that a reward compares with, and what SFT learns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::data {

struct Problem {
  int64_t index = 0;  // place among the problems read with it, before any split; unique in a list
  std::string
      data_source;     // which reward rule applies: the column "data_source", else the task's or file's name
  std::string prompt;  // with data.prompt_template around it
  std::string answer;  // ground truth
  std::string response;  // the text that SFT learns; empty where there is none
  std::string where;     // "file:line", or how it was generated: for messages
};

struct ProblemSet {
  std::vector<Problem> train, val;
  std::vector<Problem> bare;  // arithmetic only: bare expressions, for the SFT warm start
};

}  // namespace trireme::data
