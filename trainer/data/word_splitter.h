// Cuts a text into the words within which byte pairs are merged, as a tokenizer's regular expression says.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace trireme::data {

/// Immutable; any thread.
class WordSplitter {
 public:
  virtual ~WordSplitter() = default;
  /// Where the word that begins at text[begin] ends: above begin, at most text.size(). Text that the
  /// expression does not match is a word too.
  virtual size_t word_end(std::string_view text, size_t begin) const = 0;
};

/// Scanners of our own, exact to Unicode 16.0, for the expressions of GPT-2, Llama-3 and Qwen2; PCRE2, with
/// its Unicode version, for others. Throws invalid_config if the expression is malformed or uses what
/// Hugging Face's and PCRE2's dialects read differently.
std::unique_ptr<WordSplitter> make_splitter(const std::string& regex);
/// Always PCRE2.
std::unique_ptr<WordSplitter> make_regex_splitter(const std::string& regex);

inline constexpr const char* kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace trireme::data
