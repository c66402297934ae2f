// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The identity of a model: which graph a package was compiled from, whatever the options were.
// Checkpoints keep it, so that one of another model with equal names and shapes is told apart.
#ifndef TRAINC_PACKAGE_IDENTITY_H
#define TRAINC_PACKAGE_IDENTITY_H

#include "dialects/ONNX/ONNXDialect.h"
#include <string>

namespace trainc {

/// "N-" and 16 hex digits, N the version of this function: only identities of one version can be
/// compared. It covers the operators that the outputs need, their attributes, how they are wired,
/// and the names of inputs, outputs and parameters; of values those of integers and constants
/// that operators are configured by. It does not cover weights, names and order of nodes, names of
/// constants, sizes of inputs, the opset of standard operators from 13 on, or a training algorithm
/// of the model (training_info), which packages may leave out.
std::string identityOf(onnx::GraphOp graph);

} // namespace trainc

#endif // TRAINC_PACKAGE_IDENTITY_H
