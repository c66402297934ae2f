// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stages of reductions that many work items share, and where their temporary results lie.

#include "trainc/Codegen/ReductionStages.h"
#include "trainc/Codegen/KernelEmitter.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

DimAttr ceilDim(DimAttr a, DimAttr b) {
  return floorDiv(a + b - DimAttr::constant(a.getContext(), 1), b);
}

/// Exact for constants.
DimAttr ceilDim(DimAttr a, int64_t b) {
  if (b == 1)
    return a;
  if (auto value = a.getConstant())
    return DimAttr::constant(a.getContext(), (*value + b - 1) / b);
  return ceilDim(a, DimAttr::constant(a.getContext(), b));
}

DimAttr productOf(MLIRContext *context, ArrayRef<DimAttr> space, ArrayRef<int64_t> axes) {
  SmallVector<DimAttr> sizes;
  for (int64_t axis : axes)
    sizes.push_back(space[axis]);
  return product(context, sizes);
}

/// Each part begins at a multiple of 256 bytes, so that vectors of it are aligned.
DimAttr TemporaryLayout::add(DimAttr count, Type element) {
  constexpr int64_t kAlignment = 256;
  MLIRContext *context = count.getContext();
  DimAttr place = bytes ? bytes : DimAttr::constant(context, 0);
  DimAttr size = count * DimAttr::constant(context, getElementBytes(element));
  bytes = place + ceilDim(size, kAlignment) * DimAttr::constant(context, kAlignment);
  return place;
}

/// Totals are kept for later passes only; partial results only where several items share a row.
ReductionStages::ReductionStages(FusionOp fusion, const Structure &s, DimAttr parts) {
  DimAttr kept = productOf(fusion.getContext(), s.space, s.kept);
  bool split = !parts.isConstant(1);
  for (auto [number, pass] : llvm::enumerate(s.passes)) {
    bool reduces = !pass.reductions.empty();
    stages.push_back({unsigned(number), /*sweeps=*/true, reduces && !split});
    if (!reduces)
      continue;
    lastReducing = number;
    if (split)
      stages.push_back({unsigned(number), /*sweeps=*/false, /*totals=*/true});
    for (Operation *op : pass.reductions) {
      Type type = computeType(getElementType(op->getResult(0)));
      if (split)
        partials[op] = temporary.add(parts * kept, type);
      if (number + 1 < s.passes.size())
        totals[op] = temporary.add(kept, type);
    }
  }
}

std::string ReductionStages::suffix(const Stage &stage) const {
  if (stages.size() == 1)
    return "";
  return (stage.sweeps ? "_pass" : "_totals") + std::to_string(stage.pass);
}

} // namespace trainc::codegen
