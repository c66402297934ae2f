// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a handler of an ONNX operator works with: its node's inputs as far as they are known, its
// attributes, and places for its results.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H

#include "Content.h"
#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Train/TrainBuilder.h"
#include "trainc/Legalize.h"
#include "llvm/ADT/StringMap.h"

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
  bool isSequence = false;
  llvm::SmallVector<LegalValue *> sequence;

  explicit LegalValue(mlir::Location loc) : loc(loc) {}
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

  Bounds bounds;
  const LegalizeOptions *options = nullptr;
  std::vector<std::string> inactiveDropouts;
  bool anyActiveDropout = false;
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

  /// Checks with a reason: a float input, an integer (not boolean) input, sizes that are not
  /// negative.
  bool needFloat(int64_t input);
  bool needInteger(int64_t input);
  bool needSizes(llvm::ArrayRef<DimAttr> dims);

  // Attributes, with the operator's default.
  int64_t attr(llvm::StringRef name, int64_t otherwise);
  double attr(llvm::StringRef name, double otherwise);
  llvm::StringRef attr(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> ints(llvm::StringRef name);
  mlir::Attribute rawAttr(llvm::StringRef name);
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
  struct Entry {
    Handler handler = nullptr;
    /// The first `required` inputs are there; `variadic`: all are; `exact`: there are no others.
    int64_t required = 1;
    bool variadic = false;
    bool exact = false;
    /// Input 0 may be a sequence (every other input is a tensor).
    bool sequence = false;
    /// The first opset whose meaning the handler implements.
    int64_t since = 1;
  };
  llvm::StringMap<Entry> entries;
  void add(llvm::StringRef name, Handler handler, int64_t required = 1, int64_t since = 1) {
    entries[name] = {handler, required, false, false, false, since};
  }
  void addExact(llvm::StringRef name, Handler handler, int64_t inputs) {
    entries[name] = {handler, inputs, true, true};
  }
  void addVariadic(llvm::StringRef name, Handler handler) { entries[name] = {handler, 1, true}; }
  void addSequence(llvm::StringRef name, Handler handler, int64_t required = 1) {
    entries[name] = {handler, required, false, false, true};
  }
};

void registerMath(HandlerTable &table);
void registerShape(HandlerTable &table);
void registerIndex(HandlerTable &table);
void registerSequence(HandlerTable &table);
void registerLinear(HandlerTable &table);
void registerNorm(HandlerTable &table);
void registerAttention(HandlerTable &table);
void registerReduce(HandlerTable &table);
void registerLoss(HandlerTable &table);
void registerRandom(HandlerTable &table);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_NODECONTEXT_H
