// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators made of others: a handler runs another operator's on values of its own, or takes its
// gradient.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_COMPOSE_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_COMPOSE_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

/// A tensor as the input of an operator.
LegalValue &asInput(NodeContext &c, mlir::Value tensor);

/// The first result of the operator `type` on `inputs` (null: absent), with these attributes. Fails
/// with that operator's reason.
mlir::FailureOr<LegalValue *> applyOperator(NodeContext &c, llvm::StringRef type,
                                            llvm::ArrayRef<LegalValue *> inputs,
                                            mlir::DictionaryAttr attributes = {});

/// The gradients of the operator's inputs `wanted` for the cotangent `seed` of its result, through
/// the gradients of what it is legalized into. Fails with a reason.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
gradientOf(NodeContext &c, llvm::StringRef type, llvm::ArrayRef<LegalValue *> inputs,
           mlir::Value seed, llvm::ArrayRef<unsigned> wanted, mlir::DictionaryAttr attributes = {});

/// `x`, which was broadcast from `dims`, summed over what was repeated.
mlir::Value sumTo(NodeContext &c, mlir::Value x, llvm::ArrayRef<DimAttr> dims);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_COMPOSE_H
