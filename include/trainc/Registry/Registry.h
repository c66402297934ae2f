// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All dialects and passes of the compiler, for tools that take IR of any phase.
#ifndef TRAINC_REGISTRY_REGISTRY_H
#define TRAINC_REGISTRY_REGISTRY_H

#include "trainc/Plugin/Plugin.h"

namespace mlir {
class DialectRegistry;
}

namespace trainc {

/// Adds every dialect that a phase of the compiler uses, and those of the plug-ins that are loaded.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass, and those of MLIR that are useful between them (canonicalize, cse, ...).
void registerAllPasses();

/// Loads a plug-in in C++ (docs/plugins.md), whose dialects and passes are then among all; returns
/// what is wrong. One that was loaded before stays as it is.
std::optional<plugin::Fault> loadPlugin(llvm::StringRef path);

} // namespace trainc

#endif // TRAINC_REGISTRY_REGISTRY_H
