// Whether a rank got what the launch plan says: a binding that a container refused, or that something between
// the launcher and the rank changed, costs speed in silence.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/launch_plan.h"

namespace trireme::plan {

/// Compares this process's host, CPUs and memory policy to the plan: a sentence for each difference, none if
/// all is as planned. Local.
std::vector<std::string> binding_differences(const RankPlan& planned);

/// "0000:3B:00.0", "3b:00.0" and "00000000:3b:00.0" are one device.
bool is_same_device(const std::string& bus_id, const std::string& other);

}  // namespace trireme::plan
