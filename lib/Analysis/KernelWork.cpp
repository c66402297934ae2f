// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Backwards from what is stored: an op reads of its operands what is asked of its results, unless
// it needs them whole.

#include "trainc/Analysis/KernelWork.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether an op reads its operands whole, however little of its results is asked for.
static bool readsAll(Operation *op) {
  const FusionRole role = getFusionRole(op);
  return op->hasTrait<OpTrait::IsTerminator>() || role == FusionRole::Reduction ||
         role == FusionRole::Standalone;
}

/// Whether `dim` is a minimum of which one part is `bound`.
static bool isMinimumOf(DimAttr dim, DimAttr bound) {
  if (dim.getMonomials().size() != 1 || dim.getCoefficients().front() != 1 ||
      dim.getMonomials().front().size() != 1)
    return false;
  auto fn = dyn_cast<DimFnAttr>(dim.getMonomials().front()[0]);
  return fn && fn.getKind() == DimFnKind::min &&
         llvm::any_of(ArrayRef<Attribute>{fn.getLhs(), fn.getRhs()}, [&](Attribute part) {
           return part == bound || isMinimumOf(cast<DimAttr>(part), bound);
         });
}

/// Whether a is at most b by their terms alone: a multiple of it, or with no larger coefficient.
static bool isClearlyAtMost(DimAttr a, DimAttr b) {
  return a == b || a.isConstant(0) || divideExactly(b, a) ||
         llvm::all_of((b - a).getCoefficients(), [](int64_t factor) { return factor >= 0; });
}

/// min(elements, all), as short as the sizes that it is made of.
static DimAttr atMost(DimAttr elements, DimAttr all) {
  if (isClearlyAtMost(elements, all) || isMinimumOf(elements, all))
    return elements;
  return isClearlyAtMost(all, elements) ? all : minDim(elements, all);
}

KernelWork trainc::getKernelWork(FusionOp fusion) {
  Block &body = fusion.getBody().front();
  const DimAttr none = DimAttr::constant(fusion.getContext(), 0);
  KernelWork work{none, none};
  // Elements of each value that are read, by all readers together.
  llvm::DenseMap<Value, DimAttr> needed;
  auto need = [&](Value value, DimAttr elements) {
    const DimAttr all = getNumElements(value.getType());
    auto [it, isFirst] = needed.try_emplace(value, atMost(elements, all));
    if (!isFirst && it->second != all)
      it->second = atMost(it->second + elements, all);
  };
  for (Operation &op : llvm::reverse(body)) {
    DimAttr asked = none;
    for (Value result : op.getResults())
      if (DimAttr elements = needed.lookup(result))
        asked = asked + elements;
    for (Value operand : op.getOperands())
      need(operand, readsAll(&op) ? getNumElements(operand.getType()) : asked);
    if (auto cost = dyn_cast<CostOpInterface>(op); cost && isa<ContractionOpInterface>(op))
      work.flops = work.flops + cost.getFlops();
  }
  for (Value argument : body.getArguments())
    if (DimAttr elements = needed.lookup(argument))
      work.bytes = work.bytes + elements * DimAttr::constant(fusion.getContext(),
                                                             getElementBytes(argument.getType()));
  for (Value result : fusion.getResults())
    work.bytes = work.bytes + getBytes(result.getType());
  return work;
}
