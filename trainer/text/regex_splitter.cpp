// Splitters by any regular expression, through PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>

#include "runtime/base/error.h"
#include "trainer/text/regex_dialect.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"
#include "trainer/text/word_splitter.h"

namespace trireme::text {
namespace {

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};
template <typename T, auto free>
using Owned = std::unique_ptr<T, Free<free>>;

// Of a search from one place. A tokenizer's expression needs a few steps a byte; one that backtracks without
// end is stopped after a fraction of a second.
constexpr uint32_t kMaxSteps = 1'000'000, kMaxHeapKib = 64 * 1024;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// What a thread needs to match. The stack that compiled code starts with, 32 KiB, is small for long words.
struct MatchSpace {
  Owned<pcre2_match_data, pcre2_match_data_free> data{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_match_context, pcre2_match_context_free> context{pcre2_match_context_create(nullptr)};
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack{pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr)};

  MatchSpace() {
    pcre2_set_match_limit(context.get(), kMaxSteps);
    pcre2_set_heap_limit(context.get(), kMaxHeapKib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

struct Part {
  size_t begin, end;
  bool is_match;
};

class RegexSplitter : public WordSplitter {
 public:
  RegexSplitter(const std::string& pattern, bool literal, SplitBehavior behavior, bool invert)
      : literal_(literal), behavior_(behavior), invert_(invert) {
    const std::string regex = literal ? pattern : to_pcre2(pattern);
    int error = 0;
    PCRE2_SIZE at = 0;
    // In Ruby's dialect ^ and $ always mean lines.
    const uint32_t options = PCRE2_UTF | (literal ? uint32_t{PCRE2_LITERAL}
                                                  : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(), options, &error, &at,
                              nullptr));
    if (!code_)
      fail(ErrorCode::invalid_config, "bad regular expression, column {}: {}: {}", at + 1, message_of(error),
           shortened(pattern));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it, matching is slower, not different
  }

  void split(std::string_view text, std::vector<std::string_view>& words) const override {
    thread_local std::vector<Part> parts;
    // PCRE2 is given UTF-8 only; each run of other bytes is a word.
    while (!text.empty()) {
      const std::string_view well_formed = text.substr(0, find_not_utf8(text));
      if (!well_formed.empty()) {
        parts.clear();
        find_parts(well_formed, parts);
        join(parts, well_formed, words);
      }
      text.remove_prefix(well_formed.size());
      size_t end = 0;
      while (end < text.size() && decode_utf8(text, end).value == kNotUtf8) ++end;
      if (end > 0) words.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

 private:
  // The matches from left to right and what lies between. An empty match counts, but not right after another
  // match: then the search goes on one character later.
  void find_parts(std::string_view text, std::vector<Part>& parts) const {
    std::string old_text;
    const std::string_view seen = literal_ ? text : with_stand_ins(text, old_text);
    size_t done = 0, from = 0;
    bool after_match = false;
    for (PCRE2_SIZE begin, end; from <= text.size() && find(seen, from, begin, end);) {
      if (begin == end && after_match && end == done) {
        from += from < text.size() ? decode_utf8(text, from).size : 1;
        continue;
      }
      if (begin > done) parts.push_back({done, begin, invert_});
      parts.push_back({begin, end, !invert_});
      done = from = end;
      after_match = true;
    }
    if (done < text.size()) parts.push_back({done, text.size(), invert_});
  }

  // The text as a library must see it that does not know its youngest characters.
  static std::string_view with_stand_ins(std::string_view text, std::string& changed) {
    for (size_t at = 0; at < text.size();) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        ++at;
        continue;
      }
      const CodePoint c = decode_utf8(text, at);
      if (const char32_t known = unicode::stand_in_of_14(c.value); known != c.value) {
        if (changed.empty()) changed = text;
        std::string bytes;
        append_utf8(bytes, known);
        changed.replace(at, c.size, bytes);
      }
      at += c.size;
    }
    return changed.empty() ? text : changed;
  }

  bool find(std::string_view text, size_t from, PCRE2_SIZE& begin, PCRE2_SIZE& end) const {
    thread_local const MatchSpace space;
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, space.data.get(), space.context.get());
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      fail(ErrorCode::invalid_config, "the tokenizer's regular expression fails on a text of {} bytes: {}",
           text.size(), message_of(result));
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(space.data.get());
    begin = span[0];
    end = span[1];
    if (begin < from || end < begin)  // \K within an assertion
      fail(ErrorCode::invalid_config, "the tokenizer's regular expression matches backwards");
    return true;
  }

  void join(const std::vector<Part>& parts, std::string_view text,
            std::vector<std::string_view>& words) const {
    const auto add = [&](size_t begin, size_t end) {
      if (end > begin) words.push_back(text.substr(begin, end - begin));
    };
    const auto belongs_to_part_before = [&](size_t i) {
      const bool before = parts[i - 1].is_match, here = parts[i].is_match;
      return (behavior_ == SplitBehavior::contiguous && here == before) ||
             (behavior_ == SplitBehavior::merged_with_previous && here && !before) ||
             (behavior_ == SplitBehavior::merged_with_next && before && !here);
    };
    for (size_t i = 0; i < parts.size();) {
      size_t next = i + 1;
      while (next < parts.size() && belongs_to_part_before(next)) ++next;
      if (behavior_ != SplitBehavior::removed || !parts[i].is_match) add(parts[i].begin, parts[next - 1].end);
      i = next;
    }
  }

  Owned<pcre2_code, pcre2_code_free> code_;
  const bool literal_;
  const SplitBehavior behavior_;
  const bool invert_;
};

}  // namespace

std::unique_ptr<WordSplitter> make_regex_splitter(const std::string& regex, SplitBehavior behavior,
                                                  bool invert) {
  return std::make_unique<RegexSplitter>(regex, false, behavior, invert);
}

std::unique_ptr<WordSplitter> make_text_splitter(const std::string& text, SplitBehavior behavior,
                                                 bool invert) {
  return std::make_unique<RegexSplitter>(text, true, behavior, invert);
}

}  // namespace trireme::text
