// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The derivative of a loop is a loop in the other direction. The forward loop gets further results,
// stacked: what it carried into each step, and what its costly ops made there; the rest of a step
// is computed again. Sums over the steps that are products or sums of rows are one op behind the
// loop.

#include "dialects/Train/Loops/Loops.h"
#include "dialects/Train/Reverse/Cotangents.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc::train;

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

bool LoopOp::isDifferentiable(unsigned operand) { return isFloat(getOperand(operand)); }
bool LoopOp::isDifferentiableResult(unsigned result) { return isFloat(getResult(result)); }

/// Whether all of the body has one: an op that no gradient reaches may stand in the way, too.
bool LoopOp::hasDerivative() {
  return llvm::all_of(getBlock()->without_terminator(), [](Operation &op) {
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    return (differentiable && differentiable.hasDerivative()) ||
           llvm::none_of(op.getOperands(), isFloat) || llvm::none_of(op.getResults(), isFloat);
  });
}

namespace {

/// A sum over the steps that is one op behind the loop: lhs' rhs of the rows of all steps, or,
/// without `rhs`, the sums of `lhs` over `axes`.
struct Term {
  Value lhs, rhs;
  SmallVector<int64_t> axes;
};

/// The sum that alone reads a value, and for which a gradient needs neither of its terms: kept
/// instead, so that the other term (the part of the input, in a recurrent layer) is not. In a wider
/// type only where that is a slice, which then is read nowhere else and takes as much.
Value sumOf(LoopOp loop, Value value) {
  auto isOwnSlice = [&](Value other) {
    return llvm::is_contained(loop.getSlices(), other) && other.hasOneUse();
  };
  while (value.hasOneUse()) {
    auto cast = dyn_cast<CastOp>(*value.user_begin());
    Value term = cast && isFloat(cast.getResult()) ? cast.getResult() : value;
    auto add = term.hasOneUse() ? dyn_cast<AddOp>(*term.user_begin()) : AddOp();
    if (!add || (cast && !isOwnSlice(add.getLhs() == term ? add.getRhs() : add.getLhs())))
      break;
    value = add.getResult();
  }
  return value;
}

class LoopGradient {
public:
  LoopGradient(LoopOp loop, TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed)
      : loop(loop), tb(tb), cotangents(cotangents), needed(needed), carried(loop.numCarried()),
        scanned(loop.getScanned().size()), terms(loop.getInvariants().size()),
        sums(loop.getInvariants().size()), numbers(loop.getInvariants().size(), -1) {}

  void run(MutableArrayRef<Value> gradients) {
    extendForward();
    buildBody();
    LoopOp backward = makeBackward();
    ResultRange finals = backward.getCarried();
    for (unsigned i = 0; i < carried; ++i)
      if (carriedCotangent[i])
        gradients[i] = finals[*carriedCotangent[i]];
    for (unsigned i = 0; i < scanned; ++i)
      if (sliceCotangent[i])
        gradients[carried + i] = ofSteps(backward, sliceCotangent[i]);
    for (unsigned i = 0; i < terms.size(); ++i)
      gradients[carried + scanned + i] = ofInvariant(backward, i);
  }

private:
  /// A loop in place of the old one whose further results are all that may be read.
  void extendForward() {
    OpBuilder &builder = tb.b();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(loop);
    for (Operation &op : loop.getBlock()->without_terminator())
      if (auto cost = dyn_cast<CostOpInterface>(op);
          cost && (cost.getRecomputeClass() == RecomputeClass::Costly ||
                   cost.getRecomputeClass() == RecomputeClass::Never))
        for (Value result : op.getResults())
          kept.insert(sumOf(loop, result));
    LoopInputs inputs{llvm::to_vector(loop.getInitial()), llvm::to_vector(loop.getScanned()),
                      llvm::to_vector(loop.getInvariants()), loop.getSteps(), loop.getReverse()};
    forward = buildLoop(tb, inputs, [&](LoopStep &step) {
      IRMapping mapping;
      SmallVector<Value> results = cloneBody(step.carried, step.slices, step.invariants, mapping);
      step.next.assign(results.begin(), results.begin() + carried);
      step.stacked.assign(results.begin() + carried, results.end());
      llvm::append_range(step.stacked, step.carried);
      for (Value value : kept)
        step.stacked.push_back(mapping.lookup(value));
    });
    loop.replaceAllUsesWith(forward.getResults().take_front(loop.getNumResults()));
  }

  /// The ops of the body at the builder; what it yields.
  SmallVector<Value> cloneBody(ArrayRef<Value> state, ArrayRef<Value> slices,
                               ArrayRef<Value> invariants, IRMapping &mapping) {
    for (auto [from, to] : llvm::zip_equal(loop.getBlock()->getArguments(),
                                           llvm::concat<const Value>(state, slices, invariants)))
      mapping.map(from, to);
    for (Operation &op : loop.getBlock()->without_terminator())
      tb.b().clone(op, mapping);
    return llvm::map_to_vector(loop.getBlock()->getTerminator()->getOperands(),
                               [&](Value value) { return mapping.lookupOrDefault(value); });
  }

  /// An argument for the slices of a value of all steps.
  Value addSlice(Value all) {
    Value slice = body.addArgument(getSliceType(all.getType()), loop.getLoc());
    sliceOf[slice] = all;
    return slice;
  }

  /// The ops of a backward step, with arguments for all that they may read.
  void buildBody() {
    OpBuilder &builder = tb.b();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&body);
    Location loc = loop.getLoc();
    const unsigned stacked = loop.getStacked().size();
    // Cotangents of what is carried come from the step behind.
    SmallVector<Value> seeds;
    for (unsigned i = 0; i < carried; ++i)
      seeds.push_back(isFloat(loop.getInitial()[i])
                          ? body.addArgument(loop.getInitial()[i].getType(), loc)
                          : Value());
    incoming = llvm::to_vector(llvm::make_filter_range(seeds, [](Value v) { return bool(v); }));
    for (Value cotangent : cotangents.drop_front(carried))
      seeds.push_back(cotangent ? addSlice(cotangent) : Value());
    SmallVector<Value> state, slices, invariants, keptSlices;
    for (unsigned i = 0; i < carried; ++i)
      state.push_back(addSlice(forward.getStacked()[stacked + i]));
    for (Value all : loop.getScanned())
      slices.push_back(addSlice(all));
    for (Value value : loop.getInvariants()) {
      invariants.push_back(body.addArgument(value.getType(), loc));
      outsideOf[invariants.back()] = value;
    }
    for (unsigned i = 0; i < kept.size(); ++i)
      keptSlices.push_back(addSlice(forward.getStacked()[stacked + carried + i]));
    IRMapping mapping;
    SmallVector<Value> of = cloneBody(state, slices, invariants, mapping);
    // Only what is asked for, or another step's cotangent needs.
    SmallVector<Value> wanted;
    auto want = [&](ArrayRef<Value> values, unsigned first, bool always) {
      for (auto [i, value] : llvm::enumerate(values))
        if (isFloat(value) && (always || needed[first + i]))
          wanted.push_back(value);
    };
    want(state, 0, true);
    want(slices, carried, false);
    want(invariants, carried + scanned, false);
    CotangentProblem problem;
    FailureOr<SmallVector<Value>> found =
        buildCotangents(builder, body, of, seeds, wanted, problem);
    assert(succeeded(found) && "hasDerivative has asked each op");
    for (auto [value, keptSlice] : llvm::zip_equal(kept, keptSlices))
      mapping.lookup(value).replaceAllUsesWith(keptSlice);
    DenseMap<Value, Value> cotangentOf;
    for (auto [value, cotangent] : llvm::zip_equal(wanted, *found))
      cotangentOf[value] = cotangent;
    finish(state, slices, invariants, cotangentOf);
  }

  /// Decides what a step carries on and what it stacks.
  void finish(ArrayRef<Value> state, ArrayRef<Value> slices, ArrayRef<Value> invariants,
              const DenseMap<Value, Value> &cotangentOf) {
    carriedCotangent.resize(carried);
    for (auto [i, value] : llvm::enumerate(state)) {
      if (!isFloat(value))
        continue;
      carriedCotangent[i] = next.size();
      Value cotangent = cotangentOf.lookup(value);
      next.push_back(cotangent ? cotangent : tb.zeros(value.getType()));
    }
    for (Value value : slices) {
      sliceCotangent.push_back(cotangentOf.lookup(value));
      if (sliceCotangent.back())
        stack(sliceCotangent.back());
    }
    for (auto [i, value] : llvm::enumerate(invariants))
      if (Value cotangent = cotangentOf.lookup(value)) {
        splitSum(cotangent, i);
        if (Value rest = sums[i]) {
          // Added up from step to step.
          Value sum = body.addArgument(rest.getType(), loop.getLoc());
          numbers[i] = int(next.size());
          incoming.push_back(sum);
          next.push_back(tb.add(sum, rest));
        }
      }
    // Last: it reads all that is yielded.
    SmallVector<Value> all(next);
    llvm::append_range(all, stackedValues);
    LoopYieldOp::create(tb.b(), loop.getLoc(), all);
    // Users stand behind what they use.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// The terms of an invariant's cotangent; the others are in `sums`.
  void splitSum(Value value, unsigned invariant) {
    Operation *def = value.getDefiningOp();
    if (auto add = dyn_cast_or_null<AddOp>(def)) {
      splitSum(add.getLhs(), invariant);
      splitSum(add.getRhs(), invariant);
      return;
    }
    auto product = dyn_cast_or_null<MatmulOp>(def);
    if (product && product.isPlain() && getRank(product.getResult()) == 2 &&
        product.getTransposeLhs() && !product.getTransposeRhs() &&
        getElementType(product.getResult()) == getElementType(product.getLhs())) {
      addTerm({product.getLhs(), product.getRhs(), {}}, invariant);
      return;
    }
    auto reduce = dyn_cast_or_null<ReduceOp>(def);
    if (reduce && reduce.getKind() == ReduceKind::sum) {
      addTerm({reduce.getOperand(), {}, llvm::to_vector(reduce.getAxes())}, invariant);
      return;
    }
    Value &sum = sums[invariant];
    sum = sum ? tb.add(sum, value) : value;
  }
  void addTerm(const Term &term, unsigned invariant) {
    stack(term.lhs);
    if (term.rhs)
      stack(term.rhs);
    terms[invariant].push_back(term);
  }

  /// Makes `value` a stacked result, unless all steps' values lie somewhere already.
  void stack(Value value) {
    if (!sliceOf.contains(value) && stackNumber.try_emplace(value, stackedValues.size()).second)
      stackedValues.push_back(value);
  }

  /// With arguments for what is read only.
  LoopOp makeBackward() {
    LoopInputs inputs{{}, {}, {}, loop.getSteps(), !loop.getReverse()};
    SmallVector<Value> slices, invariants;
    for (unsigned i = 0, e = incoming.size(); i < e; ++i)
      inputs.initial.push_back(tb.zeros(incoming[i].getType()));
    for (unsigned i = 0; i < carried; ++i)
      if (carriedCotangent[i] && cotangents[i])
        inputs.initial[*carriedCotangent[i]] = cotangents[i];
    for (Value argument : body.getArguments()) {
      if (llvm::is_contained(incoming, argument) || argument.use_empty())
        continue;
      if (Value all = sliceOf.lookup(argument)) {
        slices.push_back(argument);
        inputs.scanned.push_back(all);
      } else {
        invariants.push_back(argument);
        inputs.invariants.push_back(outsideOf.lookup(argument));
      }
    }
    return buildLoop(tb, inputs, [&](LoopStep &step) {
      IRMapping mapping;
      for (auto [from, to] :
           llvm::zip_equal(llvm::concat<Value>(incoming, slices, invariants),
                           llvm::concat<Value>(step.carried, step.slices, step.invariants)))
        mapping.map(from, to);
      for (Operation &op : body.without_terminator())
        tb.b().clone(op, mapping);
      for (Value value : next)
        step.next.push_back(mapping.lookup(value));
      for (Value value : stackedValues)
        step.stacked.push_back(mapping.lookup(value));
    });
  }

  /// What a value of the body was in all steps.
  Value ofSteps(LoopOp backward, Value value) {
    if (Value all = sliceOf.lookup(value))
      return all;
    return backward.getStacked()[stackNumber.lookup(value)];
  }

  Value ofInvariant(LoopOp backward, unsigned invariant) {
    Value gradient;
    for (const Term &term : terms[invariant]) {
      Value lhs = ofSteps(backward, term.lhs), part;
      if (term.rhs) {
        part = tb.matmul(toRows(lhs), toRows(ofSteps(backward, term.rhs)), /*transposeLhs=*/true);
      } else {
        SmallVector<int64_t> axes = {0};
        for (int64_t axis : term.axes)
          axes.push_back(axis + 1);
        part = tb.sum(lhs, axes);
      }
      gradient = gradient ? tb.add(gradient, part) : part;
    }
    if (numbers[invariant] >= 0) {
      Value sum = backward.getCarried()[numbers[invariant]];
      gradient = gradient ? tb.add(gradient, sum) : sum;
    }
    return gradient;
  }
  /// [steps * rows, columns] of [steps, rows, columns].
  Value toRows(Value x) {
    SmallVector<DimAttr> dims = getDims(x);
    return tb.reshape(x, {dims[0] * dims[1], dims[2]});
  }

  LoopOp loop, forward;
  TrainBuilder &tb;
  ArrayRef<Value> cotangents;
  ArrayRef<bool> needed;
  const unsigned carried, scanned;
  /// Of the old body: what costly ops make, or sums of it.
  SetVector<Value> kept;
  /// A backward step; its arguments are the incoming cotangents and sums, slices and invariants.
  Block body;
  DenseMap<Value, Value> sliceOf, outsideOf;
  SmallVector<Value> incoming, next, stackedValues;
  DenseMap<Value, unsigned> stackNumber;
  SmallVector<std::optional<unsigned>> carriedCotangent;
  SmallVector<Value> sliceCotangent;
  /// Of each invariant.
  SmallVector<SmallVector<Term>> terms;
  SmallVector<Value> sums;
  SmallVector<int> numbers;
};
} // namespace

void LoopOp::buildVJP(TrainBuilder &tb, ArrayRef<Value> cotangents, ArrayRef<bool> needed,
                      MutableArrayRef<Value> gradients) {
  LoopGradient(*this, tb, cotangents, needed).run(gradients);
}
