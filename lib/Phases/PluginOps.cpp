// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of plug-ins, before any pass relies on what they say.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Phases/Phases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// The interface that an op of its role lacks, "" if none.
static StringRef lackedInterface(Operation *op) {
  // Passes take it apart.
  if (isa<DecomposableOpInterface>(op))
    return "";
  if (!isa<FusionOpInterface>(op))
    return "FusionOpInterface or DecomposableOpInterface";
  switch (getFusionRole(op)) {
  case FusionRole::None:
    return "DecomposableOpInterface, as its role in kernels is None";
  case FusionRole::Pointwise:
    return !isa<AxisMapOpInterface>(op)     ? "AxisMapOpInterface"
           : !isa<PointwiseOpInterface>(op) ? "PointwiseOpInterface"
                                            : "";
  case FusionRole::Access:
    return isa<ElementAccessOpInterface>(op) ? "" : "ElementAccessOpInterface";
  case FusionRole::Reduction:
    return !isa<AxisMapOpInterface>(op)     ? "AxisMapOpInterface"
           : !isa<ReductionOpInterface>(op) ? "ReductionOpInterface"
                                            : "";
  case FusionRole::View:
    return isa<StridedViewOpInterface>(op) ? "" : "StridedViewOpInterface";
  case FusionRole::Library:
    return isa<plan::LibraryCallOpInterface>(op) ? "" : "LibraryCallOpInterface";
  case FusionRole::Standalone:
    return isa<ScatterOpInterface, ScanOpInterface, ContractionOpInterface>(op)
               ? ""
               : "ScatterOpInterface or ScanOpInterface";
  }
  llvm_unreachable("all roles are handled");
}

static bool isTensor(Type type) { return isa<RankedTensorType>(type); }

/// Whether there is a loop, or none, for each axis of each value.
static bool areLoopsOf(ArrayRef<SmallVector<int>> axes, TypeRange types, size_t loops) {
  return axes.size() == types.size() && llvm::all_of(llvm::zip(axes, types), [&](auto entry) {
           auto &[own, type] = entry;
           return isTensor(type) && int64_t(own.size()) == cast<RankedTensorType>(type).getRank() &&
                  llvm::all_of(own, [&](int loop) { return loop >= -1 && loop < int(loops); });
         });
}

namespace {
/// What an op makes of itself, to be looked at and thrown away: passes would make it at a place
/// where nothing tells whose fault it is.
class Trial {
public:
  explicit Trial(Operation *op) : op(op), builder(op->getContext()), tb(builder, op->getLoc()) {
    // A block in no function.
    builder.setInsertionPointToEnd(&made);
  }

  /// "" where all is well.
  std::string decompose() {
    SmallVector<Value> parts;
    cast<DecomposableOpInterface>(op).decompose(tb, parts);
    if (parts.size() != op->getNumResults())
      return "is taken into " + std::to_string(parts.size()) + " parts, and has " +
             std::to_string(op->getNumResults()) + " results";
    for (auto [part, result] : llvm::zip_equal(parts, op->getResults())) {
      if (!part || part.getDefiningOp() == op)
        return "is taken into parts of which one is null, or the op itself";
      if (part.getType() != result.getType())
        return mismatch("is taken into a part", part, result);
    }
    return faultOfMade();
  }

  std::string differentiate() {
    auto differentiable = cast<DifferentiableOpInterface>(op);
    SmallVector<Value> cotangents, gradients(op->getNumOperands());
    SmallVector<bool> needed;
    for (OpResult result : op->getResults())
      cotangents.push_back(differentiable.isDifferentiableResult(result.getResultNumber())
                               ? tb.zeros(result.getType())
                               : Value());
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      needed.push_back(differentiable.isDifferentiable(i));
    if (!differentiable.hasDerivative() || !llvm::is_contained(needed, true))
      return "";
    differentiable.buildVJP(tb, cotangents, needed, gradients);
    for (auto [i, gradient] : llvm::enumerate(gradients))
      if (needed[i] && gradient && gradient.getType() != op->getOperand(i).getType())
        return mismatch("gives for operand " + std::to_string(i) + " a gradient", gradient,
                        op->getOperand(i));
    return faultOfMade();
  }

private:
  static std::string mismatch(const std::string &what, Value made, Value wanted) {
    std::string text = what + " of type ";
    llvm::raw_string_ostream(text) << made.getType() << ", not " << wanted.getType();
    return text;
  }

  /// The first that its verifier says of an op.
  std::string faultOfMade() {
    std::string said;
    ScopedDiagnosticHandler keep(op->getContext(), [&](Diagnostic &diagnostic) {
      if (said.empty())
        said = diagnostic.str();
      return success();
    });
    for (Operation &part : made)
      if (failed(verify(&part)))
        return "is made of ops that are wrong: " + said;
    return "";
  }

  Operation *op;
  Block made;
  OpBuilder builder;
  TrainBuilder tb;
};
} // namespace

/// Passes move, drop and repeat what is pure, as all ops of training graphs are.
static LogicalResult checkOp(Operation *op, const plugin::LoadedPlugin &plugin, bool isTrained) {
  auto refuse = [&] {
    return op->emitError("the op '")
           << op->getName() << "' of the plug-in '" << plugin.name << "' ";
  };
  if (StringRef lacked = lackedInterface(op); !lacked.empty())
    return refuse() << "does not implement " << lacked;
  if (!isMemoryEffectFree(op) || op->getNumRegions())
    return refuse() << "has effects or a body; ops of training graphs have the trait Pure and none";
  if (auto mapped = dyn_cast<AxisMapOpInterface>(op)) {
    const AxisMap map = mapped.getAxisMap();
    if (!areLoopsOf(map.operands, op->getOperandTypes(), map.loops.size()) ||
        !areLoopsOf(map.results, op->getResultTypes(), map.loops.size()))
      return refuse() << "has an axis map without a loop, or -1, for each axis of each operand and "
                         "result";
  }
  std::string fault;
  if (isa<DecomposableOpInterface>(op))
    fault = Trial(op).decompose();
  if (fault.empty() && isTrained && isa<DifferentiableOpInterface>(op))
    fault = Trial(op).differentiate();
  if (!fault.empty())
    return refuse() << fault;
  return success();
}

/// Where the op comes from decides, not its name: handlers and passes of plug-ins may make any.
LogicalResult trainc::checkPluginOps(ModuleOp module, bool isTrained) {
  if (plugin::getLoadedPlugins().empty())
    return success();
  bool isWrong = false;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front().without_terminator())
      if (const plugin::LoadedPlugin *plugin =
              plugin::findPluginOfDialect(op.getName().getDialectNamespace()))
        isWrong |= failed(checkOp(&op, *plugin, isTrained));
  return failure(isWrong);
}
