// Where and how this process computes.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "runtime/plan/rank_env.h"

namespace trireme::commands {

/// The GPU that the plan gave to this rank (by hand, one after the other), made current; else the CPU.
/// `wish` is auto, cpu or cuda. Throws invalid_config if a GPU is asked for and none is seen.
at::Device choose_device(const std::string& wish, const plan::RankEnv& env);

/// A row of a matrix product gets the same bits in any batch. Must come before the first product.
void pin_matrix_products();

}  // namespace trireme::commands
