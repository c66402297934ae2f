// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `recompute`: from the configuration to a set of ops, function by function.

#include "lib/Schedule/Recompute/Recompute.h"

#include "lib/Schedule/Recompute/Layers.h"
#include "lib/Schedule/Recompute/Rematerialize.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Schedule/Recompute/Config.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Nearest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "lib/Schedule/Recompute/Recompute.h.inc"
} // namespace trainc

namespace {
struct RecomputePass : trainc::impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  /// Over all functions: a pattern counts as found if any has it.
  void runOnOperation() override {
    RecomputeConfig parsed;
    if (std::string problem = parseRecomputeConfig(config, parsed); !problem.empty()) {
      getOperation().emitError("recompute: ") << problem;
      return signalPassFailure();
    }
    matched.assign(parsed.entries.size(), false);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (StepGraph::isStep(function))
        apply(function, parsed);
    // Type 0 asks for nothing, so nothing can be missing.
    for (auto [entry, found] : llvm::zip_equal(parsed.entries, matched))
      if (!found && entry.type != 0 && failed(explainMiss(entry)))
        return signalPassFailure();
    if (parsed.level > 0 && !foundLayers)
      getOperation().emitWarning(
          "recompute: found no layers: no part of the model with a matmul repeats between "
          "places where one tensor is all that is passed on; --memory-budget needs no layers");
    else if (parsed.level > 0 && !tookAny)
      getOperation().emitWarning(
          "recompute: the layers keep nothing that can be rematerialized at this level, which "
          "changes nothing then; what a loop keeps for its backward stays");
  }

private:
  /// Everything is chosen before anything is changed: opportunities are of the graph as it is.
  void apply(func::FuncOp function, const RecomputeConfig &parsed) {
    StepGraph graph(function);
    std::vector<Opportunity> opportunities = findOpportunities(graph);
    llvm::DenseSet<Operation *> again;
    auto take = [&](const Opportunity &entry) {
      tookAny = true;
      again.insert(entry.ops.begin(), entry.ops.end());
      remark::passed(entry.op->getLoc(), options(function, "Recomputed"))
          << remark::add("{0} is rematerialized ({1}), which frees {2} bytes", describeOp(entry.op),
                         entry.pattern, entry.savedBytes().str());
    };
    for (const Opportunity &entry : opportunities)
      patterns.push_back(entry.pattern);
    for (Operation *op : graph.forward)
      names.insert(patternName(op));
    llvm::DenseSet<Operation *> inside = findLayerOps(graph);
    for (auto [index, entry] : llvm::enumerate(parsed.entries))
      matched[index] = applyEntry(graph, opportunities, inside, entry, take) || matched[index];
    foundLayers |= !inside.empty();
    // Level 1: what layers keep inside. Level 2: compromises outside of them as well.
    for (const Opportunity &entry : opportunities)
      if (parsed.level > int(entry.isCompromise()) &&
          (entry.isCompromise() ? isActivation(graph, entry) && !inside.contains(entry.op)
                                : inside.contains(entry.op)))
        take(entry);
    rematerialize(graph, again);
  }

  /// Whether the entry has matched anything. An entry's count takes the first ones in program
  /// order, since what is made first is kept longest.
  bool applyEntry(const StepGraph &graph, ArrayRef<Opportunity> opportunities,
                  const llvm::DenseSet<Operation *> &inside, const RecomputeConfig::Entry &entry,
                  llvm::function_ref<void(const Opportunity &)> take) {
    std::string pattern = llvm::join(entry.names, "+") + "+";
    std::vector<Opportunity> found;
    auto isPlace = [&](const Opportunity &candidate) {
      return !entry.inLayers || inside.contains(candidate.op);
    };
    for (const Opportunity &candidate : opportunities)
      if (candidate.pattern == pattern && candidate.isCompromise() == (entry.type == 2) &&
          isPlace(candidate))
        found.push_back(candidate);
    // A longer pattern may reach through values that are kept.
    if (found.empty() && entry.type != 2)
      for (const Opportunity &candidate : opportunities) {
        if (candidate.isCompromise() || !isPlace(candidate))
          continue;
        SmallVector<Operation *> chain = findChain(graph, candidate.op, entry.names);
        if (chain.empty())
          continue;
        found.push_back(candidate);
        found.back().ops = chain;
        found.back().pattern = pattern;
      }
    if (entry.type != 0)
      for (const Opportunity &chosen :
           ArrayRef(found).take_front(entry.count < 0 ? found.size() : entry.count))
        take(chosen);
    return !found.empty();
  }

  /// Why a pattern matched nothing.
  /// An error, whose text names what the model has instead.
  LogicalResult explainMiss(const RecomputeConfig::Entry &entry) {
    auto error = getOperation().emitError("recompute: no opportunity is '") << entry.text << "'";
    if (entry.type == 2)
      error << " with a widening cast, which type 2 needs";
    for (StringRef name : entry.names) {
      if (names.contains(name))
        continue;
      error << ": the model has no " << name << nearestName(name);
      SmallVector<StringRef> composites, present;
      compositesWith(name).split(composites, ", ", -1, /*KeepEmpty=*/false);
      for (StringRef composite : composites)
        if (names.contains(composite))
          present.push_back(composite);
      if (!present.empty())
        error << " of its own, which is part of " << llvm::join(present, ", ") << " here";
      // The first name that is missing explains enough.
      break;
    }
    std::vector<std::string> nearest = nearestNames(llvm::join(entry.names, "+") + "+", patterns);
    if (nearest.empty())
      error << "; nothing is kept for the backward pass";
    else
      error << "; nearest: " << llvm::join(nearest, ", ") << " (--recompute list prints all)";
    return failure();
  }

  std::string nearestName(StringRef name) const {
    std::vector<std::string> all;
    for (StringRef known : names.keys())
      all.push_back(known.str());
    return suggestion(name, std::move(all));
  }

  static remark::RemarkOpts options(func::FuncOp function, StringRef name) {
    return remark::RemarkOpts::name(name).category("recompute").function(function.getName());
  }

  std::vector<bool> matched;
  std::vector<std::string> patterns;
  llvm::StringSet<> names;
  bool foundLayers = false, tookAny = false;
};
} // namespace
