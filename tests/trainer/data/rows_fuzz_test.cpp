// Damaged Parquet and JSON lines: an error or rows, never a crash, a hang or a large allocation.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/base/files.h"
#include "trainer/data/json_rows.h"
#include "trainer/data/parquet_rows.h"
#include "trainer/data/problem_set.h"

namespace trireme::data {
namespace {

namespace fs = std::filesystem;

class RowsFuzz : public testing::Test {
 protected:
  ~RowsFuzz() override { fs::remove(path_); }

  const std::string& write(const std::string& content) {
    fs::remove(path_);  // some file systems sync a file that is written over
    std::ofstream(path_, std::ios::binary) << content;
    return path_;
  }
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  static int64_t peak_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  }

  // Some bytes within [begin, end) of `content` become others.
  void change(std::string& content, size_t begin, size_t end) {
    for (size_t edits = 1 + below(4); edits > 0 && begin < end; --edits) {
      char& byte = content[begin + below(end - begin)];
      switch (below(4)) {
        case 0:
          byte = static_cast<char>(random_());
          break;
        case 1:
          byte = static_cast<char>(byte ^ 1 << below(8));
          break;
        case 2:
          byte = "\x00\x01\x7f\x80\xfe\xff"[below(6)];
          break;
        default:
          byte = static_cast<char>(byte + (below(2) == 0 ? 1 : -1));
      }
    }
  }

  // 1 if all of it was read, 0 if it was refused; dumping the rows reads every byte of them.
  int try_parquet(const std::string& content) {
    RowMistakes mistakes;
    try {
      ParquetFile file(write(content));
      size_t bytes = 0;
      file.for_each_row(file.columns(), mistakes,
                        [&](const Row& row, const std::string&) { bytes += row.dump().size(); });
      EXPECT_GE(bytes, 0u);
      return mistakes.count() == 0 ? 1 : 0;
    } catch (const Error& error) {
      EXPECT_TRUE(error.message().find(path_) != std::string::npos) << error.message();
      return 0;
    }
  }

  std::mt19937_64 random_{20260801};
  const std::string path_ = testing::TempDir() + "trireme_rows_fuzz_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".parquet";
};

TEST_F(RowsFuzz, DamagedParquetFilesAreRefusedOrRead) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  const char* rounds = std::getenv("TRIREME_FUZZ_ROUNDS");
  std::vector<std::string> files;
  for (const auto& entry :
       fs::directory_iterator(std::string(source != nullptr ? source : ".") + "/tests/trainer/data/goldens"))
    if (entry.path().extension() == ".parquet") files.push_back(files::read(entry.path()));
  ASSERT_GE(files.size(), 14u);
  const int64_t before = peak_mb();
  int read = 0, refused = 0;
  for (int round = 0; round < (rounds != nullptr ? std::atoi(rounds) : 6000); ++round) {
    std::string content = files[below(files.size())];
    // The footer, whose length stands before the last four bytes; the pages before it; a cut in the middle.
    uint32_t footer = 0;
    std::memcpy(&footer, content.data() + content.size() - 8, 4);
    const size_t pages = content.size() - 8 - footer;
    switch (below(8)) {
      case 0:
        content.resize(below(content.size()));
        break;
      case 1:
        content.erase(4 + below(content.size() - 12), 1 + below(16));
        break;
      case 2:
        change(content, content.size() - 8, content.size());
        break;
      case 3:
      case 4:
        change(content, pages, content.size() - 8);
        break;
      case 5:
        for (size_t i = pages; i < pages + footer; ++i) content[i] = static_cast<char>(random_());
        break;
      default:
        change(content, 4, pages);
    }
    (try_parquet(content) != 0 ? read : refused) += 1;
  }
  // A flipped bit in a text goes unnoticed where there is no checksum.
  EXPECT_GT(refused, read / 4);
  EXPECT_GT(read, 0);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory
  EXPECT_LT(peak_mb() - before, 200) << "MB more than before";
#endif
  RecordProperty("read", read);
  RecordProperty("refused", refused);
}

TEST_F(RowsFuzz, DamagedJsonIsRefusedOrRead) {
  const std::string lines =
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"h\\u00fc \\\"x\\\"\"}], \"answer\": -1.5e3}\n"
      "{\"prompt\": \"p\", \"answer\": \"a\", \"extra_info\": {\"a\": [1, null, true, {\"b\": []}]}}\n\n"
      "{\"prompt\": \"\xF0\x9F\x99\x82\", \"reward_model\": {\"ground_truth\": \"7\"}}\n";
  std::string array = "[" + lines + "]";
  for (size_t at = 0; (at = array.find("}\n{", at)) != std::string::npos;) array.replace(at, 2, "},");
  const std::string tokens = "{}[]\",:0123456789-.eE\\u \xff\x80\n";
  DataConfig config;
  config.apply_chat_template = "never";
  config.format = "jsonl";
  config.val_fraction = 0;
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string content = below(2) == 0 ? lines : array;
    for (size_t edits = below(5); edits > 0; --edits) {
      const size_t at = below(content.size());
      if (below(3) == 0)
        content.erase(at, 1 + below(12));
      else if (below(2) == 0)
        content.insert(at, 1 + below(3), tokens[below(tokens.size())]);
      else
        content[at] = below(4) == 0 ? static_cast<char>(random_()) : tokens[below(tokens.size())];
      if (content.empty()) break;
    }
    config.train_files = {write(content)};
    try {
      load_problems(config, {}, 1);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config) << error.message();
    }
  }
  EXPECT_GT(read, 1000);
  for (const char* bracket : {"[", "{\"a\":", "[{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += bracket;
    config.train_files = {write(deep)};
    EXPECT_THROW(load_problems(config, {}, 1), Error);
  }
}

}  // namespace
}  // namespace trireme::data
