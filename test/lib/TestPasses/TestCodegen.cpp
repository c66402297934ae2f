// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-codegen`: makes the kernel of every fusion for a target and remarks how it is
// launched; with `print`, the module becomes the module of kernels, with `print-ptx` their PTX is
// printed, with `compile` they are compiled and linked.
#include "test/lib/TestPasses/TestPasses.h"

#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
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
    std::unique_ptr<codegen::KernelCodegen> codegen;
    codegen::GpuCodegen *gpu = nullptr;
    if (target == "cuda") {
      codegen::GpuOptions options;
      options.architectures = {architecture};
      auto made = std::make_unique<codegen::GpuCodegen>(getContext(), options);
      gpu = made.get();
      codegen = std::move(made);
    } else if (target == "cpu") {
      std::string levels[] = {"x86-64-v3", "x86-64-v4"};
      codegen = std::make_unique<codegen::CpuCodegen>(getContext(), levels);
    } else {
      getOperation().emitError("unknown target '") << target << "': cpu and cuda are known";
      return signalPassFailure();
    }
    bool failedAny = false;
    getOperation().walk([&](train::FusionOp fusion) {
      FailureOr<codegen::KernelInfo> info = codegen->add(fusion);
      if (failed(info))
        failedAny = true;
      else if (remarks)
        fusion.emitRemark(describe(*info));
    });
    if (failedAny)
      return signalPassFailure();
    if (compile) {
      auto begin = std::chrono::steady_clock::now();
      auto objects = codegen->emitObjects();
      if (failed(objects))
        return signalPassFailure();
      std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
      llvm::outs() << codegen->size() << " kernels";
      for (const codegen::KernelObject &object : *objects)
        llvm::outs() << ", " << object.name << " " << object.bytes.size() / 1024 << " KiB";
      llvm::outs() << "\n";
      llvm::errs() << int(time.count()) << " ms\n";
      for (const codegen::KernelObject &object : *objects)
        if (!folder.empty())
          write(object);
    }
    if (printPtx) {
      FailureOr<std::string> text = failure();
      if (gpu)
        text = gpu->getPTX();
      if (failed(text))
        return signalPassFailure();
      llvm::outs() << *text;
    }
    if (print) {
      getOperation().getBody()->clear();
      for (Operation &op : *codegen->getModule().getBody())
        getOperation().push_back(op.clone());
    }
  }

  static std::string describe(const codegen::KernelInfo &info) {
    std::string text;
    llvm::raw_string_ostream os(text);
    auto stage = [&](const codegen::KernelStage &stage) {
      os << " work " << stage.work.str() << " grain " << stage.grain << " scratch "
         << stage.scratchBytes.str();
    };
    bool single = info.stages.size() == 1;
    if (single)
      os << info.stages[0].name << ' ';
    os << "dims " << train::dimsToString(info.dims);
    if (single)
      stage(info.stages[0]);
    else
      for (const codegen::KernelStage &each : info.stages) {
        os << ' ' << each.name;
        stage(each);
      }
    if (info.temporaryBytes)
      os << " temporary " << info.temporaryBytes.str();
    os << " in place [";
    llvm::interleaveComma(info.inPlace, os,
                          [&](auto pair) { os << pair.first << "->" << pair.second; });
    os << "]";
    return text;
  }

  void write(const codegen::KernelObject &object) {
    std::error_code code;
    llvm::raw_fd_ostream os(folder + "/" + object.name, code);
    os.write(object.bytes.data(), object.bytes.size());
    if (code)
      getOperation().emitError("cannot write ") << object.name << ": " << code.message();
  }

  Option<std::string> target{*this, "target", llvm::cl::desc("cpu or cuda"), llvm::cl::init("cpu")};
  Option<std::string> architecture{*this, "architecture", llvm::cl::desc("of the GPU"),
                                   llvm::cl::init("sm_90")};
  Option<bool> print{*this, "print", llvm::cl::desc("leave the kernels"), llvm::cl::init(false)};
  Option<bool> remarks{*this, "remarks", llvm::cl::desc("say how kernels are launched"),
                       llvm::cl::init(true)};
  Option<bool> printPtx{*this, "print-ptx", llvm::cl::desc("print the PTX of the kernels"),
                        llvm::cl::init(false)};
  Option<bool> compile{*this, "compile", llvm::cl::desc("compile for all levels"),
                       llvm::cl::init(false)};
  Option<std::string> folder{*this, "output", llvm::cl::desc("folder for the compiled files"),
                             llvm::cl::init("")};
};
} // namespace

void testdialect::registerTestCodegenPass() { PassRegistration<TestCodegen>(); }
