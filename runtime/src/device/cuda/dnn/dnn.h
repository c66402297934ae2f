// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fused attention and convolutions through cuDNN, which the plugin libtrainrt-cudnn.so speaks to:
// finding the plugin and the libraries, plans and their store on disk.
//
// A plan takes 0.5 to 1 s to build, so plans are stored in $TRAINRT_CACHE, else
// $XDG_CACHE_HOME/trainrt, else ~/.cache/trainrt, a file each; TRAINRT_CACHE=off stores none. What
// is stored is the library's choice for exactly this call, device and version: it changes no
// result.
#ifndef TRAINRT_DEVICE_CUDA_DNN_H
#define TRAINRT_DEVICE_CUDA_DNN_H

#include "device/cuda/libraries.h"

#include <string>
#include <vector>

namespace trainrt::cuda {

/// The folder of stored plans; "" if they are switched off or there is no home folder.
std::string planCacheFolder();

struct DnnImpl;

class Cudnn final : public Dnn {
public:
  static Status load(std::unique_ptr<Cudnn> &dnn);
  ~Cudnn() override;

  /// Threads that ask for the same call wait for one of them to build it; others build in parallel.
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) override;
  Status prepare(const ConvolutionCall &call,
                 std::shared_ptr<const ConvolutionPlan> &plan) override;
  Status alternatives(const ConvolutionCall &call, size_t count,
                      std::vector<Algorithm> &found) override;
  std::string machine() const override;
  void choose(const Choices &choices) override;

  /// How many plans have been built and how many were read from the store.
  struct Counts {
    int built = 0, restored = 0;
  };
  Counts counts() const;

private:
  explicit Cudnn(std::shared_ptr<DnnImpl> impl);
  std::shared_ptr<DnnImpl> impl;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DNN_H
