#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "runtime/base/error.h"

namespace trireme::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

// Made at the first use, so that a message before start() is not lost.
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("trireme");
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return instance;
}

}  // namespace

Level level_from(const std::string& name) {
  if (name == "debug") return Level::debug;
  if (name == "info") return Level::info;
  if (name == "warn") return Level::warn;
  if (name == "error") return Level::error;
  fail(ErrorCode::invalid_config, "'{}' is no log level: debug, info, warn or error", name);
}

void start(Level level, const std::string& prefix) {
  logger()->set_level(to_spdlog(level));
  logger()->set_pattern(prefix.empty() ? "%H:%M:%S %^%l%$: %v" : "%H:%M:%S " + prefix + " %^%l%$: %v");
  logger()->flush_on(spdlog::level::info);
}

void write(Level level, std::string_view message) {
  logger()->log(to_spdlog(level), message);
}

}  // namespace trireme::log
