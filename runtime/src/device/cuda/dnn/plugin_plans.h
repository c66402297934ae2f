// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of the cuDNN plugin, which equal calls share, and their store on disk: the same for all
// kinds of calls.
#ifndef TRAINRT_DEVICE_CUDA_DNN_PLUGIN_PLANS_H
#define TRAINRT_DEVICE_CUDA_DNN_PLUGIN_PLANS_H

#include "device/cuda/depthwise.h"
#include "device/cuda/dnn/cudnn_plugin.h"
#include "device/cuda/dnn/dnn.h"
#include "device/cuda/segments.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

namespace trainrt::cuda {

/// Appends what it is given to `text`, which outlives it.
TrainrtCudnnSink sink(std::string &text);

/// A plan of the plugin; of segments without their number of rows.
class PluginPlan {
public:
  PluginPlan(const TrainrtCudnnPlugin &plugin, TrainrtCudnnPlan *plan)
      : plugin(plugin), plan(plan) {}
  ~PluginPlan() { plugin.destroy(plan); }
  PluginPlan(const PluginPlan &) = delete;
  PluginPlan &operator=(const PluginPlan &) = delete;

  uint64_t workspaceBytes() const { return plugin.workspaceBytes(plan); }
  static void *pointer(DeviceAddress address) { return reinterpret_cast<void *>(address); }

  const TrainrtCudnnPlugin &plugin;
  TrainrtCudnnPlan *const plan;
};

/// What a plan is asked for with.
struct PlanRequest {
  /// "attention": in the names of files.
  std::string kind;
  /// Identifies the call among those of its kind.
  std::string description;
  std::function<int(const TrainrtCudnnPlugin &, TrainrtCudnnPlan *&plan, TrainrtCudnnSink why)>
      build;
  /// From what the plugin has stored of a plan of an equal description.
  std::function<int(const TrainrtCudnnPlugin &, const void *stored, size_t size,
                    TrainrtCudnnPlan *&plan, TrainrtCudnnSink why)>
      restore;
  /// Where no plan can be built.
  std::function<Status(const std::string &why)> unsupported;
};

struct DnnImpl {
  const TrainrtCudnnPlugin *plugin = nullptr;
  /// Versions and device, which decide what a stored plan is good for.
  std::string identity;
  std::string folder;

  std::mutex mutex;
  std::condition_variable finished;
  /// By kind and description; null while a thread builds it.
  std::map<std::string, std::shared_ptr<const PluginPlan>> plans;
  Cudnn::Counts counts;
  /// Algorithms of convolutions, by their keys.
  Choices tuned;
  /// Beside cuDNN: its kernels are one more algorithm, the first one.
  std::unique_ptr<Depthwise> depthwise;
  /// Loaded with the first plan of segments.
  std::unique_ptr<SegmentKernel> segmentKernel;

  Status find(const PlanRequest &request, std::shared_ptr<const PluginPlan> &plan);
  /// The one that was chosen for a convolution; "": the library's own.
  std::string algorithmOf(const std::string &key);

private:
  Status make(const PlanRequest &request, std::shared_ptr<const PluginPlan> &plan);
  bool restore(const std::string &path, const std::string &header, const PlanRequest &request,
               TrainrtCudnnPlan *&plan);
  void store(const std::string &path, const std::string &header, const TrainrtCudnnPlan *plan);
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DNN_PLUGIN_PLANS_H
