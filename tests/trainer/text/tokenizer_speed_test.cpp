// Prints how fast the Qwen2 vocabulary is loaded and used, in CPU time of one thread. Asserts nothing on it.
#include <gtest/gtest.h>

#include <ctime>

#include "goldens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::text {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(TokenizerSpeed, OnGsm8k) {
  const std::string folder = test_data("tokenizers/qwen2"), path = test_data("gsm8k/train.jsonl");
  if (folder.empty() || path.empty())
    GTEST_SKIP() << "TRIREME_TEST_DATA does not name a folder with gsm8k and qwen2";
  double begin = cpu_seconds();
  const auto tokenizer = Tokenizer::from_folder(folder);
  printf("load: %.3f s\n", cpu_seconds() - begin);

  std::vector<std::string> texts;
  double bytes = 0;
  const std::string lines = files::read(path);
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    const auto row = nlohmann::json::parse(lines.substr(at, end - at));
    at = end + 1;
    for (const char* key : {"question", "answer"})
      bytes += static_cast<double>(texts.emplace_back(row[key]).size());
  }
  std::vector<std::vector<int32_t>> ids(texts.size());
  for (const char* round : {"first", "second"}) {
    begin = cpu_seconds();
    for (size_t i = 0; i < texts.size(); ++i) ids[i] = tokenizer->encode(texts[i]);
    printf("encode, %s time: %.1f MB/s\n", round, bytes / 1e6 / (cpu_seconds() - begin));
  }
  begin = cpu_seconds();
  size_t decoded = 0;
  for (const auto& some : ids) decoded += tokenizer->decode(some).size();
  printf("decode: %.1f MB/s\n", static_cast<double>(decoded) / 1e6 / (cpu_seconds() - begin));
  EXPECT_EQ(static_cast<double>(decoded), bytes);
}

}  // namespace
}  // namespace trireme::text
