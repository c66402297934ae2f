// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of @eval, which has the forward pass alone: gradients have the precision of what they are of.

#include "dialects/Train/TrainDialect.h"
#include "lib/Driver/Phases/Phases.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace trainc;

void trainc::tellWideOps(Compilation &c) {
  const GraphOptions &graph = c.options.graph;
  if (!graph.lowersProductsOnly || graph.precision == Precision::Graph)
    return;
  // In the order of the program, so that the text is always the same.
  llvm::MapVector<StringRef, int64_t> kinds;
  c.module->lookupSymbol<mlir::func::FuncOp>("eval").walk([&](train::LowPrecisionOpInterface op) {
    // Products that stay as they are do so for reasons of their own.
    if (!isa<train::ContractionOpInterface>(*op))
      ++kinds[op->getName().getStringRef()];
  });
  std::string text;
  for (auto &[kind, count] : kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind.str();
  if (!text.empty())
    c.log.info() << "in fp32, with the gradients: " << text << "; for " << nameOf(graph.precision)
                 << " " << c.options.target->name() << " has kernels of matmuls alone\n";
}
