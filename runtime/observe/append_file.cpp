#include "runtime/observe/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::observe {
namespace {

[[noreturn]] void fail_io(const char* verb, const std::string& path) {
  fail(ErrorCode::io, "cannot {} {}: {}", verb, path, std::strerror(errno));
}

}  // namespace

AppendFile::AppendFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_io("write", path_);
}

AppendFile::~AppendFile() {
  ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  while (!record.empty()) {
    const ssize_t n = ::write(fd_, record.data(), record.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io("write", path_);
    record.remove_prefix(static_cast<size_t>(n));
  }
}

void AppendFile::drop_unfinished_line() {
  off_t end = ::lseek(fd_, 0, SEEK_END);
  const off_t size = end;
  for (char last = 0; end > 0; --end) {
    if (::pread(fd_, &last, 1, end - 1) != 1) fail_io("read", path_);
    if (last == '\n') break;
  }
  if (end != size && ::ftruncate(fd_, end) != 0) fail_io("write", path_);
}

}  // namespace trireme::observe
