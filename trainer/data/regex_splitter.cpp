// make_regex_splitter: any regular expression, by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>

#include "runtime/base/error.h"
#include "trainer/data/word_splitter.h"

namespace trireme::data {
namespace {

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Tokenizers write for Oniguruma, which reads these otherwise than PCRE2 does: better refused than wrong.
void refuse_other_dialect(const std::string& regex) {
  bool in_class = false;
  for (size_t at = 0; at < regex.size(); ++at) {
    const char c = regex[at];
    const char next = at + 1 < regex.size() ? regex[at + 1] : '\0';
    const auto refuse = [&](const std::string& what) {
      fail(ErrorCode::invalid_config, "the regular expression uses {}, which is not supported: {}", what,
           regex);
    };
    if (c == '\\') {
      if (next == 'h' || next == 'H') refuse("\\h (hexadecimal digits)");
      ++at;
    } else if (in_class && c == '[' && next != ':') {
      refuse("a class within a class");
    } else if (in_class && c == '&' && next == '&') {
      refuse("an intersection of classes (&&)");
    } else if (c == '[' && in_class) {
      at = regex.find(":]", at) == std::string::npos ? at : regex.find(":]", at) + 1;
    } else if (c == '[') {
      in_class = true;
    } else if (c == ']') {
      in_class = false;
    }
  }
}

class RegexSplitter : public WordSplitter {
 public:
  explicit RegexSplitter(const std::string& regex) {
    refuse_other_dialect(regex);
    int error = 0;
    PCRE2_SIZE at = 0;
    // In Ruby's dialect ^ and $ always mean lines.
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(), options, &error, &at,
                              nullptr));
    if (!code_)
      fail(ErrorCode::invalid_config, "bad regular expression, column {}: {}: {}", at + 1, message_of(error),
           regex);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it, matching is slower, not different
  }

  size_t word_end(std::string_view text, size_t begin) const override {
    thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> match(
        pcre2_match_data_create(1, nullptr));
    const int result = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                   PCRE2_NOTEMPTY, match.get(), nullptr);
    if (result == PCRE2_ERROR_NOMATCH) return text.size();
    if (result < 0)
      fail(ErrorCode::invalid_config, "the tokenizer's regular expression fails: {}", message_of(result));
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    return span[0] > begin ? span[0] : span[1];
  }

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

}  // namespace

std::unique_ptr<WordSplitter> make_regex_splitter(const std::string& regex) {
  return std::make_unique<RegexSplitter>(regex);
}

}  // namespace trireme::data
