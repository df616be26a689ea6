// The paragraph that ends a run that failed.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/backends/backend.h"
#include "launcher/process/first_failure.h"

namespace trireme::process {

/// Rank, host, what, where in the run; the end of its log if the rank did not say itself what went wrong.
std::string failure_text(const Failure& failure, const RankRecord& record, int num_ranks,
                         const std::string& log);

/// What went wrong beside the ranks, and what the backend's command wrote from `offset` in its log.
std::string trouble_text(const std::string& what, const backends::Backend& backend, const std::string& log,
                         off_t offset);

}  // namespace trireme::process
