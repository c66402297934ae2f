// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's own kernels for attention on a device: which there are, and loading them.
#ifndef TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_KERNELS_H
#define TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_KERNELS_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/attention_arguments.h"
#include "device/cuda/libraries.h"

#include <map>
#include <mutex>
#include <string>

namespace trainrt::cuda {

class AttentionKernels {
public:
  explicit AttentionKernels(const Driver &driver) : driver(driver) {}
  /// The context is current, here and in `find`.
  ~AttentionKernels();
  AttentionKernels(const AttentionKernels &) = delete;
  AttentionKernels &operator=(const AttentionKernels &) = delete;

  /// Finds those of these jobs that the build has made and the current device can run.
  Status load(std::initializer_list<const char *> jobs);
  /// The same of jobs whose kernels are for sm_90a, which only devices of 9.0 can run.
  Status loadWarpgroups(std::initializer_list<const char *> jobs);
  bool empty() const { return kernels.empty(); }
  int sharedBytes() const { return shared; } ///< that a thread block may have
  int multiprocessors() const { return numMultiprocessors; }

  /// What all of them take for granted of a call but alignment, for up to 128 columns.
  static bool canCompute(const AttentionCall &call);
  /// Whether heads and rows of all matrices begin at multiples of 16 bytes; those without an
  /// address are at 0.
  static bool isAligned(const AttentionCall &call);
  static bool isAligned(const AttentionOperands &operands);
  /// For how many columns the kernel was made that computes a call.
  static int paddedColumns(const AttentionCall &call) { return call.keyColumns <= 64 ? 64 : 128; }
  /// The arguments that follow from a call alone and its operands; lengths, grids and strides of
  /// statistics are the caller's.
  static AttentionArguments arguments(const AttentionCall &call, const AttentionOperands &operands);

  /// The kernel of a job for a call that `canCompute` says yes to; there are some. Several threads
  /// may ask at once: each kernel is compiled by the driver when it is first asked for.
  Status find(const char *job, const AttentionCall &call, CUfunction &function);

private:
  struct Kernel {
    std::mutex mutex;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };
  Status ask(int &major, int &minor);
  void add(std::initializer_list<const char *> jobs);
  Status load(const std::string &name, Kernel &kernel) const;

  const Driver &driver;
  int shared = 0, numMultiprocessors = 0;
  /// By name.
  std::map<std::string, Kernel> kernels;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_KERNELS_ATTENTION_KERNELS_H
