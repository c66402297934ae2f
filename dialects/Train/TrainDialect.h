// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The train dialect: operations, attributes and interfaces. Include this one header.
#ifndef TRAINC_DIALECTS_TRAIN_TRAINDIALECT_H
#define TRAINC_DIALECTS_TRAIN_TRAINDIALECT_H

#include "dialects/Train/Dims.h"
#include "dialects/Train/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Train/TrainDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/Train/TrainOps.h.inc"

namespace trainc::train {

/// Names of the attributes on function arguments and results; see docs/design/train-dialect.md.
inline constexpr llvm::StringLiteral kRoleAttr = "train.role";
inline constexpr llvm::StringLiteral kNameAttr = "train.name";
inline constexpr llvm::StringLiteral kWeightAttr = "train.weight";
inline constexpr llvm::StringLiteral kTrainableAttr = "train.trainable";
/// How a parameter without a weight begins: {uniform = bound} or {constant = value}.
inline constexpr llvm::StringLiteral kInitAttr = "train.init";
/// On a parameter that holds codes of the weight (format, block, dtype, shape, parts), and on the
/// others that the weight is stored in (the name of the first).
inline constexpr llvm::StringLiteral kQuantizedAttr = "train.quantized";
inline constexpr llvm::StringLiteral kPartOfAttr = "train.part_of";
/// On the module: the low-rank branches, as the package describes them.
inline constexpr llvm::StringLiteral kLoraAttr = "train.lora";
inline constexpr llvm::StringLiteral kUpdatesAttr = "train.updates";
/// Per-parameter multipliers of weight decay and learning rate (f64), set from --no-decay,
/// --lr-scale.
inline constexpr llvm::StringLiteral kDecayScaleAttr = "train.decay_scale";
inline constexpr llvm::StringLiteral kLrScaleAttr = "train.lr_scale";
/// On a gradient (unit): the loss does not depend on the parameter, so that no optimizer touches
/// it.
inline constexpr llvm::StringLiteral kUnusedAttr = "train.unused";
/// On a function that computes the same as another one, quicker, for batches that allow it: its
/// name, and what they must be like (a list of dictionaries). Both stay, as kFlopsAttr does, on the
/// way to plan.function.
inline constexpr llvm::StringLiteral kVariantOfAttr = "train.variant_of";
inline constexpr llvm::StringLiteral kConditionsAttr = "train.conditions";
/// On a function: its floating-point operations, a size expression.
inline constexpr llvm::StringLiteral kFlopsAttr = "train.flops";

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_TRAINDIALECT_H
