// Work that was enqueued once and is started again as a whole: CUDA graphs, by the number of rows that they
// compute. The memory that captured work reads and writes stays where it is; all graphs share one pool of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace trireme::rollout {

class StepGraphs {
 public:
  virtual ~StepGraphs() = default;

  /// Records what `enqueue` enqueues as the graph of `rows`; nothing runs. The largest first: the others find
  /// room in its memory.
  virtual void capture(int64_t rows, const std::function<void()>& enqueue) = 0;
  /// Enqueues the graph of `rows`, which has been captured.
  virtual void replay(int64_t rows) = 0;
  /// Forgets all of them, once what was enqueued is done.
  virtual void clear() = 0;
};

/// Null in a build without a GPU toolkit.
std::unique_ptr<StepGraphs> make_step_graphs(at::Device device);

}  // namespace trireme::rollout
