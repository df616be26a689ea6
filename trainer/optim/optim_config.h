// [actor.optim], [sft.optim]: AdamW and its schedule. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::optim {

struct OptimConfig {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double grad_clip = 1.0;  // global norm; 0: none
  int64_t lr_warmup_steps = 0;
  std::string lr_scheduler_type = "constant";  // constant | linear | cosine
  double min_lr_ratio = 0.0;                   // the last step's share of lr
};

}  // namespace trireme::optim
