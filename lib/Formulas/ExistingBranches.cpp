// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a projection of another's result forwards to a sum, and from that backwards to a projection
// of the same input. Other terms of the sum (a bias, a residual) do not matter.

#include "trainc/Formulas/ExistingBranches.h"

#include "dialects/Train/Splats.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// What a value is another shape or type of.
static Value throughViews(Value value) {
  while (isa_and_nonnull<ReshapeOp, CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// The one number that all elements are, before it is rounded.
static std::optional<double> numberOf(Value value) {
  while (isa_and_nonnull<ReshapeOp, CastOp, BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return getSplatValue(value);
}

namespace {

class Search {
public:
  explicit Search(func::FuncOp function) {
    for (const Projection &projection : findProjections(function))
      projections[projection.op->getResult(0)] = projection;
  }

  /// Every pair of projections that feed each other is a candidate; each is completed, or told with
  /// the reason.
  ExistingBranches run() {
    ExistingBranches branches;
    for (auto &[result, b] : projections) {
      ExistingBranch branch;
      branch.b = b;
      Value low = throughScales(b.input->get(), branch.scale);
      auto a = projections.find(low);
      if (a == projections.end())
        continue;
      branch.a = a->second;
      std::string reason = complete(branch);
      if (reason.empty())
        branches.found.push_back(branch);
      else
        branches.missed.push_back({branch.a, branch.b, reason});
    }
    return branches;
  }

private:
  /// Back through views and multiplications by a number.
  /// The scale may be applied before B, too.
  static Value throughScales(Value value, double &scale) {
    while (true) {
      value = throughViews(value);
      auto mul = value.getDefiningOp<MulOp>();
      if (!mul)
        return value;
      std::optional<double> left = numberOf(mul->getOperand(0)),
                            right = numberOf(mul->getOperand(1));
      if (!left && !right)
        return value;
      scale *= left ? *left : *right;
      value = left ? mul->getOperand(1) : mul->getOperand(0);
    }
  }

  /// Finds the base of a branch. Returns why there is none, or "".
  /// Follows B's result through scales and views to the sum that it is added in.
  std::string complete(ExistingBranch &branch) {
    std::optional<int64_t> rank = branch.a.out().getConstant(), in = branch.a.in().getConstant(),
                           out = branch.b.out().getConstant();
    if (!rank || !in || !out)
      return "its sizes are not known";
    // A low-rank branch is narrower than both sides.
    if (*rank > std::min(*in, *out))
      return "what is between the two is larger than what is around them";
    Value value = branch.b.op->getResult(0);
    while (true) {
      if (!value.hasOneUse())
        return "its result is not only part of a sum";
      OpOperand &use = *value.use_begin();
      Operation *user = use.getOwner();
      if (isa<AddOp>(user))
        return completeIn(branch, user->getOperand(1 - use.getOperandNumber()));
      if (auto mul = dyn_cast<MulOp>(user)) {
        std::optional<double> number = numberOf(user->getOperand(1 - use.getOperandNumber()));
        if (!number)
          return "its result is multiplied with what is no number (as DoRA does)";
        branch.scale *= *number;
      } else if (!isa<ReshapeOp, CastOp>(user)) {
        return "its result is not only part of a sum";
      }
      value = user->getResult(0);
    }
  }
  /// Dropout stands before A only; its base reads the same value without it.
  std::string completeIn(ExistingBranch &branch, Value other) {
    Value source = throughViews(branch.a.input->get());
    if (auto dropout = source.getDefiningOp<DropoutOp>()) {
      // The number that was meant: graphs have it as f32.
      branch.dropout = std::round(dropout.getRatio().convertToDouble() * 1e7) / 1e7;
      source = throughViews(dropout.getOperand());
    }
    // A bias or a residual in the sum is no projection of the same input.
    SmallVector<Projection> bases;
    llvm::SmallDenseSet<Value> without;
    collect(
        other,
        [&](const Projection &base) {
          return throughViews(base.input->get()) == source && base.in() == branch.a.in() &&
                 base.out() == branch.b.out();
        },
        bases, without);
    if (bases.size() != 1)
      return bases.empty() ? "it is not added to a matmul of the same input with a parameter"
                           : "it is added to more than one matmul of the same input";
    branch.base = bases.front();
    return "";
  }
  /// The terms of a sum that are bases, two at most: more is as wrong as two. Sums are followed
  /// through both operands, as far as they are sums; one that has no base is looked at once.
  void collect(Value sum, llvm::function_ref<bool(const Projection &)> isBase,
               SmallVectorImpl<Projection> &bases, llvm::SmallDenseSet<Value> &without) {
    sum = throughViews(sum);
    if (bases.size() > 1 || without.contains(sum))
      return;
    size_t before = bases.size();
    auto projection = projections.find(sum);
    if (projection != projections.end()) {
      if (isBase(projection->second))
        bases.push_back(projection->second);
    } else if (auto add = sum.getDefiningOp<AddOp>()) {
      collect(add->getOperand(0), isBase, bases, without);
      collect(add->getOperand(1), isBase, bases, without);
    }
    if (bases.size() == before)
      without.insert(sum);
  }

  llvm::MapVector<Value, Projection> projections;
};
} // namespace

ExistingBranches trainc::findExistingBranches(func::FuncOp function) {
  return Search(function).run();
}
