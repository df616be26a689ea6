#include "runtime/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme::files {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_io(const char* verb, const std::string& path) {
  fail(ErrorCode::io, "cannot {} {}: {}", verb, path, std::strerror(errno));
}

}  // namespace

std::string read(const std::string& path) {
  if (std::filesystem::is_directory(path)) fail(ErrorCode::io, "cannot read {}: it is a folder", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail_io("read", path);
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) fail_io("read", path);
  return std::move(content).str();
}

void write_atomically(const std::string& path, std::string_view content) {
  const std::string aside = fmt::format("{}.{}.part", path, ::getpid());
  {
    Descriptor file{::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) fail_io("write", aside);
    size_t done = 0;
    while (done < content.size()) {
      const ssize_t n = ::write(file.fd, content.data() + done, content.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("write", aside);
      done += static_cast<size_t>(n);
    }
    if (::fsync(file.fd) != 0) fail_io("sync", aside);
  }
  if (std::rename(aside.c_str(), path.c_str()) != 0) fail_io("rename to", path);
  const auto folder = std::filesystem::path(path).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

void sync_folder(const std::string& path) {
  Descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd < 0) fail_io("open", path);
  if (::fsync(folder.fd) != 0) fail_io("sync", path);
}

}  // namespace trireme::files
