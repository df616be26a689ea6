#include "launcher/topology/sys_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::topology {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeading = "# trireme machine 1";

// One line per file: what would break it is written as \n and \\.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    if (c == '\n') out += "\\n";
    if (c != '\\' && c != '\n') out += c;
  }
  return out;
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
    } else {
      out += text[++i] == 'n' ? '\n' : text[i];
    }
  }
  return out;
}

// What a record keeps of a file. Most of the 256 entries of a port's table of addresses are empty, and of
// this process only what it may use is of interest.
std::string worth_keeping(const std::string& path, const std::string& text) {
  if (path.find("/gids/") != std::string::npos && text.find_first_not_of("0:\n") == std::string::npos)
    return "";
  if (path != "proc/self/status") return text;
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (line.find("_allowed_list:") != std::string::npos) kept += line + "\n";
  return kept;
}

}  // namespace

struct SysFiles::Source {
  virtual ~Source() = default;
  virtual std::optional<std::string> text(const std::string& path) const = 0;
  virtual std::vector<std::string> entries(const std::string& path) const = 0;
  virtual bool exists(const std::string& path) const = 0;
  virtual std::string real_path(const std::string& path) const = 0;
};

struct SysFiles::Folder : Source {
  explicit Folder(fs::path folder) : root(std::move(folder)) {}

  std::optional<std::string> text(const std::string& path) const override {
    std::error_code error;
    if (!fs::is_regular_file(root / path, error)) return std::nullopt;
    std::ifstream in(root / path, std::ios::binary);
    std::ostringstream out;
    // A file of /sys may open and then refuse to be read, as GIDs do that are not the container's.
    if (!in || (in.peek() != EOF && !(out << in.rdbuf())) || in.bad()) return std::nullopt;
    return out.str();
  }
  std::vector<std::string> entries(const std::string& path) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(root / path, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename());
    return names;
  }
  bool exists(const std::string& path) const override {
    std::error_code error;
    return fs::exists(root / path, error);
  }
  std::string real_path(const std::string& path) const override {
    std::error_code error;
    const auto real = fs::canonical(root / path, error);
    return error ? "" : real.lexically_relative(root).string();
  }

  fs::path root;
};

struct SysFiles::Recorded : Source {
  Recorded(const std::string& record, const std::string& where) {
    std::istringstream in(record);
    std::string line;
    std::getline(in, line);
    for (int number = 2; std::getline(in, line); ++number) {
      const auto equals = line.find(" = "), arrow = line.find(" -> ");
      const auto at = std::min(equals, arrow);
      if (at == std::string::npos)
        fail(ErrorCode::corrupt_data, "{}:{}: expected 'PATH = TEXT' or 'PATH -> PATH', found '{}'", where,
             number, line);
      const auto value = unescaped(line.substr(at + (equals < arrow ? 3 : 4)));
      (equals < arrow ? files : links)[line.substr(0, at)] = value;
    }
  }

  std::optional<std::string> text(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> entries(const std::string& path) const override {
    std::vector<std::string> names;
    for (const auto* list : {&files, &links})
      for (auto it = list->lower_bound(path + "/"); it != list->end() && it->first.starts_with(path + "/");
           ++it)
        names.push_back(
            it->first.substr(path.size() + 1, it->first.find('/', path.size() + 1) - path.size() - 1));
    return names;
  }
  bool exists(const std::string& path) const override {
    return files.contains(path) || links.contains(path) || !entries(path).empty();
  }
  std::string real_path(const std::string& path) const override {
    const auto found = links.find(path);
    return found == links.end() ? "" : found->second;
  }

  std::map<std::string, std::string> files, links;
};

SysFiles::SysFiles(const std::string& root) : this_machine_(root.empty() || root == "/") {
  std::error_code error;
  const fs::path path = fs::canonical(this_machine_ ? "/" : root, error);
  if (error) fail(ErrorCode::io, "cannot read {}: {}", root, error.message());
  if (fs::is_directory(path)) {
    source_ = std::make_unique<Folder>(path);
    return;
  }
  const auto text = files::read(root);
  if (!text.starts_with(kHeading))
    fail(ErrorCode::corrupt_data,
         "{} is neither a folder that stands for / nor a machine from `trireme topo --save`", root);
  source_ = std::make_unique<Recorded>(text, root);
}

SysFiles::SysFiles(std::unique_ptr<Source> source) : source_(std::move(source)) {}

SysFiles SysFiles::from_record(const std::string& text, const std::string& where) {
  if (!text.starts_with(kHeading))
    fail(ErrorCode::corrupt_data, "{} sent no description of its machine that this version reads", where);
  return SysFiles(std::make_unique<Recorded>(text, where));
}

SysFiles::SysFiles(SysFiles&&) noexcept = default;
SysFiles::~SysFiles() = default;

std::optional<std::string> SysFiles::text(const std::string& path) const {
  auto found = source_->text(path);
  if (!found) return found;
  if (auto kept = worth_keeping(path, *found); !kept.empty() || found->empty()) read_[path] = std::move(kept);
  return found;
}

std::optional<std::string> SysFiles::line(const std::string& path) const {
  auto found = text(path);
  if (found) found->resize(std::min(found->find('\n'), found->size()));
  return found;
}

int SysFiles::number(const std::string& path, int otherwise) const {
  const auto found = line(path).value_or("");
  int value = otherwise;
  std::from_chars(found.data(), found.data() + found.size(), value);
  return value;
}

std::vector<std::string> SysFiles::entries(const std::string& path) const {
  auto names = source_->entries(path);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool SysFiles::exists(const std::string& path) const {
  const bool found = source_->exists(path);
  if (found) read_.try_emplace(path);
  return found;
}

std::string SysFiles::real_path(const std::string& path) const {
  const auto real = source_->real_path(path);
  if (!real.empty()) links_[path] = real;
  return real;
}

std::string SysFiles::record() const {
  std::string out(kHeading);
  out += '\n';
  for (const auto& [path, text] : read_) out += fmt::format("{} = {}\n", path, escaped(text));
  for (const auto& [path, real] : links_) out += fmt::format("{} -> {}\n", path, escaped(real));
  return out;
}

}  // namespace trireme::topology
