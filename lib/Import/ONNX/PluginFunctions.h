// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of plug-ins as functions of the model.

#ifndef TRAINC_LIB_IMPORT_ONNX_PLUGINFUNCTIONS_H
#define TRAINC_LIB_IMPORT_ONNX_PLUGINFUNCTIONS_H

#include "onnx.pb.h"
#include "trainc/Plugin/Plugin.h"

namespace trainc::detail {

/// Adds to the model's functions, in place of those of the same name, one for each operator: a node
/// of the domain `plugin::kDomain` with its inputs, outputs and attributes. A gradient is a
/// function's as any other. Returns what is wrong with a node that calls one, "" if nothing is.
std::string addPluginFunctions(const plugin::Plugins &plugins, ::onnx::ModelProto &model);

} // namespace trainc::detail

#endif // TRAINC_LIB_IMPORT_ONNX_PLUGINFUNCTIONS_H
