// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size expressions and the tensor types that carry them.
#ifndef TRAINC_DIALECTS_TRAIN_DIMS_H
#define TRAINC_DIALECTS_TRAIN_DIMS_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"

#include "dialects/Train/TrainEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Train/TrainAttrs.h.inc"

namespace trainc::train {

/// Arithmetic on size expressions; results are canonical.
DimAttr operator+(DimAttr a, DimAttr b);
DimAttr operator-(DimAttr a, DimAttr b);
DimAttr operator*(DimAttr a, DimAttr b);
DimAttr floorDiv(DimAttr a, DimAttr b);
DimAttr mod(DimAttr a, DimAttr b);
DimAttr maxDim(DimAttr a, DimAttr b);
DimAttr minDim(DimAttr a, DimAttr b);
/// a / b where b divides a for every value of the symbols, else null.
DimAttr divideExactly(DimAttr a, DimAttr b);

/// Whether every dynamic dim of a ranked tensor has its expression in the encoding.
bool hasNamedDims(mlir::Type type);
/// Dims of a ranked tensor with named dims.
llvm::SmallVector<DimAttr> getDims(mlir::Type type);
llvm::SmallVector<DimAttr> getDims(mlir::Value value);
DimAttr getDim(mlir::Value value, int64_t axis);
/// Product of all dims.
DimAttr getNumElements(mlir::Type type);
DimAttr product(mlir::MLIRContext *context, llvm::ArrayRef<DimAttr> dims);
/// Bytes of an element of a type, or of a tensor's, as it is stored; booleans take one.
int64_t getElementBytes(mlir::Type type);
/// Bytes of a tensor's elements.
DimAttr getBytes(mlir::Type tensorType);
/// Tensor type of these dims.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<DimAttr> dims, mlir::Type elementType);
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type elementType);
int64_t getRank(mlir::Value value);
mlir::Type getElementType(mlir::Value value);
/// "[batch, seq, 64]"
std::string dimsToString(llvm::ArrayRef<DimAttr> dims);
} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_DIMS_H
