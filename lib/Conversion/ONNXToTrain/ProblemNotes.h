// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes with the error of a node that cannot be legalized.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_PROBLEMNOTES_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_PROBLEMNOTES_H

#include "dialects/ONNX/ONNXDialect.h"
#include "mlir/IR/Diagnostics.h"

namespace trainc::legalize {

/// Notes what the inputs of a node come from, as far as other nodes make them.
void noteProducers(mlir::InFlightDiagnostic &diag, onnx::NodeOp node);

/// Notes the heads of a function that would take the place of the node's operator and of its
/// gradient, in ONNX's text form (docs/plugins.md): what is left to write are the dots.
/// `isUnknown`: there is no handler of any form of the operator, so that a plug-in may have it,
/// too.
void noteStub(mlir::InFlightDiagnostic &diag, onnx::NodeOp node, bool isUnknown);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_PROBLEMNOTES_H
