// Numbers of one step, by name, and where they are written. Not collective: reduce first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trireme::observe {

/// name -> value, in name order. NaN and infinities are kept (JSONL writes them as null and says so).
using Metrics = std::map<std::string, double>;

class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void write(int64_t step, const Metrics& metrics) = 0;
  virtual void flush() {}
};

/// One JSON object a line: {"step": 12, "time": 1763680000.123, "metrics": {...}}. Appends; each line is flushed.
std::unique_ptr<MetricsSink> jsonl_sink(const std::string& path);
/// TensorBoard's event file in `folder` (TFRecord framing, CRC32C, Event protobuf written by hand).
std::unique_ptr<MetricsSink> tensorboard_sink(const std::string& folder);

/// One metric's documentation; docs/metrics.md is generated from the table.
struct MetricInfo {
  std::string name;  // may end in "*" for a family
  std::string unit;
  std::string meaning;
};
const std::vector<MetricInfo>& metric_catalogue();
/// True if `name` is in the catalogue (or in a family of it).
bool is_documented(const std::string& name);

}  // namespace trireme::observe
