// Cuts a text into the words within which byte pairs are merged, as a tokenizer's regular expressions say.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

/// Immutable; any thread.
class WordSplitter {
 public:
  virtual ~WordSplitter() = default;
  /// Appends the words of `text`, in order and not empty. They cover the text, unless the splitter removes
  /// what it matches.
  virtual void split(std::string_view text, std::vector<std::string_view>& words) const = 0;
};

/// What becomes of the parts of a text that a pattern matches: words of their own, left out, or joined to
/// the part before, to the part after or to the matches beside them.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// Scanners of our own, exact to Unicode 16.0, for the expressions of GPT-2, Llama-3 and Qwen2; PCRE2 for
/// others. Matches are words, and so is what lies between them. Throws invalid_config if the expression is
/// malformed or uses what Hugging Face's and PCRE2's dialects read differently.
std::unique_ptr<WordSplitter> make_splitter(const std::string& regex);
/// Always PCRE2. invert: the matches are what the expression does not match. split() throws invalid_config
/// if the expression needs absurdly many steps.
std::unique_ptr<WordSplitter> make_regex_splitter(const std::string& regex,
                                                  SplitBehavior behavior = SplitBehavior::isolated,
                                                  bool invert = false);
/// The matches are the places where this text stands.
std::unique_ptr<WordSplitter> make_text_splitter(const std::string& text, SplitBehavior behavior,
                                                 bool invert);
/// Each number character (category N) a word, or each run of them.
std::unique_ptr<WordSplitter> make_digits_splitter(bool individual_digits);

inline constexpr const char* kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace trireme::text
