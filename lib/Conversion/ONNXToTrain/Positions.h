// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors that hold nothing but a coordinate of their own element. Masks of exporters gather with
// such indices; knowing them turns the gather into a broadcast. Masks that were exported as numbers
// are formulas of such tensors.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_POSITIONS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_POSITIONS_H

#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDialect.h"
#include <optional>

namespace trainc::legalize {

/// The axis a such that x[i0, i1, ...] = i_a, looking through reshapes that add or drop axes of
/// size 1, broadcasts, transposes and casts between integers.
std::optional<int64_t> positionAxis(mlir::Value x);

/// For index tuples [..., depth] that are concatenated position tensors: the position axis of each.
std::optional<llvm::SmallVector<int64_t>> positionTuple(mlir::Value indices);

/// The matrix that the importer found to be a band around the diagonal (`onnx.band`), as a formula
/// of its coordinates.
mlir::Value buildBand(train::TrainBuilder &tb, mlir::DictionaryAttr band,
                      llvm::ArrayRef<train::DimAttr> dims);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_POSITIONS_H
