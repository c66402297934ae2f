// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `merge-projections`: runs of projections of one input, which of them can be parts of one
// matmul, whether that is quicker, and the matmul.

#include "lib/Transforms/MergeProjections/MergeProjections.h"

#include "dialects/Train/RowMoves.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/MergeProjections/MatmulTiles.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Obstacle.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_MERGEPROJECTIONSPASS
#include "lib/Transforms/MergeProjections/MergeProjections.h.inc"
} // namespace trainc

/// Parts of rows begin at multiples of 16 bytes in 16-bit types: libraries read them so.
static constexpr int64_t kColumnMultiple = 8;

namespace {
/// A projection, with the formula of a bias behind it where there is one.
struct Member {
  /// Interfaces have no methods of constants.
  mutable ContractionOpInterface product;
  BlockArgument weight;
  Operation *formula = nullptr;
  /// Which operand of the formula is the product.
  unsigned number = 0;
  BlockArgument bias;
  /// What others read.
  Value end;

  int64_t columns() const { return *getDims(end).back().getConstant(); }
};
} // namespace

/// The parameter that `value` repeats for each row, else null.
static BlockArgument findRepeated(Value value) {
  Operation *def = value.getDefiningOp();
  auto mapped = dyn_cast_or_null<AxisMapOpInterface>(def);
  if (!mapped || !isa<StridedViewOpInterface>(def) || def->getNumOperands() != 1 ||
      !value.hasOneUse() || getRank(def->getOperand(0)) != 1 ||
      getDim(def->getOperand(0), 0) != getDims(value).back())
    return {};
  AxisMap map = mapped.getAxisMap();
  auto argument = dyn_cast<BlockArgument>(def->getOperand(0));
  return map.operands[0].front() == map.results[0].back() ? argument : BlockArgument();
}

/// `value` behind views of leading axes, and casts where `casts`, that nothing else reads.
static Value lookBehind(Value value, bool casts) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!keepsColumns(user) && !(casts && isa<CastOpInterface>(user)))
      break;
    value = user->getResult(0);
  }
  return value;
}

/// From the product on, up to the formula of a bias.
static void findFormula(Member &member) {
  const Value value = lookBehind(member.end, /*casts=*/false);
  Operation *user = value.hasOneUse() ? *value.user_begin() : nullptr;
  if (!isa_and_nonnull<PointwiseOpInterface>(user) || user->getNumOperands() != 2 ||
      user->getNumResults() != 1 || user->getResult(0).getType() != value.getType())
    return;
  const unsigned number = user->getOperand(0) == value ? 0 : 1;
  BlockArgument bias = findRepeated(user->getOperand(1 - number));
  if (!bias)
    return;
  member.formula = user;
  member.number = number;
  member.bias = bias;
  member.end = user->getResult(0);
}

/// Whether one library call reads `value`, and nothing else, through views where it lies. A cast is
/// made by the matmul that stores the value.
static bool isReadByOneCall(Value value, StridedLayout layout) {
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (getFusionRole(user) == FusionRole::Library)
      return cast<FusionOpInterface>(user).acceptsOperandLayout(use.getOperandNumber(), layout);
    auto view = dyn_cast<StridedViewOpInterface>(user);
    if (user->getNumOperands() != 1 || !(view || isa<CastOpInterface>(user)))
      return false;
    std::optional<StridedLayout> next = view ? view.getStridedView(layout) : layout;
    if (!next)
      return false;
    layout = *next;
    value = user->getResult(0);
  }
  return false;
}

namespace {
class MergeProjections {
public:
  MergeProjections(func::FuncOp function, const MatmulTiles &tiles, StringRef obstacle)
      : function(function), tiles(tiles), obstacle(obstacle) {}

  void run() {
    const SmallVector<Projection> projections = findProjections(function);
    for (ArrayRef<Projection> rest = projections; !rest.empty();) {
      // Projections of other inputs end a run: parts that are made far apart would be kept for
      // each other.
      Value input = rest.front().input->get();
      ArrayRef<Projection> ofInput = rest.take_while(
          [&](const Projection &projection) { return projection.input->get() == input; });
      rest = rest.drop_front(ofInput.size());
      if (ofInput.size() > 1)
        mergeRun(ofInput);
    }
    eraseDeadOps(function.getBody().front());
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("merge-projections")
        .function(function.getName());
  }
  void decline(Operation *op, const Obstacle &why) {
    auto missed = remark::missed(op->getLoc(), options("NotMerged"));
    missed << remark::add("{0} stays apart from others of its input", describeOp(op))
           << remark::reason("{0}", why.reason);
    why.suggestTo(missed);
  }

  bool isTrained(BlockArgument argument) {
    return getArgRole(function, argument.getArgNumber()) == "parameter" &&
           function.getArgAttr(argument.getArgNumber(), kTrainableAttr);
  }

  /// Why a projection cannot be a part of a matmul of several; empty: `member` is complete.
  Obstacle complete(const Projection &projection, Member &member) {
    member.product = dyn_cast<ContractionOpInterface>(projection.op);
    if (!member.product || !member.product.isPlain() || member.product.getTransposeLhs() ||
        member.product.getRhs() != projection.weight)
      return "its weight is no right factor as it is stored";
    member.weight = projection.weight;
    if (!isTrained(member.weight))
      return "its weight is not trained";
    if (!getElementTypeOrSelf(member.weight.getType()).isF32())
      return "its weight is not rounded in each step, and would be copied to be beside others";
    if (!member.weight.hasOneUse())
      return "others read its weight, too";
    std::optional<int64_t> columns = projection.out().getConstant();
    if (!columns || *columns % kColumnMultiple || !projection.in().getConstant())
      return "its columns are no multiple of 8, which parts begin at";
    member.end = projection.op->getResult(0);
    findFormula(member);
    // Attention's own casts: they are made once, of the whole.
    member.end = lookBehind(member.end, /*casts=*/true);
    if (member.bias && (!isTrained(member.bias) || !member.bias.hasOneUse()))
      return "its bias is not trained, or others read it, too";
    if (!isReadByOneCall(member.end, contiguousLayout(member.end.getType())))
      return "not one library call alone reads it: its gradient would be copied to those of the "
             "others";
    return {};
  }

  /// Of `member` beside the first one of a run.
  Obstacle whyApart(const Member &first, const Member &member) {
    if (member.product.getTransposeRhs() != first.product.getTransposeRhs())
      return "weights are stored with other axes first";
    if (bool(member.formula) != bool(first.formula))
      return "only some have a bias";
    if (leadingDims(member.end) != leadingDims(first.end) ||
        getElementTypeOrSelf(member.end.getType()) != getElementTypeOrSelf(first.end.getType()) ||
        (member.formula &&
         leadingDims(member.formula->getResult(0)) != leadingDims(first.formula->getResult(0))))
      return "they are read in other shapes or types";
    if (member.formula &&
        (member.formula->getName() != first.formula->getName() ||
         member.formula->getAttrDictionary() != first.formula->getAttrDictionary() ||
         member.number != first.number))
      return "their biases enter by other formulas";
    return {};
  }

  /// Whether the calls that read the parts take them where they are in the whole.
  bool takeParts(ArrayRef<Member> members) {
    const DimAttr whole = DimAttr::constant(function.getContext(), sumOfColumns(members));
    int64_t begin = 0;
    for (const Member &member : members) {
      SmallVector<DimAttr> dims = getDims(member.end);
      dims.back() = whole;
      StridedLayout layout =
          contiguousLayout(getTensorType(dims, getElementTypeOrSelf(member.end.getType())));
      layout.offset = DimAttr::constant(function.getContext(), begin);
      if (!isReadByOneCall(member.end, layout))
        return false;
      begin += member.columns();
    }
    return true;
  }

  void mergeRun(ArrayRef<Projection> run) {
    if (!obstacle.empty())
      return decline(run.front().op, obstacle.str());
    SmallVector<Member> members;
    for (const Projection &projection : run) {
      Member member;
      Obstacle why = complete(projection, member);
      if (why.empty() && !members.empty())
        why = whyApart(members.front(), member);
      if (why.empty())
        members.push_back(member);
      else
        decline(projection.op, why);
    }
    // Those that remain are merged, whatever stood between them.
    if (members.size() < 2)
      return;
    if (!takeParts(members))
      return decline(members.front().product,
                     "what reads it does not take a part of a larger matrix");
    SmallVector<int64_t> rows = findRows(members.front());
    if (rows.empty())
      return decline(members.front().product,
                     {"how many rows there are is not known",
                      "give sizes numbers or maxima: trainc --dim NAME=N or NAME=1..N"});
    // Batches of all sizes count the same.
    double apart = 0, together = 0;
    for (int64_t count : rows) {
      together += stepSeconds(count, sumOfColumns(members), members);
      for (const Member &member : members)
        apart += stepSeconds(count, member.columns(), members);
    }
    const double microseconds = 1e6 / double(rows.size());
    std::string times =
        llvm::formatv("{0:F1} us as one, {1:F1} apart, forward and backward, at {2}{3} rows",
                      together * microseconds, apart * microseconds,
                      rows.size() > 1 ? "up to " : "", rows.back())
            .str();
    if (together >= apart)
      return decline(members.front().product, "too little is gained: " + times);
    remark::passed(members.front().product->getLoc(), options("Merged"))
        << remark::add("{0} and {1} others of its input are one matmul: {2}",
                       describeOp(members.front().product), members.size() - 1, times);
    merge(members);
  }

  static SmallVector<DimAttr> leadingDims(Value value) {
    SmallVector<DimAttr> dims = getDims(value);
    dims.pop_back();
    return dims;
  }
  static int64_t sumOfColumns(ArrayRef<Member> members) {
    int64_t sum = 0;
    for (const Member &member : members)
      sum += member.columns();
    return sum;
  }

  /// Forward, the gradient of the input, that of the weight.
  double stepSeconds(int64_t rows, int64_t columns, ArrayRef<Member> members) const {
    ContractionOpInterface product = members.front().product;
    const int64_t inner = *product.getInnerDim().getConstant();
    return tiles.seconds(rows, columns, inner) + tiles.seconds(rows, inner, columns) +
           tiles.seconds(columns, inner, rows);
  }

  /// Numbers of rows to decide by, the largest last; none if they are not known.
  SmallVector<int64_t> findRows(const Member &member) {
    DimAttr rows = getDims(member.product.getLhs()).front();
    if (std::optional<int64_t> count = rows.getConstant())
      return {*count};
    SmallVector<int64_t> found;
    for (int64_t quarters : {1, 2, 3, 4}) {
      FailureOr<int64_t> count =
          rows.evaluate([&](StringRef name) { return findSize(name, quarters); });
      if (failed(count))
        return {};
      found.push_back(*count);
    }
    return found;
  }
  /// Of a size's maximum, or of all elements of the input that are counted.
  std::optional<int64_t> findSize(StringRef name, int64_t quarters) {
    for (auto module = function->getParentOfType<ModuleOp>(); module;
         module = module->getParentOfType<ModuleOp>())
      for (SymbolOp symbol : module.getOps<SymbolOp>()) {
        if (symbol.getSymName() != name)
          continue;
        std::optional<int64_t> most;
        if (symbol.getMax())
          most = int64_t(*symbol.getMax());
        if (symbol.getDiffers() && symbol.getInput())
          for (BlockArgument argument : function.getArguments())
            if (getArgRole(function, argument.getArgNumber()) == "input" &&
                getArgName(function, argument.getArgNumber()) == *symbol.getInput())
              most = getNumElements(argument.getType()).getConstant();
        if (!most)
          return std::nullopt;
        return std::max<int64_t>(symbol.getMin(), *most * quarters / 4);
      }
    return std::nullopt;
  }

  /// At the place of the first one: all that it reads stands above.
  void merge(ArrayRef<Member> members) {
    const Member &first = members.front();
    SmallVector<Location> locations;
    SmallVector<Value> weights, biases;
    for (const Member &member : members) {
      locations.push_back(member.product->getLoc());
      weights.push_back(member.weight);
      if (member.formula) {
        locations.push_back(member.formula->getLoc());
        biases.push_back(member.bias);
      }
    }
    assert(members.size() > 1 && "one alone is merged already");
    OpBuilder builder(first.product);
    TrainBuilder tb(builder, builder.getFusedLoc(locations));
    const bool transposed = first.product.getTransposeRhs();
    Value whole = tb.matmul(first.product.getLhs(), tb.concat(weights, transposed ? 0 : 1), false,
                            transposed);
    SmallVector<DimAttr> columns;
    for (const Member &member : members)
      columns.push_back(tb.dimAttr(member.columns()));
    auto shapeOf = [&](Value part) {
      SmallVector<DimAttr> dims = leadingDims(part);
      dims.push_back(tb.dimAttr(sumOfColumns(members)));
      return dims;
    };
    if (first.formula) {
      const SmallVector<DimAttr> dims = shapeOf(first.formula->getResult(0));
      whole = tb.reshape(whole, dims);
      IRMapping mapping;
      mapping.map(first.formula->getOperand(first.number), whole);
      mapping.map(first.formula->getOperand(1 - first.number),
                  tb.broadcast(tb.concat(biases, 0), dims, {int64_t(dims.size()) - 1}));
      Operation *formula = builder.clone(*first.formula, mapping);
      formula->setLoc(tb.loc());
      formula->getResult(0).setType(whole.getType());
      whole = formula->getResult(0);
    }
    // One cast, where it is made of the sums at once; the matmul stores what it makes.
    whole = tb.cast(tb.reshape(whole, shapeOf(first.end)), first.end.getType());
    const int64_t last = getRank(first.end) - 1;
    for (auto [member, part] : llvm::zip_equal(members, tb.split(whole, last, columns)))
      Value(member.end).replaceAllUsesWith(part);
  }

  func::FuncOp function;
  const MatmulTiles tiles;
  StringRef obstacle;
};

struct MergeProjectionsPass : trainc::impl::MergeProjectionsPassBase<MergeProjectionsPass> {
  using MergeProjectionsPassBase::MergeProjectionsPassBase;
  void runOnOperation() override {
    MergeProjections(getOperation(), {units, flops, bytes, launch}, obstacle).run();
  }
};
} // namespace
