// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-attention`: matches a softmax between two matmuls, then builds the op,
// its bias, and what rows without a visible column give.

#include "lib/Transforms/RaiseAttention/RaiseAttention.h"

#include "dialects/Train/Splats.h"
#include "lib/Transforms/RaiseAttention/AttentionMask.h"
#include "lib/Transforms/RaiseAttention/BiasBounds.h"
#include "lib/Transforms/RaiseAttention/TokenSegments.h"
#include "lib/Transforms/RaiseAttention/TrainedBias.h"
#include "lib/Transforms/Support/LowPrecisionCasts.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Formulas/Sequences.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Obstacle.h"
#include "trainc/Transforms/Support/HoistReshape.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RAISEATTENTIONPASS
#include "lib/Transforms/RaiseAttention/RaiseAttention.h.inc"
} // namespace trainc

namespace {
constexpr int64_t kMaxHeadSize = 256, kHeadSizeMultiple = 8;

/// The parts of one attention.
struct Parts {
  explicit Parts(SoftmaxOp softmax, ArrayRef<DimAttr> dims) : softmax(softmax), mask(dims) {}
  SoftmaxOp softmax;
  MatmulOp scores, output;
  DropoutOp dropout;
  AttentionMask mask;
  double scale = 1;
  /// Where it runs on packed tokens; else why not.
  std::optional<TokenSegments> segments;
  Obstacle noSegments = "it is not of packed tokens";
  /// Whether it is of whole rows or documents in them, whatever the batch.
  /// Whether its mask is of documents that positions tell apart.
  bool ofRows = false;
  /// Why a mask fits in rows only that see something.
  Obstacle weakMasks;
  /// Whether its bias needs a gradient.
  bool trainsBias = false;
};

class RaiseAttention {
public:
  RaiseAttention(func::FuncOp function, FloatType lowered, bool exactDropout, bool onlySegments,
                 bool onlySequences, bool biasGradient)
      : function(function), lowered(lowered), exactDropout(exactDropout),
        onlySegments(onlySegments), onlySequences(onlySequences), biasGradient(biasGradient),
        builder(function.getContext()), casts(builder, lowered) {}

  void run() {
    findVaried();
    SmallVector<SoftmaxOp> softmaxes;
    function.walk([&](SoftmaxOp op) { softmaxes.push_back(op); });
    for (SoftmaxOp softmax : softmaxes)
      raise(softmax);
    eraseDeadOps(function.getBody().front());
  }

private:
  /// Values that a gradient goes through.
  void findVaried() {
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), kTrainableAttr))
        varied.insert(argument);
    for (Operation &op : function.getBody().front()) {
      auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
      bool any = llvm::any_of(op.getOpOperands(), [&](OpOperand &operand) {
        return varied.contains(operand.get()) &&
               (!differentiable || differentiable.isDifferentiable(operand.getOperandNumber()));
      });
      if (any)
        varied.insert(op.result_begin(), op.result_end());
    }
  }

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("raise-attention").function(function.getName());
  }

  void raise(SoftmaxOp softmax) {
    SmallVector<DimAttr> dims = getDims(softmax.getResult());
    if ((dims.size() != 3 && dims.size() != 4) ||
        int64_t(softmax.getAxis()) != int64_t(dims.size()) - 1)
      return;
    if (dims.size() == 3)
      dims.insert(dims.begin() + 1, DimAttr::constant(softmax.getContext(), 1));
    Parts parts(softmax, dims);
    builder.setInsertionPoint(softmax);
    // Without both matmuls it is no attention and needs no reason.
    Obstacle shared, masks;
    if (!findOutput(parts, shared) || !findScores(softmax.getOperand(), parts, shared, masks))
      return;
    findSegments(parts);
    if (onlySequences && !parts.ofRows)
      return;
    if (masks.empty() && !parts.segments)
      masks = parts.weakMasks;
    Obstacle obstacle = !shared.empty() ? shared : !masks.empty() ? masks : whyNot(parts);
    if (!obstacle.empty()) {
      auto missed = remark::missed(softmax.getLoc(), options("NotRaised"));
      missed << remark::add("attention of {0} stays in parts", describeOp(softmax))
             << remark::reason("{0}", obstacle.reason);
      obstacle.suggestTo(missed);
      return;
    }
    build(parts);
  }

  //===--------------------------------------------------------------------===//
  // Matching
  //===--------------------------------------------------------------------===//

  static bool isFloatCast(Operation *op) {
    auto cast = dyn_cast_or_null<CastOp>(op);
    return cast && isa<FloatType>(getElementType(cast.getOperand())) &&
           isa<FloatType>(getElementType(cast.getResult()));
  }

  static MatmulOp asProduct(Operation *op) {
    auto product = dyn_cast<MatmulOp>(op);
    return product && product.isPlain() ? product : MatmulOp();
  }

  /// Whether the op merges the scores' samples with their heads (`merges`), or takes them apart.
  static bool changesHeads(Operation *op, bool merges) {
    auto reshape = dyn_cast_or_null<ReshapeOp>(op);
    if (!reshape)
      return false;
    SmallVector<DimAttr> apart = getDims(merges ? reshape.getOperand() : reshape.getResult()),
                         merged = getDims(merges ? reshape.getResult() : reshape.getOperand());
    if (apart.size() != 4 || merged.size() != 3)
      return false;
    return apart[0] * apart[1] == merged[0] &&
           ArrayRef(apart).drop_front(2) == ArrayRef(merged).drop_front();
  }

  /// From the softmax to the matmul with v.
  bool findOutput(Parts &parts, Obstacle &shared) {
    Value value = parts.softmax.getResult();
    while (true) {
      Operation *next = nullptr;
      for (Operation *user : value.getUsers())
        if (isa<DropoutOp>(user) || asProduct(user) || isFloatCast(user) ||
            changesHeads(user, /*merges=*/true))
          next = user;
      if (!next)
        return false;
      if (!value.hasOneUse())
        shared = {"its weights are read elsewhere",
                  "export the model without them (output_attentions=False in transformers)"};
      if (MatmulOp product = asProduct(next)) {
        parts.output = product;
        return product.getLhs() == value && !product.getTransposeLhs();
      }
      if (auto dropout = dyn_cast<DropoutOp>(next)) {
        if (parts.dropout)
          return false;
        parts.dropout = dropout;
      }
      value = next->getResult(0);
    }
  }

  /// Coordinates of a value of the scores' shape. `dims`: those of the softmax, from whose samples
  /// and heads those of the value may have been merged.
  CoordinateView atScores(Value value, ArrayRef<DimAttr> dims) {
    if (getRank(value) == 3 && dims.size() == 3)
      return {value, {0, 2, 3}};
    if (getRank(value) == 4)
      return {value, {0, 1, 2, 3}};
    // What is repeated is taken apart before, so that it is not of every row and column.
    SmallVector<int64_t> repeated = {0, 1, 2};
    if (auto repeat = value.getDefiningOp<BroadcastOp>()) {
      repeated = llvm::to_vector(repeat.getAxes());
      value = repeat.getOperand();
    }
    SmallVector<DimAttr> own;
    SmallVector<int> axes;
    for (auto [axis, dim] : llvm::zip_equal(repeated, getDims(value))) {
      if (axis == 0) {
        own.append({dims[0], dims[1]});
        axes.append({0, 1});
      } else {
        own.push_back(dim);
        axes.push_back(axis + 1);
      }
    }
    Value merged = getReshaped(value), apart = merged;
    if (!merged || ArrayRef(own) != ArrayRef(getDims(merged)))
      apart = TrainBuilder(builder, value.getLoc()).reshape(value, own);
    // As trained as what it was.
    if (varied.contains(value))
      varied.insert(apart);
    return {apart, axes};
  }

  /// Whether the scores' matmul is above `value`, along ops that factors and masks are made of.
  static bool leadsToProduct(Value value) {
    while (Operation *def = value.getDefiningOp()) {
      if (asProduct(def))
        return true;
      if (isFloatCast(def) || isa<DivOp>(def) || changesHeads(def, /*merges=*/false))
        value = def->getOperand(0);
      else if (isa<SelectOp>(def))
        value = def->getOperand(getSplatValue(def->getOperand(1)) ? 2 : 1);
      else if (isa<AddOp, MulOp>(def))
        value = def->getOperand(leadsToProduct(def->getOperand(0)) ? 0 : 1);
      else
        return false;
    }
    return false;
  }

  /// From the softmax up to the matmul of q and k. `masks`: why a mask on the way does not fit.
  bool findScores(Value value, Parts &parts, Obstacle &shared, Obstacle &masks) {
    const SmallVector<DimAttr> dims = getDims(value);
    while (Operation *def = value.getDefiningOp()) {
      if (!value.hasOneUse())
        shared = "its scores are read elsewhere";
      if (MatmulOp product = asProduct(def)) {
        parts.scores = product;
        return true;
      }
      if (isFloatCast(def) || changesHeads(def, /*merges=*/false)) {
        value = def->getOperand(0);
      } else if (isa<MulOp, DivOp>(def)) {
        bool left = isa<MulOp>(def) && getSplatValue(def->getOperand(0)).has_value();
        std::optional<double> factor = getSplatValue(def->getOperand(left ? 0 : 1));
        if (!factor)
          return false;
        parts.scale *= isa<MulOp>(def) ? *factor : 1 / *factor;
        value = def->getOperand(left ? 1 : 0);
      } else if (isa<SelectOp>(def)) {
        std::optional<double> onTrue = getSplatValue(def->getOperand(1)),
                              onFalse = getSplatValue(def->getOperand(2));
        if (!onTrue && !onFalse)
          return false;
        CoordinateView condition = atScores(def->getOperand(0), dims);
        // What is masked before the scores are scaled is scaled with them.
        double masked = parts.scale * (onTrue ? *onTrue : *onFalse);
        Obstacle obstacle = {"a mask selects a number that is not far below the scores",
                             "mask with -inf, or with the least number of the type"};
        if (parts.mask.addCondition(condition, bool(onTrue), masked))
          obstacle = {};
        else if (parts.mask.addWeakCondition(condition, bool(onTrue), masked))
          std::swap(obstacle, parts.weakMasks);
        if (!obstacle.empty())
          masks = obstacle;
        value = def->getOperand(onTrue ? 2 : 1);
      } else if (isa<AddOp>(def)) {
        bool left = leadsToProduct(def->getOperand(0));
        parts.mask.addBias(atScores(def->getOperand(left ? 1 : 0), dims), parts.scale);
        value = def->getOperand(left ? 0 : 1);
      } else {
        return false;
      }
    }
    return false;
  }

  /// Whether it can run on packed tokens: between tokens nothing is masked but by order.
  void findSegments(Parts &parts) {
    builder.setInsertionPoint(parts.output);
    TrainBuilder tb(builder, parts.output.getLoc());
    auto [q, k, v, scale] = getOperands(tb, parts);
    std::optional<TokenSegments> segments = TokenSegments::find(q, k, v, parts.output.getResult());
    if (!segments) {
      if (findSequenceSegments(parts, q, k) || findRowSegments(parts, q))
        return;
      if (TokenSegments::joinsSequences(q, k))
        parts.noSegments = "its rows are tokens of another sequence than its columns";
      return;
    }
    AttentionMask mask = parts.mask;
    // A token sees itself.
    mask.useWeakConditions();
    mask.assume([&](Value value) { return segments->valueAtTokens(value); });
    if (Value documents = segments->getDocuments(); documents && mask.takeSameElement(documents)) {
      segments->splitDocuments();
    }
    const bool isNear = !mask.hasWindow() || segments->keepDistances();
    if (!mask.isEmpty() || !isNear) {
      parts.weakMasks.clear();
      parts.noSegments = isNear ? "more than the order of tokens masks it"
                                : "its window counts positions, and padding may lie between tokens";
      return;
    }
    parts.mask = mask;
    parts.segments = segments;
  }
  /// Whether tokens see those of their document alone, and sequences of positions are documents:
  /// then all of them are behind each other already, whatever the batch.
  bool findSequenceSegments(Parts &parts, Value q, Value k) {
    AttentionMask mask = parts.mask;
    // A token sees itself.
    mask.useWeakConditions();
    Value numbers = mask.findSameElement();
    BlockArgument positions = numbers ? findSequences(numbers) : BlockArgument();
    std::optional<TokenSegments> segments =
        positions ? TokenSegments::ofSequences(q, k, numbers, positions) : std::nullopt;
    if (!segments)
      return false;
    mask.takeSameElement(numbers);
    mask.takeDistances(positions);
    parts.ofRows = true;
    if (!mask.isEmpty())
      parts.noSegments = "more than documents and the order of tokens masks it";
    else
      parts.segments = segments, parts.mask = mask, parts.weakMasks.clear();
    return true;
  }
  /// Whether nothing but a window masks it: where attention of segments is the only one, it skips
  /// what the window hides.
  bool findRowSegments(Parts &parts, Value q) {
    AttentionMask mask = parts.mask;
    mask.useWeakConditions();
    if (!onlySegments || !mask.isEmpty() || !mask.hasWindow())
      return false;
    parts.ofRows = true;
    parts.segments = TokenSegments::ofRows(q), parts.mask = mask, parts.weakMasks.clear();
    return true;
  }

  /// As [batch, heads, rows, depth], before q and k were multiplied by numbers.
  struct Operands {
    Value q, k, v;
    double scale;
  };
  static Operands getOperands(TrainBuilder &tb, const Parts &parts) {
    MatmulOp scores = parts.scores, output = parts.output;
    double scale = parts.scale;
    const SmallVector<DimAttr> softmax = getDims(SoftmaxOp(parts.softmax).getResult());
    auto asOperand = [&](Value value, bool transposed) {
      return asMatrix(tb, value, transposed, softmax);
    };
    Value q = asOperand(stripScale(tb.b(), scores.getLhs(), scale), scores.getTransposeLhs());
    Value k = asOperand(stripScale(tb.b(), scores.getRhs(), scale), !scores.getTransposeRhs());
    return {q, k, asOperand(output.getRhs(), output.getTransposeRhs()), scale};
  }

  /// A number that hides no column when it is added to its score, as a bias of the op either.
  double getLeastVisible(const Parts &parts) const {
    MatmulOp scores = parts.scores;
    Type type = getElementType(scores.getLhs());
    if (type.isF32() && lowered)
      type = lowered;
    return type.isF16() ? -65504 : AttentionMask::kAbsorbing;
  }
  static bool isAbove(const ScoreBias &bias, double least) {
    const Range range = findRange(bias.view.value);
    const double end = bias.factor * (bias.factor > 0 ? range.lo : range.hi);
    return range.isFinite() && end > least;
  }

  /// Why the parts cannot become one op; empty if they can.
  Obstacle whyNot(Parts &parts) {
    // Two matmuls with a vector cost less; and cuDNN's kernels for one row write out of bounds
    // (9.19).
    if (getDims(parts.softmax.getResult()).rbegin()[1].isConstant(1))
      return "it has one row";
    if (onlySegments && !parts.segments)
      return parts.noSegments;
    auto isTrained = [&](const ScoreBias &bias) { return varied.contains(bias.view.value); };
    parts.trainsBias = llvm::any_of(parts.mask.getBiases(), isTrained);
    // What is trained masks nothing.
    const double least = getLeastVisible(parts);
    if (llvm::all_of(parts.mask.getBiases(), [&](const ScoreBias &bias) {
          return isTrained(bias) || isAbove(bias, least);
        }))
      parts.mask.assumeFiniteBiases();
    if (parts.trainsBias && !biasGradient)
      return {"its bias needs a gradient, which not all GPUs of the target have a fused kernel for",
              "trainc --target cuda:sm_90"};
    if (parts.mask.isFinite() && parts.mask.mayBeInfinite())
      return {"its masks are of -inf and of finite numbers", "mask with one of the two"};
    if (!(parts.scale > 0))
      return "its scale is not positive";
    if (parts.dropout && exactDropout)
      return "it has dropout, which is to have the same mask on every target";
    SmallVector<DimAttr> q = getDims(parts.scores.getLhs()), v = getDims(parts.output.getRhs());
    std::optional<int64_t> depth =
                               q[q.size() - (parts.scores.getTransposeLhs() ? 2 : 1)].getConstant(),
                           width =
                               v[v.size() - (parts.output.getTransposeRhs() ? 2 : 1)].getConstant();
    for (std::optional<int64_t> size : {depth, width})
      if (!size || *size > kMaxHeadSize || *size % kHeadSizeMultiple != 0)
        return "its head size " + (size ? Twine(*size) : Twine("is not known and")) +
               " is above 256 or no multiple of 8";
    Type type = getElementType(parts.scores.getLhs());
    if (type != getElementType(parts.output.getRhs()))
      return "its matmuls have different types";
    bool fused = type.isBF16() || type.isF16() || (type.isF32() && lowered);
    if (onlySegments ? !type.isF32() : !fused)
      return {"no fused kernel computes it in " + llvm::formatv("{0}", type).str(),
              type.isF32() ? "trainc --precision bf16" : ""};
    return {};
  }

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  /// An operand of a matmul as [batch, heads, rows, depth]. `softmax`: sizes of the scores, which
  /// may have samples and heads apart.
  static Value asMatrix(TrainBuilder &tb, Value value, bool transposed, ArrayRef<DimAttr> softmax) {
    SmallVector<int64_t> permutation = {0, 1, 2, 3};
    if (getRank(value) == 3)
      permutation.pop_back();
    if (transposed)
      std::swap(permutation.back(), permutation[permutation.size() - 2]);
    value = tb.transpose(value, permutation);
    if (permutation.size() == 4)
      return value;
    SmallVector<DimAttr> dims = getDims(value);
    const bool isApart = softmax.size() == 4;
    dims.insert(dims.begin() + 1, isApart ? softmax[1] : tb.dimAttr(1));
    if (isApart)
      dims[0] = softmax[0];
    return tb.reshape(value, dims);
  }

  /// The value before it was multiplied by a number; the factor goes to `scale`.
  static Value stripScale(OpBuilder &builder, Value value, double &scale) {
    Operation *def = value.getDefiningOp();
    if (isa_and_nonnull<MulOp, DivOp>(def)) {
      bool left = isa<MulOp>(def) && getSplatValue(def->getOperand(0)).has_value();
      std::optional<double> factor = getSplatValue(def->getOperand(left ? 0 : 1));
      if (!factor || !(*factor > 0))
        return value;
      scale *= isa<MulOp>(def) ? *factor : 1 / *factor;
      return stripScale(builder, def->getOperand(left ? 1 : 0), scale);
    }
    if (!isa_and_nonnull<ReshapeOp, TransposeOp>(def))
      return value;
    Value inner = stripScale(builder, def->getOperand(0), scale);
    if (inner == def->getOperand(0))
      return value;
    IRMapping mapping;
    mapping.map(def->getOperand(0), inner);
    return builder.clone(*def, mapping)->getResult(0);
  }

  /// Keys or values before they were repeated for the heads of a group; the value itself where they
  /// were not.
  static Value stripRepetition(Value value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    auto broadcast = reshape ? reshape.getOperand().getDefiningOp<BroadcastOp>() : BroadcastOp();
    if (!broadcast || broadcast.getAxes() != ArrayRef<int64_t>{0, 1, 3, 4} ||
        getRank(broadcast.getResult()) != 5)
      return value;
    SmallVector<DimAttr> from = getDims(broadcast.getResult()), to = getDims(value);
    bool grouped =
        to.size() == 4 && to == SmallVector<DimAttr>{from[0], from[1] * from[2], from[3], from[4]};
    return grouped ? broadcast.getOperand() : value;
  }

  static std::string describeWindow(const AttentionMask &mask) {
    std::string text;
    for (auto [columns, where] :
         {std::pair{mask.getBefore(), "before"}, {mask.getAfter(), "after"}})
      if (columns)
        text += (text.empty() ? ", " : " and ") + std::to_string(*columns) + " " + where;
    return text;
  }

  /// The random numbers' key and offset.
  static Value buildSeed(TrainBuilder &tb, Value key) {
    Value offset = tb.full({tb.dimAttr(1)}, tb.b().getI64Type(), 0);
    return tb.concat({tb.reshape(key, {tb.dimAttr(1)}), offset}, 0);
  }

  void build(Parts &parts) {
    MatmulOp output = parts.output;
    builder.setInsertionPoint(output);
    TrainBuilder tb(builder, output.getLoc());
    auto [q, k, v, scale] = getOperands(tb, parts);
    // On the packed tokens nothing but the order of columns masks.
    const bool isWhole = parts.segments && parts.segments->isWhole();
    if (parts.segments && !isWhole) {
      q = stripScale(builder, parts.segments->pack(tb, q), scale);
      k = stripScale(builder, parts.segments->pack(tb, k), scale);
      v = parts.segments->pack(tb, v);
    }
    Value keys = stripRepetition(k), values = stripRepetition(v);
    bool grouped = keys != k && values != v && getDim(keys, 1) == getDim(values, 1);
    if (!grouped)
      keys = k, values = v;
    if (isWhole)
      for (Value *operand : {&q, &keys, &values})
        *operand = parts.segments->pack(tb, *operand);

    bool isLow = onlySegments || !getElementType(q).isF32();
    FloatType low = isLow ? cast<FloatType>(getElementType(q)) : lowered;
    if (!isLow)
      for (Value *operand : {&q, &keys, &values})
        *operand = casts.toLow(*operand, output);
    builder.setInsertionPoint(output);
    double least =
        APFloat::getLargest(low.getFloatSemantics(), /*Negative=*/true).convertToDouble();
    Value bias;
    if (!parts.mask.isEmpty())
      bias = parts.mask.buildBias(tb, least);
    // Distances (ALiBi) have more digits than 16 bits hold; where all rows have the same, they take
    // no room.
    const bool isExact =
        bias && !parts.trainsBias && parts.mask.hasFiniteBiases() && getDim(bias, 2).isConstant(1);
    if (bias && !isExact)
      bias = tb.cast(bias, low);
    const SmallVector<DimAttr> outputDims = getDims(q);
    const Value unfolded = values;
    if (parts.trainsBias)
      bias = prepareTrainedBias(tb, bias, {&q, &keys, &values});
    Value seed = parts.dropout ? buildSeed(tb, parts.dropout.getKey()) : Value();
    APFloat ratio = parts.dropout ? parts.dropout.getRatio() : APFloat(0.0);
    SmallVector<DimAttr> dims = getDims(q);
    Type stats = getTensorType(ArrayRef(dims).drop_back(), builder.getF32Type());
    dims.back() = getDims(values).back();
    Value offsets, positions;
    DimAttr longest;
    if (parts.segments) {
      offsets = parts.segments->buildOffsets(tb);
      longest = parts.segments->getLongest();
      if (seed)
        positions = parts.segments->buildPositions(tb);
    }
    auto bound = [&](std::optional<int64_t> columns) {
      return columns ? builder.getI64IntegerAttr(*columns) : IntegerAttr();
    };
    auto attention = AttentionOp::create(
        builder, output.getLoc(), getTensorType(dims, low), stats, q, keys, values, bias, seed,
        offsets, positions, APFloat(scale), ratio, parts.mask.isCausal(), longest,
        bound(parts.mask.getBefore()), bound(parts.mask.getAfter()));
    Value result = attention.getResult();
    if (parts.segments) {
      // In the model's type: packed again further on, both meet and are gone.
      if (!isLow)
        result = tb.cast(result, getElementType(output.getResult()));
      result = parts.segments->unpack(tb, result);
    } else {
      SmallVector<DimAttr> whole = outputDims;
      whole.back() = dims.back();
      result = restoreDeadRows(tb, parts, tb.reshape(result, whole), unfolded);
    }
    result = tb.reshape(result, getDims(output.getResult()));
    remark::passed(output.getLoc(), options("Raised"))
        << remark::add("attention of {0}: {1}{2}{3}{4}{5}{6}", describeOp(parts.softmax),
                       parts.mask.isCausal() ? "causal" : "all columns", describeWindow(parts.mask),
                       !bias              ? ""
                       : parts.trainsBias ? ", bias with a gradient"
                                          : ", bias",
                       seed ? onlySegments ? ", dropout" : ", dropout with the library's mask" : "",
                       grouped ? ", heads in groups" : "",
                       !parts.segments                  ? ""
                       : parts.segments->areDocuments() ? ", packed documents"
                       : parts.segments->isWhole()      ? ", rows"
                                                        : ", packed tokens");
    if (isLow || parts.segments)
      output.getResult().replaceAllUsesWith(result);
    else
      casts.fromLow(output.getResult(), result);
  }

  /// Gives rows that see no column what the model gives: the library sees a row of the least number
  /// instead, causal or not.
  static Value restoreDeadRows(TrainBuilder &tb, Parts &parts, Value result, Value v) {
    const AttentionMask &mask = parts.mask;
    if (!mask.mayHideRows())
      return result;
    bool zeros = mask.mayBeInfinite() && parts.softmax.getGuarded();
    // All weights are equal where the least float of f32 absorbs the scores. So they are here, but
    // not over the same columns, and not in the small range of f16.
    bool mean =
        mask.isFinite() && (mask.isCausal() || mask.hasWindow() || getElementType(result).isF16());
    if (!zeros && !mean)
      return result;
    // Rows in front of heads, as most models go on: both transposes are free.
    Value rows = tb.transpose(result, {0, 2, 1, 3});
    SmallVector<DimAttr> dims = getDims(rows);
    Value dead = mask.buildDeadRows(tb), other = tb.scalarLike(rows, 0);
    SmallVector<int64_t> axes;
    SmallVector<DimAttr> kept;
    for (auto [axis, to] : {std::pair<int64_t, int64_t>{0, 0}, {2, 1}, {1, 2}})
      if (getDim(dead, axis) == dims[to])
        kept.push_back(dims[to]), axes.push_back(to);
    SmallVector<int64_t> permutation = {0, 2, 1};
    dead = tb.broadcast(tb.reshape(tb.transpose(dead, permutation), kept), dims, axes);
    if (mean) {
      Value average = tb.cast(tb.mean(tb.cast(v, tb.b().getF32Type()), 2), result.getType());
      // Every head of a group has the same.
      DimAttr keyHeads = getDim(v, 1);
      if (keyHeads != dims[2]) {
        SmallVector<DimAttr> grouped = {dims[0], keyHeads, divideExactly(dims[2], keyHeads),
                                        dims[3]};
        average = tb.broadcast(average, grouped, {0, 1, 3});
        average = tb.reshape(average, {dims[0], dims[2], dims[3]});
      }
      other = tb.broadcast(average, dims, {0, 2, 3});
    }
    return tb.transpose(tb.select(dead, other, rows), {0, 2, 1, 3});
  }

  func::FuncOp function;
  FloatType lowered;
  bool exactDropout, onlySegments, onlySequences, biasGradient;
  OpBuilder builder;
  LowPrecisionCasts casts;
  llvm::DenseSet<Value> varied;
};

struct RaiseAttentionPass : trainc::impl::RaiseAttentionPassBase<RaiseAttentionPass> {
  using RaiseAttentionPassBase::RaiseAttentionPassBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    FloatType lowered;
    if (type == "bf16")
      lowered = builder.getBF16Type();
    else if (type == "f16")
      lowered = builder.getF16Type();
    else if (!type.empty()) {
      getOperation().emitError("raise-attention: expected the type bf16 or f16, got '")
          << type << "'";
      return signalPassFailure();
    }
    RaiseAttention(getOperation(), lowered, exactDropout, segments || sequences, sequences,
                   biasGradient)
        .run();
  }
};
} // namespace
