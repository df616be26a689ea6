// Logging to standard error, one line a message, with the rank in front: spdlog stays behind this header.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trireme::log {

enum class Level { debug, info, warn, error };

/// "debug" | "info" | "warn" | "error"; throws invalid_config otherwise.
Level level_from(const std::string& name);
/// Once per process, before the first message. `prefix` stands before every message ("rank 1"); may be empty.
void start(Level level, const std::string& prefix);
void write(Level level, std::string_view message);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trireme::log
