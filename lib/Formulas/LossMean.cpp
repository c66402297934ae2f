// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every value is put into one of few kinds, from the inputs to the loss; what is not known to be of
// a kind is of none.

#include "trainc/Formulas/LossMean.h"

#include "dialects/Train/Interfaces.h"
#include "dialects/Train/Splats.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/StringSet.h"

#include <unordered_map>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

enum class Kind {
  Unknown,
  Constant, ///< the same for every batch
  Rows,     ///< elements that belong to rows, divided by the denominator where there is one
  Sum,      ///< over rows
  Mean,     ///< a sum over rows, divided by the denominator
};

struct Term {
  Kind kind = Kind::Unknown;
  /// The denominator; of a Sum, what it is as one: a scalar, or a number of elements.
  Value number = {};
  DimAttr count = {};
  /// Of a Sum: kept away from zero, and so a denominator only.
  bool isBounded = false;
  /// Of what is unknown.
  std::string reason = {};

  bool isDivided() const { return number || count; }
  static Term unknown(const Twine &reason) {
    Term term;
    term.reason = reason.str();
    return term;
  }
};

/// One value after the other, each once: linear in the function. Unknown, with a reason, is always
/// a safe answer: evaluations then weight by rows.
class Analysis {
public:
  /// Rows are the first axis of inputs, if it is symbolic.
  explicit Analysis(func::FuncOp function) : function(function) {
    for (BlockArgument argument : function.getArguments()) {
      if (getArgRole(function, argument.getArgNumber()) != "input")
        continue;
      SmallVector<DimAttr> dims = getDims(argument.getType());
      if (dims.empty())
        continue;
      if (std::optional<StringRef> symbol = dims[0].getSymbol()) {
        rowSymbols.insert(*symbol);
        if (!rows)
          rows = dims[0];
      }
    }
  }

  LossMean find(Value loss) {
    // Operands first, so that no chain of a deep model is followed at once.
    for (Operation &op : function.getBody().front())
      for (Value result : op.getResults())
        visit(result);
    Term term = visit(loss);
    // Batches of a fixed size: their sums are means.
    if (rowSymbols.empty() && term.kind == Kind::Sum && !term.isBounded)
      term = {Kind::Constant};
    LossMean mean;
    // A constant is its own mean.
    mean.isMean = term.kind == Kind::Mean || term.kind == Kind::Constant;
    if (mean.isMean) {
      mean.number = term.count ? Value() : term.number;
      // Null for the number of rows, which the runtime knows.
      if (term.count && term.count != rows)
        mean.count = term.count;
    } else if (term.kind == Kind::Sum) {
      mean.obstacle = {"it is a sum over rows",
                       "export the loss as a mean (reduction='mean'), if it may be one"};
    } else {
      mean.obstacle = term.reason.empty() ? Obstacle("it has a value for each row",
                                                     "export the mean of these values")
                                          : Obstacle(term.reason);
    }
    return mean;
  }

private:
  /// Whether a size changes with the batch. Other sizes of a file are the same for all its rows.
  bool followsRows(DimAttr dim) const {
    bool follows = false;
    dim.forEachSymbol([&](StringRef symbol) { follows |= rowSymbols.contains(symbol); });
    return follows;
  }
  bool hasRows(Value value) const {
    return llvm::any_of(getDims(value), [&](DimAttr dim) { return followsRows(dim); });
  }
  /// A size up to a factor that does not follow the rows.
  /// A constant factor is the same for all batches, and cancels when losses are weighted.
  DimAttr reduced(DimAttr count) const {
    if (rows)
      if (DimAttr rest = divideExactly(count, rows); rest && !followsRows(rest))
        return rows;
    return count;
  }
  static bool isOne(Value value) { return getNumElements(value.getType()).isConstant(1); }

  /// References stay valid: unordered_map keeps its elements where they are.
  const Term &visit(Value value) {
    auto found = terms.find(value.getAsOpaquePointer());
    if (found == terms.end())
      found = terms.emplace(value.getAsOpaquePointer(), compute(value)).first;
    return found->second;
  }

  /// By the op's own rule, else by `general`.
  Term compute(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      const bool isInput = getArgRole(function, argument.getArgNumber()) == "input";
      if (!isInput)
        return {Kind::Constant};
      if (hasRows(value) || (rowSymbols.empty() && getRank(value) > 0))
        return {Kind::Rows};
      // Given once for all batches.
      return {Kind::Constant};
    }
    Operation *op = value.getDefiningOp();
    assert(op && "no argument");
    if (auto dim = dyn_cast<DimOp>(op)) {
      if (!followsRows(dim.getValue()))
        return {Kind::Constant};
      return {Kind::Sum, value, reduced(dim.getValue())};
    }
    // The gradient does not matter here.
    if (auto with = dyn_cast<WithGradientOp>(op))
      return visit(with.getOperand());
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return reduced(reduce);
    if (isa<NegOp, CastOp, DetachOp, ReshapeOp, BroadcastOp, TransposeOp>(op))
      return passed(op, value);
    if (auto div = dyn_cast<DivOp>(op))
      return divided(op, visit(div.getLhs()), visit(div.getRhs()), div.getRhs());
    if (auto mul = dyn_cast<MulOp>(op))
      return multiplied(op, visit(mul.getLhs()), visit(mul.getRhs()));
    if (isa<AddOp, SubOp>(op))
      return added(op, value);
    if (isa<MaxOp, SelectOp>(op))
      if (Term bounded = boundedSum(op); bounded.kind == Kind::Sum)
        return bounded;
    return general(op, value);
  }

  /// Of an operand's kind.
  /// Shape changes keep the kind as long as elements keep their rows.
  Term passed(Operation *op, Value value) {
    Term term = visit(op->getOperand(0));
    if (term.kind == Kind::Rows && !isa<NegOp, CastOp, DetachOp>(op))
      return hasRows(value) || rowSymbols.empty() ? term : mixed(op);
    // Integers would be rounded.
    if (isa<CastOp>(op) && term.kind != Kind::Constant && !isa<FloatType>(getElementType(value)) &&
        isa<FloatType>(getElementType(op->getOperand(0))))
      return general(op, value);
    if (term.kind == Kind::Sum && isOne(value))
      term.number = isOne(term.number) ? term.number : value;
    return term;
  }

  /// A sum over rows makes Rows a Sum, or a Mean where they were divided; other reductions over
  /// rows mix them.
  Term reduced(ReduceOp op) {
    const Term &of = visit(op.getOperand());
    const bool sums = op.getKind() == ReduceKind::sum;
    SmallVector<DimAttr> dims = getDims(op.getOperand());
    bool overRows = false;
    for (int64_t axis : op.getAxes())
      overRows |= rowSymbols.empty() ? axis == 0 : followsRows(dims[axis]);
    if (overRows && hasRows(op.getResult()) && !sums)
      return general(op, op.getResult());
    switch (of.kind) {
    case Kind::Unknown:
      return of;
    case Kind::Constant:
      if (!overRows || rowSymbols.empty())
        return {Kind::Constant};
      return sums ? Term{Kind::Sum, op.getResult()} : mixed(op);
    case Kind::Rows:
      if (!overRows)
        return sums || !of.isDivided() ? of : mixed(op);
      if (!sums || (rowSymbols.empty() ? !isOne(op.getResult()) : hasRows(op.getResult())))
        return mixed(op);
      return of.isDivided() ? Term{Kind::Mean, of.number, of.count}
                            : Term{Kind::Sum, op.getResult()};
    case Kind::Sum:
      // A sum over classes of sums over rows.
      return sums && !of.isBounded && !of.count ? Term{Kind::Sum, op.getResult()} : mixed(op);
    case Kind::Mean:
      return sums ? of : mixed(op);
    }
    return mixed(op);
  }

  /// x / y: a Sum over a Sum is the quotient that is looked for.
  Term divided(Operation *op, const Term &x, const Term &y, Value denominator) {
    if (x.kind == Kind::Unknown || y.kind == Kind::Unknown)
      return x.kind == Kind::Unknown ? x : y;
    if (y.kind == Kind::Constant) {
      Term term = x;
      // The number is then in other units, and must be this result's.
      if (x.kind == Kind::Sum && !isOne(x.number))
        term.number = op->getResult(0);
      return x.isBounded ? mixed(op) : term;
    }
    if (x.kind == Kind::Rows && y.kind == Kind::Rows && !y.isDivided())
      return x;
    if (x.kind == Kind::Constant)
      return general(op, op->getResult(0));
    if (y.kind != Kind::Sum || x.isDivided() != (x.kind == Kind::Sum) || x.isBounded)
      return mixed(op);
    if (!y.count && !isOne(y.number))
      return mixed(op); // as many means as there are elements
    if (x.kind == Kind::Sum)
      return {Kind::Mean, y.number, y.count};
    return x.kind == Kind::Rows ? Term{Kind::Rows, y.number, y.count} : mixed(op);
  }

  /// Constants scale; two Sums of counts are a count.
  Term multiplied(Operation *op, Term x, Term y) {
    if (x.kind == Kind::Unknown || y.kind == Kind::Unknown)
      return x.kind == Kind::Unknown ? x : y;
    if (x.kind == Kind::Constant)
      std::swap(x, y);
    if (y.kind == Kind::Constant) {
      if (x.isBounded)
        return mixed(op);
      if (x.kind == Kind::Sum && !isOne(x.number))
        x.number = op->getResult(0);
      return x;
    }
    if (x.kind == Kind::Sum && y.kind == Kind::Sum && x.count && y.count)
      return {Kind::Sum, op->getResult(0), reduced(x.count * y.count)};
    if (x.kind == Kind::Rows && y.kind == Kind::Rows && !(x.isDivided() && y.isDivided()))
      return x.isDivided() ? x : y;
    return general(op, op->getResult(0));
  }

  /// Kinds must agree, and denominators too: means over different numbers are no mean.
  Term added(Operation *op, Value value) {
    const Term &x = visit(op->getOperand(0)), &y = visit(op->getOperand(1));
    if (x.kind == Kind::Unknown || y.kind == Kind::Unknown)
      return x.kind == Kind::Unknown ? x : y;
    if (x.kind == Kind::Constant && y.kind == Kind::Constant)
      return x;
    if (x.kind == y.kind) {
      if (x.kind == Kind::Sum)
        return x.isBounded || y.isBounded ? mixed(op) : Term{Kind::Sum, value};
      if (!x.isDivided() && !y.isDivided())
        return x;
      if (sameDenominator(x, y))
        return x;
      return Term::unknown("it adds means over different numbers of elements (" + describeOp(op) +
                           ")");
    }
    for (auto [of, other, operand] :
         {std::tuple(&x, &y, op->getOperand(1)), std::tuple(&y, &x, op->getOperand(0))}) {
      if (other->kind != Kind::Constant)
        continue;
      if (of->kind == Kind::Mean || (of->kind == Kind::Rows && !of->isDivided()))
        return *of;
      // An epsilon that keeps a denominator away from zero.
      std::optional<double> epsilon = getSplatValue(operand);
      if (of->kind == Kind::Sum && isa<AddOp>(op) && epsilon && std::abs(*epsilon) <= 1e-5) {
        Term bounded = *of;
        bounded.isBounded = true;
        return bounded;
      }
    }
    return general(op, value);
  }

  /// max(sum, 1), or what stands for a sum where that is zero.
  /// The bound only matters for empty batches, whose weight is then not 0: such a sum serves as a
  /// denominator, not as a numerator.
  Term boundedSum(Operation *op) {
    OperandRange values = op->getOperands().take_back(2);
    for (unsigned i : {0u, 1u}) {
      const Term &of = visit(values[i]), &other = visit(values[1 - i]);
      if (of.kind != Kind::Sum || other.kind != Kind::Constant || !getSplatValue(values[1 - i]))
        continue;
      Term bounded = of;
      bounded.isBounded = true;
      return bounded;
    }
    return {};
  }

  /// Any op whose rows come from equal rows of its operands alone, as far as sizes tell.
  /// Elementwise by rows as far as shapes show: the result has rows, and operands are rows or
  /// constants.
  Term general(Operation *op, Value value) {
    bool isConstant = true;
    for (Value operand : op->getOperands()) {
      const Term &term = visit(operand);
      if (term.kind == Kind::Unknown)
        return term;
      isConstant &= term.kind == Kind::Constant;
      // Numbers of rows, where places are computed.
      const bool isPlace = term.kind == Kind::Sum && term.count && hasRows(value);
      if (term.kind != Kind::Constant && !isPlace && (term.kind != Kind::Rows || term.isDivided()))
        return mixed(op);
    }
    if (isConstant)
      return {Kind::Constant};
    // Rows with rows, as the scores of contrastive losses.
    if (isa<FloatType>(getElementType(value)) &&
        llvm::count_if(getDims(value), [&](DimAttr dim) { return followsRows(dim); }) > 1)
      return Term::unknown(describeOp(op) + " computes with pairs of rows");
    return hasRows(value) || (rowSymbols.empty() && getRank(value) > 0) ? Term{Kind::Rows}
                                                                        : mixed(op);
  }

  Term mixed(Operation *op) {
    return Term::unknown(describeOp(op) + " makes it no quotient of two sums over rows");
  }

  bool sameDenominator(const Term &x, const Term &y) {
    if (x.count || y.count)
      return x.count == y.count;
    return x.number && y.number && same(x.number, y.number);
  }
  /// Whether two values are computed alike, up to casts of integers. Each pair is compared once: a
  /// chain of y + y has as many paths as 2 to the power of its length. Depth is that of the
  /// denominator's formula, which is short.
  bool same(Value x, Value y) {
    auto withoutCasts = [](Value value) {
      while (auto cast = value.getDefiningOp<CastOp>()) {
        if (isa<FloatType>(getElementType(cast.getOperand())))
          break;
        value = cast.getOperand();
      }
      return value;
    };
    // Numbers that are counted are the same in every type.
    x = withoutCasts(x);
    y = withoutCasts(y);
    if (x == y)
      return true;
    Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
    if (!a || !b || getDims(x) != getDims(y) || a->getName() != b->getName() ||
        a->getAttrDictionary() != b->getAttrDictionary() ||
        a->getNumOperands() != b->getNumOperands() ||
        cast<OpResult>(x).getResultNumber() != cast<OpResult>(y).getResultNumber())
      return false;
    auto known = alike.find({x, y});
    if (known != alike.end())
      return known->second;
    bool result = llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()), [&](auto pair) {
      return same(std::get<0>(pair), std::get<1>(pair));
    });
    return alike[{x, y}] = result;
  }

  func::FuncOp function;
  llvm::StringSet<> rowSymbols;                        ///< of the inputs' first axes
  DimAttr rows;                                        ///< of the first of them
  std::unordered_map<void *, Term> terms;              ///< by value; where they are they stay
  llvm::DenseMap<std::pair<Value, Value>, bool> alike; ///< those that were compared
};

} // namespace

LossMean trainc::findLossMean(func::FuncOp function, Value loss) {
  return Analysis(function).find(loss);
}
