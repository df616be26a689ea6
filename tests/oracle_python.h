// A Python with the library that a test compares with.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace trireme {

/// A Python that has the package, or nothing: TRIREME_ORACLE_PYTHON, else python3.
inline std::optional<std::string> oracle_python(const std::string& package) {
  const char* chosen = std::getenv("TRIREME_ORACLE_PYTHON");
  for (const std::string python : {chosen ? chosen : "", "python3"})
    if (!python.empty() &&
        std::system((python + " -c 'import " + package + "' >/dev/null 2>&1").c_str()) == 0)
      return python;
  return std::nullopt;
}

}  // namespace trireme
