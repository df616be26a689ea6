// [reward]: how a response is judged. Torch-free.
#pragma once

#include <string>

namespace trireme::rewards {

struct RewardConfig {
  std::string name = "gsm8k";  // gsm8k | exact_match | arithmetic
  double correct = 1.0;
  double format_only = 0.0;  // an answer in the right form, but wrong
  double wrong = 0.0;
};

}  // namespace trireme::rewards
