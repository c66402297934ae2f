// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compilations that fail by a fault of the compiler: what they say, the reproducer that they leave,
// and that its replay fails in the same way until the fault is gone.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Driver/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlir;
using namespace trainc;

namespace {

enum class Fault { None, Fail, Report, Break, Abort, Overflow };
/// What the pass below does.
Fault fault = Fault::None;

int recurse(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = char(depth);
  return depth == 0 ? 0 : recurse(depth + 1) + frame[depth % 4096];
}

/// Behaves on every function but @update, so that it matters which one a fault is in.
struct FaultyPass : PassWrapper<FaultyPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FaultyPass)
  StringRef getArgument() const override { return "test-faulty"; }
  StringRef getDescription() const override { return "fails as the test wants"; }
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.getName() != "update")
      return;
    switch (fault) {
    case Fault::None:
      return;
    case Fault::Report:
      function.emitError("no such thing");
      return signalPassFailure();
    case Fault::Fail:
      return signalPassFailure();
    case Fault::Break:
      function.getBody().front().getTerminator()->erase();
      return;
    case Fault::Abort:
      std::abort();
    case Fault::Overflow:
      recurse(1);
    }
  }
};

std::string read(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

struct Outcome {
  int code;
  std::string text;
};

class ReproducerTest : public testing::Test {
protected:
  void SetUp() override {
    static PassRegistration<FaultyPass> registration;
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("trainc-driver", path));
    folder = path.str().str();
  }
  void TearDown() override {
    fault = Fault::None;
    llvm::sys::fs::remove_directories(folder);
  }

  std::string file(const std::string &name) const { return folder + "/" + name; }
  bool exists(const std::string &name) const { return llvm::sys::fs::exists(file(name)); }

  /// trainc mlp.onnx with the faulty pass at the end of `phase`, or, for a phase without passes,
  /// with a crash at its beginning.
  Outcome compileWith(const std::string &phase, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"trainc", TRAINC_MODELS "/mlp.onnx", "-o", file("m.tpk"),
                                          "--target=cpu:x86-64-v3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, phase);
  }
  Outcome replay(const std::string &phase, const std::string &name = "m.repro.mlir") {
    return run({"trainc", "--replay", file(name)}, phase);
  }

  std::string folder;

private:
  Outcome run(const std::vector<std::string> &arguments, const std::string &faulty) {
    std::vector<const char *> pointers;
    for (const std::string &argument : arguments)
      pointers.push_back(argument.c_str());
    CompileOptions options;
    EXPECT_FALSE(parseCommandLine(int(pointers.size()), pointers.data(), options));
    options.onPhase = [&](llvm::StringRef phase, OpPassManager *passes) {
      if (phase != faulty)
        return;
      if (passes)
        passes->addNestedPass<func::FuncOp>(std::make_unique<FaultyPass>());
      else if (fault == Fault::Abort)
        std::abort();
    };
    testing::internal::CaptureStderr();
    int code = compile(options);
    return {code, testing::internal::GetCapturedStderr()};
  }
};

void expectIn(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text.substr(0, 2000);
}

TEST_F(ReproducerTest, NoFault) {
  EXPECT_EQ(compileWith("schedule").code, ExitSuccess);
  EXPECT_TRUE(exists("m.tpk"));
  EXPECT_FALSE(exists("m.repro.mlir"));
}

TEST_F(ReproducerTest, FailingPass) {
  fault = Fault::Fail;
  Outcome outcome = compileWith("schedule");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, "trainc: error: phase 'schedule' failed in "
                         "builtin.module(func.func(test-faulty)); this is a fault of the compiler");
  expectIn(outcome.text, "(trainc --replay " + file("m.repro.mlir") + ")");
  EXPECT_FALSE(exists("m.tpk"));
  std::string text = read(file("m.repro.mlir"));
  expectIn(text, "// reproducer: {\"arguments\":[");
  expectIn(text, "pipeline: \"builtin.module(func.func(test-faulty))\"");
  // The passes before it have run: it holds kernels, and names of nodes.
  expectIn(text, "train.fusion");
  expectIn(text, "\"node_gelu\"");

  EXPECT_EQ(replay("schedule").code, ExitInternal);
  fault = Fault::None;
  Outcome fixed = replay("schedule");
  EXPECT_EQ(fixed.code, ExitSuccess);
  expectIn(fixed.text, "finds no fault");
}

TEST_F(ReproducerTest, CrashingPass) {
  fault = Fault::Abort;
  Outcome outcome = compileWith("graph");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text,
           "phase 'graph' crashed (Aborted) in builtin.module(func.func(test-faulty))");
  EXPECT_EQ(replay("graph").code, ExitInternal);
  fault = Fault::None;
  EXPECT_EQ(replay("graph").code, ExitSuccess);
}

TEST_F(ReproducerTest, EndlessRecursion) {
  fault = Fault::Overflow;
  Outcome outcome = compileWith("schedule");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, "crashed (Segmentation fault)");
  EXPECT_EQ(replay("schedule").code, ExitInternal);
}

TEST_F(ReproducerTest, PassThatBreaksTheIR) {
  fault = Fault::Break;
  Outcome outcome = compileWith("graph");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, "phase 'graph' made invalid IR in builtin.module(func.func(test-faulty))");
  EXPECT_EQ(replay("graph").code, ExitInternal);
}

// A limit is told by the pass that has it, and is no fault of the compiler.
TEST_F(ReproducerTest, RefusedModel) {
  fault = Fault::Report;
  Outcome outcome = compileWith("graph");
  EXPECT_EQ(outcome.code, ExitInput);
  expectIn(outcome.text, "error: no such thing");
  // Told once, though the passes ran twice.
  EXPECT_EQ(outcome.text.find("no such thing"), outcome.text.rfind("no such thing"));
  EXPECT_FALSE(exists("m.repro.mlir"));
}

TEST_F(ReproducerTest, CrashInCodeGeneration) {
  fault = Fault::Abort;
  Outcome outcome = compileWith("codegen");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, "phase 'codegen' crashed (Aborted); this is a fault of the compiler");
  EXPECT_EQ(replay("codegen").code, ExitInternal);
  fault = Fault::None;
  EXPECT_EQ(replay("codegen").code, ExitSuccess);
}

TEST_F(ReproducerTest, CrashInPackaging) {
  fault = Fault::Abort;
  EXPECT_EQ(compileWith("package").code, ExitInternal);
  // It begins with the IR that the program is made of.
  expectIn(read(file("m.repro.mlir")), "\"phase\":\"codegen\"");
  EXPECT_EQ(replay("package").code, ExitSuccess);
}

// With the options of the command line: without --dim the replay would find another bound.
TEST_F(ReproducerTest, CrashInLegalization) {
  fault = Fault::Abort;
  EXPECT_EQ(compileWith("legalize", {"--dim", "batch=1..7"}).code, ExitInternal);
  expectIn(read(file("m.repro.mlir")), "onnx.graph");
  EXPECT_EQ(replay("legalize").code, ExitInternal);
  fault = Fault::None;
  EXPECT_EQ(replay("legalize").code, ExitSuccess);
}

TEST_F(ReproducerTest, CrashBeforeThereIsIR) {
  fault = Fault::Abort;
  Outcome outcome = compileWith("import");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, "please report it with the model");
  EXPECT_FALSE(exists("m.repro.mlir"));
}

TEST_F(ReproducerTest, NotInTheWayOfALaterRun) {
  fault = Fault::Fail;
  compileWith("schedule");
  // Nobody may write to it; the next one takes its place.
  std::string first = read(file("m.repro.mlir"));
  llvm::sys::fs::setPermissions(file("m.repro.mlir"), llvm::sys::fs::owner_read);
  EXPECT_EQ(compileWith("schedule", {"--lr", "0.5"}).code, ExitInternal);
  EXPECT_NE(read(file("m.repro.mlir")), first);
  fault = Fault::None;
  EXPECT_EQ(compileWith("schedule").code, ExitSuccess);
  EXPECT_TRUE(exists("m.repro.mlir"));
  // No remains of writing.
  std::error_code code;
  int count = 0;
  for (llvm::sys::fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    ++count;
  EXPECT_EQ(count, 2);
}

// Where there is no place beside the package it goes to the temporary files.
TEST_F(ReproducerTest, NoPlaceBesideThePackage) {
  fault = Fault::Fail;
  ASSERT_EQ(setenv("TMPDIR", folder.c_str(), 1), 0);
  Outcome outcome = compileWith("graph", {"-o", file("missing/m.tpk"), "--stop-after", "graph"});
  unsetenv("TMPDIR");
  EXPECT_EQ(outcome.code, ExitInternal);
  expectIn(outcome.text, file("m.repro.mlir"));
  EXPECT_TRUE(exists("m.repro.mlir"));
}

} // namespace
