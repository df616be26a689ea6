// Whether a run that failed is started again, and when.
#pragma once

#include <chrono>
#include <string>

#include "launcher/process/supervisor.h"

namespace trireme::process {

class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  struct Decision {
    bool again = false;
    std::chrono::seconds wait{0};
    std::string why;  // for the user, either way; may be empty
  };
  /// Of one attempt after the other. Again, unless it ended well, was asked to stop, failed in a way that the
  /// same input always gives, failed on the same rank at the same step as the time before, or too often. The
  /// wait grows from one second to one minute, and begins anew when steps were done in between.
  Decision decide(const Outcome& outcome);
  int restarts() const { return restarts_; }

 private:
  int max_restarts_, restarts_ = 0, failures_in_place_ = 0;
  int last_rank_ = -1;
  std::string last_place_;
};

}  // namespace trireme::process
