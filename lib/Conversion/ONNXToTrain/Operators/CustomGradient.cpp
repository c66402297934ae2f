// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of a model that have their own gradient: what the importer makes of a call
// (lib/Import/ONNX/FunctionGradients.cpp).

#include "dialects/Train/CustomGradient/CustomGradient.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;

namespace trainc::legalize {
namespace {

/// The node's operands are the outputs, then the inputs; the arguments of its subgraph these, then
/// the gradients of the outputs.
class CustomGradient {
public:
  explicit CustomGradient(NodeContext &c) : c(c), region(c.op.getSubgraphs().front()) {}

  LogicalResult run() {
    auto inputNames = dyn_cast_or_null<ArrayAttr>(c.rawAttr("inputs"));
    outputs = c.numOutputs();
    wrt = c.ints("wrt").value_or(Axes());
    SmallVector<int64_t> exempt = c.ints("exempt").value_or(Axes());
    for (int64_t i = 0; i < int64_t(inputNames.size()); ++i) {
      StringRef name = nameOf("inputs", i);
      const bool hasGradient = llvm::is_contained(wrt, i), isReal = isFloat(outputs + i);
      if (hasGradient && !isReal)
        return c.fail("its gradient '" + gradient() + "' has an output 'grad_" + name + "', but '" +
                      name + "' is no float");
      if (isReal && !hasGradient && !llvm::is_contained(exempt, i) && !c.in(outputs + i).constant)
        return c.fail("its gradient '" + gradient() + "' has no output 'grad_" + name +
                      "'; add it, or name '" + name +
                      "' in the metadata 'trainc.no_gradient' of the function, or in "
                      "'no_gradient' of its plug-in");
    }
    for (int64_t i = 0; i < outputs; ++i)
      if (!isFloat(i) && !region.getArgument(region.getNumArguments() - outputs + i).use_empty())
        return c.fail("its gradient '" + gradient() + "' reads 'grad_" + nameOf("outputs", i) +
                      "', but '" + nameOf("outputs", i) + "' is no float");
    return build();
  }

private:
  StringRef gradient() { return c.attr("gradient", StringRef()); }
  StringRef nameOf(StringRef list, int64_t number) {
    return cast<StringAttr>(cast<ArrayAttr>(c.rawAttr(list))[number]).getValue();
  }
  bool isFloat(int64_t operand) {
    return c.has(operand) && !c.in(operand).isSequence && isa<FloatType>(c.element(operand));
  }

  /// What the subgraph sees of an operand: known content as it is, so that shapes may depend on it.
  LegalValue &inside(int64_t operand, Block &body) {
    LegalValue &value = c.state.newValue(c.op.getLoc());
    if (!c.has(operand))
      return value;
    const LegalValue &outside = c.in(operand);
    value.dims = outside.dims;
    value.element = outside.element;
    value.unsignedBits = outside.unsignedBits;
    value.constant = outside.constant;
    value.content = outside.content;
    Value argument = body.addArgument(c.tensor(operand).getType(), c.op.getLoc());
    if (!value.constant && !value.content)
      value.tensor = argument;
    return value;
  }

  LogicalResult build() {
    OpBuilder &builder = c.tb.b();
    auto body = std::make_unique<Block>();
    SmallVector<LegalValue *> arguments(region.getNumArguments());
    SmallVector<Value> results, inputs;
    for (int64_t i = outputs; i < c.numInputs(); ++i) {
      arguments[i] = &inside(i, *body);
      if (c.has(i))
        inputs.push_back(c.tensor(i));
    }
    for (int64_t i = 0; i < outputs; ++i) {
      arguments[i] = &inside(i, *body);
      results.push_back(c.tensor(i));
    }
    for (int64_t i = 0; i < outputs; ++i) {
      LegalValue *&value = arguments[c.numInputs() + i];
      value = &c.state.newValue(c.op.getLoc());
      if (!isFloat(i))
        continue;
      value->dims = c.dims(i);
      value->element = c.element(i);
      value->tensor = body->addArgument(c.tensor(i).getType(), c.op.getLoc());
    }
    SmallVector<LegalValue *> gradients;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(body.get());
      c.subgraphFailed = !c.state.legalizeSubgraph(region, arguments, gradients);
      if (c.subgraphFailed || failed(yield(gradients)))
        return failure();
    }
    auto made =
        train::CustomGradientOp::create(builder, c.op.getLoc(), ValueRange(results).getTypes(),
                                        results, inputs, numbersOfPresent());
    made.getBody().push_back(body.release());
    if (isCapturing(made)) {
      made.erase();
      return c.fail("its gradient '" + gradient() +
                    "' draws random numbers or selects rows; do so in the function, and give the "
                    "gradient what it needs as an output of that");
    }
    for (int64_t i = 0; i < outputs; ++i)
      if (failed(isFloat(i) ? c.set(made.getResult(i), i) : c.alias(c.in(i), i)))
        return failure();
    return success();
  }

  LogicalResult yield(ArrayRef<LegalValue *> gradients) {
    SmallVector<Value> values;
    for (auto [number, value] : llvm::zip_equal(wrt, gradients)) {
      Type wanted = c.tensor(outputs + number).getType();
      values.push_back(value->isSequence ? Value() : c.state.tensorOf(*value));
      if (values.back() && values.back().getType() == wanted)
        continue;
      std::string text;
      llvm::raw_string_ostream stream(text);
      stream << "its gradient '" << gradient() << "' gives 'grad_" << nameOf("inputs", number)
             << "' as ";
      if (values.back())
        stream << values.back().getType();
      else
        stream << "a sequence";
      stream << ", but '" << nameOf("inputs", number) << "' is " << wanted;
      return c.fail(text);
    }
    train::CustomGradientYieldOp::create(c.tb.b(), c.op.getLoc(), values);
    return success();
  }

  /// Numbers of `wrt` among the inputs that the call has.
  SmallVector<int64_t> numbersOfPresent() {
    return llvm::map_to_vector(wrt, [&](int64_t number) {
      return int64_t(
          llvm::count_if(llvm::seq(number), [&](int64_t i) { return c.has(outputs + i); }));
    });
  }

  static bool isCapturing(train::CustomGradientOp op) {
    bool captures = false;
    op.getBody().walk([&](Operation *inner) {
      captures |= llvm::any_of(inner->getOperands(), [&](Value value) {
        return !op.getBody().isAncestor(value.getParentRegion());
      });
    });
    return captures;
  }

  NodeContext &c;
  Region &region;
  int64_t outputs = 0;
  Axes wrt;
};
} // namespace

/// Whether the graph itself asks for a derivative (Training.cpp).
static bool asksForGradients(onnx::NodeOp op) {
  auto isGradient = [](onnx::NodeOp node) {
    return node.getOpType() == "Gradient" && node.getDomain() == "ai.onnx.preview.training"
               ? WalkResult::interrupt()
               : WalkResult::advance();
  };
  return op->getParentOfType<ModuleOp>().walk(isGradient).wasInterrupted();
}

/// Predictions have no gradient but those that their graph computes.
static LogicalResult customGradient(NodeContext &c) {
  if (!c.state.options->inference || asksForGradients(c.op))
    return CustomGradient(c).run();
  for (int64_t i = 0; i < c.numOutputs(); ++i)
    if (failed(c.alias(c.in(i), i)))
      return failure();
  return success();
}

void registerCustomGradient(HandlerTable &table) {
  table.add("trainc::CustomGradient", customGradient, 1, 1);
  table.describe({"trainc::CustomGradient"}, HandlerTable::kAll);
  table.entries["trainc::CustomGradient"].typedAs = -1;
}

} // namespace trainc::legalize
