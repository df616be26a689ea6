// The files of /sys, /proc, /dev and /etc that tell what a machine has: those of this machine, those below
// another folder, or those that were recorded on another machine. Everything that is read can be recorded.
// Not for use by several threads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::topology {

/// Paths are without the leading slash: "sys/class/net". A file that cannot be read is as good as absent,
/// which is usual in containers.
class SysFiles {
 public:
  /// "" or "/": this machine. A folder: what stands for "/". A file: what record() gave. Throws io,
  /// corrupt_data.
  explicit SysFiles(const std::string& root = "");
  /// What record() gave, read on `where`. Throws corrupt_data.
  static SysFiles from_record(const std::string& text, const std::string& where);
  SysFiles(SysFiles&&) noexcept;
  ~SysFiles();

  bool is_this_machine() const { return this_machine_; }

  /// The whole file, "" if it is empty.
  std::optional<std::string> text(const std::string& path) const;
  /// Its first line.
  std::optional<std::string> line(const std::string& path) const;
  /// A number at its beginning, as "4: ACTIVE" has it.
  int number(const std::string& path, int otherwise) const;
  /// Names in a folder, sorted. Recorded: those below which something was read.
  std::vector<std::string> entries(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// Where it lies when all links are followed, "sys/devices/pci0000:15/..."; "" if it does not exist.
  std::string real_path(const std::string& path) const;

  /// All that has been read and was there: lines of text, small enough for a bug report.
  std::string record() const;

 private:
  struct Source;
  struct Folder;
  struct Recorded;
  explicit SysFiles(std::unique_ptr<Source> source);

  bool this_machine_ = false;
  std::unique_ptr<Source> source_;
  mutable std::map<std::string, std::string> read_, links_;
};

}  // namespace trireme::topology
