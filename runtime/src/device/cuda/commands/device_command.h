// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands on a GPU. Each kind has a file here that specialises the two functions below for its
// view.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_DEVICE_COMMAND_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_DEVICE_COMMAND_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels.h"
#include "device/cuda/libraries.h"
#include "plan/execution_plan.h"

#include <functional>
#include <memory>

namespace trainrt::cuda {

class Libraries;
class RankExchange;

/// Where a command's kernel puts the first index out of range that it meets, and whether it met a
/// number that is not finite where one must be (`NumberReport::members`).
struct ErrorSlot {
  int64_t taken, position, value, number;
};

/// Addresses of a plan's memory.
struct Addresses {
  /// Of an operand's place; 0 of an absent one.
  std::function<DeviceAddress(const Place &)> of;
  /// The command's error slot, and the first one of its function, those of commands before it lie
  /// between.
  DeviceAddress error = 0, firstError = 0;
  /// What groups of launches read: where it will be on the device, and what it holds.
  DeviceAddress tables = 0;
  std::span<unsigned char> tableBytes;
};

/// A command with everything decided but addresses.
class DeviceCommand {
public:
  virtual ~DeviceCommand() = default;
  virtual void resolve(const Addresses &addresses) = 0;
  /// Only enqueues work on `stream`; may be captured.
  virtual Status enqueue(CUstream stream, Workspace workspace) const = 0;
  virtual uint64_t workspaceBytes() const { return 0; }
};

/// Library calls of a plan, collected so that equal ones are prepared once and all at once.
class LibraryCalls {
public:
  /// `plan` is set by `Commands::prepare`, when all calls are known.
  void add(const GemmCall &call, std::shared_ptr<const GemmPlan> &plan, size_t command) {
    add(gemms, call, plan, command);
  }
  void add(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan, size_t command) {
    add(attentions, call, plan, command);
  }
  void add(const ConvolutionCall &call, std::shared_ptr<const ConvolutionPlan> &plan,
           size_t command) {
    add(convolutions, call, plan, command);
  }

  template <typename Call, typename Plan> struct Uses {
    Call call;
    struct Use {
      std::shared_ptr<const Plan> *plan;
      size_t command;
    };
    std::vector<Use> uses;
    Status status = {};
    std::shared_ptr<const Plan> plan = nullptr;
  };
  std::vector<Uses<GemmCall, GemmPlan>> gemms;
  std::vector<Uses<AttentionCall, AttentionPlan>> attentions;
  std::vector<Uses<ConvolutionCall, ConvolutionPlan>> convolutions;

private:
  template <typename List, typename Call, typename Plan>
  static void add(List &list, const Call &call, std::shared_ptr<const Plan> &plan, size_t command) {
    auto at = std::find_if(list.begin(), list.end(),
                           [&](const auto &entry) { return entry.call == call; });
    if (at == list.end())
      at = list.insert(list.end(), {call, {}});
    at->uses.push_back({&plan, command});
  }
};

/// What commands are prepared with.
struct DeviceContext {
  const Context &context;
  const Program &program;
  Kernels &kernels;
  Libraries &libraries;
  LibraryCalls &calls;
  /// What groups of launches read, one behind the other.
  std::vector<unsigned char> &tables;
  /// Null: there is one rank.
  RankExchange *exchange = nullptr;
  /// Number of the command among those that are prepared.
  size_t number = 0;
};

/// `command` stays null where there is nothing to do.
template <typename View>
Status prepareOnDevice(const View &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command);

/// The most device memory that a library may ask for: known before it is loaded.
template <typename View> int64_t workspaceLimit(const View &step);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_DEVICE_COMMAND_H
