// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of commands share.
#ifndef TRAINC_DIALECTS_PLAN_COMMANDDETAIL_H
#define TRAINC_DIALECTS_PLAN_COMMANDDETAIL_H

#include "dialects/Plan/PlanDialect.h"

namespace trainc::plan::detail {

using Effects =
    llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>;

inline void read(Effects &effects, mlir::OpOperand &buffer) {
  effects.emplace_back(mlir::MemoryEffects::Read::get(), &buffer);
}
inline void write(Effects &effects, mlir::OpOperand &buffer) {
  effects.emplace_back(mlir::MemoryEffects::Write::get(), &buffer);
}
inline void read(Effects &effects, mlir::MutableOperandRange buffers) {
  for (mlir::OpOperand &buffer : buffers)
    read(effects, buffer);
}
inline void write(Effects &effects, mlir::MutableOperandRange buffers) {
  for (mlir::OpOperand &buffer : buffers)
    write(effects, buffer);
}

inline train::DimAttr inBytes(train::DimAttr elements, mlir::Type element) {
  return elements * train::DimAttr::constant(element.getContext(), train::getElementBytes(element));
}
inline mlir::OpOperand *only(mlir::MutableOperandRange range) {
  return range.empty() ? nullptr : &range[0];
}
inline llvm::SmallVector<int64_t> evaluateAll(train::DimsAttr dims, EvaluateInteger value) {
  return llvm::map_to_vector(dims.getDims(), value);
}

} // namespace trainc::plan::detail

#endif // TRAINC_DIALECTS_PLAN_COMMANDDETAIL_H
