// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan dialect. Include this one header.
#ifndef TRAINC_DIALECTS_PLAN_PLANDIALECT_H
#define TRAINC_DIALECTS_PLAN_PLANDIALECT_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/RegionKindInterface.h"

#include "dialects/Plan/PlanDialect.h.inc"
#include "dialects/Plan/PlanEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

namespace trainc::plan {
/// Of a function that computes the same as another one, quicker, for batches that allow it: its
/// name, what they must be like (a list of dictionaries), and of both the work. They stay on the
/// way from func.func to plan.function.
inline constexpr llvm::StringLiteral kVariantOfAttr = "train.variant_of";
inline constexpr llvm::StringLiteral kConditionsAttr = "train.conditions";
inline constexpr llvm::StringLiteral kFlopsAttr = "train.flops";

/// Bytes of a tensor's elements; booleans take one byte each.
train::DimAttr getBytes(mlir::Type tensorType);
} // namespace trainc::plan

#endif // TRAINC_DIALECTS_PLAN_PLANDIALECT_H
