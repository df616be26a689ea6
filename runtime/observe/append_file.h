// A file that only grows, one whole record a system call.
#pragma once

#include <string>
#include <string_view>

namespace trireme::observe {

class AppendFile {
 public:
  /// Opens or creates. Throws io.
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  void append(std::string_view record);
  /// Cuts off what follows the last line feed.
  void drop_unfinished_line();

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace trireme::observe
