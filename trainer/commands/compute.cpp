#include "trainer/commands/compute.h"

#include <algorithm>
#include <cstdlib>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "trainer/models/cpu_kernels.h"
#include "trainer/models/instruction_set.h"

namespace trireme::commands {

at::Device choose_device(const std::string& wish, const plan::RankEnv& env) {
  const bool has_gpu = at::globalContext().hasCUDA();
  if (wish == "cuda" && !has_gpu)
    fail(
        ErrorCode::invalid_config,
        "run.device = \"cuda\", but this rank sees no GPU (or this is the cpu build: see trireme --version)");
  if (wish == "cpu" || !has_gpu) return at::kCPU;
  const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
  const int index = env.gpu >= 0 ? env.gpu : env.local_rank % std::max<int>(1, gpus.deviceCount());
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  gpus.setDevice(device);
  return device;
}

// MKL picks its kernel by the number of rows unless told not to. The user's own setting stands.
void pin_matrix_products() {
  const std::string set = models::cpu_kernels().name;
  if (set == "avx512") ::setenv("MKL_CBWR", "AVX512,STRICT", 0);
  if (set == "avx2") ::setenv("MKL_CBWR", "AVX2,STRICT", 0);
}

void agree_on_instruction_set(pipeline::StageRunner& stages, comm::Communicator& world) {
  models::InstructionSet widest{};
  stages.run("setup", [&] { widest = models::widest_instruction_set(); });
  const auto common = static_cast<models::InstructionSet>(
      world.all_reduce_scalar(static_cast<double>(widest), comm::ReduceOp::min));
  if (common < widest)
    log::info("computes with {} kernels, the widest that all ranks have; this one has {}",
              models::name_of(common), models::name_of(widest));
  models::use_instruction_set(common);
}

}  // namespace trireme::commands
