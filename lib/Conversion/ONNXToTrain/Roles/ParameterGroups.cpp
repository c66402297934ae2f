// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parameters that are not trained have neither a rate nor a decay.

#include "trainc/Conversion/ParameterGroups.h"

#include "dialects/Train/TrainDialect.h"
#include "lib/Conversion/ONNXToTrain/Roles/LayerNumbers.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Regex.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// What the Trainer of transformers takes for the name of a bias or a norm.
static constexpr StringLiteral kNormsAndBiases =
    "[bB]ias|[lL]ayer[nN]orm|[rR][mM][sS][nN]orm|(^|\\.)[nN]orm($|\\.)|_[nN]orm($|\\.)";

namespace {
/// A group whose expression is compiled.
struct Matcher {
  explicit Matcher(const ParameterGroup &group) : group(group) {
    // Both were compiled when options were read: they do not fail.
    regex.compile(group.pattern.empty() ? kNormsAndBiases.str() : group.pattern);
  }
  bool matches(BlockArgument parameter, StringRef name) const {
    // The scales of norms have one axis whatever they are called.
    return regex.search(name) || (group.pattern.empty() && getRank(parameter) <= 1);
  }
  /// The option as the user wrote it.
  std::string origin() const {
    return group.option + (group.pattern.empty() ? " auto" : " '" + group.pattern + "'");
  }

  const ParameterGroup &group;
  Regex regex;
};
} // namespace

/// As short as it can be written.
static std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

/// "a, b"
static void append(std::string &text, const std::string &more) {
  text += (text.empty() ? "" : ", ") + more;
}

std::vector<GroupDecision> trainc::applyGroups(func::FuncOp forward,
                                               ArrayRef<ParameterGroup> groups, double lr,
                                               double layerDecay) {
  std::vector<Matcher> matchers;
  // Groups in the order of the options.
  for (const ParameterGroup &group : groups)
    matchers.emplace_back(group);
  std::optional<LayerNumbers> layers;
  // Without decay by layers no names are read.
  if (layerDecay != 0 && layerDecay != 1)
    layers.emplace(forward);
  Builder builder(forward.getContext());
  std::vector<GroupDecision> decisions;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
    // Only what is trained.
    if (!forward.getArgAttr(i, kTrainableAttr) || !name)
      continue;
    BlockArgument parameter = forward.getArgument(i);
    GroupDecision decision{name.str(), 1, 1, std::nullopt, ""};
    // The first group that says something about a rate decides it; the same for decay, on its own.
    bool hasRate = false, hasDecay = false;
    for (const Matcher &matcher : matchers) {
      const ParameterGroup &group = matcher.group;
      const bool rate = !hasRate && (group.lr || group.lrFactor);
      const bool decay = !hasDecay && (group.decay || group.decayFactor);
      if ((!rate && !decay) || !matcher.matches(parameter, name.getValue()))
        continue;
      if (rate) {
        hasRate = true;
        // Rates are stored relative to the base rate, so that schedules scale them.
        decision.lrFactor = group.lr ? *group.lr / lr : *group.lrFactor;
        append(decision.text, (group.lr ? "learning rate " + number(*group.lr)
                                        : "learning rate x " + number(*group.lrFactor)) +
                                  " (" + matcher.origin() + ")");
      }
      if (decay) {
        hasDecay = true;
        assert((group.decay || group.decayFactor) && "it says something about decay");
        decision.decay = group.decay;
        decision.decayFactor = group.decayFactor.value_or(1);
        append(decision.text, (group.decay ? "weight decay " + number(*group.decay)
                                           : "weight decay x " + number(*group.decayFactor)) +
                                  " (" + matcher.origin() + ")");
      }
    }
    // On top of the group's.
    if (layers)
      if (unsigned below = layers->below(i)) {
        decision.lrFactor *= std::pow(layerDecay, below);
        append(decision.text, "learning rate x " + number(layerDecay) + "^" +
                                  std::to_string(below) + " (--layer-decay)");
      }
    if (decision.lrFactor != 1)
      forward.setArgAttr(i, kLrScaleAttr, builder.getF64FloatAttr(decision.lrFactor));
    // An absolute decay hides a factor.
    if (decision.decay)
      forward.setArgAttr(i, kWeightDecayAttr, builder.getF64FloatAttr(*decision.decay));
    else if (decision.decayFactor != 1)
      forward.setArgAttr(i, kDecayScaleAttr, builder.getF64FloatAttr(decision.decayFactor));
    if (!decision.text.empty())
      remark::passed(NameLoc::get(name),
                     remark::RemarkOpts::name("Grouped").category("group").function("forward"))
          << remark::add("{0}", decision.text);
    // Parameters without a group have a decision, too.
    decisions.push_back(std::move(decision));
  }
  return decisions;
}
