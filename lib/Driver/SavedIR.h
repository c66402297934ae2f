// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR of --save-ir, which knows the command line that made it, so that --start-from can go on
// with it.
#ifndef TRAINC_LIB_DRIVER_SAVEDIR_H
#define TRAINC_LIB_DRIVER_SAVEDIR_H

#include "lib/Driver/Log.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace trainc {

/// On the module of a saved file: the command line (strings) without the program, and behind it
/// --target with the target that was chosen.
inline constexpr llvm::StringLiteral kCommandLineAttr = "train.command_line";

/// Prints a module with its locations, which are ONNX nodes, its constants in full, and the command
/// line.
void printSavedIR(mlir::ModuleOp module, llvm::ArrayRef<std::string> arguments,
                  const std::string &target, llvm::raw_ostream &out);

/// Reads what that has written, whatever was changed in it since, and checks that it is what
/// `phase` leaves behind. Returns an exit code, after messages that name the file.
int checkSavedIR(llvm::StringRef path, llvm::StringRef phase, Log &log,
                 std::vector<std::string> &arguments);
/// The module of a file that has been checked, without the command line.
mlir::OwningOpRef<mlir::ModuleOp> readSavedIR(llvm::StringRef path, mlir::MLIRContext &context);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_SAVEDIR_H
