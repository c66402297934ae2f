// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `find-padding`: chooses the mask and asks the flow of padding.

#include "lib/Transforms/EliminatePadding/EliminatePadding.h"
#include "lib/Transforms/EliminatePadding/PaddingFlow.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Analysis/TokenInputs.h"
#include "trainc/Formulas/InputTests.h"
#include "trainc/Formulas/Windows.h"
#include "trainc/Support/Obstacle.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FINDPADDINGPASS
#include "lib/Transforms/EliminatePadding/EliminatePadding.h.inc"
} // namespace trainc

namespace {

/// A way in which the model may tell padding.
struct Candidate {
  PaddingMask mask;
  /// By convention, or as the user says; else it is a guess, which the proof has to confirm.
  bool isNamed = false;
  /// Whether it is to be 0 and 1; other numbers are more than a mask.
  bool isBinary = false;
  /// Whether it numbers documents, and has to be above padding's number at all tokens.
  bool areDocuments = false, isAbove = false;
};

/// In the order in which they are tried: numbers of documents before the mask beside them, since
/// these tell more; then guesses in the order of the arguments.
SmallVector<Candidate> findCandidates(func::FuncOp forward, const TokenInput &tokens,
                                      const PaddingInputs &padding) {
  // What a mask has to be like depends on how the model reads it.
  // A candidate, or none where the model reads the input in no way that a mask is read.
  auto make = [](BlockArgument input, int64_t value, bool named) -> std::optional<Candidate> {
    TokenTests tests = findTokenTests(input, value);
    bool marks = getElementType(input).isInteger(1);
    bool documents = !marks && tests.areAlike && comparesWithItself(input);
    // A bit is a mask. Named masks are 0 and 1 by convention; others only if the model computes
    // with them, where any other number would be scaled into the result.
    bool binary = marks || (value == 0 && !documents && (named || isComputedWith(input)));
    if (!named && !binary && !tests.areAlike)
      return std::nullopt;
    // Order matters where tokens are told by being larger than something.
    bool above = !binary && tests.needOrder;
    PaddingMask mask = binary  ? PaddingMask::binary(input, value)
                       : above ? PaddingMask::above(input, value)
                               : PaddingMask::other(input, value);
    return Candidate{mask, named, binary, documents, above};
  };
  SmallVector<Candidate> candidates;
  // The mask is known; inputs beside it may number the documents of a row.
  if (tokens.byMask || tokens.padValue) {
    for (BlockArgument argument : forward.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (argument == tokens.mask || argument == tokens.input ||
          getArgRole(forward, number) != "input" || getDims(argument) != getDims(tokens.input) ||
          !isa<IntegerType>(getElementType(argument)) || padding.labels.contains(number) ||
          getElementType(argument).isInteger(1) || !comparesWithItself(argument))
        continue;
      std::optional<Candidate> documents = make(argument, 0, /*named=*/true);
      if (!documents->areDocuments)
        continue;
      if (tokens.byMask)
        documents->mask.beside = tokens.mask;
      candidates.push_back(*documents);
    }
    candidates.push_back(tokens.byMask
                             ? *make(tokens.mask, 0, /*named=*/true)
                             : Candidate{PaddingMask::other(tokens.input, *tokens.padValue),
                                         /*isNamed=*/true});
    return candidates;
  }
  // Any integers that the model compares with one number, or with each other: it may be the mask,
  // or numbers of documents.
  for (BlockArgument argument : forward.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (getArgRole(forward, number) != "input" || getDims(argument) != getDims(tokens.input) ||
        !isa<IntegerType>(getElementType(argument)) || padding.labels.contains(number))
      continue;
    // Each number that the input is compared with may be what padding holds.
    SmallVector<int64_t> numbers = comparedNumbers(argument, /*neighbours=*/true);
    if (getElementType(argument).isInteger(1))
      numbers = {0, 1};
    else if (comparesWithItself(argument) && !llvm::is_contained(numbers, 0))
      numbers.push_back(0);
    for (int64_t value : numbers)
      if (std::optional<Candidate> candidate = make(argument, value, /*named=*/false))
        candidates.push_back(*candidate);
  }
  return candidates;
}

struct FindPaddingPass : trainc::impl::FindPaddingPassBase<FindPaddingPass> {
  using FindPaddingPassBase::FindPaddingPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward)
      return;
    SmallVector<TokenInput> inputs = findTokenInputs(forward);
    // Labels first: every proof starts from what ignored labels hold at padding.
    PaddingInputs padding;
    for (const TokenInput &input : inputs)
      if (input.role == TokenRole::Label)
        padding.labels[input.input.getArgNumber()] = *input.padValue;
    PaddingFlow flow(forward);
    // Tokens of other sizes (a decoder's) have a mask of their own.
    // A model with several sequences may have a mask for each; all that are found are kept.
    SmallVector<Attribute> found;
    bool declined = false;
    Location location = forward.getBody().front().front().getLoc();
    // Each input of tokens by itself; the first candidate that can be proved is taken.
    for (const TokenInput &tokens : inputs) {
      if (tokens.role != TokenRole::Embed || getRank(tokens.input) != 2)
        continue;
      SmallVector<Candidate> candidates = findCandidates(forward, tokens, padding);
      Location here = tokens.uses.front()->getOwner()->getLoc();
      Obstacle first;
      DictionaryAttr result;
      for (const Candidate &candidate : candidates) {
        std::string reason;
        result = prove(forward, flow, padding, tokens, candidate, reason);
        // The reason told is that of the first candidate: what the user would expect to be the
        // mask.
        if (result)
          break;
        if (!first.empty())
          continue;
        if (candidate.isNamed)
          first = reason;
        else
          first = {"no input masks it: where " + nameOf(forward, candidate.mask) + " is " +
                       Twine(candidate.mask.value) + ", " + reason,
                   kSayWhatPads};
      }
      if (result) {
        remark::passed(here, options("Found"))
            << remark::add("padding is where {0} is {1}; it reaches no token",
                           result.getAs<StringAttr>("input").getValue(),
                           result.getAs<IntegerAttr>("value").getInt());
        found.push_back(result);
      } else if (!first.empty()) {
        auto missed = remark::missed(here, options("Declined"));
        missed << remark::add("padding is computed like tokens")
               << remark::reason("{0}", first.reason);
        first.suggestTo(missed);
        declined = true;
      }
    }
    if (!found.empty())
      forward->setAttr(kPaddingAttr, ArrayAttr::get(&getContext(), found));
    else if (!declined)
      remark::missed(location, options("Declined"))
          << remark::add("padding is computed like tokens") << remark::reason("no input masks it")
          << remark::suggest(kSayWhatPads);
  }

private:
  static constexpr char kSayWhatPads[] =
      "say what pads: trainc --pad-token INPUT=ID, or INPUT=MASK";

  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name).category("find-padding").function("forward");
  }
  static std::string nameOf(func::FuncOp forward, const PaddingMask &mask) {
    return getArgName(forward, mask.input.getArgNumber()).str();
  }

  /// What `train.padding` says of the candidate; null, and the reason, where padding has an
  /// influence.
  /// Tries the candidate under each assumption about ids. The conditions are those of the attempt
  /// that succeeds, as each starts with none.
  DictionaryAttr prove(func::FuncOp forward, const PaddingFlow &flow, PaddingInputs padding,
                       const TokenInput &tokens, const Candidate &candidate, std::string &reason) {
    padding.mask = candidate.mask;
    // First whatever ids padding holds; then, if the model tells padding by an id, only that one.
    SmallVector<std::optional<int64_t>> guesses = {std::nullopt};
    if (candidate.mask.input != tokens.input)
      for (int64_t number : comparedNumbers(tokens.input))
        guesses.push_back(number);
    for (std::optional<int64_t> guess : guesses) {
      padding.ids.clear();
      if (guess)
        padding.ids[tokens.input.getArgNumber()] = *guess;
      // The mask beside documents is 0 at padding.
      if (candidate.mask.beside)
        padding.ids[candidate.mask.beside.getArgNumber()] = 0;
      PaddingConditions conditions;
      std::string why = flow.follow(padding, conditions);
      if (why.empty())
        return describe(forward, candidate, padding, conditions);
      if (reason.empty())
        reason = why;
    }
    return {};
  }

  /// What the runtime has to test of a batch, and what later passes need to repeat the proof.
  DictionaryAttr describe(func::FuncOp forward, const Candidate &candidate,
                          const PaddingInputs &padding, const PaddingConditions &conditions) {
    const PaddingMask &mask = candidate.mask;
    Builder builder(&getContext());
    StringAttr input = builder.getStringAttr(nameOf(forward, mask));
    IntegerAttr value = builder.getI64IntegerAttr(mask.value);
    SmallVector<Attribute> list;
    auto add = [&](StringRef kind, ArrayRef<NamedAttribute> fields) {
      SmallVector<NamedAttribute> all = {builder.getNamedAttr("kind", builder.getStringAttr(kind))};
      llvm::append_range(all, fields);
      list.push_back(builder.getDictionaryAttr(all));
    };
    NamedAttribute maskField = builder.getNamedAttr("mask", input),
                   paddingField = builder.getNamedAttr("padding", value);
    // A test of the data, since nothing else keeps a batch from holding a 2.
    if (candidate.isBinary)
      add("binary", {builder.getNamedAttr("input", input)});
    if (candidate.isAbove)
      add("above", {maskField, paddingField});
    if (candidate.areDocuments)
      add("contiguous", {maskField, paddingField});
    // For `raise-attention`, whose windows count places: tokens stay as far apart as they were.
    if ((candidate.isBinary || candidate.areDocuments) && hasWindow(forward))
      add("unbroken", {maskField, paddingField});
    auto addFixed = [&](NamedAttribute mask, StringRef input, int64_t shift, int64_t value) {
      add("fixed_where_padded",
          {mask, paddingField, builder.getNamedAttr("input", builder.getStringAttr(input)),
           builder.getNamedAttr("shift", builder.getI64IntegerAttr(shift)),
           builder.getNamedAttr("value", builder.getI64IntegerAttr(value))});
    };
    for (const PaddingConditions::Fixed &fixed : conditions.fixed)
      addFixed(maskField, getArgName(forward, fixed.input), fixed.shift, fixed.value);
    // Where the mask is 0, no document has a number.
    if (candidate.mask.beside) {
      StringAttr named =
          builder.getStringAttr(getArgName(forward, candidate.mask.beside.getArgNumber()));
      add("binary", {builder.getNamedAttr("input", named)});
      addFixed(builder.getNamedAttr("mask", named), input.getValue(), /*shift=*/0, mask.value);
    }
    for (int64_t index : conditions.real)
      add("real_at", {maskField, paddingField,
                      builder.getNamedAttr("index", builder.getI64IntegerAttr(index))});
    // -2: in any column.
    for (const PaddingConditions::Some &some : conditions.some)
      add("real_at",
          {builder.getNamedAttr("mask", builder.getStringAttr(getArgName(forward, some.input))),
           builder.getNamedAttr("padding", builder.getI64IntegerAttr(some.value)),
           builder.getNamedAttr("index", builder.getI64IntegerAttr(-2))});
    SmallVector<NamedAttribute> fields = {
        builder.getNamedAttr("input", input), builder.getNamedAttr("value", value),
        builder.getNamedAttr("conditions", builder.getArrayAttr(list))};
    // What else the proof took for granted, for what is made of it.
    // DictionaryAttr sorts by name: the order of the map does not matter.
    auto addInputs = [&](StringRef name, const DenseMap<unsigned, int64_t> &inputs) {
      SmallVector<NamedAttribute> values;
      for (auto [number, held] : inputs)
        values.push_back(
            builder.getNamedAttr(getArgName(forward, number), builder.getI64IntegerAttr(held)));
      if (!values.empty())
        fields.push_back(builder.getNamedAttr(name, builder.getDictionaryAttr(values)));
    };
    addInputs("labels", padding.labels);
    addInputs("ids", padding.ids);
    if (candidate.areDocuments)
      fields.push_back(builder.getNamedAttr("documents", builder.getUnitAttr()));
    if (candidate.isBinary)
      fields.push_back(builder.getNamedAttr("binary", builder.getUnitAttr()));
    if (candidate.mask.beside)
      fields.push_back(builder.getNamedAttr(
          "beside",
          builder.getStringAttr(getArgName(forward, candidate.mask.beside.getArgNumber()))));
    if (candidate.isAbove)
      fields.push_back(builder.getNamedAttr("above", builder.getUnitAttr()));
    return builder.getDictionaryAttr(fields);
  }
};
} // namespace
