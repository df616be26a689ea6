#include "trainer/data/json_rows.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/files.h"
#include "trainer/text/utf8.h"

namespace trireme::data {
namespace {

constexpr int kMaxDepth = 100;  // of brackets; far below what recursion over a value can bear

// What the parser says, without its own name, numbers and position.
std::string reason_of(const nlohmann::json::exception& error) {
  std::string text = error.what();
  size_t cut = text.find(": ");
  if (cut == std::string::npos) cut = text.find("] ");
  if (cut != std::string::npos) text.erase(0, cut + 2);
  const std::string noise = "syntax error while parsing ";
  if (text.rfind(noise, 0) == 0) text.erase(0, noise.size());
  return text::replace_not_utf8(std::move(text));
}

int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++at;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

class RowReader {
 public:
  RowReader(const std::string& path, std::string_view text, RowMistakes& mistakes, const RowVisitor& visit)
      : path_(path), text_(text), mistakes_(mistakes), visit_(visit) {}

  void read_lines() {
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      const size_t first = text_.find_first_not_of(kBlanks, begin);
      if (first < end) read_row(first, end);
      begin = end + 1;
    }
  }

  // Splits the array at its commas, so that each element is parsed like a line of JSONL.
  void read_array() {
    size_t begin = text_.find('[') + 1;
    int depth = 0;
    bool in_string = false;
    for (size_t at = begin; at < text_.size(); ++at) {
      const char c = text_[at];
      if (in_string) {
        if (c == '\\') ++at;
        if (c == '"') in_string = false;
        continue;
      }
      if (c == '"') in_string = true;
      if (c == '[' || c == '{') ++depth;
      if (depth == 0 && (c == ',' || c == ']')) {
        const size_t first = text_.find_first_not_of(kBlanks, begin);
        const bool empty_array = c == ']' && num_elements_ == 0;
        if (first < at)
          read_row(first, at);
        else if (!empty_array)
          add(at, "an object is missing before this comma or bracket");
        ++num_elements_;
        begin = at + 1;
        if (c == ']') return read_tail(begin);
      }
      if (c == ']' || c == '}') --depth;
    }
    // Inside an element that is never closed: the parser says best what is wrong with it.
    const size_t first = text_.find_first_not_of(kBlanks, begin);
    if (first != std::string_view::npos) read_row(first, text_.size());
    add(text_.size() - 1, "the file ends inside of its array: the closing ']' is missing");
  }

  int64_t num_rows() const { return num_rows_; }

 private:
  static constexpr const char* kBlanks = " \t\r\n";

  void read_tail(size_t begin) {
    const size_t first = text_.find_first_not_of(kBlanks, begin);
    if (first != std::string_view::npos) add(first, "text after the array's end");
  }

  // The line of text_[at]. Rows come in order, so lines are counted on from the last one asked for.
  int64_t line_of(size_t at) {
    if (at < counted_to_) counted_to_ = 0, line_ = 1;
    line_ += std::count(text_.begin() + static_cast<ptrdiff_t>(counted_to_),
                        text_.begin() + static_cast<ptrdiff_t>(at), '\n');
    counted_to_ = at;
    return line_;
  }

  void add(size_t at, const std::string& what) {
    const size_t newline = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    const size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
    mistakes_.add(fmt::format("{}:{}", path_, line_of(at)), fmt::format("column {}: {}", column, what));
  }

  void read_row(size_t begin, size_t end) {
    const std::string_view row = text_.substr(begin, end - begin);
    if (const size_t bad = text::find_not_utf8(row); bad != std::string_view::npos)
      return add(begin + bad,
                 fmt::format("byte 0x{:02X} is not UTF-8; convert the file, for example with iconv",
                             static_cast<unsigned char>(row[bad])));
    if (depth_of(row) > kMaxDepth)
      return add(begin, fmt::format("nested deeper than {} lists and objects", kMaxDepth));
    Row parsed;
    try {
      parsed = Row::parse(row);
    } catch (const nlohmann::json::parse_error& error) {
      const size_t at = begin + std::clamp<size_t>(error.byte, 1, row.size()) - 1;
      return add(at, "bad JSON: " + reason_of(error));
    } catch (const nlohmann::json::exception& error) {  // a number beyond all bounds
      return add(begin, "bad JSON: " + reason_of(error));
    }
    if (!parsed.is_object())
      return add(begin, fmt::format("expected an object with columns, found {} {}",
                                    parsed.is_array() ? "an" : "a", parsed.type_name()));
    ++num_rows_;
    visit_(parsed, fmt::format("{}:{}", path_, line_of(begin)));
  }

  const std::string& path_;
  const std::string_view text_;
  RowMistakes& mistakes_;
  const RowVisitor& visit_;
  int64_t num_rows_ = 0, num_elements_ = 0;
  int64_t line_ = 1;
  size_t counted_to_ = 0;
};

}  // namespace

int64_t for_each_json_row(const std::string& path, RowMistakes& mistakes, const RowVisitor& visit) {
  const std::string content = files::read(path);
  std::string_view text = content;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  RowReader reader(path, text, mistakes, visit);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '[')
    reader.read_array();
  else
    reader.read_lines();
  return reader.num_rows();
}

}  // namespace trireme::data
