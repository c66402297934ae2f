// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on a GPU. Everything that a captured graph refers to is at an address that moves only when
// it grows; graphs of before are then captured again. A run is: its batch and hyper-parameters
// copied in one piece, one graph launched, its loss, flag and error slots copied back.
#ifndef TRAINRT_DEVICE_CUDA_CUDA_DEVICE_H
#define TRAINRT_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/cuda/commands.h"
#include "device/cuda/context.h"
#include "device/cuda/direct_inputs.h"
#include "device/cuda/kernels.h"
#include "device/cuda/ranks/rank_exchange.h"
#include "device/cuda/staging.h"
#include "device/cuda/told_numbers.h"
#include "device/cuda/transfers.h"
#include "device/device.h"

#include <map>
#include <set>
#include <string>

namespace trainrt::cuda {

class CudaDevice final : public Device {
public:
  CudaDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
             AddressOf addressOf, std::unique_ptr<Context> context);
  ~CudaDevice() override;
  Status start(const DeviceOptions &options);

  bool runsAhead() const override { return true; }
  bool isHost() const override { return false; }
  int ordinal() const override { return context->ordinal(); }
  void *stream() const override { return runs; }
  Status waitFor(void *other) override {
    transfers.forget(); // it may have written to values
    return order(static_cast<CUstream>(other), runs);
  }
  Status signal(void *other) override { return order(runs, static_cast<CUstream>(other)); }
  Status locate(ArrayView &array) const override;
  Status allocateHost(int64_t bytes, void *&memory) override;
  void releaseHost(void *memory) override;
  Status write(void *to, int64_t bytes, const Source &source) override;
  Status copy(void *to, const void *from, int64_t bytes) override;
  Status clear(void *to, int64_t bytes) override;
  Status view(const void *from, int64_t bytes, const void *&host) override;
  Status prepare(const ExecutionPlan &plan) override;
  int64_t builds() const override { return built; }
  InputCopies inputCopies() const override { return copies; }
  const DeviceMemory &outputs() const override { return outputBlock; }
  Status enqueue(Run &run, Ticket &ticket) override;
  Status repeat(Ticket &ticket) override;
  Status wait(Ticket ticket, Result &result) override;
  Status tune(const std::vector<const ExecutionPlan *> &plans, double seconds,
              TuningResult &result) override;
  void addMemory(MemoryUse &use) const override;
  int64_t freeMemory() const override;
  Status measureCopySpeed(double &bytesPerSecond) override;
  Status measureMatmulSpeed(double &flopsPerSecond) override;

private:
  class Compiled;
  /// By part of the commands; null for a collective. Empty where there are no commands, or they run
  /// one by one.
  using Graphs = std::vector<CUgraphExec>;
  /// What a run leaves in pinned memory.
  struct Report {
    ToldNumbers::Room numbers;
    int32_t nonfinite, padding;
  };
  struct Upload {
    PinnedMemory memory;
    Event done;
    bool busy = false;
  };
  /// A run that may be under way.
  struct Underway {
    Event done;
    const Function *function = nullptr;
    const ExecutionPlan *plan = nullptr; ///< of a run with collectives, until that is waited for
    Status lost;                         ///< why it had to be ended, before anybody asked
    ToldNumbers told;
    bool hasFlag = false;
  };

  Status allocateBytes(int64_t bytes, const char *what, bool zeroed,
                       std::shared_ptr<unsigned char> &data) override;
  void releaseBytes(const unsigned char *data, int64_t bytes) override;
  /// Lets what is enqueued on `later` from now on wait for what is on `earlier`.
  Status order(CUstream earlier, CUstream later);
  /// Waits for all runs.
  void drain();
  /// OutOfMemory with what is held, what is needed and what is free, unless `more` bytes are.
  Status checkRoom(int64_t more, const std::string &what);
  Status outOfMemory(const std::string &what) const;
  /// Lets the driver take memory for itself in `make`, and adds how much to `bytes`.
  Status measured(int64_t &bytes, const std::function<Status()> &make);
  /// Waits for the event.
  CUresult await(const Event &event);
  /// Lets `block` have at least `bytes`; what depends on its address is made again.
  Status grow(DeviceMemory &block, int64_t bytes, const char *what);
  Status growHostArena(int64_t bytes);
  /// Uses the package's choices for this machine.
  Status adoptTuning();
  /// Numbers as activations are, any type's, so that matmuls take the power that they will take.
  Status fillWithNumbers(DeviceAddress to, int64_t bytes);
  Status ready(Compiled &compiled, const ExecutionPlan &plan);
  /// `side`: of the staging blocks, where inputs are that have no address.
  Status resolve(Compiled &compiled, const ExecutionPlan &plan, unsigned side,
                 const InputAddresses &inputs, DeviceMemory &table);
  /// As it was resolved.
  Status capture(Compiled &compiled, const ExecutionPlan &plan, Graphs &graphs);
  Status capture(const Commands &commands, const Commands::Part &part, const std::string &where,
                 CUgraphExec &graph);
  DeviceAddress addressOfBuffer(const Compiled &compiled, const ExecutionPlan &plan, uint32_t index,
                                unsigned side, const InputAddresses &inputs) const;
  std::vector<DeviceAddress> addressesOfWorkspaces(const Compiled &compiled) const;
  /// Copies inputs that lie on the device, or has them read where they are: by the graphs to
  /// launch.
  Status bindInputs(const Run &run, Compiled &compiled, const Graphs *&graphs);
  /// Why a graph cannot read the array where it is; null if it can.
  const char *whyCopied(const Run &run, const Compiled &compiled, const ArrayView &array) const;
  Status copyInput(const Run &run, const Compiled &compiled, uint32_t input, const char *reason);
  /// Graphs of this turn that read `inputs`, if there are some or they are worth making.
  Status directGraph(const ExecutionPlan &plan, Compiled &compiled, const InputAddresses &inputs,
                     const Graphs *&graphs, const char *&reason);
  /// Gives their memory back; whether there were any.
  bool dropDirectGraphs();
  /// Hyper-parameters and inputs of the host to the staging block of this turn.
  Status stage(const Run &run, const Compiled &compiled);
  // `alone`: without collectives.
  /// The commands one by one, each waited for.
  Status runSynchronously(const ExecutionPlan &plan, const Compiled &compiled, bool alone);
  /// The commands one by one, with events around them; the observer is told at the end.
  Status runTimed(const ExecutionPlan &plan, const Compiled &compiled, bool alone);
  /// A command of runTimed, by its marks. `needed`: where the others come to wait for an exchange.
  struct Span {
    size_t begin = 0, end = 0, needed = 0;
  };
  Status tellTimes(const ExecutionPlan &plan, const Compiled &compiled,
                   const std::vector<Span> &spans, bool alone);
  Status launch(const ExecutionPlan &plan, const Compiled &compiled, const Graphs &graphs,
                bool alone, Ticket &ticket);
  /// Graphs one behind the other, and what ranks do together beside them, or between them.
  Status launchParts(const ExecutionPlan &plan, const Compiled &compiled, const Graphs &graphs,
                     bool alone);
  /// Held while a graph or a command that is no exchange is started.
  std::unique_lock<std::mutex> starting() const;
  Status enqueueCommand(const Compiled &compiled, size_t item) const;
  /// A collective behind all commands that have been enqueued.
  Status enqueueExchange(const Compiled &compiled, size_t item);
  /// Lets the commands behind wait for a collective, and for all before it.
  Status awaitExchange(const Compiled &compiled, int32_t item);
  /// Connects the GPU with those of other ranks, where the package's commands ask for it.
  Status joinRanks(Communicator *ranks);
  /// Waits for a run with collectives: not where one of them will never end.
  Status awaitRanks(const Event &done, const ExecutionPlan &plan);
  /// For what is on its stream by now.
  Status awaitRanks(const ExecutionPlan &plan);
  /// Says what the ranks exchanged when it happened.
  Status atExchange(const Status &status, const Function &function, const Command &command) const;
  Status fault(const Status &status, const Function &function) const;
  DeviceAddress at(const void *data) const { return reinterpret_cast<DeviceAddress>(data); }

  // In this order: what is later may use what is before it until the end.
  std::shared_ptr<Context> context; // blocks that outlive this have shares of it
  const Driver &driver;
  const bool synchronous;
  CommandObserver *const observer;
  /// The last three are captured only.
  CUstream runs = nullptr, uploadStream = nullptr, captureStream = nullptr, besideStream = nullptr,
           transferStream = nullptr;
  bool ownStream = false;
  /// Of collectives; null where they are on the commands' stream.
  CUstream exchangeStream = nullptr;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Libraries> libraries;
  std::unique_ptr<RankExchange> exchange; ///< null: there is one rank
  Transfers transfers;
  PinnedBlocks hostBlocks;
  /// What is allocated, by its name in messages.
  std::map<std::string, int64_t> held;
  int64_t heldBytes = 0;
  /// Taken by the driver: for kernels and libraries; for the graphs that there are.
  int64_t codeBytes = 0, graphBytes = 0, tableBytes = 0;
  struct Block {
    std::string name;
    int64_t bytes;
  };
  std::map<const unsigned char *, Block> blocks;
  /// Plans that have graphs which read inputs in callers' memory.
  std::set<Compiled *> direct;
  InputCopies copies;
  DeviceMemory arena, outputBlock, constants, errorSlots, exchangeBlock;
  /// Two sides, which runs take in turn: the inputs of the next one arrive while one reads its own.
  /// Runs without a graph stay on the first.
  DeviceMemory staging[2];
  unsigned turn = 0; ///< the side of the last run
  /// Where activations wait that are moved to the host.
  PinnedMemory hostArena;
  std::vector<int64_t> constantOffsets;
  int64_t arenaLowerBound = 0;
  /// Counts the moves of memory that graphs refer to.
  uint64_t generation = 1;
  int64_t built = 0; ///< graphs, or what stands for them
  Upload uploads[2];
  Event ordered;
  PinnedMemory reports, errors;
  /// The slots of a run's commands, as its end left them.
  ErrorSlot *fetchedErrors(Ticket ticket) const {
    return reinterpret_cast<ErrorSlot *>(errors.data() +
                                         int64_t(ticket % numReports) * errorSlots.size());
  }
  static constexpr size_t numReports = 4;
  Underway underway[numReports];
  /// Numbers of commands whose slots a run found as the one before it had left them.
  struct {
    Ticket ticket = ~Ticket(0);
    std::vector<size_t> commands;
  } toldBefore;
  /// Of runTimed.
  std::vector<Event> marks;
  Ticket nextTicket = 0;
  const ExecutionPlan *lastPlan = nullptr;
  bool mayRepeat = false; ///< the last run
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_CUDA_DEVICE_H
