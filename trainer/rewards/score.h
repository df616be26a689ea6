// What a response is worth.
#pragma once

#include <map>
#include <string>

namespace trireme::rewards {

struct Score {
  double value = 0;         // the reward
  bool correct = false;     // implies has_format
  bool has_format = false;  // the response holds an answer in the form that the reward looks for
  std::string answer = {};  // in one spelling, for counting votes; empty: none is known
  /// What else the reward had to say, by name: logged as reward/NAME/mean.
  std::map<std::string, double> extras = {};
};

}  // namespace trireme::rewards
