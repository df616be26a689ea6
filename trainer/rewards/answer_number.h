// Numbers as people write answers, reduced to one spelling by which they are compared exactly.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme::rewards {

/// The number that a line begins with, after currency and emphasis, in canonical form: "-1234.5", without
/// grouping, leading zeros, or zeros behind the point; zero is "0". Nothing if the line begins with something
/// else, or if what follows makes it more than a plain number.
std::optional<std::string> leading_number(std::string_view line);

/// A whole number that is all of `text`: '-'? digits. Canonical.
std::optional<std::string> whole_number(std::string_view text);

}  // namespace trireme::rewards
