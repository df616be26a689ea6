// Tokenizers write regular expressions for Oniguruma in Ruby's dialect; PCRE2 reads them.
#pragma once

#include <string>

namespace trireme::text {

/// The expression for PCRE2 (with UTF, UCP and MULTILINE) that means what `regex` means to Oniguruma. Throws
/// invalid_config, naming the construct, where the two differ and nothing is written instead: better refused
/// than wrong.
std::string to_pcre2(const std::string& regex);

}  // namespace trireme::text
