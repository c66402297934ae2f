// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry points of legalization: a function and the pass `legalize-onnx` over a module.

#include "Legalizer.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace trainc {

LogicalResult legalizeONNX(ModuleOp module, const LegalizeOptions &options,
                           LegalizeResult &result) {
  MLIRContext *context = module.getContext();
  context->loadDialect<train::TrainDialect, func::FuncDialect>();
  auto graphs = llvm::to_vector(module.getOps<onnx::GraphOp>());
  if (graphs.size() != 1)
    return module.emitError("expected one onnx.graph, found ") << graphs.size();
  using legalize::Legalizer;
  legalize::LearnedSizes learned;
  // What tables, windows and joins demand is learned while nodes are legalized, and may be needed
  // before.
  while (true) {
    result = LegalizeResult();
    Legalizer::Outcome outcome = Legalizer(graphs[0], options, result, learned).run();
    // Every new run has a narrower bound of some symbol, from the finite set of the graph's tables
    // and windows, or a larger factor of one, of which there is a largest.
    if (outcome != Legalizer::Outcome::RunAgain)
      return success(outcome == Legalizer::Outcome::Done);
  }
}

namespace {

struct LegalizePass : PassWrapper<LegalizePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LegalizePass)

  LegalizePass() = default;
  // The pass's options begin as what was given, so that a command line may change them.
  LegalizePass(const LegalizeOptions &given, LegalizeResult *result)
      : given(given), result(result) {
    loss = given.loss;
    inference = given.inference;
    trainable = given.trainable;
    freeze = ArrayRef<std::string>(given.freeze);
    dropout = given.dropout;
    batchNorm = given.batchNorm;
  }
  // Options copy themselves.
  LegalizePass(const LegalizePass &other)
      : PassWrapper(other), given(other.given), result(other.result) {}

  StringRef getArgument() const override { return "legalize-onnx"; }
  StringRef getDescription() const override {
    return "Turn onnx.graph into func @forward of the train dialect";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<train::TrainDialect, func::FuncDialect>();
  }

  void runOnOperation() override {
    // What has no option of the pass stays as given.
    LegalizeOptions options = given;
    options.loss = loss;
    options.inference = inference;
    options.trainable = trainable;
    options.freeze.assign(freeze.begin(), freeze.end());
    options.dropout = dropout;
    options.batchNorm = batchNorm;
    LegalizeResult local;
    if (failed(legalizeONNX(getOperation(), options, result ? *result : local)))
      signalPassFailure();
  }

  LegalizeOptions given;
  LegalizeResult *result = nullptr;
  Option<std::string> loss{*this, "loss", llvm::cl::desc("the output that is the loss")};
  Option<bool> inference{*this, "inference", llvm::cl::desc("no loss, nothing is trained"),
                         llvm::cl::init(false)};
  Option<std::string> trainable{*this, "trainable",
                                llvm::cl::desc("expression of the names that are trained")};
  ListOption<std::string> freeze{*this, "freeze",
                                 llvm::cl::desc("expression of the names that are not trained")};
  Option<DropoutMode> dropout{
      *this, "dropout", llvm::cl::desc("which Dropout nodes are active"),
      llvm::cl::init(DropoutMode::AsGraph),
      llvm::cl::values(clEnumValN(DropoutMode::AsGraph, "graph", "as the graph says"),
                       clEnumValN(DropoutMode::On, "on", "all with a ratio above 0"),
                       clEnumValN(DropoutMode::Off, "off", "none"))};
  Option<BatchNormMode> batchNorm{
      *this, "batchnorm", llvm::cl::desc("which statistics BatchNormalization uses"),
      llvm::cl::init(BatchNormMode::AsGraph),
      llvm::cl::values(clEnumValN(BatchNormMode::AsGraph, "graph", "as the graph says"),
                       clEnumValN(BatchNormMode::Train, "train", "those of the batch"),
                       clEnumValN(BatchNormMode::Frozen, "frozen", "the running ones, fixed"))};
};

} // namespace

void registerLegalizePasses() { PassRegistration<LegalizePass>(); }

std::unique_ptr<Pass> createLegalizePass(const LegalizeOptions &options, LegalizeResult *result) {
  return std::make_unique<LegalizePass>(options, result);
}

} // namespace trainc
