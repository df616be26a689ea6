// The line at the bottom of a terminal: how far a run is and how long it will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::console {

struct Progress {
  std::string phase, stage;
  int64_t step = 0, total_steps = 0;  // 0 total: unknown
  std::optional<std::chrono::seconds> left;
  std::chrono::seconds elapsed{0};
  std::string note;  // "stopping", instead of the stage; may be empty
};

/// What is left of a phase when `step` of `total` steps took `taken`, of which the last ended `since` ago.
std::optional<std::chrono::seconds> time_left(int64_t step, int64_t total, std::chrono::nanoseconds taken,
                                              std::chrono::nanoseconds since);

/// "0:07", "12:30", "1:05:00"
std::string format_duration(std::chrono::seconds duration);

/// At most `columns` wide, without a line end and without control characters; `unicode`: the bar may use box
/// drawing.
std::string draw(const Progress& progress, int columns, bool unicode);

}  // namespace trireme::console
