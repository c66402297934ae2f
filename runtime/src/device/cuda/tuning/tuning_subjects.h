// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What there is to choose in the commands of a plan: the algorithms of matmuls and convolutions,
// and kernels that come in several variants.
#ifndef TRAINRT_DEVICE_CUDA_TUNING_SUBJECTS_H
#define TRAINRT_DEVICE_CUDA_TUNING_SUBJECTS_H

#include "device/cuda/commands.h"
#include "device/cuda/commands/launch.h"
#include "device/cuda/commands/library_command.h"
#include "device/cuda/tuning/tuner.h"

#include <vector>

namespace trainrt::cuda {

/// Memory of the tuning's own.
struct TuningMemory {
  /// Takes what is written to buffers whose values outlast the step: has `lastingBytes`.
  DeviceAddress spare = 0;
  DeviceAddress error = 0; ///< an error slot
  Workspace workspace;
};

/// Most bytes that a command with a choice writes to such buffers.
int64_t lastingBytes(const Commands &commands, const ExecutionPlan &plan);

/// Of prepared plans, whose commands outlive them. Equal ones of all plans are one.
class TuningSubjects {
public:
  TuningSubjects(const Kernels &kernels, const Program &program, Libraries &libraries,
                 const TuningMemory &memory)
      : kernels(kernels), program(program), libraries(libraries), memory(memory) {}
  void add(const Commands &commands, const ExecutionPlan &plan);
  Status get(std::vector<Subject> &subjects) const;

private:
  template <typename Call, typename Operands> struct Calls {
    std::string key;
    Call call;
    std::vector<Operands> uses;
  };
  /// Of a launch: kernel arguments, eight bytes each.
  using Parameters = std::vector<uint64_t>;
  struct Launches {
    std::string key;
    std::vector<LaunchVariant> variants; ///< the one in use first
    std::vector<Parameters> uses;
  };
  /// `numbered`: the addresses of `operands`, in the order of the command's.
  template <typename Command, typename List, typename Operands>
  void addCall(const Command &command, List &list, const Operands &operands,
               std::initializer_list<DeviceAddress *> numbered, const ExecutionPlan &plan,
               const ExecutionPlan::Step &step);
  void addLaunch(const DeviceLaunch &launch, const ExecutionPlan &plan,
                 const ExecutionPlan::Step &step);
  Subject subjectOf(const Launches &launches) const;

  const Kernels &kernels;
  const Program &program;
  Libraries &libraries;
  const TuningMemory memory;
  std::vector<Calls<GemmCall, GemmOperands>> products;
  std::vector<Calls<ConvolutionCall, ConvolutionOperands>> convolutions;
  std::vector<Launches> launches;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_TUNING_SUBJECTS_H
