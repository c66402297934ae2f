// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds a fusion, compiles it for every CPU level that this machine has and for an emulated GPU,
// runs it in buffers that end at an unmapped page, and compares with the reference evaluator.
#ifndef TRAINC_TEST_UNIT_CODEGEN_FUSIONHARNESS_H
#define TRAINC_TEST_UNIT_CODEGEN_FUSIONHARNESS_H

#include "dialects/Train/TrainBuilder.h"
#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "trainc/Reference/Reference.h"
#include "trainc/Report/Reports.h"
#include "gtest/gtest.h"
#include <map>

namespace trainc::test {

using mlir::Value;
using train::TrainBuilder;
using Values = llvm::SmallVector<Value>;
using Symbols = std::map<std::string, int64_t>;

/// An input: shape as "b, s, 64", type f32 f64 f16 bf16 i64 i32 i8 i1, values uniform in [low,
/// high].
struct Input {
  std::string shape;
  std::string type = "f32";
  double low = -2, high = 2;
};

class FusionHarness {
public:
  using Body = std::function<Values(TrainBuilder &, mlir::ValueRange)>;

  FusionHarness();
  train::FusionOp build(llvm::ArrayRef<Input> inputs, const Body &body);
  train::DimAttr dim(const std::string &text);
  llvm::SmallVector<train::DimAttr> dims(const std::string &text);
  mlir::Type elementType(const std::string &name);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A loaded shared object of kernels.
class LoadedKernels {
public:
  explicit LoadedKernels(const std::vector<char> &bytes);
  ~LoadedKernels();
  void *find(const std::string &name) const;

private:
  void *handle = nullptr;
  int fd = -1;
};

/// CPU levels of this machine.
std::vector<llvm::StringRef> cpuLevels();

using Kernel = void(void *const *, const int64_t *, int64_t, int64_t, const void *);

/// Compiles the fusion and runs it for each of `sizes`. Fails the test where a result differs from
/// the reference by more than `tolerance` * (1 + magnitude of the reference), where the split into
/// work items or the order of blocks and threads changes a bit, or where `sharing` is not the
/// number of (input, result) pairs that may share a buffer. With each such pair, the kernel runs
/// again in place and must give the same bits. Where an op of the body reports, its condition must
/// be a result of the body, and the kernel has reported exactly where the reference has it
/// anywhere.
void checkFusion(llvm::ArrayRef<Input> inputs, const FusionHarness::Body &body,
                 llvm::ArrayRef<Symbols> sizes, double tolerance = 2e-6);
/// The same for what only a GPU has kernels for.
void checkGpuFusion(llvm::ArrayRef<Input> inputs, const FusionHarness::Body &body,
                    llvm::ArrayRef<Symbols> sizes, double tolerance = 2e-6);

} // namespace trainc::test

#endif // TRAINC_TEST_UNIT_CODEGEN_FUSIONHARNESS_H
