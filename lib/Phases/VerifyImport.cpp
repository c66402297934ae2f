// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `verify-import`.

#include "dialects/ONNX/ONNXDialect.h"
#include "lib/Phases/Functions.h"
#include "lib/Phases/Phases.h"

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_VERIFYIMPORTPASS
#include "lib/Phases/Phases.h.inc"
} // namespace trainc

namespace {
constexpr llvm::StringLiteral kPhase = "import", kLeaves = "one onnx.graph of ops of its dialect";

struct VerifyImport final : public trainc::impl::VerifyImportPassBase<VerifyImport> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(check()))
      signalPassFailure();
  }

  LogicalResult check() {
    onnx::GraphOp graph;
    for (Operation &op : *getOperation().getBody()) {
      // A second graph has no place either.
      if (graph || !isa<onnx::GraphOp>(op))
        return phases::refuseOp(&op, kPhase, kLeaves);
      graph = cast<onnx::GraphOp>(op);
    }
    if (!graph)
      return phases::refuse(getOperation(), kPhase) << "there is an onnx.graph, and here is none";
    // Also in the bodies of nodes.
    const WalkResult walked = graph.walk([](Operation *op) {
      return !isa_and_nonnull<onnx::ONNXDialect>(op->getDialect()) &&
                     failed(phases::refuseOp(op, kPhase, kLeaves))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return success(!walked.wasInterrupted());
  }
};
} // namespace
