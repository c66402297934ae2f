// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a handler of an ONNX operator works with: its node's inputs as far as they are known, its
// attributes, and places for its results.

#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Train/TrainBuilder.h"
#include "trainc/Conversion/ONNXToTrain/Content.h"
#include "llvm/ADT/StringMap.h"

namespace trainc {
struct LegalizeOptions;
}

namespace trainc::legalize {

using Dims = llvm::SmallVector<DimAttr>;
using Axes = llvm::SmallVector<int64_t>;

/// An ONNX value while legalizing: a tensor, emitted when an op first needs it, or a sequence.
struct LegalValue {
  Dims dims;
  mlir::Type element;
  mlir::Location loc;
  mlir::Value tensor;
  /// Known elements, large or small.
  mlir::DenseElementsAttr constant;
  std::optional<Content> content;
  /// Of an unsigned integer, which a wider signed one stands for: its own width.
  unsigned unsignedBits = 0;
  bool isSequence = false;
  llvm::SmallVector<LegalValue *> sequence;
  /// In the body of a loop that adds a tensor to the sequence in each iteration: the number of what
  /// is carried, from 1. `sequence` is what this iteration has added.
  unsigned grows = 0;
  /// Behind such a loop, in place of `sequence`: the tensors as one, [iterations, axes...].
  mlir::Value stacked;

  explicit LegalValue(mlir::Location loc) : loc(loc) {}
};

class NodeContext;

/// Rows that a mask selects; Selection.h.
struct Selection {
  /// Booleans of one axis.
  mlir::Value mask;
  /// The position of each row, [size].
  mlir::Value rows;
  /// A symbol of its own.
  DimAttr size;
  /// The node that selects, for messages.
  std::string node;
};

/// State shared by the handlers of one legalization.
class Legalization {
public:
  virtual ~Legalization() = default;
  virtual LegalValue &valueOf(mlir::Value onnxValue) = 0;
  virtual LegalValue &newValue(mlir::Location loc) = 0;
  /// The tensor of a value, emitted now if it was not needed before.
  virtual mlir::Value tensorOf(LegalValue &value) = 0;
  /// The small known content of a value, or null.
  virtual const Content *contentOf(LegalValue &value) = 0;
  /// The i64 scalar argument (seed, step, micro_batch, rank), added to the function when first
  /// used.
  virtual mlir::Value rngArgument(unsigned index) = 0;
  /// The newest value of an initializer that steps change without a gradient (running statistics),
  /// to be replaced by the next; null if `value` is none, or if nothing is trained.
  virtual mlir::Value *running(const LegalValue &value) = 0;
  /// Legalizes the nodes of a node's subgraph, whose block arguments are bound to `arguments`, and
  /// gives its results. False, with the reasons recorded, if a node fails.
  virtual bool legalizeSubgraph(mlir::Region &region, llvm::ArrayRef<LegalValue *> arguments,
                                llvm::SmallVectorImpl<LegalValue *> &results) = 0;
  /// A node outside of the graph with one result, whose inputs are `inputs` (null: absent), for
  /// handlers that are made of others; and the handler of the operator `type` on such a node.
  virtual onnx::NodeOp makeNode(llvm::StringRef type, llvm::ArrayRef<LegalValue *> inputs,
                                mlir::DictionaryAttr attributes, mlir::Location loc) = 0;
  virtual llvm::LogicalResult legalizeWith(llvm::StringRef type, NodeContext &context) = 0;

  Bounds bounds;
  const LegalizeOptions *options = nullptr;
  std::vector<std::string> inactiveDropouts;
  /// How often random numbers were drawn for what name.
  llvm::StringMap<unsigned> draws;
  std::vector<Selection> selections;
  /// What the user should know once the graph is legalized.
  std::vector<std::pair<mlir::Location, std::string>> warnings;
};

class NodeContext {
public:
  NodeContext(onnx::NodeOp op, Legalization &state, mlir::OpBuilder &builder)
      : op(op), state(state), tb(builder, op.getLoc()) {}

  onnx::NodeOp op;
  Legalization &state;
  train::TrainBuilder tb;
  /// Why the last handler failed.
  std::string reason;
  /// An attribute of another kind than the operator's, which was read as if it were absent.
  std::string wrongAttribute;
  /// It failed because a node of a subgraph did, which is reported for itself.
  bool subgraphFailed = false;

  /// Records why this node cannot be legalized.
  llvm::LogicalResult fail(const llvm::Twine &why);

  // Inputs; absent ones count, `has` tells.
  int64_t numInputs() { return op.getInputs().size(); }
  bool has(int64_t input);
  LegalValue &in(int64_t input) { return state.valueOf(op.getInputs()[input]); }
  mlir::Value tensor(int64_t input) { return state.tensorOf(in(input)); }
  const Dims &dims(int64_t input) { return in(input).dims; }
  int64_t rank(int64_t input) { return dims(input).size(); }
  mlir::Type element(int64_t input) { return in(input).element; }
  const Content *content(int64_t input) { return state.contentOf(in(input)); }
  /// The elements of an integer input; null with a reason if they are not known while compiling.
  std::optional<Dims> sizes(int64_t input, llvm::StringRef what);
  std::optional<llvm::SmallVector<int64_t>> constants(int64_t input, llvm::StringRef what);
  std::optional<double> realConstant(int64_t input, llvm::StringRef what);
  /// The same of an input that was an attribute, called `name`, in earlier opsets.
  std::optional<Dims> sizeList(int64_t input, llvm::StringRef name);
  std::optional<llvm::SmallVector<int64_t>> list(int64_t input, llvm::StringRef name);

  /// What to do about an input that has to be known: one of the graph, one made of sizes; or "".
  std::string inputHint(int64_t input);
  /// Checks with a reason: a float input, an integer (not boolean) input, sizes that are not
  /// negative.
  bool needFloat(int64_t input);
  bool needInteger(int64_t input);
  bool needSizes(llvm::ArrayRef<DimAttr> dims);

  /// Sets the result of an elementwise operator from known operands; false if it is not known.
  bool evaluate(mlir::Type resultElement);

  // Attributes, with the operator's default.
  int64_t version() { return op.getVersion(); }
  int64_t attr(llvm::StringRef name, int64_t otherwise);
  double attr(llvm::StringRef name, double otherwise);
  llvm::StringRef attr(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> ints(llvm::StringRef name);
  mlir::Attribute rawAttr(llvm::StringRef name);
  /// The type that a TensorProto.DataType stands for; null where the train dialect has none.
  mlir::Type elementType(int64_t dataType);
  /// The width of a TensorProto.DataType that is unsigned, else 0.
  static unsigned unsignedBits(int64_t dataType);
  /// Makes a result an unsigned integer of so many bits: its numbers modulo 2 ^ bits.
  void wrap(LegalValue &result, unsigned bits);
  /// Axis in [0, rank), or nullopt with a reason.
  std::optional<int64_t> axis(int64_t value, int64_t rank);
  std::optional<Axes> axes(llvm::ArrayRef<int64_t> values, int64_t rank);

  // Results.
  int64_t numOutputs() { return op.getOutputs().size(); }
  bool used(int64_t output);
  llvm::LogicalResult set(mlir::Value tensor, int64_t output = 0);
  llvm::LogicalResult set(Content content, int64_t output = 0);
  /// The result is the value `other` itself.
  llvm::LogicalResult alias(LegalValue &other, int64_t output = 0);

  // Broadcasting.
  /// Common shape under ONNX's rules; nullopt with a reason.
  std::optional<Dims> broadcastDims(llvm::ArrayRef<Dims> shapes);
  /// `x` repeated to `dims`, which its shape broadcasts to.
  mlir::Value broadcastTo(mlir::Value x, llvm::ArrayRef<DimAttr> dims);

  mlir::MLIRContext *context() { return op.getContext(); }
  DimAttr dim(int64_t value) { return tb.dimAttr(value); }
};

using Handler = llvm::LogicalResult (*)(NodeContext &);
/// Handlers by operator name ("Add", "com.microsoft::Gelu"), with what they may rely on.
struct HandlerTable {
  /// Where nothing else is said: most operators got their present form here or earlier.
  static constexpr int64_t kOpset = 13;
  enum Kind : unsigned { kReals = 1, kIntegers = 2, kBooleans = 4 };
  static constexpr unsigned kNumbers = kReals | kIntegers, kAll = kNumbers | kBooleans;
  struct Entry {
    Handler handler = nullptr;
    /// The first `required` inputs are there; `variadic`: all are; `exact`: there are no others.
    int64_t required = 1;
    bool variadic = false;
    bool exact = false;
    /// Input 0 may be a sequence (every other input is a tensor).
    bool sequence = false;
    /// The first opset whose meaning the handler implements, and all later ones.
    int64_t since = 1;
    /// Element types that its first input may have; none: the operator is only refused by name.
    unsigned kinds = kReals;
    /// Training goes through it: its float results have gradients.
    bool gradient = true;
    /// Inputs that are initializers and that a training step changes (running statistics).
    llvm::SmallVector<int64_t> updates = {};
    /// Inputs that say what the operator does (a ratio, bounds): no parameters, also where they are
    /// float initializers.
    llvm::SmallVector<int64_t> settings = {};
    /// The input whose element type the results have; -1: they have another one.
    int64_t typedAs = 0;
  };
  llvm::StringMap<Entry> entries;
  /// Says of operators that were added what floats with gradients, which is assumed, does not.
  void describe(llvm::ArrayRef<llvm::StringRef> names, unsigned kinds, bool gradient = true) {
    for (llvm::StringRef name : names) {
      entries[name].kinds = kinds;
      entries[name].gradient = gradient;
    }
  }
  void add(llvm::StringRef name, Handler handler, int64_t required = 1, int64_t since = kOpset) {
    entries[name] = {handler, required, false, false, false, since};
  }
  void addExact(llvm::StringRef name, Handler handler, int64_t inputs, int64_t since = kOpset) {
    entries[name] = {handler, inputs, true, true, false, since};
  }
  void addVariadic(llvm::StringRef name, Handler handler, int64_t since = kOpset) {
    entries[name] = {handler, 1, true, false, false, since};
  }
  void addSequence(llvm::StringRef name, Handler handler, int64_t required = 1,
                   int64_t since = kOpset) {
    entries[name] = {handler, required, false, false, true, since};
  }
};

} // namespace trainc::legalize

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H
