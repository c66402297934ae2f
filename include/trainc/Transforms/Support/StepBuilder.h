// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds a function whose arguments and results have roles, and reads such functions. Arguments are
// found by role and name, so that functions put together from parts share what they have in common.
#ifndef TRAINC_TRANSFORMS_SUPPORT_STEPBUILDER_H
#define TRAINC_TRANSFORMS_SUPPORT_STEPBUILDER_H

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/IRMapping.h"
#include "trainc/Analysis/Roles.h"

namespace trainc {

/// Adds an argument of known extents at the end, with `attributes` beside role and name.
mlir::BlockArgument addArgument(mlir::func::FuncOp func, llvm::StringRef role, llvm::StringRef name,
                                llvm::ArrayRef<int64_t> shape, mlir::Type element,
                                mlir::Location loc,
                                llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// The type that a gradient is summed up in: f32 where it has 16 bits, which is also what the
/// runtime's accumulators hold.
mlir::Type accumulatorType(mlir::Type gradient);

/// Attributes of a result that replaces the argument of this role and name.
mlir::DictionaryAttr getUpdateAttrs(mlir::Builder &b, llvm::StringRef role, llvm::StringRef name);

class StepBuilder {
public:
  /// Starts the function `name` at the end of the module.
  StepBuilder(mlir::ModuleOp module, llvm::StringRef name, mlir::Location loc);

  mlir::OpBuilder &builder() { return opBuilder; }
  /// Builder of train ops at the function's end; `loc` is what the ops derive from.
  train::TrainBuilder at(mlir::Location loc) { return train::TrainBuilder(opBuilder, loc); }

  /// The argument of this role and name; added if it is not there, with `attrs` beside role and
  /// name.
  mlir::Value argument(llvm::StringRef role, llvm::StringRef name, mlir::Type type,
                       mlir::Location loc, mlir::DictionaryAttr attrs = {});
  /// The argument that stands for argument `number` of `func`.
  mlir::Value argumentLike(mlir::func::FuncOp func, unsigned number);
  /// Adds arguments like those of `func` that have `role`.
  void argumentsLike(mlir::func::FuncOp func, llvm::StringRef role);

  /// Clones the body of `func`, a single block. Its arguments become those in `mapping`, or
  /// arguments of the function being built. Returns the operands of its return.
  llvm::SmallVector<mlir::Value> inlineBody(mlir::func::FuncOp func, mlir::IRMapping mapping = {});

  void result(mlir::Value value, mlir::DictionaryAttr attrs);
  /// A result that replaces the argument of this role and name.
  void update(llvm::StringRef role, llvm::StringRef name, mlir::Value value);

  /// Ends the function: removes dead ops, adds the return and the signature.
  mlir::func::FuncOp finish();

private:
  mlir::func::FuncOp func;
  mlir::OpBuilder opBuilder;
  llvm::StringMap<mlir::Value> arguments;
  llvm::SmallVector<mlir::Attribute> argumentAttrs, resultAttrs;
  llvm::SmallVector<mlir::Value> results;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_SUPPORT_STEPBUILDER_H
