// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes of arguments and results, and what goes with a result.

#include "trainc/Analysis/Roles.h"

#include "dialects/Train/TrainDialect.h"
#include "trainc/Support/DeadOps.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static StringRef text(Attribute attr) {
  auto string = dyn_cast_or_null<StringAttr>(attr);
  return string ? string.getValue() : StringRef();
}
StringRef trainc::getArgRole(func::FuncOp func, unsigned argument) {
  return text(func.getArgAttr(argument, kRoleAttr));
}
StringRef trainc::getArgName(func::FuncOp func, unsigned argument) {
  return text(func.getArgAttr(argument, kNameAttr));
}
StringRef trainc::getResultRole(func::FuncOp func, unsigned result) {
  return text(func.getResultAttr(result, kRoleAttr));
}
StringRef trainc::getResultName(func::FuncOp func, unsigned result) {
  return text(func.getResultAttr(result, kNameAttr));
}

/// Also what only these results were made of goes, so that a function does not keep what nobody
/// asks for.
LogicalResult trainc::eraseResults(func::FuncOp func, function_ref<bool(unsigned)> isErased) {
  BitVector erased(func.getNumResults());
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    erased[i] = isErased(i);
  Block &block = func.getBody().front();
  block.getTerminator()->eraseOperands(erased);
  if (failed(func.eraseResults(erased)))
    return failure();
  eraseDeadOps(block);
  return success();
}

LogicalResult trainc::eraseResults(func::FuncOp func, StringRef role) {
  return eraseResults(func, [&](unsigned i) { return getResultRole(func, i) == role; });
}
