#include "trainer/costs/constants.h"

namespace trireme::costs {
namespace {

const std::string kFit = "fitted: docs/planning.md, trireme plan --against docs/published-runs.json --fit";
const std::string kCpuFit = "fitted: docs/planning.md, trireme bench train-step --observe on a Xeon";

}  // namespace

const Constants& gpu_constants() {
  static const Constants constants{{{
      {"product_share", 0.5001, "of the data sheet's products", true, kFit},
      {"decode_share", 0.8, "of the data sheet's memory rate", false,
       "assumed: what kernels that only read memory reach, 75 to 90 %"},
      {"layer_seconds", 10e-6, "s a layer and pass", false,
       "assumed: a dozen kernels a layer, most of whose starts hide behind the one before"},
      {"decode_seconds", 7.96e-3, "s a step of decoding", true, kFit},
      {"link_share", 0.75, "of fabric and network", false,
       "assumed: what nccl-tests reach with large messages, 70 to 90 %"},
      {"message_seconds", 5e-6, "s a member of a ring", false,
       "assumed: NCCL's latency on NVLink and InfiniBand"},
      {"update_share", 0.7, "of the memory rate", false, "assumed: an elementwise kernel"},
      {"touch_share", 0.7, "of the memory rate", false, "assumed: elementwise kernels, not fused"},
      {"length_spread", 3, "a + b of the lengths' beta distribution", false,
       "assumed: responses differ widely; where the mean is a third of the limit their standard deviation is "
       "70 % of it"},
      {"uneven_share", 0.05, "of a stage's products", false, "assumed: ranks' rows differ by some percent"},
  }}};
  return constants;
}

const Constants& cpu_constants() {
  static const Constants constants{{{
      {"product_share", 0.26, "of the measured products", true, kCpuFit},
      {"decode_share", 0.8, "of the measured memory rate", false,
       "assumed: trireme bench rollout prints its share_of_memory_limit"},
      {"layer_seconds", 20e-6, "s a layer and pass", false, "assumed: a dozen operations of 1 to 2 us"},
      {"decode_seconds", 100e-6, "s a step of decoding", false, "assumed"},
      {"link_share", 0.1, "of the memory rate", true,
       "assumed: MPI copies a message several times; --calibration with several ranks fits it"},
      {"message_seconds", 50e-6, "s a member of a ring", false, "assumed: MPI between processes of a host"},
      {"update_share", 0.31, "of the memory rate", true, kCpuFit},
      {"touch_share", 0.071, "of the memory rate", true, kCpuFit},
      {"length_spread", 3, "a + b of the lengths' beta distribution", false, "assumed: as on GPUs"},
      {"uneven_share", 0.0, "of a stage's products", false, "rows are shared out evenly in the bench"},
  }}};
  return constants;
}

}  // namespace trireme::costs
