#include "launcher/console/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::console {

std::optional<std::chrono::seconds> time_left(int64_t step, int64_t total, std::chrono::nanoseconds taken,
                                              std::chrono::nanoseconds since) {
  if (step <= 0 || total <= 0 || taken.count() <= 0) return std::nullopt;
  const double per_step = static_cast<double>(taken.count()) / static_cast<double>(step);
  const double left =
      per_step * static_cast<double>(std::max<int64_t>(0, total - step)) - static_cast<double>(since.count());
  return std::chrono::seconds(std::llround(std::max(0.0, left) / 1e9));
}

std::string format_duration(std::chrono::seconds duration) {
  const auto s = std::max<int64_t>(0, duration.count());
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string draw(const Progress& p, int columns, bool unicode) {
  const double share =
      p.total_steps > 0
          ? std::clamp(static_cast<double>(p.step) / static_cast<double>(p.total_steps), 0.0, 1.0)
          : 0;
  std::string left = p.phase.empty() ? "starting" : p.phase;
  std::string right;
  if (p.total_steps > 0) {
    left += fmt::format(" {}/{}", p.step, p.total_steps);
    right += fmt::format("{:3}%  ", static_cast<int>(100 * share));
  }
  if (p.left) right += fmt::format("{} left  ", format_duration(*p.left));
  right += format_duration(p.elapsed);
  const std::string doing = p.note.empty() ? p.stage : p.note;
  // The stage comes last and padded, so that what stands before it does not jump.
  if (!doing.empty()) right += fmt::format("  {:<13}", doing);

  const int room = columns - static_cast<int>(left.size() + right.size()) - 5;
  std::string line = left;
  if (p.total_steps > 0 && room >= 8) {
    const int width = std::min(room, 40);
    const int full = static_cast<int>(share * width);
    line += unicode ? "  " : " [";
    for (int i = 0; i < width; ++i) line += i < full ? (unicode ? "━" : "#") : (unicode ? "╌" : ".");
    line += unicode ? "  " : "] ";
  } else {
    line += "  ";
  }
  line += right;
  if (room < 0 && static_cast<int>(line.size()) > columns) line.resize(std::max(0, columns));
  return line;
}

}  // namespace trireme::console
