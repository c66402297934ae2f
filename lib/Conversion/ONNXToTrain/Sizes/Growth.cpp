// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a small file may not grow to: loops in loops, tensors and sizes without end.

#include "lib/Conversion/ONNXToTrain/Legalizer.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace trainc::legalize {

StringRef faultOf(ArrayRef<DimAttr> dims) {
  // A symbol counts as 1: sizes of batches are bounded elsewhere.
  uint64_t elements = 1;
  for (DimAttr dim : dims)
    elements = llvm::SaturatingMultiply<uint64_t>(
        elements, std::max<int64_t>(dim.getConstant().value_or(1), 1));
  if (elements > uint64_t(1) << 56)
    return "it needs a tensor of more elements than memory can hold";
  // Polynomials are written out in programs.
  return llvm::any_of(dims, isTooLong) ? "its sizes are too long when they are written by those of "
                                         "the inputs; --dim NAME=N fixes one of these"
                                       : "";
}

bool Legalizer::mayGrow(onnx::NodeOp node) {
  // A failure for each node would hide the first.
  if (++growth <= kGrowthFloor + kGrowthPerNode * fileNodes)
    return true;
  if (!grewTooMuch) {
    grewTooMuch = true;
    // The node of the file, not one in a body.
    while (auto parent = node->getParentOfType<onnx::NodeOp>())
      node = parent;
    addProblem(node, "the graph grows to more than " + Twine(growth - 1) + " operations here, of " +
                         Twine(fileNodes) +
                         " nodes: loops and recurrences are unrolled while compiling");
  }
  return false;
}

} // namespace trainc::legalize
