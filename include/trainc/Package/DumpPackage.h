// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A package as text: its files, manifest and program, for people.
#ifndef TRAINC_PACKAGE_DUMPPACKAGE_H
#define TRAINC_PACKAGE_DUMPPACKAGE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace trainc {

/// Prints the package at `path`; fails after a message on `errors` that names what is wrong with
/// it.
mlir::LogicalResult dumpPackage(llvm::StringRef path, llvm::raw_ostream &out,
                                llvm::raw_ostream &errors);

} // namespace trainc

#endif // TRAINC_PACKAGE_DUMPPACKAGE_H
