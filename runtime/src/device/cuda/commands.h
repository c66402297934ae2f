// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The commands of a plan, ready to be enqueued on a stream: kernels looked up, library calls
// decided, addresses resolved.
#ifndef TRAINRT_DEVICE_CUDA_COMMANDS_H
#define TRAINRT_DEVICE_CUDA_COMMANDS_H

#include "device/cuda/attention/own_attention.h"
#include "device/cuda/commands/device_command.h"
#include "device/cuda/kernels.h"
#include "device/cuda/libraries.h"
#include "device/cuda/ranks/rank_kernels.h"
#include "device/thread_pool.h"
#include "plan/execution_plan.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace trainrt::cuda {

/// The libraries, each loaded when it is first needed.
class Libraries {
public:
  Status blas(Blas *&library);
  Status dnn(Dnn *&library);
  bool hasDnn() const { return loadedDnn != nullptr; }
  Status ownAttention(OwnAttention *&library);
  /// For a rank alone: those of several come with what they exchange by.
  Status rankKernels(const Context &context, const RankKernels *&kernels);
  /// Uses what was chosen for matmuls and convolutions on a machine like this one. `machine` is its
  /// name: for those for which nothing was chosen on it, but on others; else for those for which
  /// something was; empty if nothing was chosen for any.
  Status adopt(const Tuning &tuning, std::string &machine);

private:
  std::mutex mutex;
  std::unique_ptr<Blas> loadedBlas;
  std::unique_ptr<Dnn> loadedDnn;
  std::unique_ptr<OwnAttention> loadedOwnAttention;
  std::unique_ptr<RankKernels> loadedRankKernels;
};

class Commands {
public:
  /// Where buffer `index` of the function begins; its low eight bits never change.
  using BufferAddress = std::function<DeviceAddress(uint32_t index)>;

  Commands(const Context &context, const Program &program, const ExecutionPlan &plan)
      : context(context), program(program), plan(plan) {}

  /// Decides everything but addresses. Slow the first time; uses `pool` for the libraries.
  /// `exchange` null: there is one rank, and nothing to do for collectives.
  Status prepare(Kernels &kernels, Libraries &libraries, RankExchange *exchange, ThreadPool &pool);
  /// By command of the function, what its library call needs.
  std::vector<int64_t> workspaces() const;
  /// What those that are done together with other ranks need: one runs at a time.
  int64_t stagingBytes() const;
  /// Sets all addresses; again when memory has moved. `workspaces`: by command of the function;
  /// `errors`: an error slot for each of them.
  void resolve(const BufferAddress &address, const std::vector<DeviceAddress> &workspaces,
               DeviceAddress errors, DeviceAddress tables);
  /// What groups of launches read: to be copied to `tables` after every resolve.
  const std::vector<unsigned char> &groupTables() const { return tables; }

  size_t size() const { return items.size(); }
  /// Commands that become one graph, or a collective, between graphs.
  struct Part {
    size_t begin, end;
    bool isCollective;
    /// The collective that must be done before it begins, as must all before that one; -1: none
    /// but those that an earlier part has waited for.
    int32_t awaits = -1;
  };
  /// In their order; one at most where there is no collective. `beside`: collectives go on beside
  /// the parts behind them, and parts also begin where commands have to wait for one.
  std::vector<Part> parts(bool beside) const;
  /// Of these, whether any waits on the host: the last lane is used.
  bool hasTransfers(const Part &part) const;
  Status enqueue(size_t index, CUstream stream) const;
  /// The streams that commands are put on: 0, beside those on 1, and on 2 what is copied between
  /// the device and the host.
  static constexpr unsigned numLanes = 3;
  unsigned lane(size_t index) const { return items[index].lane; }
  /// One an item: the last earlier items of each lane that must be done before it, -1: none. For
  /// the addresses that were set.
  std::vector<std::array<int32_t, numLanes>> dependencies() const;
  /// "kernel 'softmax_3' (nodes '/a/Softmax')": for messages.
  std::string describe(size_t index) const;

  /// The command if it is of this class; null for others.
  template <typename Kind> const Kind *as(size_t index) const {
    return dynamic_cast<const Kind *>(items[index].command.get());
  }

  const Command &command(size_t index) const { return *items[index].step->command; }
  const ExecutionPlan::Step &step(size_t index) const { return *items[index].step; }

private:
  /// Buffers that are parts of others: the slices of a step of a loop.
  using Slices = std::map<uint32_t, Place>;
  struct Item {
    const ExecutionPlan::Step *step = nullptr;
    unsigned lane = 0;
    std::unique_ptr<DeviceCommand> command;
    /// Null outside of loops.
    std::shared_ptr<const Slices> slices = nullptr;
    Workspace workspace = {};
  };
  using InLoop = std::shared_ptr<const Slices>;
  Status prepareSteps(size_t begin, size_t end, const InLoop &slices, DeviceContext &with);
  Status prepareLoop(size_t begin, size_t end, const InLoop &slices, DeviceContext &with);
  /// Where a place begins that an item has; the buffer's address is there.
  static Place resolved(const Item &item, const Place &place);
  DeviceAddress addressOf(const Item &item, const Place &place) const;
  size_t indexOf(const Item &item) const { return size_t(item.step - plan.steps.data()); }
  Status prepareLibraries(LibraryCalls &calls, Libraries &libraries, ThreadPool &pool);

  const Context &context;
  const Program &program;
  const ExecutionPlan &plan;
  std::vector<Item> items;
  std::vector<unsigned char> tables;
  /// Of the plan's buffers, where they are used.
  std::vector<DeviceAddress> bufferAddresses;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_COMMANDS_H
