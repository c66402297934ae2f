// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan dialect. Include this one header.
#ifndef TRAINC_DIALECTS_PLAN_PLANDIALECT_H
#define TRAINC_DIALECTS_PLAN_PLANDIALECT_H

#include "dialects/Plan/PlanInterfaces.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Plan/PlanDialect.h.inc"
#include "dialects/Plan/PlanEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

#endif // TRAINC_DIALECTS_PLAN_PLANDIALECT_H
