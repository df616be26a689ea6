#include "trainer/rollout/step_runner.h"

#include "runtime/base/error.h"
#include "trainer/rollout/gpu_step_runner.h"
#include "trainer/rollout/scheduler.h"

namespace trireme::rollout {

std::unique_ptr<StepRunner> make_step_runner(const models::Decoder& decoder, const StepLimits& limits) {
  if (decoder.device().is_cpu()) return make_cpu_step_runner(decoder, limits);
  const DrawKernel draw = draw_kernel();
  TRIREME_CHECK(draw, "a decoder on a GPU in a build without its kernels");
  return std::make_unique<GpuStepRunner>(decoder, limits, draw, make_step_graphs(decoder.device()));
}

void fail_not_numbers(const Scheduler& scheduler, int32_t sequence) {
  fail(ErrorCode::internal,
       "the decoder's logits are not numbers (request {}, response token {}): the weights have diverged or "
       "their checkpoint is damaged",
       scheduler.request_of(sequence).id, scheduler.num_sampled(sequence));
}

}  // namespace trireme::rollout
