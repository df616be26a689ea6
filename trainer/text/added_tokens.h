// Tokens that are found in the text before anything else happens to it, such as <|im_end|>.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;     // not shown to people; left as text where special tokens are not parsed
  bool normalized = false;  // looked for in the normalised text
  bool lstrip = false, rstrip = false;  // takes the white space on that side with it
  bool single_word = false;             // only where no letter, digit, mark or underscore adjoins it
};

/// A part of a text: an added token, or (id < 0) the text between two of them.
struct TextPart {
  int32_t id;
  std::string_view text;
};

/// Finds tokens from left to right, the longest where several begin. What begins within one that was found
/// is not looked at, even if that one is left as text.
class AddedTokens {
 public:
  /// Two tokens must not have the same content.
  void add(const AddedToken& token);
  /// Appends the parts of `text`, in order and not empty. A token that begins in the white space which the
  /// one before took (rstrip) is a part all the same, unless it takes white space before it (lstrip) and
  /// nothing is left.
  void split(std::string_view text, bool with_special, std::vector<TextPart>& parts) const;

 private:
  const AddedToken* match(std::string_view rest) const;

  std::vector<AddedToken> tokens_;
  std::array<std::vector<uint32_t>, 256> by_first_byte_;  // places in tokens_, longest content first
};

}  // namespace trireme::text
