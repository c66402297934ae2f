// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of axes that are expressions, as exporters write sizes that follow from others.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZENAMES_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZENAMES_H

#include "trainc/Conversion/ONNXToTrain/Bounds.h"

namespace trainc::legalize {

/// The size that `name` says: "2*w", "seq + 1", "(h//2)", "Max(1, s0)". Sums, products, powers by a
/// number, `//`, `%`, and the functions FloorDiv, CleanDiv, Mod, PythonMod, Max and Min, of names
/// and whole numbers: what torch.export makes of sizes (torch/utils/_sympy/functions.py, as
/// Python's str prints them). Null: it is no such text, divides by 0, has no name in it, or is too
/// long.
DimAttr parseSizeName(mlir::MLIRContext *context, llvm::StringRef name);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZENAMES_H
