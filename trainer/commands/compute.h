// Where and how this process computes.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "runtime/pipeline/stage.h"
#include "runtime/plan/rank_env.h"

namespace trireme::commands {

/// The GPU that the plan gave to this rank (by hand, one after the other), made current; else the CPU.
/// `wish` is auto, cpu or cuda. Throws invalid_config if a GPU is asked for and none is seen.
at::Device choose_device(const std::string& wish, const plan::RankEnv& env);

/// The library's matrix products (gradients of few rows) give the same bits in every run. Must come before
/// the first product. Forward products are ours, and need nothing.
void pin_matrix_products();

/// All ranks take the widest instruction set that each of them has, so that they compute the same bits.
/// Before any weight is packed. Collective over: world.
void agree_on_instruction_set(pipeline::StageRunner& stages, comm::Communicator& world);

}  // namespace trireme::commands
