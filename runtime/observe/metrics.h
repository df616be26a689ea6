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

/// One thread at a time. Constructors and writes throw io naming the file.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void write(int64_t step, const Metrics& metrics) = 0;
  virtual void flush() {}
};

/// One JSON object a line: {"step": 12, "time": 1763680000.123, "metrics": {...}}; a value that JSON lacks is
/// null there and named in "not_finite": {"actor/grad_norm": "nan"}. Appends; each line is flushed. The
/// unfinished last line of a run that was killed is cut off. A resumed run writes its steps again: the later
/// line counts.
std::unique_ptr<MetricsSink> jsonl_sink(const std::string& path);
/// TensorBoard's event file in `folder` (TFRecord framing, CRC32C, Event protobuf written by hand). Each step
/// is flushed; values are fp32 there. One more file for each sink, as TensorBoard expects of a resumed run.
std::unique_ptr<MetricsSink> tensorboard_sink(const std::string& folder);

/// One metric's documentation; docs/metrics.md is generated from the table.
struct MetricInfo {
  std::string name;  // may hold "*" for a family: any text, slashes too
  std::string unit;
  std::string meaning;
};
/// In the order of the documentation: grouped by what stands before the first '/'.
const std::vector<MetricInfo>& metric_catalogue();
/// True if `name` is in the catalogue (or in a family of it).
bool is_documented(const std::string& name);
/// The text of docs/metrics.md.
std::string metrics_markdown();

}  // namespace trireme::observe
