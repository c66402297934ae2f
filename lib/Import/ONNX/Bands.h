// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrices of two numbers that a band around the diagonal tells apart: the causal masks that models
// keep as buffers, for the longest row they may see. They are a formula of row and column.

#ifndef TRAINC_LIB_IMPORT_ONNX_BANDS_H
#define TRAINC_LIB_IMPORT_ONNX_BANDS_H

#include "ProtoConvert.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace trainc::detail {

/// Whether a tensor may be such a matrix by its type: square, other axes of size 1.
bool mayBeBand(const TensorLayout &layout);

/// What `bytes` of such a tensor are: {inside, outside} (of its type) and {before, after}, how many
/// columns before and after its own a row has inside; those that are not there reach over all.
/// Null if they are no band, or one number everywhere.
mlir::DictionaryAttr findBand(const TensorLayout &layout, llvm::ArrayRef<char> bytes);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_BANDS_H
