// A service that judges responses over HTTP: each is a POST of the JSON that a program of the pool would read,
// answered by the JSON that it would write.
//
// A thread of its own has several requests under way, over connections that are kept. What may pass (no
// connection, no answer in time, 408, 425, 429, 5xx) is tried again after a pause that doubles each time, or that the
// service asks for (Retry-After); anything else fails at once. What fails for good is an outcome like any other.
// Results do not depend on the order of answers. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/rewards/outside_judge.h"
#include "trainer/rewards/reward_config.h"

namespace trireme::rewards {

/// `sign_of_life` is called once a second by whoever waits. Throws invalid_config for a header that names an
/// environment variable which is not set.
std::unique_ptr<OutsideJudge> http_judge(const HttpConfig& config, std::function<void()> sign_of_life = {});

}  // namespace trireme::rewards
