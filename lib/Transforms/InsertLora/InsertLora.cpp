// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `insert-lora`: finds the projections, decides which get a branch, then inserts them.

#include "lib/Transforms/InsertLora/InsertLora.h"

#include "dialects/Train/Diagnostics/Notes.h"
#include "lib/Transforms/InsertLora/Branches.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Formulas/ExistingBranches.h"
#include "trainc/Support/Location.h"
#include "trainc/Support/Nearest.h"
#include "trainc/Support/Obstacle.h"
#include "trainc/Support/Regex.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_INSERTLORAPASS
#include "lib/Transforms/InsertLora/InsertLora.h.inc"
} // namespace trainc

namespace {

/// A number for the modules that an expression matches.
struct Pattern {
  double number;
  std::string expression;
  Regex regex;
};

constexpr char kNameIt[] = "name it: trainc --lora targets=REGEX";

remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("insert-lora").function("forward");
  /// Options are filled in by the pass; everything else is found by `run`.
}

/// The pass's options, and one run of it.
class LoraInserter {
public:
  LoraInserter(ModuleOp root, func::FuncOp forward) : root(root), forward(forward) {}

  int64_t rank;
  double alpha, dropout;
  std::string targets, save, bias;
  bool rslora, dora, existing;
  SmallVector<std::string> rankPattern, alphaPattern;

  /// Checks first, then decides on all modules; only then the graph is changed.
  LogicalResult run() {
    if (root->hasAttr(kLoraAttr))
      return error("the branches are there already");
    if (failed(check()) || failed(existing ? recognise() : choose()))
      return failure();
    // Before branches come, whose parameters are trained.
    freeze();
    if (!save.empty() && savedNames.empty())
      forward.emitWarning() << "insert-lora: save='" << save
                            << "' matches no parameter that could be trained"
                            << nearestMatches(save, parameterNames());
    // With `existing` the graph has its branches already.
    if (existing)
      return train();
    BranchBuilder branches(forward, dropout, dora);
    for (auto &[path, module] : modules) {
      branches.insert(module);
      remark::passed(module.firstOp()->getLoc(), options("Inserted")) << remark::add(
          "a branch of rank {0} and scale {1} at '{2}'", module.rank, module.scale, module.path);
    }
    describe();
    return success();
  }

private:
  static std::string text(double number) { return llvm::formatv("{0}", number).str(); }
  LogicalResult error(const Twine &message) { return forward.emitError("insert-lora: " + message); }

  /// The options, as far as they can be judged without the graph.
  /// What the user has typed, in the order of the options.
  LogicalResult check() {
    if (rank < 1)
      return error("the rank must be at least 1, not " + Twine(rank));
    if (!(dropout >= 0 && dropout < 1))
      return error("dropout must be in [0, 1), not " + text(dropout));
    if (bias != "none" && bias != "all" && bias != "lora_only")
      return error("bias must be none, all or lora_only, not '" + bias + "'");
    for (auto &[text, regex] : {std::pair(&targets, &target), std::pair(&save, &saved)})
      if (std::string problem = regex->compile(*text); !problem.empty())
        return error(problem);
    return failure(failed(parse(rankPattern, ranks)) || failed(parse(alphaPattern, alphas)));
  }
  LogicalResult parse(ArrayRef<std::string> texts, std::vector<Pattern> &patterns) {
    for (StringRef text : texts) {
      // At the first '=': expressions may have others.
      auto [number, expression] = text.split('=');
      Pattern pattern;
      if (number.getAsDouble(pattern.number) || expression.empty())
        return error("expected NUMBER=EXPRESSION, got '" + text + "'");
      if (std::string problem = pattern.regex.compile(expression); !problem.empty())
        return error(problem);
      pattern.expression = expression.str();
      patterns.push_back(std::move(pattern));
    }
    return success();
  }
  /// The first pattern that matches counts, as in PEFT.
  static double numberFor(StringRef path, const std::vector<Pattern> &patterns, double otherwise) {
    for (const Pattern &pattern : patterns)
      if (pattern.regex.search(path))
        return pattern.number;
    return otherwise;
  }

  StringRef nameOf(BlockArgument argument) { return getArgName(forward, argument.getArgNumber()); }
  static StringRef pathOf(StringRef parameter) {
    parameter.consume_back(".weight");
    return parameter;
  }
  /// What the model without adapters calls a module or parameter of a model of PEFT.
  /// As the runtime's export does it: both must agree on names.
  StringRef baseName(StringRef name) {
    const StringRef prefix = "base_model.model.";
    size_t at = name.find(prefix);
    if (at == 0 || (at != StringRef::npos && name[at - 1] == '.'))
      name = name.drop_front(at + prefix.size());
    std::string text = name.str();
    for (size_t part; (part = text.find(".base_layer")) != text.npos;)
      text.erase(part, StringRef(".base_layer").size());
    return StringAttr::get(root.getContext(), text).getValue();
  }

  /// The branches of the graph.
  /// Adopts branches that are in the graph. All of an adapter, or an error.
  LogicalResult recognise() {
    const ExistingBranches branches = findExistingBranches(forward);
    for (const NoBranch &pair : branches.missed)
      remark::missed(pair.b.op->getLoc(), options("NotRecognised"))
          << remark::add("'{0}' and '{1}' are no branch", nameOf(pair.a.weight),
                         nameOf(pair.b.weight))
          << remark::reason("{0}", pair.reason);
    if (branches.found.empty())
      return error("'existing' finds no branch: it looks for W x + scale * B (A x), with A and B "
                   "parameters that only this sum reads and scale a number; without 'existing' "
                   "branches are added to a plain model");
    // Every parameter of the adapter must be part of a branch that was found.
    llvm::SmallPtrSet<Value, 32> parts;
    for (const ExistingBranch &branch : branches.found) {
      if (failed(recognise(branch)))
        return failure();
      parts.insert({branch.a.weight, branch.b.weight});
    }
    // A part that is left would be frozen, and the adapter without it another one.
    for (BlockArgument argument : forward.getArguments())
      if (nameOf(argument).contains(".lora_") && !parts.contains(argument) &&
          getArgRole(forward, argument.getArgNumber()) == "parameter")
        return error(
            "'" + nameOf(argument) +
            "' is part of an adapter that is not recognised: of projections only, "
            "without DoRA (--explain=all says more); export the model without adapters, and "
            "let --lora add them");
    // The common ones, as a file of an adapter states them; others go into its patterns.
    rank = modules.front().second.rank;
    alpha = modules.front().second.alpha;
    return success();
  }
  /// Adds one branch to its module, which may be read in several places with the same matrices.
  LogicalResult recognise(const ExistingBranch &branch) {
    Operation *op = branch.b.op;
    auto refuse = [&](const Twine &why) {
      return attachNotes(op->emitError(describeOp(op))
                             << " is part of a low-rank branch at '" << nameOf(branch.base.weight)
                             << "', " << why.str(),
                         {{"A", branch.a.weight}, {"B", branch.b.weight}});
    };
    StringRef path = baseName(pathOf(nameOf(branch.base.weight)));
    LoraModule &module = modules[path];
    if (!module.a) {
      module.path = path.str();
      module.weight = branch.base.weight;
      module.outAxis = branch.base.outAxis;
      module.inAxis = branch.base.inAxis;
      module.a = branch.a.weight;
      module.b = branch.b.weight;
      module.rank = *branch.a.out().getConstant();
      module.scale = branch.scale;
      double full = branch.scale * (rslora ? std::sqrt(double(module.rank)) : double(module.rank));
      // The graph has the scale in its own precision.
      // alpha was a whole number, most likely.
      module.alpha = std::abs(full - std::round(full)) < 1e-6 * full ? std::round(full) : full;
      // Branches may differ in dropout by what the export has folded; the adapter states one.
      dropout = std::max(dropout, branch.dropout);
      if (branch.a.outAxis != 0 || branch.b.outAxis != 0)
        return refuse("whose matrices are transposed: adapter files have A [rank, in] and B [out, "
                      "rank]");
    } else if (module.a != branch.a.weight || module.b != branch.b.weight) {
      return refuse("which has another one: export the model with one active adapter");
    } else if (module.scale != branch.scale) {
      return refuse("which acts with another scale elsewhere");
    }
    module.projections.push_back(branch.base);
    remark::passed(op->getLoc(), options("Recognised")) << remark::add(
        "a branch of rank {0} and scale {1} at '{2}'", module.rank, module.scale, module.path);
    return success();
  }
  /// What was recognised.
  /// A's and B's; what else is trained `freeze` has left.
  LogicalResult train() {
    UnitAttr yes = UnitAttr::get(root.getContext());
    for (auto &[path, module] : modules)
      for (BlockArgument part : {module.a, module.b})
        forward.setArgAttr(part.getArgNumber(), kTrainableAttr, yes);
    describe();
    return success();
  }

  /// Fills `modules` by targets, or by the default: all projections but heads and tables.
  LogicalResult choose() {
    if (size_t count = findExistingBranches(forward).found.size())
      forward.emitWarning()
          << "insert-lora: the model has " << count
          << " low-rank branches, which count as parts of it: 'existing' in place "
             "of r= and targets= trains them instead";
    // A table that is projected with, too (tied weights).
    llvm::SmallPtrSet<Value, 32> tables;
    const SmallVector<Embedding> embeddings = findEmbeddings(forward);
    for (const Embedding &embedding : embeddings)
      tables.insert(embedding.table);
    for (const Projection &projection : findProjections(forward))
      if (failed(chooseAt(projection, tables.contains(projection.weight))))
        return failure();
    for (const Embedding &embedding : embeddings)
      chooseAt(embedding);
    if (modules.empty() && others.empty())
      return error("the model has no matmul of activations with a parameter");
    if (modules.empty() && targets.empty())
      return error("without targets= the branches are beside all projections but those of heads "
                   "and of embeddings, and the model has none; targets= may name: " +
                   listed(others));
    if (modules.empty())
      return error("no module's name matches '" + targets + "'; there are " + listed(others));
    // Told when it is known that there are branches.
    explainOthers();
    // Sizes last: patterns only matter for modules with a branch.
    for (auto &[path, module] : modules)
      if (failed(size(module)))
        return failure();
    warnOfIdle(ranks, "r");
    warnOfIdle(alphas, "alpha");
    return success();
  }
  /// Of expressions that are likely misspelt.
  /// Not an error: one set of patterns may serve several models.
  void warnOfIdle(const std::vector<Pattern> &patterns, StringRef key) {
    for (const Pattern &pattern : patterns)
      if (llvm::none_of(modules, [&](auto &entry) { return pattern.regex.search(entry.first); }))
        forward.emitWarning() << "insert-lora: " << key << "[" << pattern.expression
                              << "] matches no module that has a branch"
                              << nearestMatches(pattern.expression, moduleNames());
  }
  std::vector<std::string> moduleNames() const {
    std::vector<std::string> names;
    for (auto &entry : modules)
      names.push_back(std::string(entry.first));
    return names;
  }
  std::vector<std::string> parameterNames() {
    std::vector<std::string> names;
    for (BlockArgument argument : forward.getArguments())
      if (getArgRole(forward, argument.getArgNumber()) == "parameter")
        names.push_back(nameOf(argument).str());
    return names;
  }

  void notInserted(Location loc, StringRef path, const Obstacle &obstacle) {
    auto missed = remark::missed(loc, options("NotInserted"));
    missed << remark::add("no branch at '{0}'", path) << remark::reason("{0}", obstacle.reason);
    obstacle.suggestTo(missed);
  }
  /// Of what could have a branch and is not to.
  Obstacle whyUnwanted(bool whole, const Obstacle &byDefault) {
    if (whole)
      return "it is trained in full (save=)";
    return targets.empty() ? byDefault : Obstacle("targets does not match its name");
  }

  /// A module that is read in several places is one entry, with the same matrices.
  LoraModule &moduleAt(StringRef path, BlockArgument weight, unsigned outAxis, unsigned inAxis) {
    LoraModule &module = modules[path];
    module.path = path.str();
    module.weight = weight;
    module.outAxis = outAxis;
    module.inAxis = inAxis;
    return module;
  }

  /// As PEFT has it, a module is either trained in full or has a branch.
  bool trainedInFull(BlockArgument weight) { return !save.empty() && saved.search(nameOf(weight)); }

  LogicalResult chooseAt(const Projection &projection, bool isTable) {
    StringRef path = pathOf(nameOf(projection.weight));
    const bool whole = trainedInFull(projection.weight);
    const bool wanted =
        !whole && (targets.empty() ? !projection.isHead && !isTable : target.search(path));
    if (!wanted) {
      others.insert(path);
      notInserted(
          projection.op->getLoc(), path,
          whyUnwanted(whole, projection.isHead
                                 ? Obstacle("it is a head: nothing is projected after it", kNameIt)
                                 : Obstacle("it is an embedding, too")));
      return success();
    }
    // PEFT has one adapter for each of the two modules, and packages have one parameter.
    // Asked for by name, so it cannot be left out silently.
    if (isTable)
      return attachNotes(
          projection.op->emitError(describeOp(projection.op))
              << " reads '" << nameOf(projection.weight)
              << "', which is the table of an embedding, too: a branch would be of both. Export "
                 "the model with weights of their own (tie_word_embeddings=False in transformers), "
                 "name other targets, or train it in full (save=)",
          {{"the table", projection.weight}});
    auto known = modules.find(path);
    // Both would be one parameter, stored in one layout.
    if (known != modules.end() && known->second.outAxis != projection.outAxis) {
      InFlightDiagnostic error = projection.op->emitError(describeOp(projection.op))
                                 << " reads '" << path
                                 << "' transposed, another node as it is; name other targets";
      Operation *other = known->second.firstOp();
      error.attachNote(other->getLoc()) << "the other one is " << describeOp(other);
      return error;
    }
    moduleAt(path, projection.weight, projection.outAxis, projection.inAxis)
        .projections.push_back(projection);
    return success();
  }
  /// Only what is named: all-linear is of projections.
  /// The table is [rows, width]: its output axis is 1.
  void chooseAt(const Embedding &embedding) {
    StringRef path = pathOf(nameOf(embedding.table));
    const bool whole = trainedInFull(embedding.table);
    if (!whole && !targets.empty() && target.search(path)) {
      moduleAt(path, embedding.table, 1, 0).embeddings.push_back(embedding);
      return;
    }
    others.insert(path);
    notInserted(embedding.op->getLoc(), path, whyUnwanted(whole, {"it is an embedding", kNameIt}));
  }
  /// What targets names and nothing can be put beside.
  /// Remarks only, for matrices: vectors have no branch in PEFT either.
  void explainOthers() {
    for (BlockArgument argument : forward.getArguments()) {
      if (targets.empty() || getArgRole(forward, argument.getArgNumber()) != "parameter" ||
          getRank(argument) < 2)
        continue;
      StringRef path = pathOf(nameOf(argument));
      if (target.search(path) && !modules.count(path))
        notInserted(argument.getLoc(), path,
                    "activations are not multiplied with it, and its rows are not looked up");
    }
  }

  /// Names, those that differ in numbers only once.
  /// layers.0.q and layers.1.q are one kind: numbers are shown as N. At most 20.
  static std::string listed(const llvm::StringSet<> &names) {
    std::set<std::string> kinds;
    for (const auto &entry : names) {
      std::string kind;
      for (char c : entry.getKey())
        if (!isdigit(c))
          kind += c;
        else if (kind.empty() || kind.back() != 'N')
          kind += 'N';
      kinds.insert(kind);
    }
    std::string text;
    size_t count = 0;
    for (const std::string &kind : kinds)
      if (++count <= 20)
        text += (text.empty() ? "'" : ", '") + kind + "'";
    if (count > 20)
      text += " and " + std::to_string(count - 20) + " more";
    return text;
  }

  /// Rank, alpha and scale of a module by the options and its size; an error names what is
  /// impossible.
  LogicalResult size(LoraModule &module) {
    double chosen = numberFor(module.path, ranks, rank);
    std::optional<int64_t> in = module.in().getConstant(), out = module.out().getConstant();
    if (!in || !out)
      return error("'" + module.path + "' has no known size");
    if (chosen < 1 || chosen != std::floor(chosen) || std::isinf(chosen))
      return error("a rank must be a whole number above 0, not " + text(chosen));
    // A larger rank would have more numbers than the matrix.
    if (chosen > double(std::min(*in, *out)))
      return error("rank " + Twine(int64_t(chosen)) + " is above the size of '" + module.path +
                   "', " + Twine(*out) + " x " + Twine(*in));
    module.rank = int64_t(chosen);
    module.alpha = numberFor(module.path, alphas, alpha);
    module.scale = module.alpha / (rslora ? std::sqrt(chosen) : chosen);
    // 0 would never train.
    if (!std::isfinite(module.scale) || module.scale == 0)
      return error("'" + module.path + "' would have a branch of scale " + text(module.scale));
    return success();
  }

  /// Nothing is trained but what is asked for.
  /// Trained afterwards: modules saved in full, biases as `bias` says, and branches. `savedNames`
  /// and `biasNames` are in the order of the arguments.
  void freeze() {
    for (BlockArgument argument : forward.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!forward.getArgAttr(number, kTrainableAttr))
        continue;
      StringRef name = nameOf(argument);
      const bool inFull = (!save.empty() && saved.search(name)) ||
                          // PEFT's copies of what it trains in full.
                          (existing && name.contains(".modules_to_save."));
      // Only modules with a branch have trained biases with lora_only.
      StringRef path = existing ? baseName(name) : name;
      const bool trainsBias = path.consume_back(".bias") &&
                              (bias == "all" || (bias == "lora_only" && modules.count(path)));
      if (inFull)
        savedNames.push_back(name.str());
      else if (trainsBias)
        biasNames.push_back(name.str());
      else
        forward.removeArgAttr(number, kTrainableAttr);
    }
  }

  /// What adapter files say.
  /// On the module, from where it goes into the manifest.
  void describe() {
    Builder b(root.getContext());
    auto strings = [&](ArrayRef<std::string> texts) {
      SmallVector<StringRef> refs(texts.begin(), texts.end());
      return b.getStrArrayAttr(refs);
    };
    SmallVector<Attribute> entries;
    for (auto &[path, module] : modules) {
      // fan_in_fan_out: the weight is stored as [in, out], as GPT-2's Conv1D has it.
      SmallVector<NamedAttribute> entry{
          b.getNamedAttr("path", b.getStringAttr(path)),
          b.getNamedAttr("weight", b.getStringAttr(nameOf(module.weight))),
          b.getNamedAttr("a", b.getStringAttr(nameOf(module.a))),
          b.getNamedAttr("b", b.getStringAttr(nameOf(module.b))),
          b.getNamedAttr("rank", b.getI64IntegerAttr(module.rank)),
          b.getNamedAttr("alpha", b.getF64FloatAttr(module.alpha)),
          b.getNamedAttr("scale", b.getF64FloatAttr(module.scale)),
          b.getNamedAttr("fan_in_fan_out",
                         b.getBoolAttr(module.outAxis == 1 && !module.isEmbedding())),
          b.getNamedAttr("embedding", b.getBoolAttr(module.isEmbedding())),
      };
      if (module.magnitude)
        entry.push_back(b.getNamedAttr("magnitude", b.getStringAttr(nameOf(module.magnitude))));
      entries.push_back(b.getDictionaryAttr(entry));
    }
    root->setAttr(kLoraAttr, b.getDictionaryAttr({
                                 b.getNamedAttr("rank", b.getI64IntegerAttr(rank)),
                                 b.getNamedAttr("alpha", b.getF64FloatAttr(alpha)),
                                 b.getNamedAttr("dropout", b.getF64FloatAttr(dropout)),
                                 b.getNamedAttr("rslora", b.getBoolAttr(rslora)),
                                 b.getNamedAttr("dora", b.getBoolAttr(dora)),
                                 b.getNamedAttr("bias", b.getStringAttr(bias)),
                                 b.getNamedAttr("modules", b.getArrayAttr(entries)),
                                 b.getNamedAttr("modules_to_save", strings(savedNames)),
                                 b.getNamedAttr("trained_biases", strings(biasNames)),
                             }));
  }

  ModuleOp root;
  func::FuncOp forward;
  Regex target, saved;
  std::vector<Pattern> ranks, alphas;
  llvm::MapVector<StringRef, LoraModule> modules;
  llvm::StringSet<> others;
  SmallVector<std::string> savedNames, biasNames;
};

struct InsertLoraPass : trainc::impl::InsertLoraPassBase<InsertLoraPass> {
  using InsertLoraPassBase::InsertLoraPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward) {
      getOperation().emitError("insert-lora: expected the function @forward");
      return signalPassFailure();
    }
    LoraInserter inserter(getOperation(), forward);
    inserter.rank = rank;
    inserter.alpha = alpha;
    inserter.dropout = dropout;
    inserter.targets = targets;
    inserter.save = save;
    inserter.bias = bias;
    inserter.rslora = rslora;
    inserter.dora = dora;
    inserter.existing = existing;
    inserter.rankPattern.assign(rankPattern.begin(), rankPattern.end());
    inserter.alphaPattern.assign(alphaPattern.begin(), alphaPattern.end());
    if (failed(inserter.run()))
      signalPassFailure();
  }
};
} // namespace
