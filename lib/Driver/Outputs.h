// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that a compilation writes: that they can be written, and are none that it reads.
#ifndef TRAINC_LIB_DRIVER_OUTPUTS_H
#define TRAINC_LIB_DRIVER_OUTPUTS_H

#include "lib/Driver/Log.h"
#include "lib/Driver/RemarkSummary.h"
#include "mlir/IR/MLIRContext.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Support/FileRoles.h"
#include <memory>

namespace trainc {

class Outputs {
public:
  /// A file that is read, and what it is: "the model".
  using Input = std::pair<std::string, std::string>;

  Outputs(const CompileOptions &options, Log &log) : options(options), log(log) {}

  /// The package's path: beside the model where none is given.
  std::string package() const;
  /// Whether everything that was asked for can be written, as far as the command line tells, before
  /// time is spent on it. The exit code.
  int check();
  /// The same once it is known what else is read; then opens what is written as the passes run.
  /// The exit code.
  int open(mlir::MLIRContext &context, llvm::ArrayRef<Input> read);
  /// The exit code of a compilation that ended with `code`.
  int close(int code);

  /// The exit code for what writing a file has come to.
  int checkWritten(const std::string &problem) const;
  /// A file of --save-ir; the exit code.
  int saveIR(llvm::StringRef name, llvm::function_ref<void(llvm::raw_ostream &)> print) const;
  /// The IR after a phase, where --save-ir asks for it; the exit code.
  int savePhase(llvm::StringRef phase, llvm::function_ref<void(llvm::raw_ostream &)> print) const;
  /// Files that are read, and those that are written.
  FileRoles &files() { return roles; }

private:
  int claim(llvm::ArrayRef<Input> read);

  const CompileOptions &options;
  Log &log;
  FileRoles roles;
  std::unique_ptr<llvm::raw_fd_ostream> remarks;
  std::optional<RemarkSummary> summary;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OUTPUTS_H
