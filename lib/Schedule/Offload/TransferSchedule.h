// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When copies to the host and back would run beside the commands of a schedule, and what of the
// arena is in use then.
#ifndef TRAINC_SCHEDULE_OFFLOAD_TRANSFERSCHEDULE_H
#define TRAINC_SCHEDULE_OFFLOAD_TRANSFERSCHEDULE_H

#include "format/memory/arena_plan.h"
#include "trainc/Analysis/Lifetimes.h"

namespace trainc {

/// A buffer with a pause in its use, by numbers of commands.
struct PausedBuffer {
  uint32_t buffer; ///< in FunctionLifetimes::buffers
  int64_t bytes;   ///< as the arena holds it
  int32_t written; ///< the last command that writes it
  /// The pause lies between these two: nothing touches it in between.
  int32_t before, after;
  double seconds; ///< how long it is
};

/// A paused buffer that is moved. Commands are those before which something stands.
struct Transfer {
  const PausedBuffer *value;
  int32_t away;     ///< the copy to the host
  int32_t released; ///< by then it is done: the first command that may use its memory
  int32_t back;     ///< the copy from the host
};

class TransferSchedule {
public:
  /// `seconds`: of each command. `bytesPerSecond` of the link, each way. `alignment` of buffers.
  TransferSchedule(const FunctionLifetimes &lifetimes, llvm::ArrayRef<int64_t> bytes,
                   llvm::ArrayRef<double> seconds, double bytesPerSecond, int64_t alignment);

  int32_t commands() const { return int32_t(begins.size()) - 1; }
  /// When a command begins; that of `commands()` is the end.
  double beginOf(int32_t command) const { return begins[command]; }
  /// What a buffer of so many bytes takes of the memory.
  int64_t padded(int64_t bytes) const { return trainrt::padded(bytes, alignment); }
  /// What moving the buffer takes, one way.
  double copySeconds(int64_t bytes) const;

  /// Places the copies of these; nothing where a command would wait for one of them. In the order
  /// in which the copies to the host run.
  std::optional<std::vector<Transfer>> place(llvm::ArrayRef<const PausedBuffer *> moved) const;

  /// By command what of the arena is in use, with these transfers.
  std::vector<int64_t> liveBytes(llvm::ArrayRef<Transfer> transfers) const;
  /// Bytes of pinned memory that they take.
  int64_t hostBytes(llvm::ArrayRef<Transfer> transfers) const;

private:
  /// The last command that begins at this time or before.
  int32_t commandAt(double time) const;

  /// One more than there are commands.
  std::vector<double> begins;
  std::vector<int64_t> changes; ///< of what is in use, without transfers
  double bytesPerSecond;
  int64_t alignment;
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_OFFLOAD_TRANSFERSCHEDULE_H
