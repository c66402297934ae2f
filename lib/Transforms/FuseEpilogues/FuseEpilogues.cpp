// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `fuse-epilogues`: walks from every matmul to what ends its chain, then decides by what
// reads that.

#include "lib/Transforms/FuseEpilogues/FuseEpilogues.h"

#include "dialects/Train/RowMoves.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Obstacle.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "lib/Transforms/FuseEpilogues/FuseEpilogues.h.inc"
} // namespace trainc

namespace {

/// Rows of what an epilogue reads and writes begin at multiples of 16 bytes.
constexpr int64_t kColumnMultiple = 8;

unsigned width(Value value) { return getElementType(value).getIntOrFloatBitWidth(); }

/// What reads a value [rows..., columns] that an epilogue could make.
/// Known readers are those that an epilogue can serve; anything else reads the value as it is.
struct Readers {
  /// The value where it is rounded to the low type, or of that type itself.
  SmallVector<Value> low;
  SmallVector<GeluOp> gelus;
  SmallVector<GeluGradOp> slopes;
  /// Sums over all axes but the last.
  SmallVector<ReduceOp> sums;
  /// Of these ops, the reshapes among them.
  llvm::SmallPtrSet<Operation *, 8> known;
  bool others = false;

  Readers(Value value, Type lowType) { collect(value, lowType); }

private:
  /// Through views that keep columns; casts to the low type end it.
  void collect(Value value, Type lowType) {
    for (Operation *user : value.getUsers()) {
      if (known.contains(user))
        continue;
      // Libraries have GELU's tanh form only.
      auto cast = dyn_cast<CastOp>(user);
      auto gelu = dyn_cast<GeluOp>(user);
      auto slope = dyn_cast<GeluGradOp>(user);
      bool isKnown = true;
      if (keepsColumns(user))
        collect(user->getResult(0), lowType);
      else if (cast && getElementType(cast.getResult()) == lowType)
        low.push_back(cast.getResult());
      else if (gelu && gelu.getTanh())
        gelus.push_back(gelu);
      else if (slope && slope.getTanh())
        slopes.push_back(slope);
      else if (isSumOfRows(user))
        sums.push_back(dyn_cast<ReduceOp>(user));
      else
        isKnown = false;
      // A reader of the wide value would see more digits than the epilogue stores.
      if (isKnown)
        known.insert(user);
      else if (getElementType(value) != lowType)
        others = true;
      else if (!llvm::is_contained(low, value))
        low.push_back(value);
    }
  }
  /// What a bias's gradient is: rows and all batches.
  static bool isSumOfRows(Operation *op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || reduce.getKind() != ReduceKind::sum)
      return false;
    int64_t rank = getRank(reduce.getOperand());
    return int64_t(reduce.getAxes().size()) == rank - 1 &&
           llvm::equal(reduce.getAxes(), llvm::seq<int64_t>(0, rank - 1));
  }
};

class FuseEpilogues {
public:
  FuseEpilogues(func::FuncOp function, bool biasGradient)
      : function(function), biasGradient(biasGradient) {}

  /// In program order, forward before backward.
  void run() {
    SmallVector<MatmulOp> products;
    function.walk([&](MatmulOp op) {
      // Libraries have epilogues for 16-bit matmuls.
      if (op.isPlain() && width(op.getResult()) == 16)
        products.push_back(op);
    });
    for (MatmulOp product : products)
      fuse(product);
    eraseDeadOps(function.getBody().front());
  }

private:
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("fuse-epilogues").function(function.getName());
  }
  void declined(MatmulOp product, StringRef what, const Obstacle &obstacle) {
    auto missed = remark::missed(product.getLoc(), options("NotFused"));
    missed << remark::add("{0}: no epilogue for {1}", describeOp(product), what)
           << remark::reason("{0}", obstacle.reason);
    obstacle.suggestTo(missed);
  }
  void fused(MatmulOp product, StringRef what) {
    remark::passed(product.getLoc(), options("Fused"))
        << remark::add("{0}: {1} in the matmul", describeOp(product), what);
  }

  /// From the matmul over casts and reshapes to what is computed with it. Forward is before
  /// backward in program order, so that a derivative finds what was stored for it.
  void fuse(MatmulOp product) {
    Value value = product.getResult(), bias;
    Operation *add = nullptr;
    // A single use at each link: nothing else sees the values in between.
    while (value.hasOneUse()) {
      Operation *user = *value.getUsers().begin();
      if (!add)
        if (auto sum = dyn_cast<AddOp>(user))
          bias = biasOf(sum.getLhs() == value ? sum.getRhs() : sum.getLhs());
      if (bias && !add)
        add = user;
      else if (!keepsColumns(user) && !(isWidening(user) && !add))
        break;
      value = user->getResult(0);
    }
    // The end of the chain is the sum or the last value before what reads it.
    if (value.hasOneUse() && !add)
      if (auto mul = dyn_cast<MulOp>(*value.getUsers().begin()))
        if (fuseDerivative(product, value, mul))
          return;
    Readers readers(value, getElementType(product.getResult()));
    if (readers.gelus.size() == 1 && readers.gelus.front()->getNumOperands() == 1)
      fuseGelu(product, value, bias, add, readers);
    else if (bias)
      fuseBias(product, value, bias, add, readers);
  }

  /// The vector that is repeated along all axes but the last, or null.
  /// For the library the bias is a vector of the columns.
  Value biasOf(Value value) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    if (!broadcast || getRank(broadcast.getOperand()) != 1 ||
        !llvm::equal(broadcast.getAxes(), ArrayRef<int64_t>{getRank(value) - 1}) ||
        getDims(broadcast.getOperand()).front() != getDims(value).back())
      return {};
    return broadcast.getOperand();
  }

  /// Why no epilogue can be had; empty if one can.
  /// Of the shape alone: what cuBLASLt takes.
  Obstacle whyNot(MatmulOp product) {
    SmallVector<DimAttr> dims = getDims(product.getResult());
    if (dims.size() != 2)
      return "the matmul has a batch";
    std::optional<int64_t> columns = dims.back().getConstant();
    if (!columns)
      return {"the number of columns is not known", "give the size a number: trainc --dim NAME=N"};
    if (*columns % kColumnMultiple)
      return {Twine(*columns) + " columns are no multiple of " + Twine(kColumnMultiple),
              "make the layer a little wider"};
    return {};
  }

  /// Whether nothing but library calls read the values, through moves of elements; `known` aside.
  /// Kernels can add a bias as they read; only where a library reads next is the epilogue a kernel
  /// less.
  bool readByLibraries(ArrayRef<Value> values, const llvm::SmallPtrSetImpl<Operation *> &known) {
    return llvm::all_of(values, [&](Value value) {
      return llvm::all_of(value.getUsers(), [&](Operation *user) {
        if (known.contains(user) || getFusionRole(user) == FusionRole::Library)
          return true;
        return isa<StridedViewOpInterface>(user) &&
               readByLibraries(SmallVector<Value>(user->getResults()), known);
      });
    });
  }

  /// Whether a library call reads one of the values, through moves of elements: it is stored then,
  /// whoever else reads it.
  bool isReadByLibrary(ValueRange values) {
    return llvm::any_of(values, [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        return getFusionRole(user) == FusionRole::Library ||
               (isa<StridedViewOpInterface>(user) && isReadByLibrary(user->getResults()));
      });
    });
  }

  /// At the place of `before`, which all operands of the epilogue stand above.
  MatmulOp create(MatmulOp product, Operation *before, Epilogue epilogue, Value operand,
                  Type extra) {
    OpBuilder builder(before);
    Location loc = FusedLoc::get(product.getContext(), {product.getLoc(), before->getLoc()});
    Type low = getElementType(product.getResult());
    if (operand)
      operand = TrainBuilder(builder, before->getLoc()).cast(operand, low);
    return MatmulOp::create(builder, loc, product.getResult().getType(), extra, product.getLhs(),
                            product.getRhs(), /*addend=*/Value(), operand,
                            product.getTransposeLhs(), product.getTransposeRhs(),
                            EpilogueAttr::get(builder.getContext(), epilogue),
                            /*streamed_rows=*/IntegerAttr());
  }
  /// `from` gives way to `to`, which has the same elements.
  /// Through a reshape and a cast, which fold away where they are none.
  void replace(Value from, Value to) {
    OpBuilder builder(to.getContext());
    builder.setInsertionPointAfterValue(to);
    TrainBuilder tb(builder, to.getLoc());
    from.replaceAllUsesWith(tb.cast(tb.reshape(to, getDims(from)), from.getType()));
  }

  /// The bias is added in the matmul where no kernel could add it for free: where the sum is stored
  /// for a library.
  void fuseBias(MatmulOp product, Value sum, Value bias, Operation *add, Readers &readers) {
    StringRef what = "the bias";
    if (readers.others || !readers.gelus.empty() || !readers.slopes.empty() ||
        !readers.sums.empty() || !isReadByLibrary(readers.low))
      return declined(product, what, "a kernel that reads the sum adds it");
    if (Obstacle obstacle = whyNot(product); !obstacle.empty())
      return declined(product, what, obstacle);
    auto op = create(product, add, Epilogue::bias, bias, {});
    for (Value low : readers.low)
      replace(low, op.getResult());
    fused(product, what);
  }

  /// Stores GELU's operand for the gradient, beside its result: without a gradient (evaluation)
  /// kernels compute GELU as they read.
  void fuseGelu(MatmulOp product, Value sum, Value bias, Operation *add, Readers &readers) {
    StringRef what = bias ? "bias and GELU" : "GELU";
    GeluOp gelu = readers.gelus.front();
    Readers results(gelu.getResult(), getElementType(product.getResult()));
    Obstacle obstacle = whyNot(product);
    if (readers.others || !readers.low.empty() || !readers.sums.empty())
      obstacle = "more than GELU reads its operand";
    else if (readers.slopes.empty())
      // Only the operand's gradient needs what the epilogue stores.
      obstacle = "no gradient reads GELU's operand";
    else if (results.others || !results.gelus.empty() || !results.slopes.empty() ||
             !results.sums.empty() || !readByLibraries(results.low, results.known))
      obstacle = "a kernel reads GELU's result";
    if (!obstacle.empty())
      return declined(product, what, obstacle);
    Operation *before = add ? add : product.getOperation();
    auto op = create(product, before, bias ? Epilogue::gelu_aux_bias : Epilogue::gelu_aux, bias,
                     product.getResult().getType());
    for (Value low : results.low)
      replace(low, op.getResult());
    for (GeluGradOp slope : readers.slopes)
      replaceOperand(slope, op.getExtra());
    fused(product, what);
  }
  /// Every derivative gets casts of its own.
  /// Shared ones would lie in the forward, and keep a wide value for the backward.
  void replaceOperand(GeluGradOp slope, Value stored) {
    OpBuilder builder(slope);
    TrainBuilder tb(builder, slope.getLoc());
    Value operand = slope.getOperand();
    slope.getOperandMutable().assign(
        tb.cast(tb.reshape(stored, getDims(operand)), operand.getType()));
  }

  static bool isStoredByProduct(Value value) {
    auto product = value.getDefiningOp<MatmulOp>();
    return product && product.getEpilogue();
  }

  /// `value`, the matmul's result, times a derivative; false if `mul` is something else.
  /// True also where it declines: the matmul has then been told of.
  bool fuseDerivative(MatmulOp product, Value value, MulOp mul) {
    Value other = mul.getLhs() == value ? mul.getRhs() : mul.getLhs();
    auto slope = other.getDefiningOp<GeluGradOp>();
    if (!slope)
      return false;
    StringRef what = "GELU's gradient";
    Value stored = slope.getOperand();
    // What the forward stored, below casts and views.
    while (isWidening(stored.getDefiningOp()) || keepsColumns(stored.getDefiningOp()))
      stored = stored.getDefiningOp()->getOperand(0);
    Readers readers(mul.getResult(), getElementType(product.getResult()));
    Obstacle obstacle = whyNot(product);
    if (!slope.getTanh())
      obstacle = {"libraries have its tanh form only",
                  "export the model with GELU(approximate='tanh'), if it may be another function"};
    else if (!isStoredByProduct(stored) || stored.getType() != product.getResult().getType())
      obstacle = "no matmul has stored GELU's operand";
    else if (readers.others || !readers.gelus.empty() || !readers.slopes.empty() ||
             readers.sums.size() > 1 || readers.low.empty() ||
             !readByLibraries(readers.low, readers.known))
      obstacle = "a kernel reads the gradient";
    if (!obstacle.empty()) {
      declined(product, what, obstacle);
      return true;
    }
    // The bias's gradient is summed by the same call.
    bool sum = biasGradient && !readers.sums.empty();
    Type columns =
        getTensorType({getDim(product.getResult(), 1)}, getElementType(product.getResult()));
    auto op = create(product, mul, sum ? Epilogue::dgelu_bgrad : Epilogue::dgelu, stored,
                     sum ? columns : Type());
    if (sum)
      replace(readers.sums.front().getResult(), op.getExtra());
    replace(mul.getResult(), op.getResult());
    fused(product, sum ? "gradients of GELU and bias" : what);
    return true;
  }

  func::FuncOp function;
  bool biasGradient;
};

struct FuseEpiloguesPass : trainc::impl::FuseEpiloguesPassBase<FuseEpiloguesPass> {
  using FuseEpiloguesPassBase::FuseEpiloguesPassBase;
  void runOnOperation() override { FuseEpilogues(getOperation(), biasGradient).run(); }
};
} // namespace
