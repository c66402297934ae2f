// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Abstract interpretation. A fact about a value says which of its axes run over tokens, which
// numbers its elements at padding may be, and whether they depend on what padding holds. Facts
// travel along the loops that axis maps show; a reduction over tokens ends one where what padding
// adds changes nothing. Anything that reaches other elements is the reason to decline.

#include "lib/Transforms/EliminatePadding/PaddingFlow.h"

#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "lib/Transforms/EliminatePadding/Content.h"
#include "lib/Transforms/EliminatePadding/ElementaryCopy.h"
#include "lib/Transforms/EliminatePadding/TokenAxes.h"
#include "lib/Transforms/EliminatePadding/TokenElements.h"
#include "lib/Transforms/EliminatePadding/ZeroHazards.h"
#include "lib/Transforms/Support/PartSelections.h"
#include "lib/Transforms/Support/RestrictLoops.h"
#include "trainc/Analysis/ElementOrigin.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Formulas/InputTests.h"
#include "trainc/Formulas/LastToken.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

PaddingMask PaddingMask::binary(BlockArgument input, int64_t value) {
  return {input, value, {Range::number(value == 0 ? 1 : 0)}};
}
PaddingMask PaddingMask::above(BlockArgument input, int64_t value) {
  return {input, value, {Range{double(value) + 1, Range::kUnbounded}}};
}
PaddingMask PaddingMask::other(BlockArgument input, int64_t value) {
  return {
      input,
      value,
      {Range{-Range::kUnbounded, double(value) - 1}, Range{double(value) + 1, Range::kUnbounded}}};
}

namespace {
struct Fact {
  TokenAxes axes;
  /// What elements at padding may be.
  Content content;
  /// They are what padding happens to hold or are made of it; else of what is no padding.
  bool depends = false;
  /// The element at position p is of the token at position p + offset.
  int64_t offset = 0;
  /// Made of this label input and constants only: the fact holds for padding `shift` away, too, as
  /// a condition.
  int label = -1;
  /// Holds only where these axes, too, are at a token. A value with such a fact has one of these
  /// axes, which holds everywhere.
  TokenAxes rows = {};
  /// Padding has something else here in the variant: zeros, or what is made of them.
  bool changed = false;

  /// Whether it says more than `all`, what is known of all elements.
  bool saysMoreThan(const Content &all) const { return depends || changed || content != all; }
};
using Facts = SmallVector<Fact, 1>;

/// Ends at the first reason to decline; what is known all the same; infinities and NaN that zeros
/// make in a variant that is proved.
enum class Purpose { Proof, Contents, Hazards };

class Flow {
public:
  Flow(func::FuncOp function, const PaddingMask &mask, PaddingConditions &conditions,
       Purpose purpose)
      : function(function), mask(mask), samples(getDim(mask.input, 0)),
        positions(getDim(mask.input, 1)), conditions(conditions), purpose(purpose),
        elements(mask, contents) {}

  /// Values that have zeros at padding.
  DenseMap<Value, TokenAxes> filled;
  /// Selections of rows that are all of tokens.
  llvm::DenseSet<Value> tokenRows;

  std::string run(const PaddingInputs &inputs) {
    findContents();
    const auto &[mask, labels, ids] = inputs;
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (getArgRole(function, number) == "parameter")
        parametric.insert(argument);
      SmallVector<DimAttr> dims = getDims(argument);
      if (getArgRole(function, number) != "input" || dims.size() < 2 || dims[0] != samples ||
          dims[1] != positions)
        continue;
      Fact fact{{0, 1}, contents[argument], /*depends=*/true};
      auto holds = [&](int64_t value) {
        fact.content = Content::number(double(value));
        fact.depends = false;
      };
      if (argument.getArgNumber() == mask.input.getArgNumber()) {
        holds(mask.value);
      } else if (auto label = labels.find(number); label != labels.end()) {
        holds(label->second);
        fact.label = int(number);
        ignored[number] = label->second;
      } else if (auto id = ids.find(number); id != ids.end()) {
        holds(id->second);
        require({number, 0, id->second});
      }
      if (fact.depends && isa<FloatType>(getElementType(argument)))
        fragile.insert(argument); // no range of what a file holds there leaves NaN out
      facts[argument].push_back(fact);
    }
    for (Operation &op : function.getBody().front()) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        for (Value result : op.getOperands())
          for (const Fact &fact : facts[result])
            if (fact.depends && purpose != Purpose::Hazards)
              return "a result holds what padding makes of it";
        break;
      }
      visit(&op);
      if (!zeros.why().empty())
        return zeros.why();
      if (!reason.empty() && purpose == Purpose::Proof)
        return reason;
      reason.clear();
      for (Value result : op.getResults())
        if (auto it = filled.find(result); it != filled.end()) {
          Fact zeros{it->second, Content::number(0)};
          zeros.changed = true;
          facts[result] = {zeros};
        }
    }
    return {};
  }

  const Facts &getFacts(Value value) { return facts[value]; }

private:
  /// Of all elements, wherever they are.
  void findContents() {
    for (BlockArgument argument : function.getArguments())
      contents[argument] = Content::ofType(getElementType(argument));
    for (Operation &op : function.getBody().front()) {
      SmallVector<Content> operands;
      for (Value operand : op.getOperands())
        operands.push_back(contents.lookup(operand));
      for (OpResult result : op.getResults())
        contents[result] = inferContent(&op, result.getResultNumber(), operands);
    }
  }

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

  /// Elements of an operand are followed no further.
  void lose(Operation *op, Value operand, const Fact &fact) {
    if (!fact.changed)
      return;
    SmallVector<ZeroHazards::Operand> operands;
    for (Value other : op->getOperands())
      operands.push_back({other == operand ? fact.content : contents[other], other == operand});
    zeros.scatter(op, operands);
  }

  void visitScattered(Operation *op) {
    if (!zeros.reaches(op))
      return;
    SmallVector<ZeroHazards::Operand> operands;
    for (Value value : op->getOperands()) {
      ZeroHazards::Operand operand{contents[value]};
      for (const Fact &known : facts[value])
        if (known.changed)
          operand = {operand.content.unite(known.content), true};
      operands.push_back(operand);
    }
    zeros.visit(op, std::move(operands));
  }

  void visit(Operation *op) {
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return parametric.contains(operand); }))
      parametric.insert(op->result_begin(), op->result_end());
    if (isFragile(op))
      fragile.insert(op->result_begin(), op->result_end());
    visitScattered(op);
    bool any =
        llvm::any_of(op->getOperands(), [&](Value operand) { return !facts[operand].empty(); });
    if (!any)
      return;
    if (std::optional<Subrange> cut = getCut(op))
      return visitCut(op, *cut);
    if (auto padded = dyn_cast<SubrangeOpInterface>(op); padded && padded.getFill())
      return visitPadded(padded);
    if (auto select = dyn_cast<RowSelectionOpInterface>(op);
        select && (tokenRows.contains(select->getResult(0)) || takesLastTokens(select)))
      return;
    if (std::optional<bool> equal = testsEquality(op); equal && comparesDocuments(op, *equal))
      return;
    if (isView(op))
      return visitView(op);
    auto mapped = dyn_cast<AxisMapOpInterface>(op);
    if (!mapped) {
      for (Value operand : op->getOperands())
        for (const Fact &fact : facts[operand]) {
          if (fact.depends)
            return decline(op, "does not say how its axes map");
          lose(op, operand, fact);
        }
      return;
    }
    testForNumbers(op);
    visitMapped(op, mapped.getAxisMap());
  }

  bool isFragile(Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](Value v) { return fragile.contains(v); });
  }
  /// Where padding held an infinity, what it is absorbed in may be NaN in the plain step. That is
  /// the model's own, unless it looks for NaN.
  void testForNumbers(Operation *op) {
    if (isFragile(op) && op->getNumOperands() == 1 &&
        isa<FloatType>(getElementType(op->getOperand(0))) &&
        isa<IntegerType>(getElementType(op->getResult(0))))
      decline(op, "tests what padding may have made NaN");
  }

  static void weaken(Fact &fact, Value value) {
    fact.content = Content::ofType(getElementType(value));
    fact.depends = true;
    fact.rows.clear();
    fact.label = -1;
  }

  void visitView(Operation *op) {
    Value from = op->getOperand(0), to = op->getResult(0);
    for (Fact fact : Facts(facts[from])) {
      SmallVector<DimAttr> dims = getDims(from);
      DimAttr columns = fact.axes.size() == 2 ? dims[fact.axes[1]] : positions;
      TokenAxes axes = throughView(dims, getDims(to), fact.axes, samples, columns);
      if (!axes.empty()) {
        if (!fact.rows.empty()) {
          fact.rows = throughView(dims, getDims(to), fact.rows, samples, positions);
          if (fact.rows.empty())
            weaken(fact, to);
        }
        fact.axes = axes;
        facts[to].push_back(fact);
      } else if (fact.depends) {
        return decline(op, "mixes the axes of tokens with others");
      } else {
        lose(op, from, fact);
      }
    }
  }

  void visitCut(Operation *op, const Subrange &cut) {
    SmallVector<DimAttr> from = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
    for (Fact fact : Facts(facts[op->getOperand(0)])) {
      auto isWhole = [&](int64_t axis) { return from[axis] == to[axis] && cut.steps[axis] == 1; };
      if (!llvm::all_of(fact.rows, isWhole))
        weaken(fact, op->getResult(0));
      if (llvm::all_of(fact.axes, isWhole)) {
        facts[op->getResult(0)].push_back(fact);
        continue;
      }
      int64_t column = fact.axes.back();
      DimAttr start = cut.starts[column];
      bool row = fact.axes.size() == 2 && from[fact.axes[0]] == to[fact.axes[0]];
      if (row && to[column].isConstant(1) && fact.offset == 0) {
        bool last = start + DimAttr::constant(op->getContext(), 1) == from[column];
        std::optional<int64_t> index = last ? std::optional<int64_t>(-1) : start.getConstant();
        if (index && fact.depends) {
          if (!llvm::is_contained(conditions.real, *index))
            conditions.real.push_back(*index);
          continue;
        }
        if (index) {
          if (!llvm::is_contained(conditions.real, *index))
            lose(op, op->getOperand(0), fact);
          continue;
        }
      }
      if (row && cut.steps[column] == 1 && start.getConstant()) {
        fact.offset += *start.getConstant();
        facts[op->getResult(0)].push_back(fact);
      } else if (fact.depends) {
        return decline(op, "selects tokens that may be padding");
      } else {
        lose(op, op->getOperand(0), fact);
      }
    }
  }

  void visitPadded(SubrangeOpInterface op) {
    const Subrange range = op.getSubrange(0, 0);
    SmallVector<DimAttr> from = getDims(op->getOperand(0)), to = getDims(op->getResult(0));
    for (Fact fact : Facts(facts[op->getOperand(0)])) {
      auto isWhole = [&](int64_t axis) {
        return from[axis] == to[axis] && range.starts[axis].isConstant(0);
      };
      if (!llvm::all_of(fact.rows, isWhole))
        weaken(fact, op->getResult(0));
      bool whole = llvm::all_of(fact.axes, isWhole);
      double value = train::detail::attrValue(op.getFill());
      std::optional<int64_t> start = range.starts[fact.axes.back()].getConstant();
      bool row = fact.axes.size() == 2 && from[fact.axes[0]] == to[fact.axes[0]];
      if (!whole && (!row || !start)) {
        if (fact.depends)
          return decline(op, "pads the axes of tokens");
        lose(op, op->getOperand(0), fact);
        continue;
      }
      if (!whole) {
        fact.offset += *start;
        // What lies beyond a label input counts as holding the ignored label.
        if (fact.label >= 0 && value != double(ignored[fact.label]))
          continue;
      }
      bool padsOthers = false;
      for (int64_t axis = 0; axis < int64_t(to.size()); ++axis)
        padsOthers |= !llvm::is_contained(fact.axes, axis) && !isWhole(axis);
      if (padsOthers) {
        fact.content = fact.content.unite(Content::number(value));
        if (!fact.content.isNumber())
          fact.label = -1;
      }
      facts[op->getResult(0)].push_back(fact);
    }
  }
  /// Whether a token is taken of each sample, under conditions that are then required.
  bool takesLastTokens(RowSelectionOpInterface op) {
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
                 return fact.content.isNumber(double(origin->number));
               })) {
      return false;
    }
    // The largest mark is one, and so at a token.
    requireSome({origin->input.getArgNumber(), origin->number});
    return true;
  }

  /// Whether tokens are compared with tokens by the mask's own numbers, documents in a row: no
  /// token has padding's. Only padding has, so what rows of padding get counts as depending on it.
  bool comparesDocuments(Operation *op, bool equal) {
    SmallVector<TokenAxes> sides;
    for (Value operand : op->getOperands()) {
      const Facts &known = facts[operand];
      if (findOrigin(operand) != mask.input || known.size() != 1 || known[0].offset != 0 ||
          !known[0].content.isNumber() || known[0].axes.size() != 2 ||
          getDim(operand, known[0].axes[1]) != positions)
        return false;
      sides.push_back(known[0].axes);
    }
    auto [rows, columns] = std::minmax(sides[0], sides[1]);
    if (rows[0] != columns[0] || rows[1] == columns[1])
      return false;
    Fact row{rows, {{0, 1}, {0, 1}}, /*depends=*/true}, column{columns, Content::number(!equal)};
    column.rows = rows;
    facts[op->getResult(0)] = {row, column};
    return true;
  }

  /// Operands' facts along the same loops.
  struct Frame {
    SmallVector<unsigned> loops;
    int64_t offset = 0;
    bool depends = false;
    /// Loops of Fact::rows.
    SmallVector<unsigned> rows = {};
  };

  void visitMapped(Operation *op, const AxisMap &map) {
    SmallVector<Frame> frames;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands))
      for (const Fact &fact : facts[operand]) {
        SmallVector<unsigned> loops = loopsOf(entry, fact.axes);
        if (loops.empty()) {
          if (fact.depends)
            return decline(op, "reads tokens by index");
          lose(op, operand, fact);
          continue;
        }
        auto *frame = llvm::find_if(frames, [&](const Frame &f) { return f.loops == loops; });
        if (frame == frames.end()) {
          frames.push_back({loops, fact.offset});
          frame = &frames.back();
        }
        if (fact.depends) {
          if (frame->depends && frame->offset != fact.offset)
            return decline(op, "combines tokens with their neighbours");
          frame->depends = true;
          frame->offset = fact.offset;
        }
      }
    rowFrames.clear();
    for (Frame &frame : frames) {
      visitFrame(op, map, frame);
      if (!reason.empty() || !zeros.why().empty())
        return;
    }
    for (ArrayRef<unsigned> rows : rowFrames)
      addRows(op, map, rows);
  }

  /// Where a fact holds for rows of tokens only, the other rows hold anything.
  void addRows(Operation *op, const AxisMap &map, ArrayRef<unsigned> rows) {
    for (auto [result, entry] : llvm::zip_equal(op->getResults(), map.results)) {
      std::optional<SmallVector<int64_t>> found = findAxes(entry, rows);
      // Summed up with all rows, whose own fact says what padding adds.
      if (found && found->empty())
        continue;
      if (!found)
        return decline(op, "takes a part of the axes of tokens");
      TokenAxes axes{ArrayRef<int64_t>(*found)};
      if (llvm::none_of(facts[result], [&](const Fact &fact) { return fact.axes == axes; }))
        facts[result].push_back(Fact{axes, contents[result], /*depends=*/true});
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
    Fact unknown;
    unknown.content = contents[operand];
    return unknown;
  }

  void visitFrame(Operation *op, const AxisMap &map, Frame &frame) {
    SmallVector<Fact> operands;
    int label = -1;
    bool onlyLabel = true;
    for (auto [operand, entry] : llvm::zip_equal(op->getOperands(), map.operands)) {
      operands.push_back(inFrame(operand, entry, frame));
      Fact &fact = operands.back();
      if (fact.label >= 0 && (label < 0 || label == fact.label))
        label = fact.label;
      else if (fact.label >= 0 || !contents[operand].isNumber())
        onlyLabel = false;
      if (fact.label >= 0 && frame.depends) {
        int64_t shift = fact.offset - frame.offset;
        // No batch with padding at the end would do.
        if (shift < 0)
          return decline(op, "needs the label before padding to be ignored, too");
        require({unsigned(fact.label), shift, ignored[fact.label]});
      }
      findRows(operand, entry, map, fact, frame);
    }
    zeros.check(op, asOperands(operands));
    int64_t offset = frame.offset;
    if (label >= 0 && !frame.depends)
      for (const Fact &fact : operands)
        if (fact.label == label)
          offset = fact.offset;

    bool reduced = false, opaque = false;
    for (unsigned loop : frame.loops) {
      reduced |= map.loops[loop] == LoopKind::Reduction;
      opaque |= map.loops[loop] == LoopKind::Opaque;
    }
    if (visitContest(op, map, frame, operands))
      return;
    if (opaque) {
      if (frame.depends && !isNeutralScan(op, operands))
        return decline(op, "mixes tokens");
      return;
    }
    if (reduced) {
      if (frame.depends && !isAbsorbed(op, operands))
        return decline(op, "adds what padding holds to tokens");
      if (!frame.rows.empty())
        rowFrames.push_back(frame.rows);
      return;
    }
    for (auto [result, entry] : llvm::zip_equal(op->getResults(), map.results)) {
      Fact fact = transfer(op, result, operands);
      fact.offset = offset;
      fact.label = onlyLabel && !frame.depends ? label : -1;
      if (!place(fact, entry, frame)) {
        if (purpose == Purpose::Hazards)
          zeros.scatter(op, asOperands(operands));
        return decline(op, "drops the axes of tokens");
      }
      if (fact.saysMoreThan(contents[result]))
        facts[result].push_back(fact);
    }
    if (!frame.rows.empty())
      rowFrames.push_back(frame.rows);
  }

  /// Gives the frame the rows that a fact is restricted to; restrictions to several are not
  /// followed.
  void findRows(Value operand, ArrayRef<int> entry, const AxisMap &map, Fact &fact, Frame &frame) {
    if (fact.rows.empty())
      return;
    SmallVector<unsigned> rows = loopsOf(entry, fact.rows);
    bool mixes =
        llvm::any_of(rows, [&](unsigned loop) { return map.loops[loop] == LoopKind::Opaque; });
    if (rows.empty() || mixes || (!frame.rows.empty() && frame.rows != rows)) {
      weaken(fact, operand);
      frame.depends = true;
      return;
    }
    frame.rows = rows;
  }

  /// The axes of a result that a frame's loops run over.
  static bool place(Fact &fact, ArrayRef<int> entry, const Frame &frame) {
    std::optional<SmallVector<int64_t>> axes = findAxes(entry, frame.loops);
    if (!axes || axes->empty())
      return false;
    fact.axes = TokenAxes(ArrayRef<int64_t>(*axes));
    if (frame.rows.empty())
      return true;
    // Rows that are summed up are all rows: of the others their own fact tells.
    std::optional<SmallVector<int64_t>> rows = findAxes(entry, frame.rows);
    if (!rows)
      return false;
    fact.rows = TokenAxes(ArrayRef<int64_t>(*rows));
    return true;
  }

  static bool isNeutralScan(Operation *op, ArrayRef<Fact> operands) {
    auto scan = dyn_cast<ScanOpInterface>(op);
    if (!scan)
      return false;
    double identity =
        train::detail::attrValue(scan.getScanIdentity(getElementType(op->getOperand(0))));
    return operands[0].content.isNumber(identity);
  }

  /// Elements that compete along the axes of tokens: where each row has a token that beats all of
  /// padding, this one loses.
  bool visitContest(Operation *op, const AxisMap &map, Frame &frame, ArrayRef<Fact> operands) {
    auto known = dyn_cast<RangeOpInterface>(op);
    std::optional<Contest> contest = known ? known.getContest() : std::nullopt;
    if (!contest || operands[0].axes.empty())
      return false;
    SmallVector<unsigned> competing;
    for (int64_t axis : contest->axes)
      competing.push_back(map.operands[0][axis]);
    if (llvm::none_of(frame.loops,
                      [&](unsigned loop) { return llvm::is_contained(competing, loop); }))
      return false;
    const Fact &fact = operands[0];
    // In a variant, the proof of the plain step stands.
    bool loses = purpose == Purpose::Hazards || losesToAll(op, *contest, fact) ||
                 losesToRow(op, map, *contest, fact, competing, frame);
    if (!loses) {
      if (fact.depends || frame.depends)
        decline(op, "may find nothing in a row but padding and what is masked");
      return true;
    }
    for (auto [result, entry] : llvm::zip_equal(op->getResults(), map.results)) {
      Fact outcome;
      outcome.content = {contest->loser, contest->loser};
      outcome.depends = !outcome.content.isNumber() && frame.depends;
      if (place(outcome, entry, frame) && outcome.saysMoreThan(contents[result]))
        facts[result].push_back(outcome);
    }
    if (!frame.rows.empty())
      rowFrames.push_back(frame.rows);
    return true;
  }

  static bool loses(const Contest &contest, Type element, const Range &held, const Range &rival) {
    if (held.nan)
      return false;
    // Equal integers are as good as each other; equal floats share a gradient.
    bool mayBeEqual = isa<IntegerType>(element) && contest.margin == 0;
    double distance = contest.least ? held.lo - rival.hi : rival.lo - held.hi;
    return std::isnan(distance) ? false
                                : distance > contest.margin || (mayBeEqual && distance == 0);
  }

  /// To any token of the sample.
  bool losesToAll(Operation *op, const Contest &contest, const Fact &fact) {
    Value value = op->getOperand(0);
    if (fact.offset != 0)
      return false;
    Type element = getElementType(value);
    const Range &held = fact.content.usual, all = rangeOfType(element);
    // The neutral element loses to whatever there is.
    if (!held.nan && (contest.least ? held.lo == all.hi : held.hi == all.lo)) {
      // A row of nothing else is none that packed tokens have.
      if (isa<FloatType>(element))
        requireSome({mask.input.getArgNumber(), mask.value});
      return true;
    }
    std::optional<Range> rival = elements.get(value, fact.axes, std::nullopt);
    if (!rival || !loses(contest, element, held, *rival))
      return false;
    requireSome({mask.input.getArgNumber(), mask.value});
    return true;
  }

  /// To the token that the row is of, in rows of tokens.
  bool losesToRow(Operation *op, const AxisMap &map, const Contest &contest, const Fact &fact,
                  ArrayRef<unsigned> competing, Frame &frame) {
    Value value = op->getOperand(0);
    if (fact.offset != 0 || fact.axes.size() != 2)
      return false;
    for (int64_t row = 0; row < getRank(value); ++row) {
      if (llvm::is_contained(fact.axes, row) || getDim(value, row) != positions ||
          llvm::is_contained(competing, unsigned(map.operands[0][row])))
        continue;
      SmallVector<unsigned> rows = loopsOf(map.operands[0], {fact.axes[0], row});
      if (rows.empty() || (!frame.rows.empty() && frame.rows != rows))
        continue;
      std::optional<Range> rival = elements.get(value, fact.axes, row);
      if (!rival || !loses(contest, getElementType(value), fact.content.usual, *rival))
        continue;
      frame.rows = rows;
      // Kernels of segments have none that is empty.
      requireSome({mask.input.getArgNumber(), mask.value});
      return true;
    }
    return false;
  }

  /// Whether padding adds nothing to a reduction.
  bool isAbsorbed(Operation *op, ArrayRef<Fact> operands) {
    const Fact &first = operands[0];
    if (auto reduction = dyn_cast<ReductionOpInterface>(op);
        reduction && first.content.isNumber() &&
        reduction.evaluateMap(first.content.sure.lo) == reduction.evaluateIdentity())
      return true;
    auto known = dyn_cast<RangeOpInterface>(op);
    if (!known || !known.addsUp())
      return false;
    SmallVector<Range> ranges;
    bool finite = true;
    for (const Fact &fact : operands) {
      ranges.push_back(fact.content.sure);
      finite &= fact.content.sure.isFinite();
    }
    for (OpResult result : op->getResults()) {
      Range sum = inferRange(op, result.getResultNumber(), ranges);
      if (sum.lo != 0 || sum.hi != 0)
        return false;
    }
    // 0 * infinity would be NaN in the plain step, too.
    if (!finite)
      fragile.insert(op->result_begin(), op->result_end());
    return true;
  }

  Fact transfer(Operation *op, Value result, ArrayRef<Fact> operands) {
    Fact fact;
    SmallVector<Content> held;
    for (const Fact &operand : operands) {
      held.push_back(operand.content);
      fact.depends |= operand.depends;
      fact.changed |= operand.changed;
    }
    fact.content = inferContent(op, cast<OpResult>(result).getResultNumber(), held);
    if (purpose == Purpose::Hazards)
      return fact;
    // A comparison with NaN is false, whatever the ranges of numbers say.
    if (isFragile(op) && isa<IntegerType>(getElementType(result)))
      fact.content = Content::ofType(getElementType(result));
    // Computed for tokens only, whatever it is made of.
    fact.depends |= parametric.contains(result);
    if (fact.content.isNumber())
      fact.depends = false;
    return fact;
  }

  static SmallVector<ZeroHazards::Operand> asOperands(ArrayRef<Fact> facts) {
    return llvm::map_to_vector(
        facts, [](const Fact &fact) { return ZeroHazards::Operand{fact.content, fact.changed}; });
  }

  func::FuncOp function;
  PaddingMask mask;
  DimAttr samples, positions;
  PaddingConditions &conditions;
  Purpose purpose;
  DenseMap<Value, Content> contents;
  TokenElements elements;
  DenseMap<Value, Facts> facts;
  ZeroHazards zeros;
  /// Loops of rows that facts of the op at hand are restricted to.
  SmallVector<SmallVector<unsigned>> rowFrames;
  /// What may be NaN in the plain step for what padding holds.
  llvm::DenseSet<Value> fragile;
  /// What depends on a parameter.
  llvm::DenseSet<Value> parametric;
  DenseMap<unsigned, int64_t> ignored;
  std::string reason;
};
} // namespace

/// The inputs as arguments of the copy.
static PaddingInputs translate(const ElementaryCopy &scratch, PaddingInputs inputs) {
  auto find = [&](BlockArgument argument) {
    return argument ? func::FuncOp(scratch.copy).getArgument(argument.getArgNumber()) : argument;
  };
  inputs.mask.input = find(inputs.mask.input);
  inputs.mask.beside = find(inputs.mask.beside);
  return inputs;
}

PaddingFlow::PaddingFlow(func::FuncOp function)
    : scratch(std::make_unique<ElementaryCopy>(function)) {}
PaddingFlow::~PaddingFlow() = default;

std::string PaddingFlow::follow(const PaddingInputs &inputs, PaddingConditions &conditions) const {
  PaddingInputs translated = translate(*scratch, inputs);
  Flow flow(scratch->copy, translated.mask, conditions, Purpose::Proof);
  return flow.run(translated);
}

PaddingContents PaddingFlow::findContents(const PaddingInputs &inputs) const {
  PaddingInputs translated = translate(*scratch, inputs);
  PaddingConditions conditions;
  // What selects labelled rows reads tokens by index; it is no tokens' value itself.
  Flow flow(scratch->copy, translated.mask, conditions, Purpose::Contents);
  (void)flow.run(translated);
  PaddingContents contents;
  for (auto &[twin, values] : scratch->originals)
    for (const Fact &fact : flow.getFacts(twin))
      if (fact.offset == 0 && fact.rows.empty() && (fact.depends || fact.content.isNumber(0))) {
        // What is masked has to lose a contest.
        const Range &usual = fact.content.usual;
        bool isMasked = usual.hi < -kActivation || usual.lo > kActivation;
        bool holdsZero = fact.content.sure.contains(0) && usual.contains(0);
        for (Value value : values)
          contents.known[value].push_back({fact.axes, !isMasked, holdsZero});
      }
  return contents;
}

std::string PaddingFlow::findHazard(const PaddingInputs &inputs, const Zeros &zeros) const {
  PaddingInputs translated = translate(*scratch, inputs);
  PaddingConditions conditions;
  llvm::append_range(conditions.real, zeros.real);
  Flow flow(scratch->copy, translated.mask, conditions, Purpose::Hazards);
  DenseMap<Value, TokenAxes> wanted;
  for (const Filled &entry : zeros.filled)
    wanted[entry.value] = entry.axes;
  for (auto &[twin, values] : scratch->originals)
    for (Value value : values) {
      if (auto it = wanted.find(value); it != wanted.end())
        flow.filled[twin] = it->second;
      if (llvm::is_contained(zeros.tokenRows, value))
        flow.tokenRows.insert(twin);
    }
  return flow.run(translated);
}

const PaddingContents::Known *PaddingContents::find(Value value, ArrayRef<int64_t> axes) const {
  auto it = known.find(value);
  if (it == known.end())
    return nullptr;
  auto *found = llvm::find_if(
      it->second, [&](const Known &entry) { return ArrayRef<int64_t>(entry.axes) == axes; });
  return found == it->second.end() ? nullptr : found;
}

bool PaddingContents::isPackable(Value value, ArrayRef<int64_t> axes) const {
  const Known *entry = find(value, axes);
  return entry && entry->isPackable;
}

bool PaddingContents::holdsZero(Value value, ArrayRef<int64_t> axes) const {
  const Known *entry = find(value, axes);
  return entry && entry->holdsZero;
}
