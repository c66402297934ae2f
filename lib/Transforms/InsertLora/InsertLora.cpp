// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `insert-lora`: finds the projections, decides which get a branch, then inserts them.

#include "lib/Transforms/InsertLora/InsertLora.h"

#include "dialects/Train/Philox.h"
#include "dialects/Train/RowIdioms.h"
#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/Support/Projections.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Location.h"
#include "trainc/Regex.h"
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

/// A module with a branch: its projections share the parameters.
struct Module {
  std::string path;
  SmallVector<Projection> projections;
  int64_t rank = 0;
  double alpha = 0, scale = 0;
  BlockArgument a, b;
};

/// A number for the modules that an expression matches.
struct Pattern {
  double number;
  Regex regex;
};

remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("insert-lora").function("forward");
}

/// The pass's options, and one run of it.
class LoraInserter {
public:
  LoraInserter(ModuleOp root, func::FuncOp forward) : root(root), forward(forward) {}

  int64_t rank;
  double alpha, dropout;
  std::string targets, save, bias;
  bool rslora;
  SmallVector<std::string> rankPattern, alphaPattern;

  LogicalResult run() {
    if (root->hasAttr(kLoraAttr))
      return error("the branches are there already");
    if (failed(check()) || failed(choose()))
      return failure();
    freeze();
    for (auto &[path, module] : modules)
      insert(module);
    describe();
    return success();
  }

private:
  static std::string text(double number) { return llvm::formatv("{0}", number).str(); }
  LogicalResult error(const Twine &message) { return forward.emitError("insert-lora: " + message); }

  /// The options, as far as they can be judged without the graph.
  LogicalResult check() {
    if (rank < 1)
      return error("the rank must be at least 1, not " + Twine(rank));
    if (!(dropout >= 0 && dropout < 1))
      return error("dropout must be in [0, 1), not " + text(dropout));
    if (bias != "none" && bias != "all" && bias != "lora_only")
      return error("bias must be none, all or lora_only, not '" + bias + "'");
    for (auto &[text, regex] : {std::pair(&targets, &target), std::pair(&save, &saved)})
      if (std::string problem = regex->compile(*text); !problem.empty())
        return error("'" + *text + "': " + problem);
    return failure(failed(parse(rankPattern, ranks)) || failed(parse(alphaPattern, alphas)));
  }
  LogicalResult parse(ArrayRef<std::string> texts, std::vector<Pattern> &patterns) {
    for (StringRef text : texts) {
      auto [number, expression] = text.split('=');
      Pattern pattern;
      if (number.getAsDouble(pattern.number) || expression.empty())
        return error("expected NUMBER=EXPRESSION, got '" + text + "'");
      if (std::string problem = pattern.regex.compile(expression); !problem.empty())
        return error("'" + expression + "': " + problem);
      patterns.push_back(std::move(pattern));
    }
    return success();
  }
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

  LogicalResult choose() {
    llvm::StringSet<> others;
    for (const Projection &projection : findProjections(forward)) {
      StringRef path = pathOf(nameOf(projection.weight));
      if (targets.empty() ? projection.isHead : !target.search(path)) {
        others.insert(path);
        remark::missed(projection.op->getLoc(), options("NotInserted"))
            << remark::add("no branch at '{0}'", path)
            << remark::reason("{0}", targets.empty() ? "it is a head: nothing is projected after it"
                                                     : "targets does not match its name");
        continue;
      }
      Module &module = modules[path];
      if (!module.projections.empty() && module.projections.front().outAxis != projection.outAxis)
        return projection.op->emitError(describeOp(projection.op))
               << " reads '" << path << "' transposed, another node as it is; name other targets";
      module.path = path.str();
      module.projections.push_back(projection);
    }
    if (modules.empty())
      return error(others.empty()
                       ? Twine("the model has no product of activations with a parameter")
                       : "no module's name matches '" + targets + "'; there are " + listed(others));
    for (auto &[path, module] : modules)
      if (failed(size(module)))
        return failure();
    return success();
  }
  /// Names, those that differ in numbers only once.
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

  LogicalResult size(Module &module) {
    const Projection &first = module.projections.front();
    double chosen = numberFor(module.path, ranks, rank);
    std::optional<int64_t> in = first.in().getConstant(), out = first.out().getConstant();
    if (!in || !out)
      return error("'" + module.path + "' has no known size");
    if (chosen < 1 || chosen != std::floor(chosen))
      return error("a rank must be a whole number above 0, not " + text(chosen));
    if (chosen > double(std::min(*in, *out)))
      return error("rank " + Twine(int64_t(chosen)) + " is above the size of '" + module.path +
                   "', " + Twine(*out) + " x " + Twine(*in));
    module.rank = int64_t(chosen);
    module.alpha = numberFor(module.path, alphas, alpha);
    module.scale = module.alpha / (rslora ? std::sqrt(chosen) : chosen);
    return success();
  }

  /// Nothing is trained but what is asked for.
  void freeze() {
    for (BlockArgument argument : forward.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!forward.getArgAttr(number, kTrainableAttr))
        continue;
      StringRef name = nameOf(argument);
      const bool inFull = !save.empty() && saved.search(name);
      StringRef path = name;
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

  BlockArgument addParameter(ArrayRef<int64_t> shape, Type element, StringRef name,
                             NamedAttribute init, Location loc) {
    Builder b(root.getContext());
    return addArgument(forward, "parameter", name, shape, element, loc,
                       {b.getNamedAttr(kTrainableAttr, b.getUnitAttr()),
                        b.getNamedAttr(kInitAttr, b.getDictionaryAttr(init))});
  }

  Value key(TrainBuilder &tb, StringRef user) {
    SmallVector<Value> values;
    for (StringRef name : {"seed", "step", "micro_batch", "rank"}) {
      auto known = llvm::find_if(forward.getArguments(), [&](BlockArgument argument) {
        return getArgRole(forward, argument.getArgNumber()) == "hyper" && nameOf(argument) == name;
      });
      values.push_back(
          known != forward.getArguments().end()
              ? Value(*known)
              : addArgument(forward, "hyper", name, {}, tb.b().getI64Type(), tb.loc()));
    }
    return tb.rngKey(values[0], values[1], values[2], values[3], philox::hashName(user));
  }

  void insert(Module &module) {
    const Projection &first = module.projections.front();
    Builder b(root.getContext());
    Type element = getElementTypeOrSelf(first.weight.getType());
    if (element.getIntOrFloatBitWidth() < 32)
      element = b.getF32Type();
    int64_t in = *first.in().getConstant(), out = *first.out().getConstant();
    Location loc = first.op->getLoc();
    module.a =
        addParameter({module.rank, in}, element, module.path + ".lora_A.weight",
                     b.getNamedAttr("uniform", b.getF64FloatAttr(1 / std::sqrt(double(in)))), loc);
    module.b = addParameter({out, module.rank}, element, module.path + ".lora_B.weight",
                            b.getNamedAttr("constant", b.getF64FloatAttr(0)), loc);
    for (auto [number, projection] : llvm::enumerate(module.projections))
      insertAt(module, projection, number);
    remark::passed(loc, options("Inserted")) << remark::add(
        "a branch of rank {0} and scale {1} at '{2}'", module.rank, module.scale, module.path);
  }
  void insertAt(const Module &module, const Projection &projection, size_t number) {
    Operation *op = projection.op;
    Value result = op->getResult(0), input = projection.input->get();
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    TrainBuilder tb(builder, op->getLoc());
    Type element = getElementTypeOrSelf(result.getType());
    if (dropout > 0) {
      // Before rows are put together, so that an element keeps its sample and its position.
      Value whole = input;
      if (keepsColumns(input.getDefiningOp()))
        whole = input.getDefiningOp()->getOperand(0);
      std::string user = module.path + ".lora_dropout";
      if (number)
        user += "." + std::to_string(number);
      whole = tb.dropout(whole, key(tb, user), builder.getF64FloatAttr(dropout));
      input = tb.reshape(whole, getDims(input));
    }
    Value low = matmul(tb, input, tb.cast(module.a, element));
    // B is the smallest, and is rounded after it is scaled.
    Value scaled = tb.mul(module.b, tb.scalarLike(module.b, module.scale));
    Value branch = matmul(tb, low, tb.cast(scaled, element));
    Value sum = tb.add(result, branch);
    result.replaceAllUsesExcept(sum, sum.getDefiningOp());
  }
  /// rows [..., k] times the transpose of a matrix [n, k].
  static Value matmul(TrainBuilder &tb, Value rows, Value matrix) {
    SmallVector<DimAttr> dims = getDims(rows);
    DimAttr columns = dims.back();
    dims.pop_back();
    Value flat = tb.reshape(rows, {product(tb.context(), dims), columns});
    Value result = tb.matmul(flat, matrix, false, true);
    dims.push_back(getDim(matrix, 0));
    return tb.reshape(result, dims);
  }

  /// What adapter files say.
  void describe() {
    Builder b(root.getContext());
    auto strings = [&](ArrayRef<std::string> texts) {
      SmallVector<StringRef> refs(texts.begin(), texts.end());
      return b.getStrArrayAttr(refs);
    };
    SmallVector<Attribute> entries;
    for (auto &[path, module] : modules) {
      const Projection &first = module.projections.front();
      entries.push_back(b.getDictionaryAttr({
          b.getNamedAttr("path", b.getStringAttr(path)),
          b.getNamedAttr("weight", b.getStringAttr(nameOf(first.weight))),
          b.getNamedAttr("a", b.getStringAttr(nameOf(module.a))),
          b.getNamedAttr("b", b.getStringAttr(nameOf(module.b))),
          b.getNamedAttr("rank", b.getI64IntegerAttr(module.rank)),
          b.getNamedAttr("alpha", b.getF64FloatAttr(module.alpha)),
          b.getNamedAttr("scale", b.getF64FloatAttr(module.scale)),
          b.getNamedAttr("fan_in_fan_out", b.getBoolAttr(first.outAxis == 1)),
      }));
    }
    root->setAttr(kLoraAttr, b.getDictionaryAttr({
                                 b.getNamedAttr("rank", b.getI64IntegerAttr(rank)),
                                 b.getNamedAttr("alpha", b.getF64FloatAttr(alpha)),
                                 b.getNamedAttr("dropout", b.getF64FloatAttr(dropout)),
                                 b.getNamedAttr("rslora", b.getBoolAttr(rslora)),
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
  llvm::MapVector<StringRef, Module> modules;
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
    inserter.rankPattern.assign(rankPattern.begin(), rankPattern.end());
    inserter.alphaPattern.assign(alphaPattern.begin(), alphaPattern.end());
    if (failed(inserter.run()))
      signalPassFailure();
  }
};
} // namespace
