// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a session's values live and its functions run: the host, or a GPU. A device owns what a run
// needs beside parameters, state and gradients (arena, outputs, staged inputs, constants).
#ifndef TRAINRT_DEVICE_DEVICE_H
#define TRAINRT_DEVICE_DEVICE_H

#include "comm/communicator.h"
#include "device/memory.h"
#include "device/observer.h"
#include "device/thread_pool.h"
#include "plan/execution_plan.h"
#include "plan/inputs.h"
#include "plan/package.h"
#include "plan/tuning.h"

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

namespace trainrt {

/// Bytes by category, see `trainrt_memory`.
struct MemoryUse {
  int64_t parameters = 0, state = 0, gradients = 0, arena = 0, arenaLowerBound = 0, inputs = 0;
  int64_t outputs = 0, scratch = 0, mapped = 0, driver = 0;
  int64_t pinned = 0; ///< of the host's memory, beside a GPU: not in the total
  int64_t total() const {
    return parameters + state + gradients + arena + inputs + outputs + scratch + driver;
  }
};

struct DeviceOptions {
  unsigned threads = 1;
  Allocator allocator;    ///< of the host's memory
  int ordinal = 0;        ///< of the GPU
  void *stream = nullptr; ///< the caller's CUstream; null: one of its own
  /// Every command by itself, waited for, so that a fault is that command's.
  bool synchronous = false;
  /// Is told of every command of every run, if not null.
  CommandObserver *observer = nullptr;
  /// The ranks that the commands' collectives are of; null: this one alone.
  Communicator *ranks = nullptr;
};

class Device;

/// A block of a device's memory. The host may address it if the device is the host.
class DeviceMemory {
public:
  DeviceMemory() = default;
  ~DeviceMemory() { release(); }
  DeviceMemory(DeviceMemory &&other) noexcept { *this = std::move(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  void release();

  unsigned char *data() const { return bytes.get(); }
  int64_t size() const { return length; }
  /// Keeps the block where it is, whatever becomes of this and of the device.
  std::shared_ptr<const void> share() const { return bytes; }

private:
  friend class Device;
  Device *device = nullptr;
  std::shared_ptr<unsigned char> bytes;
  int64_t length = 0;
};

/// Scalars that the host gives to a run, by index in Program::hypers.
using Hypers = std::vector<std::array<unsigned char, 8>>;

class Device {
public:
  /// Where parameter, state or gradient accumulator `index` lies.
  using AddressOf = std::function<void *(Space space, uint32_t index)>;
  /// Writes the bytes [begin, end) of a value to `to`; `begin` is a multiple of 64.
  using Source = std::function<void(unsigned char *to, int64_t begin, int64_t end)>;

  struct Run {
    const ExecutionPlan &plan;
    /// Null if the function reads no inputs. Not needed once `enqueue` has returned; arrays on the
    /// device are read where they are until the run is done.
    const BoundBatch *batch;
    const Hypers &hypers;
    /// Asked between commands; true stops the run with Cancelled. Empty: never.
    std::function<bool(int64_t done, int64_t total)> stop;
    /// Collectives are those of one rank.
    bool alone = false;
    /// Set once something has been changed.
    bool began = false;
    /// `repeat` may come: inputs on the device are copied, as their owner may change them by then.
    bool mayRepeat = false;
  };
  /// Of inputs that lie on the device already: how many were copied there, and why the last one was
  /// (docs/design/cuda.md).
  struct InputCopies {
    uint64_t count = 0;
    const char *reason = "";
  };
  /// What a run says to the host.
  struct Result {
    double loss = NAN;      ///< NaN without one
    double gradNorm = NAN;  ///< the same
    bool nonfinite = false; ///< the state `nonfinite`
    /// Commands whose kernels met a number that is not finite where one must be.
    std::vector<NumberReport> numbers;
  };
  /// Names a run until it is waited for.
  using Ticket = uint64_t;

  virtual ~Device() = default;

  ThreadPool &threads() { return *pool; }
  /// Whether `enqueue` returns before the run is done, so that another one may be enqueued.
  virtual bool runsAhead() const = 0;
  /// Whether the host can address this device's memory.
  virtual bool isHost() const = 0;
  /// As DLPack counts GPUs; -1 for the host.
  virtual int ordinal() const { return -1; }
  /// The CUstream that all work is on; null on the host, whose calls return when it is done.
  virtual void *stream() const { return nullptr; }
  /// What is done from now on sees what is on the caller's stream by now.
  virtual Status waitFor(void *) { return {}; }
  /// What the caller enqueues on its stream from now on sees what has been done by now.
  virtual Status signal(void *) { return {}; }
  /// Sets `onDevice` and `pinned` of a caller's array.
  virtual Status locate(ArrayView &array) const = 0;
  /// Host memory, 64-byte aligned, from which batches reach the device without another copy.
  /// These two may be called by any thread, also while a run is under way.
  virtual Status allocateHost(int64_t bytes, void *&memory) = 0;
  virtual void releaseHost(void *memory) = 0;

  /// Frees what `memory` held, then gets `bytes`; `what` names them in the error. The content is
  /// undefined unless `zeroed`.
  Status allocate(int64_t bytes, const char *what, bool zeroed, DeviceMemory &memory);
  // These are ordered with runs: they see what earlier ones left, and later ones see them.
  virtual Status write(void *to, int64_t bytes, const Source &source) = 0;
  virtual Status copy(void *to, const void *from, int64_t bytes) = 0;
  virtual Status clear(void *to, int64_t bytes) = 0;
  /// The value as the host sees it, valid until something is run or written.
  virtual Status view(const void *from, int64_t bytes, const void *&host) = 0;

  /// Gets all memory that the plan needs and makes whatever can be made ahead. Outputs of an
  /// earlier run are lost if they need more than the size of `outputs`.
  virtual Status prepare(const ExecutionPlan &plan) = 0;
  /// So far.
  virtual InputCopies inputCopies() const { return {}; }
  /// How often `prepare` has made something ahead.
  virtual int64_t builds() const { return 0; }
  /// Those of the last run, from its beginning.
  virtual const DeviceMemory &outputs() const = 0;
  /// Starts a run of a prepared plan. At most two may wait for their `wait`.
  virtual Status enqueue(Run &run, Ticket &ticket) = 0;
  /// The last run once more, with its inputs and hyper-parameters; it said that it may be
  /// repeated. Only if the device runs ahead.
  virtual Status repeat(Ticket &ticket) = 0;
  /// The end of a run. BadData with the node, position and value when a kernel met a bad index.
  virtual Status wait(Ticket ticket, Result &result) = 0;

  /// Compares what there is to choose from for the commands of these plans, within `seconds`. No
  /// parameter, state or gradient changes, but outputs are lost. Unsupported without any choice.
  virtual Status tune(const std::vector<const ExecutionPlan *> &plans, double seconds,
                      TuningResult &result);
  /// What a person should know about the choices of the package; "" if nothing.
  const std::string &note() const { return remark; }

  /// Adds what the device itself holds.
  virtual void addMemory(MemoryUse &use) const = 0;
  /// What the device can still give; -1 where that is not known.
  virtual int64_t freeMemory() const = 0;
  /// Bytes read and written in a second by a large copy within the device's memory.
  virtual Status measureCopySpeed(double &bytesPerSecond) = 0;
  /// Operations a second of matmuls of large square matrices, of the type of the package's.
  virtual Status measureMatmulSpeed(double &flopsPerSecond) = 0;
  /// How long the host has waited for runs so far.
  double waitedSeconds() const { return waited; }

protected:
  Device(std::shared_ptr<const Package> package, unsigned threads, AddressOf addressOf);
  friend class DeviceMemory;
  virtual Status allocateBytes(int64_t bytes, const char *what, bool zeroed,
                               std::shared_ptr<unsigned char> &data) = 0;
  /// Before the block is given back: what runs and uses it ends, and it counts no more.
  virtual void releaseBytes(const unsigned char *data, int64_t bytes) {}
  /// One of the package's matmuls, of those with the narrowest elements; null without any.
  const Gemm *typicalMatmul() const;
  /// The error of a command whose kernel met a bad index.
  Status badIndex(const Command &command, int64_t position, int64_t value) const;

  const std::shared_ptr<const Package> package;
  const std::unique_ptr<ThreadPool> pool;
  const AddressOf addressOf;
  double waited = 0;
  std::string remark;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_DEVICE_H
