// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `quantize-frozen`: which parameters, then how a number is made of what is stored.

#include "lib/Transforms/QuantizeFrozen/QuantizeFrozen.h"

#include "dialects/Train/TrainBuilder.h"
#include "format/quant_format.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Nearest.h"
#include "trainc/Support/Regex.h"
#include "trainc/Transforms/Support/StepBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_QUANTIZEFROZENPASS
#include "lib/Transforms/QuantizeFrozen/QuantizeFrozen.h.inc"
} // namespace trainc

namespace {

remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("quantize-frozen").function("forward");
}

/// The pass's options, and one run of it.
class Quantizer {
public:
  explicit Quantizer(func::FuncOp forward) : forward(forward) {}

  std::string format, scaleType, skip;
  int64_t block;
  bool doubled;

  /// Checks, chooses, then rewrites: nothing is changed where the options are wrong.
  LogicalResult run() {
    if (failed(check()))
      return failure();
    SmallVector<BlockArgument> chosen = choose();
    warnOfIdleSkip();
    if (chosen.empty())
      return error("there is no weight to quantize: all that projections read are trained (--lora "
                   "and --freeze leave them as they are), skipped, heads, or read by other nodes "
                   "too; --explain=all says which");
    for (BlockArgument weight : chosen)
      quantize(weight);
    // Types of arguments have changed.
    forward.setFunctionType(FunctionType::get(
        forward.getContext(), forward.getBody().getArgumentTypes(), forward.getResultTypes()));
    return success();
  }

private:
  /// An expression that is likely misspelt.
  /// Not an error: one expression may serve several models.
  void warnOfIdleSkip() {
    std::vector<std::string> names;
    for (BlockArgument argument : forward.getArguments()) {
      if (skip.empty() || skipped.search(nameOf(argument)))
        return;
      if (getArgRole(forward, argument.getArgNumber()) == "parameter")
        names.push_back(nameOf(argument).str());
    }
    forward.emitWarning() << "quantize-frozen: skip='" << skip << "' matches no parameter"
                          << nearestMatches(skip, std::move(names));
  }
  LogicalResult error(const Twine &message) {
    return forward.emitError("quantize-frozen: " + message);
  }
  bool isInt8() const { return format == "int8"; }

  /// What the runtime's quantizer can make: the same limits.
  LogicalResult check() {
    if (format != "nf4" && format != "fp4" && format != "int8")
      return error("the format must be nf4, fp4 or int8, not '" + format + "'");
    if (!trainrt::isBlock(block))
      return error("a block must be a power of two from 16 to 4096, not " + Twine(block));
    if (scaleType != "f32" && scaleType != "bf16" && scaleType != "f16")
      return error("scales must be f32, bf16 or f16, not '" + scaleType + "'");
    if (isInt8() && (doubled || scaleType != "f32"))
      return error("int8 has f32 scales of rows: neither double nor another type of them");
    if (doubled && scaleType != "f32")
      return error("with double scales are 8 bits: they have no other type");
    if (std::string problem = skipped.compile(skip); !problem.empty())
      return error(problem);
    return success();
  }

  StringRef nameOf(BlockArgument argument) { return getArgName(forward, argument.getArgNumber()); }

  /// Frozen weights of projections that are neither heads nor read by anything that would need them
  /// whole. In the order of findProjections.
  SmallVector<BlockArgument> choose() {
    llvm::SmallSetVector<BlockArgument, 32> weights;
    llvm::SmallPtrSet<OpOperand *, 32> reads;
    llvm::SmallPtrSet<Value, 32> heads;
    for (const Projection &projection : findProjections(forward)) {
      weights.insert(projection.weight);
      reads.insert(projection.projected);
      if (projection.isHead)
        heads.insert(projection.weight);
    }
    SmallVector<BlockArgument> chosen;
    for (BlockArgument weight : weights) {
      StringRef reason;
      if (forward.getArgAttr(weight.getArgNumber(), kTrainableAttr))
        reason = "it is trained";
      else if (heads.contains(weight))
        reason = "it is a head: nothing is projected after it";
      else if (!skip.empty() && skipped.search(nameOf(weight)))
        reason = "skip matches its name";
      else if (!onlyProjected(weight, reads))
        reason = "not only projections read it";
      if (reason.empty()) {
        chosen.push_back(weight);
        continue;
      }
      // A branch's own matrices are no news.
      if (reason != "it is trained")
        remark::missed(weight.getLoc(), options("NotQuantized"))
            << remark::add("'{0}' stays as it is", nameOf(weight)) << remark::reason("{0}", reason);
    }
    return chosen;
  }
  /// Projections, and ops that make sums of all elements (DoRA's norms): what needs each number
  /// once and keeps none. Through formulas, and through what findProjections looks through.
  /// Recursive through one-operand ops and formulas, as far as their results go.
  static bool onlyProjected(Value value, const llvm::SmallPtrSetImpl<OpOperand *> &reads) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (reads.contains(&use) || isSummed(use))
        return true;
      return user->getNumResults() == 1 && !user->hasTrait<OpTrait::IsTerminator>() &&
             (user->getNumOperands() == 1 || isa<PointwiseOpInterface>(user)) &&
             onlyProjected(user->getResult(0), reads);
    });
  }
  /// Whether each element of the operand is part of one sum.
  static bool isSummed(OpOperand &use) {
    auto mapped = dyn_cast<AxisMapOpInterface>(use.getOwner());
    if (!mapped)
      return false;
    AxisMap map = mapped.getAxisMap();
    ArrayRef<int> loops = map.operands[use.getOperandNumber()];
    return llvm::none_of(loops, [](int loop) { return loop < 0; }) &&
           llvm::any_of(loops, [&](int loop) { return map.loops[loop] == LoopKind::Reduction; });
  }

  /// Another part of the weight's storage.
  /// Named after the weight, as bitsandbytes names its state; the runtime fills it in when it
  /// quantizes.
  Value addPart(BlockArgument weight, StringRef suffix, ArrayRef<int64_t> shape, Type element,
                SmallVectorImpl<NamedAttribute> &parts) {
    Builder b(forward.getContext());
    std::string name = (nameOf(weight) + "." + suffix).str();
    parts.push_back(b.getNamedAttr(suffix == "SCB" ? "row_absmax" : suffix, b.getStringAttr(name)));
    return addArgument(forward, "parameter", name, shape, element, weight.getLoc(),
                       b.getNamedAttr(kPartOfAttr, b.getStringAttr(nameOf(weight))));
  }

  /// The argument becomes the codes; all its readers read numbers made of these.
  void quantize(BlockArgument weight) {
    Builder b(forward.getContext());
    auto type = cast<RankedTensorType>(weight.getType());
    SmallVector<DimAttr> dims = getDims(weight);
    const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
    OpBuilder builder(forward.getContext());
    builder.setInsertionPointToStart(&forward.getBody().front());
    TrainBuilder tb(builder, weight.getLoc());
    SmallVector<NamedAttribute> parts;
    Value number = isInt8() ? fromRows(tb, weight, rows, columns, parts)
                            : fromCodes(tb, weight, rows, columns, parts);
    // To the type that readers expect, once, as bitsandbytes rounds.
    Value rounded = tb.cast(number, type.getElementType());
    // All uses but the one that reads the codes.
    Operation *first = bytesOf[weight];
    weight.replaceUsesWithIf(rounded, [&](OpOperand &use) { return use.getOwner() != first; });
    forward.setArgAttr(
        weight.getArgNumber(), kQuantizedAttr,
        b.getDictionaryAttr(
            {b.getNamedAttr("format", b.getStringAttr(format)),
             b.getNamedAttr("block", b.getI64IntegerAttr(isInt8() ? columns : block)),
             b.getNamedAttr("dtype", TypeAttr::get(type.getElementType())),
             b.getNamedAttr("shape", b.getI64ArrayAttr({rows, columns})),
             b.getNamedAttr("parts", b.getDictionaryAttr(parts))}));
    remark::passed(weight.getLoc(), options("Quantized"))
        << remark::add("'{0}' is stored as {1}{2}", nameOf(weight), format,
                       doubled ? ", its scales in 8 bits" : "");
  }

  /// code * row's largest / 127.
  Value fromRows(TrainBuilder &tb, BlockArgument weight, int64_t rows, int64_t columns,
                 SmallVectorImpl<NamedAttribute> &parts) {
    SmallVector<DimAttr> dims = getDims(weight);
    Type real = tb.b().getF32Type();
    Value largest = addPart(weight, "SCB", {rows}, real, parts);
    weight.setType(getTensorType(dims, tb.b().getI8Type()));
    Value codes = tb.cast(weight, real);
    bytesOf[weight] = codes.getDefiningOp();
    Value product = tb.mul(codes, tb.broadcast(largest, dims, {0}));
    // 1 / 127 as bitsandbytes has it in f32.
    return tb.mul(product, tb.scalarLike(product, 7.874015718698502e-3));
  }

  /// table[code] * scale of the block.
  Value fromCodes(TrainBuilder &tb, BlockArgument weight, int64_t rows, int64_t columns,
                  SmallVectorImpl<NamedAttribute> &parts) {
    SmallVector<DimAttr> dims = getDims(weight);
    const int64_t count = rows * columns, blocks = trainrt::blocksOf(count, block);
    Type real = tb.b().getF32Type(), byte = tb.b().getI8Type();
    Value scales;
    if (doubled) {
      const int64_t groups = trainrt::blocksOf(blocks, trainrt::nestedBlock);
      Value codes = addPart(weight, "absmax", {blocks}, byte, parts);
      // Nested: the scales' own scales, of groups of nestedBlock, around an offset that they all
      // share.
      Value largest = addPart(weight, "nested_absmax", {groups}, real, parts);
      Value offset = addPart(weight, "nested_offset", {}, real, parts);
      Value sum = tb.dequantize(codes, table(tb, trainrt::dynamicMap()), largest,
                                trainrt::nestedBlock, getTensorType({tb.dimAttr(blocks)}, real));
      scales = tb.add(sum, tb.splat(offset, sum));
    } else {
      Type stored = scaleType == "bf16"  ? Type(tb.b().getBF16Type())
                    : scaleType == "f16" ? Type(tb.b().getF16Type())
                                         : real;
      scales = tb.cast(addPart(weight, "absmax", {blocks}, stored, parts), real);
    }
    // Two codes a byte, the last one maybe half.
    weight.setType(getTensorType({tb.dimAttr(trainrt::blocksOf(count, 2))}, byte));
    Value number =
        tb.dequantize(weight,
                      table(tb, trainrt::codeValues(format == "nf4" ? trainrt::QuantFormat::NF4
                                                                    : trainrt::QuantFormat::FP4)),
                      scales, block, getTensorType(dims, real));
    bytesOf[weight] = number.getDefiningOp();
    return number;
  }
  static Value table(TrainBuilder &tb, ArrayRef<float> numbers) {
    auto type = RankedTensorType::get({int64_t(numbers.size())}, tb.b().getF32Type());
    return tb.constant(DenseElementsAttr::get(type, numbers));
  }

  func::FuncOp forward;
  Regex skipped;
  /// What reads the codes of a weight.
  DenseMap<Value, Operation *> bytesOf;
};

struct QuantizeFrozenPass : trainc::impl::QuantizeFrozenPassBase<QuantizeFrozenPass> {
  using QuantizeFrozenPassBase::QuantizeFrozenPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      getOperation().emitError("quantize-frozen: expected the function @forward");
      return signalPassFailure();
    }
    Quantizer quantizer(forward);
    quantizer.format = format;
    quantizer.scaleType = scaleType;
    quantizer.skip = skip;
    quantizer.block = block;
    quantizer.doubled = doubled;
    if (failed(quantizer.run()))
      signalPassFailure();
  }
};
} // namespace
