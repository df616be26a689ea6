#include <chrono>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/observe/append_file.h"
#include "runtime/observe/metrics.h"

namespace trireme::observe {
namespace {

class JsonlSink : public MetricsSink {
 public:
  explicit JsonlSink(const std::string& path) : file_(path) { file_.drop_unfinished_line(); }

  void write(int64_t step, const Metrics& metrics) override {
    using namespace std::chrono;
    const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch());
    nlohmann::ordered_json values = nlohmann::ordered_json::object(), not_finite = values;
    for (const auto& [name, value] : metrics) {
      values[name] = value;  // null where it is not finite
      if (!std::isfinite(value)) not_finite[name] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    }
    nlohmann::ordered_json line;
    line["step"] = step;
    line["time"] = static_cast<double>(now.count()) / 1000.0;
    line["metrics"] = std::move(values);
    if (!not_finite.empty()) line["not_finite"] = std::move(not_finite);
    file_.append(line.dump() + "\n");
  }

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<MetricsSink> jsonl_sink(const std::string& path) {
  return std::make_unique<JsonlSink>(path);
}

}  // namespace trireme::observe
