// The passes of a model over micro-batches (sharding/pipeline.h), and the end of an update.
#pragma once

#include <functional>
#include <span>

#include "trainer/optim/adamw.h"
#include "trainer/sharding/model_memory.h"
#include "trainer/sharding/pipeline.h"
#include "trainer/steps/packing.h"

namespace trireme::steps {

/// `loss(micro, hidden)` is what a micro-batch adds to the loss, asked on the last stage alone. Collective as
/// Pipeline::train().
inline void train(sharding::Pipeline& passes, std::span<const MicroBatch> micros,
                  const std::function<at::Tensor(const MicroBatch&, const at::Tensor&)>& loss) {
  passes.train(
      micros.size(), [&](size_t k) -> const models::ForwardBatch& { return micros[k].batch; },
      [&](size_t k, const at::Tensor& hidden) { return loss(micros[k], hidden); });
}

/// The same without gradients.
inline void read(sharding::Pipeline& passes, std::span<const MicroBatch> micros,
                 const std::function<void(const MicroBatch&, const at::Tensor&)>& reader) {
  passes.read(
      micros.size(), [&](size_t k) -> const models::ForwardBatch& { return micros[k].batch; },
      [&](size_t k, const at::Tensor& hidden) { reader(micros[k], hidden); });
}

/// After train(): sums the gradient, changes the masters, and brings them to where the decoder reads them.
/// Collective over the model's ranks. Returns the gradient's norm.
inline double finish_update(sharding::TrainedParameters& parameters, sharding::ModelMemory& memory,
                            optim::AdamW& optimizer, double lr) {
  memory.expect();  // on their way while gradients are summed
  const double norm = parameters.sum_gradient();
  const auto present = memory.masters(/*change=*/true);
  optimizer.step(lr, norm);
  parameters.publish();
  return norm;
}

}  // namespace trireme::steps
