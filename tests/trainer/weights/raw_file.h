// Files of arbitrary bytes for the tests of this folder, and the pattern that tools/make_goldens/weights.py
// writes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/error.h"
#include "trainer/weights/safetensors.h"

namespace trireme::weights {

/// A folder that goes when the test ends.
class InFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_weights_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  /// Number of files.
  size_t count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  /// The message of the error that `work` throws, after a check of its code.
  template <typename Work>
  static std::string message(ErrorCode code, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_STREQ(to_string(error.code()), to_string(code)) << error.message();
      return error.message();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  std::filesystem::path folder_;
};

/// A file in memory that is written again and again: thousands of small files without a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("trireme_test", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// The path to open it by.
  std::string put(const std::string& content) const {
    EXPECT_EQ(::ftruncate(fd_, 0), 0);
    EXPECT_EQ(::pwrite(fd_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    return "/proc/self/fd/" + std::to_string(fd_);
  }

 private:
  int fd_;
};

/// All bytes of one tensor.
inline std::string text_of(const SafetensorsReader& file, const TensorInfo& tensor) {
  std::string text(tensor.num_bytes(), '\0');
  file.read(tensor, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// header length | header | data
inline std::string raw_file(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  return start + header + data;
}

inline std::string golden(const std::string& name) {
  return (std::filesystem::path(__FILE__).parent_path() / "goldens" / name).string();
}

/// Element i of the golden tensor `name`, in 1/64.
inline int64_t pattern_steps(const std::string& name, int64_t i) {
  int64_t sum = 0;
  for (const unsigned char c : name) sum += c;
  return (i * 37 + sum) % 251 - 125;
}
inline double pattern(const std::string& name, int64_t i) {
  return static_cast<double>(pattern_steps(name, i)) / 64;
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace trireme::weights
