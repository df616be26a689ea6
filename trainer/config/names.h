// What someone who wrote an unknown name may have meant.
#pragma once

#include <string>

namespace trireme::config {

/// "did you mean rollout.n?", or where to look if no key is near. Knows verl's names too.
std::string key_hint(const std::string& unknown);
/// The nearest table's name, or "".
std::string nearest_table(const std::string& unknown);

}  // namespace trireme::config
