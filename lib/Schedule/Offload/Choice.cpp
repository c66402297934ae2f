// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the peak down: a buffer that is in use there and could be away, as long as there is one.

#include "lib/Schedule/Offload/Choice.h"
#include "format/memory/arena_plan.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;

std::string trainc::describeMoved(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f MiB", double(bytes) / (1 << 20));
  return text;
}

std::string trainc::describeTime(double seconds) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3f ms", seconds * 1e3);
  return text;
}

namespace {

/// The commands that touch a buffer, in order.
struct Uses {
  SmallVector<int32_t, 4> touched;
  int32_t written = -1; ///< the last one that writes it
};

class Chooser {
public:
  // Bytes, not padded ones, come from outside; `schedule` pads them.
  Chooser(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
          const TransferSchedule &schedule, const OffloadLimits &limits)
      : lifetimes(lifetimes), bytes(bytes), schedule(schedule), limits(limits),
        reasons(lifetimes.buffers.size()) {}

  OffloadChoice run() {
    std::vector<int64_t> live = schedule.liveBytes({});
    // A function without commands.
    if (live.empty())
      return std::move(choice);
    const int32_t peak = indexOfMost(live);
    choice.plainPeak = choice.peak = live[peak];
    findUses();
    findPaused();
    // Each turn marks at least one value as tried: it ends.
    while (takeOne())
      ;
    leaveUseless();
    explain(peak);
    return std::move(choice);
  }

private:
  static int32_t indexOfMost(const std::vector<int64_t> &live) {
    return int32_t(std::max_element(live.begin(), live.end()) - live.begin());
  }

  void findUses() {
    uses.resize(lifetimes.buffers.size());
    for (auto [number, command] : llvm::enumerate(lifetimes.commands)) {
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(command).getEffects(effects);
      for (const MemoryEffects::EffectInstance &effect : effects) {
        Uses &use = uses[lifetimes.index.lookup(effect.getValue())];
        if (use.touched.empty() || use.touched.back() != int32_t(number))
          use.touched.push_back(number);
        if (isa<MemoryEffects::Write>(effect.getEffect()))
          use.written = number;
      }
    }
  }

  /// The longest pause of every buffer that may be moved.
  /// A value may only be away after its last write, since the copy on the host would be old;
  /// between two reads it can.
  void findPaused() {
    for (auto [number, life] : llvm::enumerate(lifetimes.buffers)) {
      const Uses &use = uses[number];
      if (!life.isArena() || use.touched.size() < 2)
        continue;
      const int64_t size = schedule.padded(bytes[number]);
      PausedBuffer longest{uint32_t(number), size, use.written, 0, 0, 0};
      // Pauses behind the last write; of several the longest.
      for (size_t i = 0; i + 1 < use.touched.size(); ++i) {
        const int32_t before = use.touched[i], after = use.touched[i + 1];
        const double seconds = schedule.beginOf(after) - schedule.beginOf(before + 1);
        if (before >= use.written && seconds > longest.seconds)
          longest.before = before, longest.after = after, longest.seconds = seconds;
      }
      // For the message: what a pause would have to last.
      const double both = 2 * schedule.copySeconds(size);
      const PausedBuffer *alone = &longest;
      // Copies that are not hidden alone are never hidden beside others.
      if (bytes[number] < limits.minimum)
        reasons[number] = "it is smaller than " + describeMoved(limits.minimum);
      else if (use.written > use.touched.front() && !longest.after)
        reasons[number] = "it is written again";
      else if (!longest.after || !schedule.place(alone))
        reasons[number] = {"its longest pause, " + describeTime(longest.seconds) +
                               ", is too short to move it: both ways take " + describeTime(both),
                           "a larger batch has longer pauses; trainc --offload-rate tells of a "
                           "faster link"};
      else
        choice.paused.push_back(longest);
    }
    // Where most is to be gained first.
    // Bytes times seconds is what a buffer occupies; ties by number, so that equal layers are taken
    // in program order.
    llvm::sort(choice.paused, [](const PausedBuffer &a, const PausedBuffer &b) {
      const double left = double(a.bytes) * a.seconds, right = double(b.bytes) * b.seconds;
      return left != right ? left > right : a.buffer < b.buffer;
    });
    isTried.assign(choice.paused.size(), false);
  }

  /// Takes a buffer that is in use where most is; whether there is one.
  bool takeOne() {
    const std::vector<int64_t> live = schedule.liveBytes(choice.transfers);
    const int32_t peak = indexOfMost(live);
    for (auto [number, value] : llvm::enumerate(choice.paused)) {
      // Only what is not in use at the peak helps there.
      if (isTried[number] || peak <= value.before || peak >= value.after)
        continue;
      isTried[number] = true;
      std::vector<const PausedBuffer *> moved = taken;
      moved.push_back(&value);
      // All are placed anew: the link is shared, and an order that fits may be another one.
      std::optional<std::vector<Transfer>> transfers = schedule.place(moved);
      Obstacle &reason = reasons[value.buffer];
      if (!transfers) {
        reason = "the link is busy with others: a command would wait";
        continue;
      }
      if (const int64_t host = schedule.hostBytes(*transfers);
          limits.hostBytes >= 0 && host > limits.hostBytes) {
        reason = {"pinned memory would be " + describeMoved(host) + ", the limit is " +
                      describeMoved(limits.hostBytes),
                  "raise it: trainc --offload=SIZE"};
        continue;
      }
      const std::vector<int64_t> with = schedule.liveBytes(*transfers);
      // The peak must get lower where it was, and nowhere become higher.
      if (with[peak] >= live[peak] || with[indexOfMost(with)] > live[peak]) {
        reason = "it would be on the host too late, or back too early, to lower the peak";
        continue;
      }
      taken = std::move(moved);
      choice.transfers = std::move(*transfers);
      choice.peak = with[indexOfMost(with)];
      return true;
    }
    return false;
  }

  /// Leaves those without which it is as good, the last ones first.
  /// A later one may have made an earlier one superfluous: backwards, each is left out if the peak
  /// stays.
  void leaveUseless() {
    for (size_t i = taken.size(); i-- > 0;) {
      std::vector<const PausedBuffer *> others = taken;
      others.erase(others.begin() + i);
      std::optional<std::vector<Transfer>> transfers = schedule.place(others);
      if (!transfers)
        continue;
      const std::vector<int64_t> live = schedule.liveBytes(*transfers);
      if (live[indexOfMost(live)] > choice.peak)
        continue;
      choice.peak = live[indexOfMost(live)];
      reasons[taken[i]->buffer] = "the peak is as low without it";
      taken = std::move(others);
      choice.transfers = std::move(*transfers);
    }
  }

  /// Of what lies around at the peak without transfers.
  /// Buffers that the user may wonder about: alive at the peak, not touched by it, and still there.
  void explain(int32_t peak) {
    llvm::DenseSet<uint32_t> moved;
    for (const PausedBuffer *value : taken)
      moved.insert(value->buffer);
    for (auto [number, life] : llvm::enumerate(lifetimes.buffers)) {
      const uint32_t buffer = number;
      if (!life.isArena() || !bytes[buffer] || moved.contains(buffer) || life.first >= peak ||
          life.last <= peak || llvm::is_contained(uses[buffer].touched, peak))
        continue;
      choice.kept.push_back({buffer, reasons[buffer].empty() ? Obstacle("the peak would be as high")
                                                             : reasons[buffer]});
    }
  }

  const FunctionLifetimes &lifetimes;
  ArrayRef<int64_t> bytes;
  const TransferSchedule &schedule;
  const OffloadLimits limits;
  OffloadChoice choice;
  std::vector<Uses> uses;
  std::vector<bool> isTried; ///< by `choice.paused`
  std::vector<const PausedBuffer *> taken;
  std::vector<Obstacle> reasons; ///< by buffer
};
} // namespace

OffloadChoice trainc::chooseTransfers(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
                                      const TransferSchedule &schedule,
                                      const OffloadLimits &limits) {
  return Chooser(lifetimes, bytes, schedule, limits).run();
}
