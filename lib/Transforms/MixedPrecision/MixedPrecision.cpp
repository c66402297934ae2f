// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `mixed-precision`: decides for each op that can run in the low type, then puts the casts
// where the values are computed.

#include "lib/Transforms/MixedPrecision/MixedPrecision.h"

#include "dialects/Train/Precision/Precision.h"
#include "lib/Transforms/MixedPrecision/CarriedTypes.h"
#include "lib/Transforms/Support/LowPrecisionCasts.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "lib/Transforms/MixedPrecision/MixedPrecision.h.inc"
} // namespace trainc

namespace {
class MixedPrecision {
public:
  MixedPrecision(func::FuncOp function, FloatType low)
      : function(function), low(low), builder(function.getContext()), casts(builder, low) {}

  /// Parameters that matmuls read, and all that are trained, are stored in the low type; others
  /// (biases of frozen layers) take little.
  void lowerParameters() {
    Block &block = function.getBody().front();
    builder.setInsertionPointToStart(&block);
    for (BlockArgument argument : block.getArguments()) {
      unsigned number = argument.getArgNumber();
      auto role = function.getArgAttrOfType<StringAttr>(number, kRoleAttr);
      bool trained = bool(function.getArgAttr(number, kTrainableAttr));
      if (!role || role.getValue() != "parameter" || !isF32(argument) ||
          !(trained || getRank(argument) >= 2))
        continue;
      // The model's file has it as it was.
      // "cast": the runtime rounds what the file has as it reads it.
      SmallVector<int64_t> shape;
      for (DimAttr dim : getDims(argument))
        shape.push_back(dim.getConstant().value_or(ShapedType::kDynamic));
      function.setArgAttr(number, kQuantizedAttr,
                          builder.getDictionaryAttr(
                              {builder.getNamedAttr("format", builder.getStringAttr("cast")),
                               builder.getNamedAttr("dtype", TypeAttr::get(builder.getF32Type())),
                               builder.getNamedAttr("shape", builder.getI64ArrayAttr(shape))}));
      argument.setType(withElementType(argument.getType(), low));
      // Uses read f32 as before; lowerOps takes the cast away where the low type will do.
      Value wide = TrainBuilder(builder, argument.getLoc()).cast(argument, builder.getF32Type());
      argument.replaceAllUsesExcept(wide, wide.getDefiningOp());
    }
    function.setFunctionType(
        builder.getFunctionType(block.getArgumentTypes(), function.getResultTypes()));
  }

  /// Needs `findOrigins`: an op is left in f32 where low numbers would be wrong integers.
  /// `products`: matmuls alone.
  void lowerOps(bool products) {
    findOrigins();
    SmallVector<LowPrecisionOpInterface> ops;
    function.walk([&](LowPrecisionOpInterface op) { ops.push_back(op); });
    for (LowPrecisionOpInterface op : ops) {
      auto takes = [&](OpOperand &operand) {
        return op.takesLowPrecision(operand.getOperandNumber()) && isF32(operand.get());
      };
      // Already low, or of other types.
      if (llvm::none_of(op->getOpOperands(), takes))
        continue;
      if (products && !isa<ContractionOpInterface>(*op)) {
        remark::missed(op->getLoc(), options("NotLowered"))
            << remark::add("{0} stays in f32", describeOp(op))
            << remark::reason("the target computes only matmuls in {0}", typeName());
        continue;
      }
      // A mask, which has no gradient, may be made of anything.
      // Positions and counts above 256 are no bf16 numbers: an operand that is made of integers
      // alone stays exact. With data in it, it is rounded anyway.
      auto differentiable = dyn_cast<DifferentiableOpInterface>(*op);
      bool integers = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
        Origin origin = origins.lookup(operand.get());
        return takes(operand) && origin.integers && !origin.data &&
               !(differentiable && !differentiable.isDifferentiable(operand.getOperandNumber()));
      });
      if (integers) {
        remark::missed(op->getLoc(), options("NotLowered"))
            << remark::add("{0} stays in f32", describeOp(op))
            << remark::reason("an operand is made of integers, which {0} does not hold exactly",
                              typeName());
        continue;
      }
      remark::passed(op->getLoc(), options("Lowered"))
          << remark::add("{0} runs in {1}", describeOp(op), typeName());
      lower(op);
    }
    eraseDeadOps(function.getBody().front());
  }

  /// Behind lowerOps. Where autocast has a value in the low type, every reader gets the number that
  /// is stored: for those that run in the low type, because several tensors end in it, or because
  /// its gradient is a sum over windows. Values in between are a kernel's own, and stay exact.
  void carryTypes(bool parameters) {
    CarriedTypes types(function, low, parameters);
    SmallVector<Value> rounded;
    for (Operation &op : function.getBody().front())
      for (Value value : op.getResults())
        if (isF32(value) && types.isCarried(value) &&
            ((!isa<ElementAccessOpInterface>(op) && isReadByWindows(value)) ||
             (types.joins(value) && (!value.hasOneUse() || isMove(*value.user_begin()))) ||
             (!value.hasOneUse() && llvm::any_of(value.getUsers(), isToLow))))
          rounded.push_back(value);
    for (Value value : rounded)
      round(value);
    eraseDeadOps(function.getBody().front());
  }

private:
  /// 16-bit floats are of the low type: what the graph has of others is no f32.
  static bool isToLow(Operation *op) {
    if (!isa<CastOpInterface>(op) || !isF32(op->getOperand(0)))
      return false;
    Type to = getElementTypeOrSelf(op->getResult(0).getType());
    return isa<FloatType>(to) && to.getIntOrFloatBitWidth() == 16;
  }
  static bool isReadByWindows(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      auto carried = dyn_cast<CarriedTypeOpInterface>(user);
      if (!carried || user->getNumOperands() != 1 || !isa<ElementAccessOpInterface>(user))
        return false;
      return carried.getTapsAxis() || llvm::any_of(user->getResults(), isReadByWindows);
    });
  }
  /// A value that is a low one is exact as it is.
  void round(Value value) {
    Operation *def = value.getDefiningOp();
    if (isa<CastOpInterface>(def) || value.use_empty())
      return;
    remark::passed(value.getLoc(), options("Carried"))
        << remark::add("{0} is stored in {1}", describeOp(def), typeName())
        << remark::reason("a convolution is among what it is made of, as autocast has it");
    Value rounded = roundBefore(def);
    if (!rounded) {
      builder.setInsertionPointAfter(def);
      rounded = TrainBuilder(builder, value.getLoc()).cast(value, low);
    }
    widenFor(value, rounded);
  }
  /// The op in the low type, where that gives the rounded number; null for others. Its gradient is
  /// of the low type, then, and what stores it needs half the memory.
  Value roundBefore(Operation *def) {
    auto carried = dyn_cast<CarriedTypeOpInterface>(def);
    const bool concatenates = isa<ElementAccessOpInterface>(def) && def->getNumOperands() > 1;
    if (!carried || !(concatenates || carried.commutesWithRounding()))
      return {};
    builder.setInsertionPoint(def);
    IRMapping mapping;
    // Indices stay what they are.
    for (Value operand : def->getOperands())
      if (isF32(operand))
        mapping.map(operand, TrainBuilder(builder, def->getLoc()).cast(operand, low));
    return cloneLow(def, mapping);
  }
  Value cloneLow(Operation *op, const IRMapping &operands) {
    IRMapping mapping = operands;
    Value result = builder.clone(*op, mapping)->getResult(0);
    result.setType(withElementType(result.getType(), low));
    return result;
  }
  /// An op of one tensor that moves and repeats its elements as they are.
  static bool isMove(Operation *op) {
    auto access = dyn_cast<ElementAccessOpInterface>(op);
    return access && access.onlyMoves() && isa<CarriedTypeOpInterface>(op) &&
           op->getNumOperands() == 1 && op->getNumResults() == 1 &&
           !isReadByWindows(op->getResult(0));
  }
  /// Lets the readers of `value` have `rounded`, widened behind what only moves it.
  void widenFor(Value value, Value rounded) {
    builder.setInsertionPointAfterValue(rounded);
    Value wide = TrainBuilder(builder, value.getLoc()).cast(rounded, builder.getF32Type());
    // Moves that are left behind have no readers.
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      Operation *user = use.getOwner();
      if (user == rounded.getDefiningOp())
        continue;
      if (!isMove(user)) {
        use.set(wide);
        continue;
      }
      builder.setInsertionPoint(user);
      IRMapping mapping;
      mapping.map(value, rounded);
      widenFor(user->getResult(0), cloneLow(user, mapping));
    }
  }

  static bool isF32(Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }
  std::string typeName() const { return low.isBF16() ? "bf16" : "f16"; }
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("mixed-precision").function(function.getName());
  }

  /// What a value is computed from.
  /// Flags of a walk in program order: operands are known before their readers.
  struct Origin {
    /// A float argument.
    bool data = false;
    /// An integer argument, a coordinate, or constants of them that the low type does not hold.
    bool integers = false;
  };
  /// Whether all are integers, and rounding would make others of some.
  bool isOfIntegers(DenseFPElementsAttr numbers) const {
    bool isRounded = false;
    const int64_t count = numbers.isSplat() ? 1 : numbers.getNumElements();
    for (APFloat number : llvm::make_range(numbers.begin(), numbers.begin() + count)) {
      if (!number.isInteger())
        return false;
      APFloat narrow = number;
      bool losesInfo = false;
      narrow.convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
      isRounded |= losesInfo;
    }
    return isRounded;
  }
  void findOrigins() {
    for (BlockArgument argument : function.getArguments()) {
      Origin &origin = origins[argument];
      bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument.getType()));
      (isFloat ? origin.data : origin.integers) = true;
    }
    for (Operation &op : function.getBody().front()) {
      Origin origin;
      for (Value operand : op.getOperands()) {
        Origin from = origins.lookup(operand);
        origin.data |= from.data;
        // Of what is only chosen by integers, no number is one.
        origin.integers |= from.integers && !getElementTypeOrSelf(operand.getType()).isInteger(1);
      }
      // Positions that were folded.
      if (DenseFPElementsAttr numbers; matchPattern(&op, m_Constant(&numbers)))
        origin.integers |= isOfIntegers(numbers);
      // A coordinate is an integer that no argument has.
      if (auto pointwise = dyn_cast<PointwiseOpInterface>(op))
        for (int64_t axis = 0; axis < getRank(op.getResult(0)); ++axis)
          origin.integers |= pointwise.dependsOnIndex(axis);
      for (Value result : op.getResults())
        origins[result] = origin;
    }
  }

  /// The clone takes low operands and gives low results where it may; all others keep their type.
  void lower(LowPrecisionOpInterface op) {
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      bool takes = op.takesLowPrecision(operand.getOperandNumber()) && isF32(operand.get());
      operands.push_back(takes ? casts.toLow(operand.get(), op) : operand.get());
    }
    builder.setInsertionPoint(op);
    IRMapping mapping;
    mapping.map(op->getOperands(), operands);
    Operation *clone = builder.clone(*op, mapping);
    for (unsigned i = 0; i < op->getNumResults(); ++i) {
      Value from = op->getResult(i), to = clone->getResult(i);
      if (!op.givesLowPrecision(i) || !isF32(from)) {
        from.replaceAllUsesWith(to);
        continue;
      }
      to.setType(withElementType(to.getType(), low));
      casts.fromLow(from, to);
    }
  }

  func::FuncOp function;
  FloatType low;
  OpBuilder builder;
  LowPrecisionCasts casts;
  DenseMap<Value, Origin> origins;
};

struct MixedPrecisionPass : trainc::impl::MixedPrecisionPassBase<MixedPrecisionPass> {
  using MixedPrecisionPassBase::MixedPrecisionPassBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    if (type != "bf16" && type != "f16") {
      getOperation().emitError("mixed-precision: expected the type bf16 or f16, got '")
          << type << "'";
      return signalPassFailure();
    }
    MixedPrecision pass(getOperation(),
                        type == "bf16" ? FloatType(builder.getBF16Type()) : builder.getF16Type());
    if (parameters)
      pass.lowerParameters();
    pass.lowerOps(products);
    if (!products)
      pass.carryTypes(parameters);
  }
};
} // namespace
