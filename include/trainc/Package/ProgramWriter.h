// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serialises plan functions into program.fb (runtime/schema/program.fbs).
#ifndef TRAINC_PACKAGE_PROGRAMWRITER_H
#define TRAINC_PACKAGE_PROGRAMWRITER_H

#include "dialects/Plan/PlanDialect.h"
#include "trainc/Package/Interface.h"

namespace trainc {

/// Name of an element type in manifests ("f32", "bool8", ...), empty where packages have none for
/// it.
llvm::StringRef getDTypeName(mlir::Type elementType);

/// The FlatBuffer of all plan functions of the module. `target`: a name of the schema's enum
/// Target.
mlir::FailureOr<std::vector<char>>
writeProgram(mlir::ModuleOp module, const PackageInterface &interface, llvm::StringRef target);

} // namespace trainc

#endif // TRAINC_PACKAGE_PROGRAMWRITER_H
