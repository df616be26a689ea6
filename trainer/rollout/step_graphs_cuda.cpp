#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>

#include "trainer/rollout/step_graphs.h"

namespace trireme::rollout {
namespace {

class CudaStepGraphs : public StepGraphs {
 public:
  explicit CudaStepGraphs(at::Device device)
      : device_(device),
        pool_(at::cuda::graph_pool_handle()),
        stream_(at::cuda::getStreamFromPool(false, device.index())) {}

  void capture(int64_t rows, const std::function<void()>& enqueue) override {
    const c10::cuda::CUDAGuard on_device(device_);
    c10::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    // Once for real: libraries make their workspaces and load their kernels at the first call, which a
    // capture does not allow.
    enqueue();
    stream_.synchronize();
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    // Other threads of this process, such as those of the communicators, go on using the device.
    graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    enqueue();
    graph->capture_end();
    graphs_[rows] = std::move(graph);
  }

  void replay(int64_t rows) override { graphs_.at(rows)->replay(); }

  void clear() override {
    c10::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    graphs_.clear();
  }

 private:
  const at::Device device_;
  const at::cuda::MempoolId_t pool_;
  const at::cuda::CUDAStream stream_;  // a capture needs one that is not the default
  std::map<int64_t, std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};

}  // namespace

std::unique_ptr<StepGraphs> make_step_graphs(at::Device device) {
  return std::make_unique<CudaStepGraphs>(device);
}

}  // namespace trireme::rollout
