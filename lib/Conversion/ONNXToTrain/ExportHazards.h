// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What exporters do to a model that trains wrongly without anybody noticing: parameters that were
// folded, merged or renamed, and sizes of the example batch that became constants.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_EXPORTHAZARDS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_EXPORTHAZARDS_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Roles/Trainable.h"

namespace trainc::legalize {

/// Warns of parameters that are not what they were in the exporter's model; fails where it is known
/// which of them the graph has lost and nobody said what to train.
llvm::LogicalResult checkParameters(onnx::GraphOp graph, const TrainableRule &rule,
                                    const LegalizeResult &result);

/// Demands that two sizes of a node are equal (Bounds::demandEqual): where that helps, the graph is
/// legalized once more.
void demandEqual(NodeContext &c, DimAttr a, DimAttr b);
/// Does so, and fails with `message` and what to do about it. Where one of them is a number, that
/// names the node that made it.
llvm::LogicalResult failUnequal(NodeContext &c, DimAttr a, DimAttr b, const llvm::Twine &message);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_EXPORTHAZARDS_H
