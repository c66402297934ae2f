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

/// What to do about two sizes of a node that differ; "; " comes first. Where one of them is a
/// number, it names the node that made it.
std::string unequalSizesHint(NodeContext &c, DimAttr a, DimAttr b);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_EXPORTHAZARDS_H
