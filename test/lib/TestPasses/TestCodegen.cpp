// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-codegen`: makes the CPU kernel of every fusion and remarks how it is launched;
// with `print`, the module becomes the module of kernels, with `compile` they are compiled and
// linked.
#include "test/lib/TestPasses/TestPasses.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Codegen.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace mlir;
using namespace trainc;

namespace {
struct TestCodegen : PassWrapper<TestCodegen, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestCodegen)

  TestCodegen() = default;
  TestCodegen(const TestCodegen &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-codegen"; }
  StringRef getDescription() const override { return "makes the kernels of fusions"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect, math::MathDialect,
                    vector::VectorDialect>();
  }

  void runOnOperation() override {
    codegen::CpuCodegen codegen(getContext());
    bool failedAny = false;
    getOperation().walk([&](train::FusionOp fusion) {
      FailureOr<codegen::KernelInfo> info = codegen.add(fusion);
      if (failed(info)) {
        failedAny = true;
        return;
      }
      std::string text;
      llvm::raw_string_ostream os(text);
      os << info->name << " dims " << train::dimsToString(info->dims) << " work "
         << info->work.str() << " grain " << info->grain << " scratch " << info->scratchBytes.str()
         << " in place [";
      llvm::interleaveComma(info->inPlace, os,
                            [&](auto pair) { os << pair.first << "->" << pair.second; });
      os << "]";
      if (remarks)
        fusion.emitRemark(text);
    });
    if (failedAny)
      return signalPassFailure();
    if (compile) {
      auto begin = std::chrono::steady_clock::now();
      auto objects = codegen.emitSharedObjects({"x86-64-v3", "x86-64-v4"});
      if (failed(objects))
        return signalPassFailure();
      std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
      llvm::outs() << codegen.size() << " kernels";
      for (auto &object : *objects)
        llvm::outs() << ", " << object.size() / 1024 << " KiB";
      llvm::outs() << "\n";
      llvm::errs() << int(time.count()) << " ms\n";
    }
    if (print) {
      getOperation().getBody()->clear();
      for (Operation &op : *codegen.getModule().getBody())
        getOperation().push_back(op.clone());
    }
  }

  Option<bool> print{*this, "print", llvm::cl::desc("leave the kernels"), llvm::cl::init(false)};
  Option<bool> remarks{*this, "remarks", llvm::cl::desc("say how kernels are launched"),
                       llvm::cl::init(true)};
  Option<bool> compile{*this, "compile", llvm::cl::desc("compile for x86-64-v3 and v4"),
                       llvm::cl::init(false)};
};
} // namespace

void testdialect::registerTestCodegenPass() { PassRegistration<TestCodegen>(); }
