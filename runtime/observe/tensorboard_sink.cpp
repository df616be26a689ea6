#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/observe/append_file.h"
#include "runtime/observe/event_file.h"
#include "runtime/observe/metrics.h"

namespace trireme::observe {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard looks for "tfevents" in the name and reads the files of a folder in the order of their names.
std::string new_event_file(const std::string& folder) {
  static std::atomic<int> next{0};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "cannot make the folder {}: {}", folder, error.message());
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') std::string("localhost").copy(host, 9);
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(seconds_since_1970()), host,
                  ::getpid(), next.fetch_add(1));
  return (std::filesystem::path(folder) / name).string();
}

class TensorboardSink : public MetricsSink {
 public:
  explicit TensorboardSink(const std::string& folder) : file_(new_event_file(folder)) {
    file_.append(tf_record(version_event(seconds_since_1970())));
  }

  void write(int64_t step, const Metrics& metrics) override {
    file_.append(tf_record(scalars_event(seconds_since_1970(), step, metrics)));
  }

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<MetricsSink> tensorboard_sink(const std::string& folder) {
  return std::make_unique<TensorboardSink>(folder);
}

}  // namespace trireme::observe
