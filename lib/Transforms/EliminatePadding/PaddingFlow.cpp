// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Abstract interpretation. A fact about a value says which of its axes run over tokens and what its
// elements at padding hold: a number, something far below all others plus anything (a masked
// score), or anything. Facts travel along loops that axis maps show; a reduction over tokens ends
// one where padding holds the neutral element. Anything that reaches other elements is the reason
// to decline.

#include "lib/Transforms/EliminatePadding/PaddingFlow.h"

#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "lib/Analysis/ElementOrigin.h"
#include "lib/Transforms/EliminatePadding/LastToken.h"
#include "lib/Transforms/EliminatePadding/TokenAxes.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "lib/Transforms/Support/Samples.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/IR/IRMapping.h"
#include "trainc/Location.h"
#include "llvm/ADT/DenseSet.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// A score with this added is masked: softmax gives its weight as exactly 0.
constexpr double kMasked = -1000;

enum class State {
  Constant, ///< `value`
  Unknown,  ///< depends on what is no padding, and on constants
  Masked,   ///< below kMasked
  Anything, ///< what padding happens to hold
};

struct Fact {
  TokenAxes axes;
  State state = State::Unknown;
  double value = 0;
  /// The element at position p is of the token at position p + offset.
  int64_t offset = 0;
  /// Made of this label input and constants only: its state holds for padding `shift` away, too, as
  /// a condition.
  int label = -1;

  bool dependsOnPadding() const { return state == State::Anything || state == State::Masked; }
};
using Facts = SmallVector<Fact, 1>;

class Flow {
public:
  Flow(func::FuncOp function, const PaddingMask &mask, PaddingConditions &conditions)
      : function(function), mask(mask), samples(getDim(mask.input, 0)),
        positions(getDim(mask.input, 1)), conditions(conditions) {}

  std::string run(const PaddingInputs &inputs, bool goOn = false) {
    const auto &[mask, labels, ids] = inputs;
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (getArgRole(function, number) == "parameter")
        parametric.insert(argument);
      SmallVector<DimAttr> dims = getDims(argument);
      if (getArgRole(function, number) != "input" || dims.size() < 2 || dims[0] != samples ||
          dims[1] != positions)
        continue;
      Fact fact{{0, 1}};
      fact.state = State::Anything;
      if (argument.getArgNumber() == mask.input.getArgNumber()) {
        fact.state = State::Constant;
        fact.value = double(mask.value);
      } else if (auto label = labels.find(number); label != labels.end()) {
        fact.state = State::Constant;
        fact.value = double(label->second);
        fact.label = int(number);
        ignored[number] = label->second;
      } else if (auto id = ids.find(number); id != ids.end()) {
        fact.state = State::Constant;
        fact.value = double(id->second);
        require({number, 0, id->second});
      }
      facts[argument].push_back(fact);
    }
    for (Operation &op : function.getBody().front()) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        for (Value result : op.getOperands())
          for (const Fact &fact : facts[result])
            if (fact.dependsOnPadding())
              return "a result holds what padding makes of it";
        break;
      }
      visit(&op);
      if (!reason.empty() && !goOn)
        return reason;
      reason.clear();
    }
    return {};
  }

  const Facts &getFacts(Value value) { return facts[value]; }

private:
  void require(PaddingConditions::Fixed fixed) {
    if (!llvm::is_contained(conditions.fixed, fixed))
      conditions.fixed.push_back(fixed);
  }
  void requireSome(PaddingConditions::Some some) {
    if (!llvm::is_contained(conditions.some, some))
      conditions.some.push_back(some);
  }
  void decline(Operation *op, const Twine &text) {
    if (reason.empty())
      reason = (describeOp(op) + " " + text).str();
  }

  void visit(Operation *op) {
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return parametric.contains(operand); }))
      parametric.insert(op->result_begin(), op->result_end());
    bool any =
        llvm::any_of(op->getOperands(), [&](Value operand) { return !facts[operand].empty(); });
    if (!any)
      return;
    if (auto slice = dyn_cast<SliceOp>(op))
      return visitSlice(slice);
    if (auto pad = dyn_cast<PadOp>(op))
      return visitPad(pad);
    if (auto select = dyn_cast<SelectRowsOp>(op); select && takesLastTokens(select))
      return;
    if (auto compare = dyn_cast<CompareOp>(op); compare && comparesDocuments(compare))
      return;
    if (isView(op))
      return visitView(op);
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped) {
      for (Value operand : op->getOperands())
        for (const Fact &fact : facts[operand])
          if (fact.dependsOnPadding())
            return decline(op, "does not say how its axes map");
      return;
    }
    visitMapped(op, mapped.getAxisMap());
  }

  void visitView(Operation *op) {
    Value from = op->getOperand(0), to = op->getResult(0);
    for (Fact fact : Facts(facts[from])) {
      SmallVector<DimAttr> dims = getDims(from);
      DimAttr columns = fact.axes.size() == 2 ? dims[fact.axes[1]] : positions;
      TokenAxes axes = throughView(dims, getDims(to), fact.axes, samples, columns);
      if (!axes.empty()) {
        fact.axes = axes;
        facts[to].push_back(fact);
      } else if (fact.dependsOnPadding()) {
        return decline(op, "mixes the axes of tokens with others");
      }
    }
  }

  void visitSlice(SliceOp op) {
    SmallVector<DimAttr> from = getDims(op.getOperand()), to = getDims(op.getResult());
    for (Fact fact : Facts(facts[op.getOperand()])) {
      bool whole = true;
      for (int64_t axis : fact.axes)
        whole &= from[axis] == to[axis] && op.getSteps()[axis] == 1;
      if (whole) {
        facts[op.getResult()].push_back(fact);
        continue;
      }
      int64_t column = fact.axes.back();
      DimAttr start = op.getStarts().getDims()[column];
      bool row = fact.axes.size() == 2 && from[fact.axes[0]] == to[fact.axes[0]];
      if (row && to[column].isConstant(1) && fact.offset == 0) {
        bool last = start + DimAttr::constant(op.getContext(), 1) == from[column];
        std::optional<int64_t> index = last ? std::optional<int64_t>(-1) : start.getConstant();
        if (index && fact.dependsOnPadding()) {
          if (!llvm::is_contained(conditions.real, *index))
            conditions.real.push_back(*index);
          continue;
        }
        if (index)
          continue;
      }
      if (row && op.getSteps()[column] == 1 && start.getConstant()) {
        fact.offset += *start.getConstant();
        facts[op.getResult()].push_back(fact);
      } else if (fact.dependsOnPadding()) {
        return decline(op, "selects tokens that may be padding");
      }
    }
  }

  void visitPad(PadOp op) {
    SmallVector<DimAttr> from = getDims(op.getOperand()), to = getDims(op.getResult());
    for (Fact fact : Facts(facts[op.getOperand()])) {
      bool whole = true;
      for (int64_t axis : fact.axes)
        whole &= from[axis] == to[axis] && op.getLow().getDims()[axis].isConstant(0);
      std::optional<int64_t> low = op.getLow().getDims()[fact.axes.back()].getConstant();
      bool row = fact.axes.size() == 2 && from[fact.axes[0]] == to[fact.axes[0]];
      if (!whole && (!row || !low)) {
        if (fact.dependsOnPadding())
          return decline(op, "pads the axes of tokens");
        continue;
      }
      if (!whole) {
        fact.offset -= *low;
        // What lies beyond a label input counts as holding the ignored label.
        if (fact.label >= 0 &&
            train::detail::attrValue(op.getValue()) != double(ignored[fact.label]))
          fact.label = -1, fact.state = State::Unknown;
      }
      facts[op.getResult()].push_back(fact);
    }
  }
  /// Whether a token is taken of each sample, under conditions that are then required.
  bool takesLastTokens(SelectRowsOp op) {
    bool merged = op.getAxis() == 0 && getDim(op.getData(), 0) == samples * positions &&
                  getDim(op.getIndex(), 0) == samples;
    std::optional<LastToken> last = merged ? findLastToken(op.getIndex(), positions) : std::nullopt;
    std::optional<MarkOrigin> origin = last ? findMarkOrigin(last->marks) : std::nullopt;
    // Only the mask is known to be 0 and 1.
    bool isMask = origin && origin->input == mask.input && origin->number == mask.value;
    if (!origin || (!isMask && (!origin->isCompared || last->byCount)))
      return false;
    if (last->byCount) {
      // All tokens count, and nothing lies before them.
      require({origin->input.getArgNumber(), 1, mask.value});
    } else if (llvm::none_of(facts[origin->input], [&](const Fact &fact) {
                 return fact.state == State::Constant && fact.value == double(origin->number);
               })) {
      return false;
    }
    // The largest mark is one, and so at a token.
    requireSome({origin->input.getArgNumber(), origin->number});
    return true;
  }

  /// Whether tokens are compared with tokens by the mask's own numbers, documents in a row: no
  /// token has padding's. Only padding has, so what rows of padding get counts as depending on it.
  bool comparesDocuments(CompareOp op) {
    bool equal = op.getPredicate() == ComparePredicate::eq;
    if (!equal && op.getPredicate() != ComparePredicate::ne)
      return false;
    SmallVector<TokenAxes> sides;
    for (Value operand : op->getOperands()) {
      const Facts &known = facts[operand];
      if (findOrigin(operand) != mask.input || known.size() != 1 || known[0].offset != 0 ||
          known[0].state != State::Constant || known[0].axes.size() != 2 ||
          getDim(operand, known[0].axes[1]) != positions)
        return false;
      sides.push_back(known[0].axes);
    }
    auto [rows, columns] = std::minmax(sides[0], sides[1]);
    if (rows[0] != columns[0] || rows[1] == columns[1])
      return false;
    Fact row{rows, State::Anything}, column{columns, State::Constant};
    column.value = equal ? 0 : 1;
    facts[op.getResult()] = {row, column};
    return true;
  }

  /// Operands' facts along the same loops.
  struct Frame {
    SmallVector<unsigned> loops;
    int64_t offset = 0;
    bool dependsOnPadding = false;
  };

  void visitMapped(Operation *op, const AxisMap &map) {
    SmallVector<Frame> frames;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands))
      for (const Fact &fact : facts[operand]) {
        SmallVector<unsigned> loops = loopsOf(entry, fact.axes);
        if (loops.empty()) {
          if (fact.dependsOnPadding())
            return decline(op, "reads tokens by index");
          continue;
        }
        auto *frame = llvm::find_if(frames, [&](const Frame &f) { return f.loops == loops; });
        if (frame == frames.end()) {
          frames.push_back({loops, fact.offset});
          frame = &frames.back();
        }
        if (fact.dependsOnPadding()) {
          if (frame->dependsOnPadding && frame->offset != fact.offset)
            return decline(op, "combines tokens with their neighbours");
          frame->dependsOnPadding = true;
          frame->offset = fact.offset;
        }
      }
    for (const Frame &frame : frames) {
      visitFrame(op, map, frame);
      if (!reason.empty())
        return;
    }
  }

  /// What an operand holds at the padding of a frame.
  Fact inFrame(Value operand, ArrayRef<int> entry, const Frame &frame) {
    for (Fact fact : facts[operand]) {
      if (loopsOf(entry, fact.axes) != frame.loops)
        continue;
      if (fact.offset == frame.offset)
        return fact;
      if (fact.label >= 0)
        return fact;
      // A neighbour of padding: nothing is known, and it is no padding itself.
    }
    return Fact{};
  }

  void visitFrame(Operation *op, const AxisMap &map, const Frame &frame) {
    SmallVector<Fact> operands;
    int label = -1;
    bool onlyLabel = true;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      operands.push_back(inFrame(operand, entry, frame));
      Fact &fact = operands.back();
      if (fact.label >= 0 && (label < 0 || label == fact.label))
        label = fact.label;
      else if (fact.label >= 0 || !getSplatValue(operand))
        onlyLabel = false;
      if (fact.label >= 0 && frame.dependsOnPadding)
        require({unsigned(fact.label), fact.offset - frame.offset, ignored[fact.label]});
    }
    int64_t offset = frame.offset;
    if (label >= 0 && !frame.dependsOnPadding)
      for (const Fact &fact : operands)
        if (fact.label == label)
          offset = fact.offset;

    bool reduced = false, opaque = false;
    for (unsigned loop : frame.loops) {
      reduced |= map.loops[loop] == LoopKind::Reduction;
      opaque |= map.loops[loop] == LoopKind::Opaque;
    }
    if (opaque) {
      bool neutral = isNeutralScan(op, operands);
      for (const Fact &fact : operands)
        if (fact.dependsOnPadding() && !neutral)
          return decline(op, "mixes tokens");
      return;
    }
    if (reduced) {
      noteLargest(op, operands);
      if (frame.dependsOnPadding && !isAbsorbed(op, operands))
        return decline(op, "adds what padding holds to tokens");
      return;
    }
    for (auto [result, entry] : llvm::zip_equal(op->getResults(), map.results)) {
      Fact fact = transfer(op, operands);
      // Computed for tokens only, whatever it is made of.
      if (fact.state == State::Unknown && parametric.contains(result))
        fact.state = State::Anything;
      fact.offset = offset;
      fact.label = onlyLabel && !frame.dependsOnPadding ? label : -1;
      for (unsigned loop : frame.loops) {
        auto it = llvm::find(entry, int(loop));
        if (it == entry.end())
          return decline(op, "drops the axes of tokens");
        fact.axes.push_back(it - entry.begin());
      }
      if (fact.state != State::Unknown)
        facts[result].push_back(fact);
    }
  }

  static bool isNeutralScan(Operation *op, ArrayRef<Fact> operands) {
    auto scan = dyn_cast<ScanOpInterface>(op);
    if (!scan)
      return false;
    double identity =
        train::detail::attrValue(scan.getScanIdentity(getElementType(op->getOperand(0))));
    return operands[0].state == State::Constant && operands[0].value == identity;
  }

  static bool isMax(ReductionOpInterface reduction) {
    return reduction.evaluateCombine(2, 2) == 2 && reduction.evaluateCombine(2, 3) == 3;
  }
  static bool isMasked(const Fact &fact) {
    return fact.state == State::Masked || (fact.state == State::Constant && fact.value <= kMasked);
  }

  /// The largest of tokens and masked scores is a token's, if there is a token: what is computed
  /// with it relies on that.
  void noteLargest(Operation *op, ArrayRef<Fact> operands) {
    auto reduction = dyn_cast<ReductionOpInterface>(op);
    if (reduction && isMax(reduction) && isMasked(operands[0]))
      requireSome({mask.input.getArgNumber(), mask.value});
  }

  /// Whether padding adds nothing to a reduction.
  bool isAbsorbed(Operation *op, ArrayRef<Fact> operands) {
    if (auto reduction = dyn_cast<ReductionOpInterface>(op)) {
      const Fact &fact = operands[0];
      if (fact.state == State::Constant)
        return reduction.evaluateMap(fact.value) == reduction.evaluateIdentity();
      return isMax(reduction) && isMasked(fact);
    }
    return isSumOfZeros(op, operands);
  }

  /// Of products of which one factor is 0, or of zeros that are added somewhere.
  static bool isSumOfZeros(Operation *op, ArrayRef<Fact> operands) {
    if (isa<ScatterAddOp, ScatterElementsAddOp>(op))
      return operands[1].state == State::Constant && operands[1].value == 0;
    return isa<MatmulOp>(op) && llvm::any_of(operands, [](const Fact &fact) {
             return fact.state == State::Constant && fact.value == 0;
           });
  }

  Fact transfer(Operation *op, ArrayRef<Fact> operands) {
    Fact result;
    // Scores do, whose masked ones may be a number.
    bool depends =
        llvm::any_of(operands, [](const Fact &fact) { return fact.dependsOnPadding(); }) ||
        llvm::any_of(op->getOperands(),
                     [&](Value operand) { return parametric.contains(operand); });
    if (auto pointwise = dyn_cast<PointwiseOpInterface>(op))
      return probe(op, pointwise, operands, depends);
    // What only moves elements keeps what they hold.
    if (op->getNumOperands() == 1 && isa<ElementAccessOpInterface>(op)) {
      result.state = operands[0].state;
      result.value = operands[0].value;
      return result;
    }
    if (isa<ConcatOp>(op)) {
      bool same = llvm::all_of(operands, [&](const Fact &fact) {
        return fact.state == operands[0].state && fact.value == operands[0].value;
      });
      if (same) {
        result.state = operands[0].state;
        result.value = operands[0].value;
        return result;
      }
    }
    if (auto reduction = dyn_cast<ReductionOpInterface>(op)) {
      const Fact &fact = operands[0];
      bool idempotent = reduction.evaluateCombine(2, 2) == 2;
      if (fact.state == State::Constant && (idempotent || fact.value == 0)) {
        result.state = State::Constant;
        result.value = fact.value;
        return result;
      }
      if (fact.state == State::Masked && isMax(reduction)) {
        result.state = State::Masked;
        return result;
      }
    }
    if (isSumOfZeros(op, operands)) {
      result.state = State::Constant;
      return result;
    }
    result.state = depends ? State::Anything : State::Unknown;
    return result;
  }

  /// What a formula gives at padding, found by evaluating it for samples of what its operands may
  /// hold there: among them the numbers around all constants, where comparisons change.
  Fact probe(Operation *op, PointwiseOpInterface pointwise, ArrayRef<Fact> facts, bool depends) {
    Fact result;
    result.state = depends ? State::Anything : State::Unknown;
    SmallVector<SmallVector<double>> samples;
    SmallVector<double> constants;
    for (auto [operand, fact] : llvm::zip_equal(op->getOperands(), facts)) {
      if (fact.state == State::Constant)
        constants.push_back(fact.value);
      else if (std::optional<double> uniform = getSplatValue(operand))
        constants.push_back(*uniform);
    }
    size_t count = 1;
    for (auto [operand, fact] : llvm::zip_equal(op->getOperands(), facts)) {
      SmallVector<double> values;
      Type type = getElementType(operand);
      std::optional<double> uniform = getSplatValue(operand);
      if (fact.state == State::Constant) {
        values = {fact.value};
      } else if (fact.state == State::Masked) {
        values = {1.5 * kMasked, -1e4, -3e38};
      } else if (uniform) {
        values = {*uniform};
      } else if (type.isInteger(1)) {
        values = {0, 1};
      } else if (isa<IntegerType>(type)) {
        values = {-100, -1, 0, 1, 2, 77};
      } else {
        values = {-50, -3.75, -1, 0, 0.5, 1, 2, 29.25, 50};
        // Tests may be for just that.
        if (!isa<FloatType>(getElementType(op->getResult(0))))
          values.push_back(NAN);
      }
      if (values.size() > 2 && fact.state != State::Masked)
        for (double c : constants)
          // No number of a token is as low as a masked one.
          if (std::fabs(c) < 1e9 &&
              (c > kMasked || !isa<FloatType>(getElementType(op->getResult(0)))))
            values.append({c - 1, c, c + 1});
      count *= values.size();
      samples.push_back(values);
    }
    if (count > 100000)
      return result;
    std::optional<double> first;
    bool same = true, masked = isa<FloatType>(getElementType(op->getResult(0)));
    forEachSample(pointwise, samples, [&](double y) {
      if (!first)
        first = y;
      same &= y == *first;
      masked &= y <= kMasked;
      return true;
    });
    if (!first)
      return result;
    // Coordinates enter in ways that samples of operands do not show.
    for (int64_t axis = 0; axis < getRank(op->getResult(0)); ++axis)
      if (pointwise.dependsOnIndex(axis) && !(same && *first == 0))
        return result;
    if (same) {
      result.state = State::Constant;
      result.value = *first;
    } else if (masked) {
      result.state = depends ? State::Masked : State::Unknown;
    }
    return result;
  }

  func::FuncOp function;
  PaddingMask mask;
  DimAttr samples, positions;
  PaddingConditions &conditions;
  DenseMap<Value, Facts> facts;
  /// What depends on a parameter.
  llvm::DenseSet<Value> parametric;
  DenseMap<unsigned, int64_t> ignored;
  std::string reason;
};
} // namespace

/// A copy of a function without composites.
struct PaddingFlow::Scratch {
  explicit Scratch(func::FuncOp function) {
    IRMapping mapping;
    copy = cast<func::FuncOp>(function->clone(mapping));
    function.walk([&](Operation *op) {
      for (Value result : op->getResults())
        originals[mapping.lookup(result)].push_back(result);
    });
    while (true) {
      SmallVector<DecomposableOpInterface> composites;
      copy.walk([&](DecomposableOpInterface op) { composites.push_back(op); });
      if (composites.empty())
        break;
      for (DecomposableOpInterface op : composites) {
        OpBuilder builder(op);
        TrainBuilder tb(builder, op->getLoc());
        SmallVector<Value> results;
        op.decompose(tb, results);
        // Before the op goes: a new one may get its address.
        for (auto [old, made] : llvm::zip_equal(op->getResults(), results)) {
          SmallVector<Value, 1> moved = std::move(originals[old]);
          originals.erase(old);
          llvm::append_range(originals[made], moved);
        }
        op->replaceAllUsesWith(results);
        op->erase();
      }
    }
  }
  ~Scratch() { copy.erase(); }

  PaddingInputs translate(PaddingInputs inputs) {
    inputs.mask.input = copy.getArgument(inputs.mask.input.getArgNumber());
    return inputs;
  }

  func::FuncOp copy;
  /// The function's values that a value of the copy stands for.
  DenseMap<Value, SmallVector<Value, 1>> originals;
};

PaddingFlow::PaddingFlow(func::FuncOp function) : scratch(std::make_unique<Scratch>(function)) {}
PaddingFlow::~PaddingFlow() = default;

std::string PaddingFlow::follow(const PaddingInputs &inputs, PaddingConditions &conditions) const {
  PaddingInputs translated = scratch->translate(inputs);
  return Flow(scratch->copy, translated.mask, conditions).run(translated);
}

PaddingContents PaddingFlow::findContents(const PaddingInputs &inputs) const {
  PaddingInputs translated = scratch->translate(inputs);
  PaddingConditions conditions;
  Flow flow(scratch->copy, translated.mask, conditions);
  // What selects labelled rows reads tokens by index; it is no tokens' value itself.
  (void)flow.run(translated, /*goOn=*/true);
  PaddingContents contents;
  for (auto &[twin, values] : scratch->originals)
    for (const Fact &fact : flow.getFacts(twin))
      if (fact.state == State::Anything || (fact.state == State::Constant && fact.value == 0))
        for (Value value : values)
          contents.replaceable[value].push_back(fact.axes);
  return contents;
}

bool PaddingContents::isReplaceable(Value value, ArrayRef<int64_t> axes) const {
  auto it = replaceable.find(value);
  return it != replaceable.end() &&
         llvm::any_of(it->second, [&](ArrayRef<int64_t> known) { return known == axes; });
}
