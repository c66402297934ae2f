// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The legalization of one graph: arguments, a walk over the nodes in order, the choice of the loss
// and of what is trained, and the function's results.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_LEGALIZER_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_LEGALIZER_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Roles/Trainable.h"
#include "lib/Conversion/ONNXToTrain/Sizes/LearnedSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <deque>

namespace trainc::legalize {

class Legalizer : public Legalization {
public:
  /// `learned`: what is known from an earlier run; what is new is added. Sizes such as min(seq,
  /// 512) are equal to seq only once its bound is known, (h - 3) / 2 is a size only once h is known
  /// to be at least 3, and a graph may use them before.
  Legalizer(onnx::GraphOp graph, const LegalizeOptions &options, LegalizeResult &result,
            LearnedSizes &learned);
  ~Legalizer() override {
    while (!made.empty()) // users first
      made.pop_back();
  }
  enum class Outcome { Done, Failed, RunAgain };
  Outcome run();

  LegalValue &valueOf(mlir::Value onnxValue) override;
  LegalValue &newValue(mlir::Location loc) override;
  mlir::Value tensorOf(LegalValue &value) override;
  const Content *contentOf(LegalValue &value) override;
  mlir::Value rngArgument(unsigned index) override;
  mlir::Value *running(const LegalValue &value) override;
  bool legalizeSubgraph(mlir::Region &region, llvm::ArrayRef<LegalValue *> arguments,
                        llvm::SmallVectorImpl<LegalValue *> &results) override;
  onnx::NodeOp makeNode(llvm::StringRef type, llvm::ArrayRef<LegalValue *> inputs,
                        mlir::DictionaryAttr attributes, mlir::Location loc) override;
  llvm::LogicalResult legalizeWith(llvm::StringRef type, NodeContext &context) override;

private:
  /// One kind of failure: reported once, at its first node.
  struct Problem {
    onnx::NodeOp first;
    std::string reason;
    int64_t count = 0;
  };
  struct Parameter {
    onnx::InitializerOp op;
    unsigned argument;
    std::string reason; // why it is not trained
    /// Where steps change it without a gradient: its newest value.
    bool isUpdated = false;
    mlir::Value updated = {};
  };

  mlir::InFlightDiagnostic error(const llvm::Twine &message);
  void findLive();
  bool isLive(mlir::Operation *op) const { return live.contains(op); }
  /// The operator's name in the table of handlers: "Conv", "com.microsoft::Gelu".
  static std::string nameOf(onnx::NodeOp node);
  const HandlerTable::Entry *entryOf(onnx::NodeOp node);
  llvm::LogicalResult findPorts();
  bool isUpdated(onnx::InitializerOp op);
  bool isSetting(onnx::InitializerOp op);
  llvm::LogicalResult addInitializers();
  llvm::LogicalResult addInputs();
  /// What is wrong with the number or kind of a node's inputs, or "".
  std::string checkInputs(onnx::NodeOp node, const HandlerTable::Entry &entry);
  /// Counts a node, each time that a loop walks it. False where the graph has become too large:
  /// said once, of the loop that it is in.
  bool mayGrow(onnx::NodeOp node);
  void legalizeNode(onnx::NodeOp node);
  void tellNewBounds(llvm::ArrayRef<Interval> earlier, onnx::NodeOp node);
  void addProblem(onnx::NodeOp node, const llvm::Twine &reason);
  llvm::LogicalResult reportProblems();
  void tellForms();
  llvm::LogicalResult chooseLoss();
  llvm::LogicalResult finish();
  void chooseTrained(mlir::Value lossTensor);
  llvm::LogicalResult checkGradients(const llvm::StringMap<mlir::Type> &trained);
  llvm::LogicalResult takeUpdates();
  void dropDrawnMasks();
  void removeUnused();
  mlir::Attribute weightOf(onnx::WeightAttr weight);
  mlir::Value addArgument(mlir::Type type, mlir::DictionaryAttr attrs, mlir::Location loc);
  mlir::DictionaryAttr role(llvm::StringRef role, llvm::StringRef name);

  onnx::GraphOp graph;
  LegalizeResult &result;
  LearnedSizes &learned;
  mlir::OpBuilder builder;
  mlir::func::FuncOp function;
  HandlerTable table;
  /// Operators of plug-ins: what attributes they have is theirs to say.
  llvm::StringSet<> ofPlugins;
  TrainableRule rule;
  std::deque<LegalValue> storage;
  llvm::DenseMap<mlir::Value, LegalValue *> values;
  /// Nodes that handlers made.
  std::vector<mlir::OwningOpRef<onnx::NodeOp>> made;
  llvm::DenseSet<mlir::Operation *> live;
  llvm::DenseSet<mlir::Value> poisoned;
  llvm::MapVector<mlir::StringAttr, Problem> problems;
  /// Nodes in the file; nodes that were walked and ops that were made of them: what is unrolled
  /// grows in proportion to the file, and a few large recurrences fit into the floor.
  static constexpr int64_t kGrowthFloor = 250'000, kGrowthPerNode = 64;
  int64_t fileNodes = 0, growth = 0;
  bool grewTooMuch = false;
  std::vector<Parameter> parameters;
  llvm::SmallVector<mlir::Attribute> argumentAttrs;
  mlir::Value rng[4];
  int lossIndex = -1;
  /// Outputs that are the gradient of an initializer, or its value after the step, with its name.
  llvm::MapVector<unsigned, llvm::StringRef> gradientOutputs, updateOutputs;
};

/// What keeps a tensor of these sizes from being, even where every size that is dynamic or 0 is 1;
/// "" if nothing does. Products of sizes, also of some of them, are then far from overflow.
llvm::StringRef faultOf(llvm::ArrayRef<DimAttr> dims);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_LEGALIZER_H
