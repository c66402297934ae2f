// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --pad-token: what pads the inputs that hold token ids.
#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_PADTOKENS_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_PADTOKENS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Conversion/Legalize.h"

namespace trainc {

/// Writes on the inputs of `forward` what `tokens` say, and what the model does (ImportedModel).
/// Returns what is wrong with the tokens; "" if nothing is.
std::string setPadTokens(mlir::func::FuncOp forward, llvm::ArrayRef<PadToken> tokens,
                         llvm::ArrayRef<std::pair<std::string, int64_t>> paddingIds);

} // namespace trainc

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_ROLES_PADTOKENS_H
