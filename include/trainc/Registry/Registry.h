// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All dialects and passes of the compiler, for tools that take IR of any phase.
#ifndef TRAINC_REGISTRY_REGISTRY_H
#define TRAINC_REGISTRY_REGISTRY_H

namespace mlir {
class DialectRegistry;
}

namespace trainc {

/// Adds every dialect that a phase of the compiler uses.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass, and those of MLIR that are useful between them (canonicalize, cse, ...).
void registerAllPasses();

} // namespace trainc

#endif // TRAINC_REGISTRY_REGISTRY_H
