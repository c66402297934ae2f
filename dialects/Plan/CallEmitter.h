// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What library calls are emitted with.
#ifndef TRAINC_DIALECTS_PLAN_CALLEMITTER_H
#define TRAINC_DIALECTS_PLAN_CALLEMITTER_H

#include "dialects/Plan/PlanDialect.h"

namespace trainc::plan {

/// Where a value lies: a buffer, and strides and an offset in it, in elements.
struct Place {
  mlir::Value buffer;
  train::StridedLayout layout;
};

class CallEmitter {
public:
  CallEmitter(mlir::OpBuilder &builder, bool tf32) : builder(builder), tf32(tf32) {}
  virtual ~CallEmitter() = default;

  mlir::OpBuilder &builder;
  /// Whether matmuls of f32 may round their operands to TF32.
  const bool tf32;

  /// Of an operand, or of a result that has been placed.
  virtual Place placeOf(mlir::Value value) = 0;
  /// A place for a result.
  virtual Place placeResult(mlir::Value result) = 0;
  /// The same, in the argument that the result updates, where nothing reads that behind `op`.
  virtual mlir::Value placeUpdate(mlir::Operation *op, mlir::Value result) = 0;
  /// A place for a result that is added to what `addend` holds: that value is in it.
  virtual Place placeSum(mlir::Operation *op, mlir::Value addend, mlir::Value result) = 0;
  /// A place for a result that is made of an operand in the same memory, which may be a gradient's
  /// accumulator, too: row major.
  virtual mlir::Value placeOver(mlir::Operation *op, mlir::Value operand, mlir::Value result) = 0;
  /// Emits the ops of a block whose arguments lie in these buffers. What its terminator has first
  /// is in the first arguments' buffers in the end, the rest in `results`.
  virtual llvm::LogicalResult emitBlock(mlir::Block &block, mlir::ValueRange arguments,
                                        mlir::ValueRange results) = 0;
};

/// Gives the train ops that are library calls their interface.
void attachGemmCalls(mlir::MLIRContext *context);
void attachAttentionCalls(mlir::MLIRContext *context);
void attachCollectiveCalls(mlir::MLIRContext *context);
void attachLoopCalls(mlir::MLIRContext *context);
void attachConvolutionCalls(mlir::MLIRContext *context);
void attachExternalCalls(mlir::MLIRContext *context);

} // namespace trainc::plan

#endif // TRAINC_DIALECTS_PLAN_CALLEMITTER_H
