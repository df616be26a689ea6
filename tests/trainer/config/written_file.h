// A configuration file for one test, and the lines of the error that loading it gives.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "trainer/config/load.h"

namespace trireme::config {

class WrittenFile {
 public:
  explicit WrittenFile(const std::string& text, const std::string& name = "run.toml") {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_config_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    path_ = folder_ + "/" + name;
    std::ofstream(path_) << text;
  }
  ~WrittenFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_, path_;
};

/// The mistakes, one a line, without heading and indentation; "FILE" stands for the configuration's path.
inline std::vector<std::string> mistakes_in(const Error& error, const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(error.message());
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) {
    line.erase(0, 2);
    for (size_t at = line.find(path); !path.empty() && at != std::string::npos; at = line.find(path))
      line.replace(at, path.size(), "FILE");
    lines.push_back(line);
  }
  return lines;
}

inline std::vector<std::string> mistakes_of(const std::string& toml,
                                            const std::vector<std::string>& overrides = {},
                                            Paths paths = Paths::ignore) {
  const WrittenFile file(toml);
  try {
    load(file.path(), overrides, paths);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return mistakes_in(error, file.path());
  }
  return {};
}

/// A run that makes sense, to be made wrong in one place.
inline const char* const kGood = R"(
[data]
task = "arithmetic"
max_prompt_length = 64
max_response_length = 16
train_batch_size = 32
[reward]
name = "arithmetic"
[rollout]
n = 8
)";

using Lines = std::vector<std::string>;

}  // namespace trireme::config
