// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-idioms`. Whether ops compute a formula is asked of the polynomial that they
// compute.

#include "lib/Transforms/RaiseIdioms/RaiseIdioms.h"

#include "dialects/Train/Splats.h"
#include "lib/Transforms/RaiseIdioms/FlatGather.h"
#include "lib/Transforms/RaiseIdioms/GroupedAxes.h"
#include "lib/Transforms/RaiseIdioms/InterleavedAxes.h"
#include "lib/Transforms/RaiseIdioms/KnownIndices.h"
#include "lib/Transforms/RaiseIdioms/PackedParts.h"
#include "lib/Transforms/RaiseIdioms/PlacedRows.h"
#include "lib/Transforms/RaiseIdioms/PositionGather.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RAISEIDIOMSPASS
#include "lib/Transforms/RaiseIdioms/RaiseIdioms.h.inc"
} // namespace trainc

namespace {
/// Coefficients by the powers of x and of t.
/// A formula is told by its polynomial, so that every way of writing it is the same.
using Polynomial = std::map<std::pair<int, int>, double>;

constexpr int kMaxPower = 4;
/// Ops between an erf or tanh and the end of its formula, and values of its argument's formula.
constexpr size_t kMaxFormula = 16;

/// Coefficients of equal powers add up.
Polynomial times(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (auto [m, x] : a)
    for (auto [n, y] : b)
      result[{m.first + n.first, m.second + n.second}] += x * y;
  return result;
}

/// The polynomial in `x` and `t` that `value` is, of a small degree.
/// In f64, whatever the ops compute in: coefficients are compared with a tolerance. Null for
/// anything else than sums, products and small powers.
std::optional<Polynomial> polynomialOf(Value value, Value x, Value t) {
  if (value == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (value == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (std::optional<double> splat = getSplatValue(value))
    return Polynomial{{{0, 0}, *splat}};
  Operation *def = value.getDefiningOp();
  if (!isa_and_nonnull<AddOp, SubOp, MulOp, DivOp, PowOp>(def))
    return std::nullopt;
  std::optional<Polynomial> lhs = polynomialOf(def->getOperand(0), x, t);
  if (!lhs)
    return std::nullopt;
  std::optional<double> number = getSplatValue(def->getOperand(1));
  // Divided by numbers only.
  if (isa<DivOp>(def))
    return number ? std::optional(times(*lhs, {{{0, 0}, 1 / *number}})) : std::nullopt;
  if (isa<PowOp>(def)) {
    // Other powers are in no formula that is looked for.
    if (!number || (*number != 2 && *number != 3))
      return std::nullopt;
    Polynomial square = times(*lhs, *lhs), power = *number == 2 ? square : times(square, *lhs);
    // The map ascends by the power of x.
    return power.rbegin()->first.first <= kMaxPower ? std::optional(power) : std::nullopt;
  }
  std::optional<Polynomial> rhs = polynomialOf(def->getOperand(1), x, t);
  if (!rhs)
    return std::nullopt;
  if (isa<MulOp>(def)) {
    Polynomial product = times(*lhs, *rhs);
    return product.rbegin()->first.first <= kMaxPower ? std::optional(product) : std::nullopt;
  }
  for (auto [power, coefficient] : *rhs)
    (*lhs)[power] += isa<AddOp>(def) ? coefficient : -coefficient;
  return lhs;
}

/// The same powers, and each coefficient within the tolerance; powers that cancelled are no terms.
bool agree(const std::optional<Polynomial> &actual, const Polynomial &expected, double tolerance) {
  if (!actual)
    return false;
  for (auto [power, coefficient] : *actual)
    if (!expected.count(power) && coefficient != 0)
      return false;
  return llvm::all_of(expected, [&](const auto &term) {
    auto it = actual->find(term.first);
    return it != actual->end() &&
           std::fabs(it->second - term.second) <= tolerance * std::fabs(term.second);
  });
}

/// How far a number may be from what it stands for, once it was written in this type and multiplied
/// with others.
/// A few units in the last place.
double toleranceOf(Value value) {
  auto type = cast<FloatType>(getElementType(value));
  return std::ldexp(4.0, -int(APFloat::semanticsPrecision(type.getFloatSemantics())));
}

/// Values that the argument may be a polynomial of, nearest first.
/// Breadth first through the formula, at most kMaxFormula of them.
SmallVector<Value> candidates(Value argument) {
  llvm::SmallSetVector<Value, kMaxFormula> seen;
  seen.insert(argument);
  for (size_t i = 0; i < seen.size() && seen.size() < kMaxFormula; ++i)
    if (Operation *def = seen[i].getDefiningOp())
      if (isa<AddOp, SubOp, MulOp, DivOp, PowOp>(def))
        for (Value operand : def->getOperands())
          if (!getSplatValue(operand))
            seen.insert(operand);
  return seen.takeVector();
}

/// The op that ends the formula around this erf or tanh, and its x.
/// GELU(x) = x / 2 * (1 + t) with t = erf(x / sqrt(2)), or tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
std::optional<std::pair<Operation *, Value>> matchGelu(Operation *inner) {
  const double slope = std::sqrt(2 / M_PI);
  bool isTanh = isa<TanhOp>(inner);
  Polynomial argument = isTanh ? Polynomial{{{1, 0}, slope}, {{3, 0}, 0.044715 * slope}}
                               : Polynomial{{{1, 0}, std::sqrt(0.5)}};
  const Polynomial whole = {{{1, 0}, 0.5}, {{1, 1}, 0.5}};
  double tolerance = toleranceOf(inner->getResult(0));
  for (Value x : candidates(inner->getOperand(0))) {
    // t is not part of its own argument.
    if (!agree(polynomialOf(inner->getOperand(0), x, Value()), argument, tolerance))
      continue;
    llvm::SmallSetVector<Operation *, kMaxFormula> formula;
    formula.insert(inner);
    // Forwards from t to the first op that has the whole formula.
    for (size_t i = 0; i < formula.size() && formula.size() < kMaxFormula; ++i)
      for (Operation *user : formula[i]->getUsers()) {
        if (!isa<AddOp, SubOp, MulOp, DivOp>(user) || !formula.insert(user))
          continue;
        if (agree(polynomialOf(user->getResult(0), x, inner->getResult(0)), whole, tolerance))
          return std::pair(user, x);
      }
  }
  return std::nullopt;
}

struct RaiseIdiomsPass : trainc::impl::RaiseIdiomsPassBase<RaiseIdiomsPass> {
  using RaiseIdiomsPassBase::RaiseIdiomsPassBase;

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("raise-idioms")
        .function(getOperation().getName());
  }

  void runOnOperation() override {
    // Collected first: what is raised leaves dead ops behind, which are erased at the end.
    SmallVector<Operation *> inner;
    getOperation().walk([&](Operation *op) {
      if (isa<ErfOp, TanhOp>(op))
        inner.push_back(op);
    });
    for (Operation *op : inner) {
      auto found = matchGelu(op);
      if (!found) {
        // Of a tanh by itself nothing more was to be expected.
        // A chain of arithmetic in front hints at a GELU.
        if (isa<ErfOp>(op) || candidates(op->getOperand(0)).size() > 1)
          remark::missed(op->getLoc(), options("NotRaised"))
              << remark::add("{0} stays as it is", describeOp(op))
              << remark::reason("what is around it is not the formula of a GELU, or its numbers "
                                "are further from it than rounding explains");
        continue;
      }
      auto [end, x] = *found;
      OpBuilder builder(end);
      auto gelu = GeluOp::create(builder, end->getLoc(), x.getType(), x, isa<TanhOp>(op));
      remark::passed(end->getLoc(), options("Raised")) << remark::add(
          "{0} ends a GELU{1}", describeOp(end), isa<TanhOp>(op) ? " (tanh form)" : "");
      // The ops in between may have other readers; they die if they have none.
      end->replaceAllUsesWith(gelu);
    }
    splitInterleaved(getOperation());
    keepGroups(getOperation());
    splitPackedParts(getOperation());
    // GELUs do not concern gathers; these come before scatters, whose indices they share.
    raiseGathers<GatherOp>();
    raiseGathers<GatherNdOp>();
    narrowGathers(getOperation());
    getOperation().walk([&](Operation *op) {
      Value pad;
      if (auto select = dyn_cast<SelectOp>(op))
        pad = padOfSelect(select);
      else if (auto rows = dyn_cast<ScatterAddOp>(op))
        pad = padOfScatter(rows);
      else if (auto elements = dyn_cast<ScatterElementsAddOp>(op)) {
        // A selection keeps more than a scatter of elements: tried first.
        pad = rowsOfScatter(elements);
        if (!pad)
          pad = placementOfScatter(elements);
      }
      if (pad)
        op->replaceAllUsesWith(ValueRange{pad});
    });
    eraseDeadOps(getOperation().getBody().front());
  }

private:
  /// The best form first: a view costs nothing, a selection has a cheap gradient, flat rows at
  /// least copy whole rows.
  template <typename Op> void raiseGathers() {
    getOperation().walk([&](Op gather) {
      Value raised = viewOfGather(gather);
      if (!raised)
        raised = rowsOfGather(gather);
      if (!raised)
        raised = flattenGather(gather);
      if (raised)
        gather.replaceAllUsesWith(raised);
    });
  }
};
} // namespace
