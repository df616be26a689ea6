// What an evaluation's verdicts come to, under verl's names: how good a response is on average, how good the
// best, the worst and the most frequent of several are. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace trireme::evaluation {

/// A problem with the verdicts on its responses; each vector has one value a response.
struct JudgedProblem {
  std::string data_source;
  std::map<std::string, std::vector<double>> values;  // "reward", "acc", and what else the reward said
  std::vector<std::string> answers;                   // in one spelling, to vote with; empty: none are known
};

/// Metrics by name. For each source and value, of N responses a problem:
///   SOURCE/VALUE/mean@N, and with N above 1 std@N, and for n = 2, 4, 8, ... below N, and N itself,
///   best@n/{mean,std}, worst@n/{mean,std} and, where answers are known, maj@n/{mean,std}: of the value's
///   maximum, minimum, and that of the most frequent answer, in 1000 draws of n responses with repetition.
///   The draws are those of numpy.random.seed(42), as in verl: the same numbers for the same verdicts.
/// Before it stands val-core/ for mean, best and maj at N of reward and acc, else val-aux/.
std::map<std::string, double> validation_metrics(std::span<const JudgedProblem> problems);

}  // namespace trireme::evaluation
