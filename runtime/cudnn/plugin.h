// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin's kinds of calls share: handles of cuDNN, plans, and errors instead of
// exceptions.
#ifndef TRAINRT_CUDNN_PLUGIN_PLUGIN_H
#define TRAINRT_CUDNN_PLUGIN_PLUGIN_H

#include "device/cuda/dnn/cudnn_plugin.h"

#include <cudnn_frontend.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fe = cudnn_frontend;

struct TrainrtCudnnPlan {
  TrainrtCudnnAttention attention = {}; ///< the call, where it is one
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t workspaceBytes = 0;
};

namespace trainrt::cudnn {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

int failed(TrainrtCudnnSink error, const std::string &message);

/// Runs `body`, which returns cudnn_frontend's errors; exceptions end here.
template <typename Body> int guarded(TrainrtCudnnSink error, Body body) {
  try {
    fe::error_t status = body();
    return status.is_good() ? 0 : failed(error, status.get_message());
  } catch (const std::exception &exception) {
    return failed(error, exception.what());
  } catch (...) {
    return failed(error, "an unknown exception");
  }
}

/// cuDNN's handles: one is used by one thread at a time and belongs to a device. They live as long
/// as the process.
class Handles {
public:
  /// Gives the handle back at the end of a scope, however that ends.
  class Lease {
  public:
    ~Lease() {
      if (handle)
        owner->give(device, handle);
    }
    cudnnHandle_t handle = nullptr;

  private:
    friend class Handles;
    Handles *owner = nullptr;
    int device = 0;
  };

  /// Of the device that is current. cuDNN is not called under the mutex.
  fe::error_t take(Lease &lease) {
    lease.owner = this;
    if (fe::detail::cuda_get_device(&lease.device) != cudaSuccess)
      return {fe::error_code_t::CUDA_API_FAILED, "there is no current CUDA device"};
    {
      std::lock_guard<std::mutex> lock(mutex);
      std::vector<cudnnHandle_t> &free = handles[lease.device];
      if (!free.empty()) {
        lease.handle = free.back();
        free.pop_back();
        return {};
      }
    }
    cudnnStatus_t status = fe::detail::create_handle(&lease.handle);
    if (status != CUDNN_STATUS_SUCCESS) {
      lease.handle = nullptr;
      return {fe::error_code_t::HANDLE_ERROR,
              std::string("cudnnCreate: ") + fe::detail::get_error_string(status)};
    }
    return {};
  }

private:
  void give(int device, cudnnHandle_t handle) {
    std::lock_guard<std::mutex> lock(mutex);
    handles[device].push_back(handle);
  }

  std::mutex mutex;
  std::map<int, std::vector<cudnnHandle_t>> handles;
};

Handles &handles();

/// A handle of the current device that enqueues on `stream`.
fe::error_t takeFor(void *stream, Handles::Lease &lease);

/// A plan whose graph `prepare` has made ready for a handle.
/// `plan` is set where it succeeds, and is the caller's.
template <typename Prepare>
int makePlan(TrainrtCudnnPlan **plan, TrainrtCudnnSink error, Prepare prepare) {
  auto made = std::make_unique<TrainrtCudnnPlan>();
  int status = guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = handles().take(lease); taken.is_bad())
      return taken;
    made->graph = std::make_shared<fe::graph::Graph>();
    if (fe::error_t prepared = prepare(*made, lease.handle); prepared.is_bad())
      return prepared;
    return made->graph->get_workspace_size(made->workspaceBytes);
  });
  if (!status)
    *plan = made.release();
  return status;
}

/// What `Graph::serialize` wrote, as a plan's graph.
fe::error_t readStored(TrainrtCudnnPlan &plan, cudnnHandle_t handle, const void *stored,
                       size_t size);

// Entries of TrainrtCudnnPlugin.
int buildAttention(const TrainrtCudnnAttention *attention, TrainrtCudnnPlan **plan,
                   TrainrtCudnnSink error);
int restoreAttention(const TrainrtCudnnAttention *attention, const void *stored, size_t size,
                     TrainrtCudnnPlan **plan, TrainrtCudnnSink error);
int enqueueAttention(const TrainrtCudnnPlan *plan, void *stream,
                     const TrainrtCudnnOperands *operands, void *workspace, TrainrtCudnnSink error);
int convolutionAlgorithms(const TrainrtCudnnConvolution *convolution, TrainrtCudnnSink names,
                          TrainrtCudnnSink error);
int buildConvolution(const TrainrtCudnnConvolution *convolution, const char *algorithm,
                     TrainrtCudnnPlan **plan, TrainrtCudnnSink error);
int restoreConvolution(const void *stored, size_t size, TrainrtCudnnPlan **plan,
                       TrainrtCudnnSink error);
int enqueueConvolution(const TrainrtCudnnPlan *plan, void *stream,
                       const TrainrtCudnnConvolutionOperands *operands, void *workspace,
                       TrainrtCudnnSink error);

} // namespace trainrt::cudnn

#endif // TRAINRT_CUDNN_PLUGIN_PLUGIN_H
