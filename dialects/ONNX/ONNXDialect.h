// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++ declarations of the `onnx` dialect: types, attributes and operations generated from ODS.

#ifndef DIALECTS_ONNX_ONNXDIALECT_H
#define DIALECTS_ONNX_ONNXDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/ONNX/ONNXDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ONNX/ONNXTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ONNX/ONNXAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/ONNX/ONNXOps.h.inc"

namespace trainc::onnx {
/// Result attributes of graphs that hold gradients or updates; see the dialect's description.
inline constexpr llvm::StringLiteral kGradientOfAttr = "onnx.gradient_of";
inline constexpr llvm::StringLiteral kUpdatesAttr = "onnx.updates";
} // namespace trainc::onnx

#endif // DIALECTS_ONNX_ONNXDIALECT_H
