// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-recompute`: the search is MemoryBudget's, what it needs comes from the options.

#include "lib/Schedule/Memory/ChooseRecompute.h"

#include "lib/Schedule/Memory/ChooseOffload.h"
#include "lib/Schedule/Recompute/Recompute.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Report/MemoryReport.h"
#include <chrono>

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_CHOOSERECOMPUTEPASS
#include "lib/Schedule/Memory/ChooseRecompute.h.inc"
} // namespace trainc

namespace {
class ChooseRecompute final : public trainc::impl::ChooseRecomputePassBase<ChooseRecompute> {
public:
  using ChooseRecomputePassBase::ChooseRecomputePassBase;
  ChooseRecompute(const ChooseRecomputePassOptions &options, const ChooseRecomputeHooks &hooks)
      : ChooseRecomputePassBase(options), hooks(hooks) {}

  void runOnOperation() override {
    // The search makes schedules whose remarks are not those of the program that comes out.
    BudgetChoice choice;
    if (hooks.muteRemarks)
      hooks.muteRemarks(true);
    const LogicalResult chosen = choose(choice);
    if (hooks.muteRemarks)
      hooks.muteRemarks(false);
    explain(choice);
    if (failed(chosen))
      return signalPassFailure();
    if (choice.config.empty())
      return;
    // Empty where the step fits as it is: nothing is computed again then.
    OpPassManager pm(ModuleOp::getOperationName());
    pm.addPass(createRecomputePass({choice.config}));
    if (failed(runPipeline(pm, getOperation())))
      signalPassFailure();
  }

private:
  /// Tells the caller first, who may have to take back what it has said already.
  InFlightDiagnostic refuse(const llvm::Twine &problem) {
    if (hooks.onRefused)
      hooks.onRefused();
    return getOperation().emitError("--memory-budget ") << budget << ": " << problem;
  }

  void explain(const BudgetChoice &choice) {
    auto options = [](StringRef name) {
      return remark::RemarkOpts::name(name).category("choose-recompute").function("step");
    };
    Location loc = getOperation().getLoc();
    if (world > 1)
      remark::passed(loc, options("Ranks"))
          << remark::add("the budget is for each of {0} ranks", int64_t(world));
    else if (world == 1)
      remark::missed(loc, options("Ranks"))
          << remark::add("the budget is for one rank alone")
          << remark::reason("it holds all that ranks share out, and exchanges nothing: --dim "
                            "world=N says how many there will be");
    if (choice.fits && choice.batch)
      remark::passed(loc, options("Batch"))
          << remark::add("batch {0} has the best predicted rate", choice.batch);
    if (choice.fits && choice.recomputed)
      remark::passed(loc, options("Chosen")) << remark::add(
          "a step of {0} is made one of {1}: {2} values are rematerialized",
          formatBytes(choice.plain.bytes()), formatBytes(choice.memory.bytes()), choice.recomputed);
    for (const BudgetDecline &declined : choice.declined) {
      auto missed = remark::missed(loc, options("Declined"));
      missed << remark::add("{0}", declined.what)
             << remark::reason("{0}", declined.obstacle.reason);
      declined.obstacle.suggestTo(missed);
    }
  }

  /// As the options of the command line, but in a form that a pipeline's text can hold, so that the
  /// pass can be run by itself.
  LogicalResult readOptions(TrialOptions &options, TargetChoice &chosen) {
    if (std::string problem = parseTarget(target, chosen); !problem.empty())
      return getOperation().emitError("choose-recompute: ") << problem;
    options.target = chosen.target;
    options.precision = precision;
    options.schedule.target = chosen.target->traits.schedule;
    options.schedule.fuseEpilogues = fuseEpilogues;
    options.schedule.scheduleUpdates = scheduleUpdates;
    for (StringRef size : largestSizes) {
      auto [name, number] = size.rsplit('=');
      int64_t value = 0;
      if (number.getAsInteger(10, value))
        return getOperation().emitError("choose-recompute: expected NAME=N, got '") << size << "'";
      options.schedule.largestSizes.emplace_back(name.str(), value);
    }
    options.offload.enabled = offload;
    options.offload.limit = offloadLimit;
    options.offload.rate = offloadRate;
    options.accumulate = accumulate;
    options.world = std::max<int64_t>(1, world);
    options.shards = shards;
    options.density = density;
    options.embedWeights = embedWeights;
    return success();
  }

  LogicalResult choose(BudgetChoice &choice) {
    // For the report only: nothing that is chosen depends on time.
    auto begin = std::chrono::steady_clock::now();
    TrialOptions options;
    TargetChoice chosen;
    FailureOr<PackageInterface> interface = collectInterface(getOperation());
    if (failed(interface) || failed(readOptions(options, chosen)))
      return failure();
    // Kernels of trials are the target's own, so that bytes of scratch and workspace are as in the
    // program.
    std::unique_ptr<codegen::KernelCodegen> kernels =
        chosen.target->createKernels(getContext(), {chosen.processors});
    MemoryTrials trials(getOperation(), *interface, options, *kernels);
    MemoryBudget parsed;
    if (std::string problem = parseMemoryBudget(budget, parsed); !problem.empty())
      return refuse(problem);
    // A size of 0 is "what the device has": told by the driver, as no pass asks for a device.
    if (parsed.fit && !parsed.bytes)
      parsed.bytes = deviceMemory;
    if (parsed.fit && !parsed.bytes)
      return refuse("no device here whose memory could be filled; name its size: fit:40GB");
    const Sizes sizes = trials.sizes();
    const std::string &batch = interface->batchSymbol;
    if (parsed.fit && (batch.empty() || !sizes(batch)))
      return refuse("the largest batch to consider is not given; name it: --dim " +
                    (batch.empty() ? "batch" : batch) + "=1..N");
    // Symbols without a number have no bytes that could be compared with the budget.
    if (!sizes.isComplete())
      return refuse("sizes have no number:" + dimOptions(sizes));
    if (trials.functions().empty() || !StepGraph::isStep(trials.step()))
      return refuse("the model has no training step that could compute anything again");
    std::string problem;
    if (failed(chooseForBudget(trials, parsed, options.target->traits.speeds.of(options.precision),
                               sizes, batch, choice, problem)))
      return failure();
    if (!problem.empty()) {
      InFlightDiagnostic error = refuse(problem);
      error.attachNote() << "a smaller batch (--dim), more micro-batches (--accumulate)"
                         << (world ? ", more ranks (--dim world=N)" : "")
                         << " or, on a GPU, --offload take less";
      return error;
    }
    // The copies of `offload` are planned for what has been chosen.
    if (choice.batch && offload) {
      Builder builder(&getContext());
      getOperation()->setAttr(kPlannedSizesAttr,
                              builder.getDictionaryAttr({builder.getNamedAttr(
                                  batch, builder.getI64IntegerAttr(choice.batch))}));
    }
    if (hooks.onChosen)
      hooks.onChosen(
          choice, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return success();
  }

  ChooseRecomputeHooks hooks;
};
} // namespace

std::unique_ptr<Pass> trainc::createChooseRecomputePass(const ChooseRecomputePassOptions &options,
                                                        const ChooseRecomputeHooks &hooks) {
  return std::make_unique<ChooseRecompute>(options, hooks);
}
