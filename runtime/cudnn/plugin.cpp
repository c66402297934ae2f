// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin libtrainrt-cudnn.so: attention and convolutions as graphs of cuDNN. This folder alone
// includes cudnn_frontend, and alone of the runtime catches exceptions of a library.

#include "plugin.h"

#include <cstdlib>

namespace cudnn_frontend {
// The headers look every function of cuDNN up in this library.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace trainrt::cudnn {

int failed(TrainrtCudnnSink error, const std::string &message) {
  error.write(error.to, message.data(), message.size());
  return 1;
}

Handles &handles() {
  // Never destroyed: cuDNN may be gone when the destructors of this library run.
  static Handles &all = *new Handles;
  return all;
}

fe::error_t takeFor(void *stream, Handles::Lease &lease) {
  if (fe::error_t taken = handles().take(lease); taken.is_bad())
    return taken;
  cudnnStatus_t status = fe::detail::set_stream(lease.handle, static_cast<cudaStream_t>(stream));
  if (status != CUDNN_STATUS_SUCCESS)
    return {fe::error_code_t::HANDLE_ERROR,
            std::string("cudnnSetStream: ") + fe::detail::get_error_string(status)};
  return {};
}

/// The caller has checked that `store` wrote it for an equal call, with the same versions and
/// device.
fe::error_t readStored(TrainrtCudnnPlan &plan, cudnnHandle_t handle, const void *stored,
                       size_t size) {
  const uint8_t *bytes = static_cast<const uint8_t *>(stored);
  return plan.graph->deserialize(handle, std::vector<uint8_t>(bytes, bytes + size),
                                 /*enforce_precompiled=*/true, /*run_warmup=*/false);
}

namespace {

/// Older versions copy lengths from host memory while they enqueue, for sequences that are no
/// multiple of 128: that cannot be captured.
constexpr int64_t oldestVersion = 91600;

int open(void *cudnn, const char *cudart, int64_t *version, TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    fe::cudnn_dlhandle = cudnn;
    // How cudnn_frontend is told which libcudart to load; a person's own setting stays.
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", cudart, 0);
    *version = int64_t(fe::detail::get_backend_version());
    if (*version < oldestVersion)
      return {fe::error_code_t::GRAPH_NOT_SUPPORTED,
              "cuDNN " + std::to_string(*version) + " is too old: 9.16 or newer is needed"};
    return {};
  });
}

int store(const TrainrtCudnnPlan *plan, TrainrtCudnnSink stored, TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    std::vector<uint8_t> data;
    if (fe::error_t written = plan->graph->serialize(data, /*serialize_structure=*/false);
        written.is_bad())
      return written;
    stored.write(stored.to, data.data(), data.size());
    return {};
  });
}

uint64_t workspaceBytes(const TrainrtCudnnPlan *plan) { return uint64_t(plan->workspaceBytes); }

void destroy(TrainrtCudnnPlan *plan) { delete plan; }

#define TRAINRT_TEXT_(value) #value
#define TRAINRT_TEXT(value) TRAINRT_TEXT_(value)
constexpr TrainrtCudnnPlugin plugin = {
    TRAINRT_CUDNN_PLUGIN_ABI,
    "cudnn_frontend " TRAINRT_TEXT(CUDNN_FRONTEND_MAJOR_VERSION) "." TRAINRT_TEXT(CUDNN_FRONTEND_MINOR_VERSION) "." TRAINRT_TEXT(
        CUDNN_FRONTEND_PATCH_VERSION) " with headers of " TRAINRT_TEXT(CUDNN_MAJOR) "." TRAINRT_TEXT(CUDNN_MINOR) "." TRAINRT_TEXT(CUDNN_PATCHLEVEL),
    open,
    buildAttention,
    restoreAttention,
    store,
    workspaceBytes,
    enqueueAttention,
    destroy,
    convolutionAlgorithms,
    buildConvolution,
    restoreConvolution,
    enqueueConvolution};

} // namespace
} // namespace trainrt::cudnn

extern "C" __attribute__((visibility("default"))) const TrainrtCudnnPlugin *trainrt_cudnn_plugin() {
  return &trainrt::cudnn::plugin;
}
