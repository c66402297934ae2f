// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `offload`: from the choice to copies, buffers and lifetimes in the plan.

#include "lib/Schedule/Offload/Offload.h"

#include "lib/Schedule/Offload/Choice.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/CommandTime.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_OFFLOADPASS
#include "lib/Schedule/Offload/Offload.h.inc"
} // namespace trainc

/// A GPU may be so much quicker than the model of it.
/// Durations are multiplied by it: copies are planned as if commands were this much shorter, since
/// one that is late makes them wait.
static constexpr double kCaution = 0.85;

namespace {
struct OffloadPass : trainc::impl::OffloadPassBase<OffloadPass> {
  using OffloadPassBase::OffloadPassBase;

  void runOnOperation() override {
    plan::FunctionOp function = getOperation();
    const TargetTraits *traits = findTraits();
    if (!traits || failed(readSizes()))
      return signalPassFailure();
    if (!(rate > 0)) {
      function.emitError("offload: the rate of the link is ") << rate.getValue() << " GB/s";
      return signalPassFailure();
    }
    FunctionLifetimes lifetimes(function);
    // Evaluations have no backward to fetch anything for.
    if (!trains(lifetimes))
      return;
    auto valueOf = [&](StringRef name) -> std::optional<int64_t> {
      auto it = values.find(name);
      return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
    };
    FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, valueOf);
    FailureOr<SmallVector<double, 0>> seconds = failure();
    if (succeeded(bytes))
      seconds = estimateSeconds(lifetimes, *bytes, valueOf, traits->speeds);
    if (failed(seconds)) {
      function.emitError("offload: a size has no value (option sizes), or is too large for a "
                         "number");
      return signalPassFailure();
    }
    for (double &duration : *seconds)
      duration *= kCaution;
    // GB are 10^9 bytes, as links are sold.
    TransferSchedule schedule(lifetimes, *bytes, *seconds, rate * 1e9, traits->memory.alignment);
    OffloadChoice choice = chooseTransfers(lifetimes, *bytes, schedule, {limit, minimum});
    explain(lifetimes, schedule, choice);
    apply(lifetimes, choice.transfers);
  }

private:
  /// Null after a message.
  const TargetTraits *findTraits() {
    // Without a name the one whose memory is not the host's: offload has no other use.
    for (const Target *known : getTargets())
      if (target.empty() ? known->traits.memory.isSeparate : known->name() == target)
        return &known->traits;
    getOperation().emitError("offload: there is no target '") << target << "'";
    return nullptr;
  }

  LogicalResult readSizes() {
    values.clear();
    for (StringRef entry : sizes) {
      auto [name, text] = entry.split('=');
      int64_t value = 0;
      if (name.empty() || text.getAsInteger(10, value))
        return getOperation().emitError("offload: expected NAME=VALUE in sizes, got '")
               << entry << "'";
      values[name] = value;
    }
    return success();
  }

  /// Whether it changes a parameter or adds to an accumulator.
  /// Memory effects tell, whatever the commands are.
  static bool trains(const FunctionLifetimes &lifetimes) {
    return llvm::any_of(lifetimes.commands, [&](Operation *command) {
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(command).getEffects(effects);
      return llvm::any_of(effects, [&](const MemoryEffects::EffectInstance &effect) {
        const plan::Space space =
            lifetimes.buffers[lifetimes.index.lookup(effect.getValue())].space;
        return isa<MemoryEffects::Write>(effect.getEffect()) &&
               (space == plan::Space::parameter || space == plan::Space::gradient);
      });
    });
  }

  void explain(const FunctionLifetimes &lifetimes, const TransferSchedule &schedule,
               const OffloadChoice &choice) {
    plan::FunctionOp function = getOperation();
    auto options = [&](StringRef name) {
      return remark::RemarkOpts::name(name).category("offload").function(function.getSymName());
    };
    auto nodeOf = [&](uint32_t buffer) {
      StringRef node = getNodeName(plan::BufferOp(lifetimes.buffers[buffer].buffer).getLoc());
      return node.empty() ? std::string("a value") : "the value of '" + node.str() + "'";
    };
    for (const Transfer &transfer : choice.transfers) {
      const PausedBuffer &value = *transfer.value;
      remark::passed(plan::BufferOp(lifetimes.buffers[value.buffer].buffer).getLoc(),
                     options("Moved"))
          << remark::add(
                 "{0} ({1}) is on the host between commands {2} and {3}: {4} each way, {5} "
                 "for both",
                 nodeOf(value.buffer), describeMoved(value.bytes), transfer.released, transfer.back,
                 describeTime(schedule.copySeconds(value.bytes)),
                 describeTime(schedule.beginOf(value.after) - schedule.beginOf(transfer.away)));
    }
    for (auto &[buffer, obstacle] : choice.kept) {
      auto missed = remark::missed(plan::BufferOp(lifetimes.buffers[buffer].buffer).getLoc(),
                                   options("Kept"));
      missed << remark::add("{0} stays on the device", nodeOf(buffer))
             << remark::reason("{0}", obstacle.reason);
      obstacle.suggestTo(missed);
    }
    if (!choice.transfers.empty())
      remark::passed(function.getLoc(), options("Peak")) << remark::add(
          "'{0}': {1} on the host, activations and temporaries {2} instead of {3} at "
          "once; {4} of copies in {5} of other commands",
          function.getSymName(), describeMoved(schedule.hostBytes(choice.transfers)),
          describeMoved(choice.peak), describeMoved(choice.plainPeak),
          describeTime(timeOf(schedule, choice.transfers)),
          describeTime(schedule.beginOf(schedule.commands())));
  }

  static double timeOf(const TransferSchedule &schedule, ArrayRef<Transfer> transfers) {
    double seconds = 0;
    for (const Transfer &transfer : transfers)
      seconds += 2 * schedule.copySeconds(transfer.value->bytes);
    return seconds;
  }

  /// Each moved buffer becomes three: the one that was, up to the copy; one on the host; one for
  /// what comes back. Uses behind the pause are redirected before anything is inserted, so that
  /// numbers of commands stay valid.
  /// Each moved buffer becomes three: the one that was, up to the copy; one on the host; one for
  /// what comes back. Uses behind the pause are redirected before anything is inserted.
  void apply(const FunctionLifetimes &lifetimes, ArrayRef<Transfer> transfers) {
    OpBuilder builder(&getContext());
    struct Moved {
      Value host, back;
    };
    std::vector<Moved> moved;
    for (const Transfer &transfer : transfers) {
      plan::BufferOp buffer = lifetimes.buffers[transfer.value->buffer].buffer;
      builder.setInsertionPointAfter(buffer);
      auto declare = [&](plan::Space space) -> Value {
        return plan::BufferOp::create(builder, buffer.getLoc(), buffer.getResult().getType(),
                                      plan::SpaceAttr::get(&getContext(), space), StringAttr(),
                                      buffer.getTypeAttr(), ElementsAttr());
      };
      moved.push_back({declare(plan::Space::host), declare(plan::Space::arena)});
      // Use lists change while they are walked.
      for (OpOperand &use : llvm::make_early_inc_range(buffer.getResult().getUses()))
        if (isBehind(use.getOwner(), lifetimes.commands[transfer.value->after]))
          use.set(moved.back().back);
    }
    // In the order in which they were placed: what ends, then copies to the host, then back.
    // At one place in the block later insertions stand behind earlier ones.
    auto at = [&](int32_t command) {
      if (command < int32_t(lifetimes.commands.size()))
        builder.setInsertionPoint(lifetimes.commands[command]);
      else
        builder.setInsertionPointToEnd(&getOperation().getBody().front());
    };
    // Otherwise the last use before the pause ends the buffer's life by itself.
    for (const Transfer &transfer : transfers)
      if (transfer.released > transfer.value->before + 1) {
        at(transfer.released);
        plan::ReleaseOp::create(builder, locationOf(lifetimes, transfer),
                                sourceOf(lifetimes, transfer));
      }
    auto copy = [&](const Transfer &transfer, Value from, Value to) {
      plan::CopyOp::create(builder, locationOf(lifetimes, transfer), from, to,
                           lifetimes.buffers[transfer.value->buffer].bytes);
    };
    for (auto [transfer, buffers] : llvm::zip_equal(transfers, moved)) {
      at(transfer.away);
      copy(transfer, sourceOf(lifetimes, transfer), buffers.host);
    }
    std::vector<size_t> order(transfers.size());
    std::iota(order.begin(), order.end(), size_t(0));
    // As `place` ordered the link's copies: the runtime runs them in the order of the block.
    llvm::sort(order, [&](size_t a, size_t b) {
      return std::tuple(transfers[a].back, transfers[a].value->after, transfers[a].value->buffer) <
             std::tuple(transfers[b].back, transfers[b].value->after, transfers[b].value->buffer);
    });
    for (size_t i : order) {
      at(transfers[i].back);
      copy(transfers[i], moved[i].host, moved[i].back);
    }
  }

  /// Or is it.
  static bool isBehind(Operation *op, Operation *command) {
    return op == command || command->isBeforeInBlock(op);
  }
  static Value sourceOf(const FunctionLifetimes &lifetimes, const Transfer &transfer) {
    return plan::BufferOp(lifetimes.buffers[transfer.value->buffer].buffer).getResult();
  }
  static Location locationOf(const FunctionLifetimes &lifetimes, const Transfer &transfer) {
    return sourceOf(lifetimes, transfer).getLoc();
  }

  llvm::StringMap<int64_t> values;
};
} // namespace
