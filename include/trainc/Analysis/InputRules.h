// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the values of integer inputs must satisfy, so that bad data is refused before a step.
#ifndef TRAINC_ANALYSIS_INPUTRULES_H
#define TRAINC_ANALYSIS_INPUTRULES_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Every value of input `input` from `begin` on and before `end`, a size for each axis, satisfies
/// `rule`; without them every value of it. `node` is the op that needs it.
struct InputRule {
  std::string input;
  train::IndexRule rule;
  mlir::Location node;
  llvm::SmallVector<train::DimAttr> begin, end;
};

/// Rules of a function's inputs: of index operands whose elements are elements of an input, all of
/// them or those of a range of each axis.
std::vector<InputRule> collectInputRules(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_ANALYSIS_INPUTRULES_H
