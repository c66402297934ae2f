// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU kernels on the host: the code of a thread is compiled for this machine, and the threads of a
// block take turns, changing where they meet. Says whether a mapping is right, not how fast it is.
#ifndef TRAINC_TEST_UNIT_CODEGEN_GPUEMULATION_H
#define TRAINC_TEST_UNIT_CODEGEN_GPUEMULATION_H

#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <string>
#include <vector>

namespace trainc::test {

class EmulatedKernels {
public:
  /// `kernels`: what GpuCodegen::getModule returns. Fails the test where they cannot be compiled.
  explicit EmulatedKernels(mlir::ModuleOp kernels);
  ~EmulatedKernels();
  EmulatedKernels(const EmulatedKernels &) = delete;
  EmulatedKernels &operator=(const EmulatedKernels &) = delete;

  /// Runs the blocks one after another, each thread as far as it comes without the others;
  /// `backwards`: from the last to the first. Fails the test where threads wait for others in vain.
  void launch(const std::string &name, int64_t blocks, int64_t threads,
              const std::vector<int64_t> &arguments, bool backwards);

private:
  void compile(mlir::ModuleOp kernels);

  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace trainc::test

#endif // TRAINC_TEST_UNIT_CODEGEN_GPUEMULATION_H
