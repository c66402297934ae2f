// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with a filter for each channel through kernels of the runtime's own
// (device/cuda/kernels/depthwise.h), which need little more time than reading and writing the
// tensors takes.
#ifndef TRAINRT_DEVICE_CUDA_DEPTHWISE_H
#define TRAINRT_DEVICE_CUDA_DEPTHWISE_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/depthwise_arguments.h"
#include "device/cuda/libraries.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace trainrt::cuda {

/// How a kernel is started: a grid of blocks, the threads of one and its bytes of shared memory.
struct DepthwiseGrid {
  unsigned x = 1, y = 1, threads = 1, shared = 0;
};

// Arguments without addresses, of calls that `Depthwise::takes`.
/// Forward, and the gradient for the input.
std::pair<DepthwiseArguments, DepthwiseGrid> depthwiseLaunch(const ConvolutionCall &call);
/// The gradient for the filter: the first launch, then the second one.
std::pair<DepthwiseArguments, DepthwiseGrid> depthwiseSumsLaunch(const ConvolutionCall &call);
std::pair<DepthwiseTotalArguments, DepthwiseGrid> depthwiseTotalLaunch(const ConvolutionCall &call);
/// Bytes of the sums between them.
int64_t depthwiseSumsBytes(const ConvolutionCall &call);

class Depthwise {
public:
  /// The context is current, here and when this is destroyed.
  static Status load(std::unique_ptr<Depthwise> &depthwise);
  ~Depthwise();
  Depthwise(const Depthwise &) = delete;
  Depthwise &operator=(const Depthwise &) = delete;

  /// Two axes with windows of 3, 5 or 7 positions at each one, pads that windows are not all in,
  /// and channels in fours; else cuDNN does.
  static bool fits(const ConvolutionCall &call);
  /// Whether it computes such a call here: those that fit, if the build has made the kernels, and
  /// the GPU has the shared memory.
  bool takes(const ConvolutionCall &call) const;
  /// Whether they are used for a call that `fits` where nothing was chosen for it: where they were
  /// quicker than cuDNN's on an H100 (docs/design/convolution.md).
  static bool isQuicker(const ConvolutionCall &call);
  /// Of a call that it takes, whose plan has the key `key`. Several threads may call it at once:
  /// kernels are compiled by the driver when they are first asked for.
  Status prepare(const ConvolutionCall &call, const std::string &key,
                 std::shared_ptr<const ConvolutionPlan> &plan);
  /// Their name among the algorithms for a call.
  static constexpr const char *algorithm = "trainrt";

private:
  explicit Depthwise(const Driver &driver) : driver(driver) {}
  struct Kernels {
    std::mutex mutex;
    CUmodule module = nullptr;
    CUfunction forward = nullptr, data = nullptr, sums = nullptr, total = nullptr;
  };
  class Plan;
  Status load(const std::string &name, Kernels &kernels) const;

  const Driver &driver;
  int mostShared = 0; ///< bytes of a block
  /// By type and taps; none where the build made none.
  std::map<std::string, Kernels> kernels;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DEPTHWISE_H
