// [reward]: how a response is judged. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::rewards {

/// [reward.function]: a function in a Python file, of verl's signature.
struct FunctionConfig {
  std::string path;  // empty: none
  std::string name = "compute_score";
  std::string kwargs = "{}";  // more arguments, as a JSON object
  std::string python = "python3";
};

/// [reward.code]: programs that are run against tests.
struct CodeConfig {
  std::string python = "python3";
  double timeout_s = 10.0;  // of one test
  int64_t memory_limit_mb = 1024;
  int64_t max_concurrent = 0;   // programs on each rank that judges; 0: as many as it has cores, 8 at most
  std::string scoring = "all";  // all | fraction
  int64_t partial_tests = 10;   // of scoring = fraction: the tests that are run whatever becomes of them
};

/// [reward.format]: what a response has to look like.
struct FormatConfig {
  double weight = 0.0;
  std::string pattern;            // all of the response; empty: any
  std::vector<std::string> tags;  // its elements, in their order; empty: any
};

/// [reward.repetition]
struct RepetitionConfig {
  double weight = 0.0;
  int64_t ngram_size = 3;  // words
};

/// [reward.cosine]: a length's worth.
struct CosineConfig {
  double weight = 0.0;
  double correct_short = 1.0;
  double correct_long = 0.5;
  double wrong_short = -1.0;
  double wrong_long = -0.5;
  int64_t max_tokens = 0;  // 0: data.max_response_length
};

/// [reward.scorer]: the processes that run code which is not ours.
struct ScorerConfig {
  int64_t num_workers = 0;      // of each rank that judges; 0: as many as it has cores, 8 at most
  int64_t max_concurrent = 64;  // calls at once in one process, of an async function
  double timeout_s = 60.0;      // of one call
  double start_timeout_s = 300.0;
  int64_t retries = 1;
  std::string on_failure = "stop";  // stop | default
  double default_score = 0.0;
  int64_t memory_limit_mb = 0;  // of each process; 0: none
  std::string replay;           // folder of another run's journal; empty: this run's own
};

/// [reward.http]: a service that judges, asked over HTTP.
struct HttpConfig {
  std::string url;           // empty: none
  int64_t connections = 16;  // requests at once, of each rank that judges
  double max_per_second = 0.0;  // of each rank that judges; 0: no limit
  double timeout_s = 60.0;      // of one request
  int64_t retries = 8;
  double backoff_s = 0.5;       // the first pause; each is twice as long as the one before
  double max_backoff_s = 30.0;
  std::vector<std::string> headers;  // ${NAME} is an environment variable
};

/// The rules that [reward] name may ask for.
inline std::vector<std::string> rule_names() {
  return {"gsm8k", "gsm8k_flexible", "math", "math_boxed", "math_answer", "exact_match", "regex",
          "qa",    "arithmetic",     "code", "geometry3k", "by_source",   "none"};
}

struct RewardConfig {
  std::string name = "gsm8k";  // rule_names()
  double weight = 1.0;         // of the answer among the components
  double correct = 1.0;
  double format_only = 0.0;  // an answer in the right form, but wrong
  double wrong = 0.0;
  std::string pattern = R"(answer is:? *(.+?)\.?$)";  // name = regex
  std::vector<std::string> sources;                   // name = by_source: SOURCE=RULE
  CodeConfig code;
  FormatConfig format;
  RepetitionConfig repetition;
  CosineConfig cosine;
  FunctionConfig function;
  std::vector<std::string> command;  // a program that judges, and its arguments; empty: none
  HttpConfig http;
  ScorerConfig scorer;
};

}  // namespace trireme::rewards
