// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registration and verifiers of the plan dialect.

#include "dialects/Plan/PlanDialect.h"
#include "dialects/Plan/CallEmitter.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;

#include "dialects/Plan/PlanDialect.cpp.inc"
#include "dialects/Plan/PlanEnums.cpp.inc"
#include "dialects/Plan/PlanInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Plan/PlanTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
  attachGemmCalls(getContext());
  attachAttentionCalls(getContext());
  attachCollectiveCalls(getContext());
  attachLoopCalls(getContext());
  attachConvolutionCalls(getContext());
  attachExternalCalls(getContext());
}

LogicalResult FunctionOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<BufferOp, ReleaseOp, PlanCommandOpInterface>(op))
      return op.emitError("'") << op.getName()
                               << "' is neither a buffer nor a command, which a plan consists of";
  return success();
}

/// Of whom a buffer is known by a name outside of its function.
static bool isNamed(Space space) {
  return space != Space::arena && space != Space::host && space != Space::constant;
}

LogicalResult BufferOp::verify() {
  const StringRef space = stringifySpace(getSpace());
  if (isNamed(getSpace()) != !getName().value_or("").empty())
    return emitOpError("expected ")
           << (isNamed(getSpace()) ? "a name" : "no name") << " in the space '" << space << "'";
  if ((getSpace() == Space::constant) != bool(getValue()))
    return emitOpError("expected a value in the space 'constant', and in no other, got ")
           << (getValue() ? "one" : "none") << " in '" << space << "'";
  if (getValue() && getValue()->getType() != getType())
    return emitOpError("expected a value of type ")
           << getType() << ", got " << getValue()->getType();
  return success();
}

LogicalResult ReleaseOp::verify() {
  auto declaration = getBuffer().getDefiningOp<BufferOp>();
  if (declaration && declaration.getSpace() != Space::arena)
    return emitOpError("expected a buffer of the arena, got one in the space '")
           << stringifySpace(declaration.getSpace()) << "'";
  for (Operation *user : getBuffer().getUsers())
    if (user->getBlock() == (*this)->getBlock() && (*this)->isBeforeInBlock(user)) {
      InFlightDiagnostic error = emitOpError("ends a buffer's lifetime before its last use");
      error.attachNote(user->getLoc()) << "which is here";
      return error;
    }
  return success();
}
