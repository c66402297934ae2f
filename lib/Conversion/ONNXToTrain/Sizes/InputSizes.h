// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes of the inputs' axes, by what these are called.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_INPUTSIZES_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_INPUTSIZES_H

#include "dialects/ONNX/ONNXDialect.h"
#include "lib/Conversion/ONNXToTrain/Sizes/LearnedSizes.h"
#include "trainc/Conversion/Legalize.h"

namespace trainc::legalize {

/// Declares the symbols of the inputs' axes in `bounds`, within what `given` (`--dim`) and
/// `learned` say, and sets `sizes`, by input and axis; inputs that are no
/// ranked tensors have none.
///
/// An axis whose name is an expression (parseSizeName) has that size, where each name in it is
/// told: by an axis with that name, by `given`, or by an axis that is `factor * name + offset`. On
/// the first axis, which is that of rows as a rule, such a name tells nothing: batches are cut by a
/// size of its own. All other names are symbols, whatever they look like.
///
/// Returns what is wrong with `given`, or "".
std::string declareInputSizes(onnx::GraphOp graph, llvm::ArrayRef<DimBound> given,
                              const LearnedSizes &learned, Bounds &bounds,
                              llvm::SmallVectorImpl<llvm::SmallVector<DimAttr>> &sizes);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_INPUTSIZES_H
