// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What commands tell of themselves (PlanCommandOpInterface).
#ifndef TRAINC_DIALECTS_PLAN_PLANINTERFACES_H
#define TRAINC_DIALECTS_PLAN_PLANINTERFACES_H

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace trainrt {
class WorkingMemory;
}

namespace trainc::plan {

/// An operand where program.fbs wants it. `operand` is null where the command has none; `offset`,
/// in bytes, is null for 0.
struct CommandSlot {
  mlir::OpOperand *operand = nullptr;
  train::DimAttr offset = {};
};

struct CommandKernels {
  llvm::SmallVector<llvm::StringRef> names;
  /// Of one launch.
  size_t args = 0, dims = 0;
};

/// A table that was written: its number in the union `Op`, and where it is.
struct CommandTable {
  uint8_t kind;
  uint32_t offset;
};
/// See TableBuilder.h.
struct TableBuilder;
/// See CallEmitter.h.
class CallEmitter;

using EvaluateReal = llvm::function_ref<double(train::DimAttr)>;
using EvaluateInteger = llvm::function_ref<int64_t(train::DimAttr)>;

struct CommandCost {
  /// Floating-point operations on numbers of this type; null: none.
  double flops = 0;
  mlir::Type elementType = {};
  bool tf32 = false;
  /// Bytes moved; absent: those of all buffers that it touches.
  std::optional<double> bytes = std::nullopt;
  /// Goes over the link to the host, beside the other commands.
  bool isTransfer = false;
  /// Of what all ranks do together: bytes that each sends to others.
  std::optional<double> sent = std::nullopt;
};

struct CommandWorkspace {
  int64_t bytes = 0;
  /// Such commands may run on the second stream, beside another.
  bool mayRunAside = false;
  /// Beside these, what ranks exchange through.
  int64_t staging = 0;
};

} // namespace trainc::plan

#include "dialects/Plan/PlanInterfaces.h.inc"

#endif // TRAINC_DIALECTS_PLAN_PLANINTERFACES_H
