// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each check is linear in what it looks at: ops, arguments, and the different types.

#include "lib/Phases/Functions.h"
#include "dialects/Train/Collectives/Shards.h"
#include "trainc/Plugin/LoadedPlugins.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Every message says after which phase it is.
InFlightDiagnostic phases::refuse(Operation *op, StringRef phase) {
  return op->emitError("after the phase '") << phase << "' ";
}

LogicalResult phases::refuseOp(Operation *op, StringRef phase, StringRef leaves) {
  return refuse(op, phase) << "there is no place for the op '" << op->getName() << "': it leaves "
                           << leaves;
}

LogicalResult phases::checkFunctionNames(ModuleOp module, StringRef phase,
                                         ArrayRef<Operation *> functions) {
  // A variant may stand before what it is a variant of.
  llvm::StringMap<Operation *> byName;
  for (Operation *function : functions)
    byName[SymbolTable::getSymbolName(function)] = function;
  for (Operation *function : functions) {
    StringRef name = SymbolTable::getSymbolName(function);
    // Plain functions.
    if (llvm::is_contained(
            {"step", "absent_step", "micro", "absent", "update", "derive", "loss_weight", "eval"},
            name))
      continue;
    auto base = function->getAttrOfType<StringAttr>(kVariantOfAttr);
    // One level: variants have none of their own.
    if (!base || !llvm::is_contained({"step", "micro", "update", "eval"}, base.getValue()))
      return refuse(function, phase)
             << "a function is @step, @absent_step, @micro, @absent, "
                "@update, @derive, @loss_weight, @eval or a variant of one, not @"
             << name;
    if (!byName.contains(base.getValue()))
      return refuse(function, phase)
             << "@" << name << " is a variant of @" << base.getValue() << ", which is not there";
  }
  if (!byName.contains("eval"))
    return refuse(module, phase) << "there is a function @eval, and here is none";
  // Accumulation needs both, and step is their sum.
  const bool micro = byName.contains("micro"), update = byName.contains("update");
  if (micro != update || (micro && !byName.contains("step")))
    return refuse(module, phase) << "@micro and @update come with each other and with @step";
  return success();
}

namespace {
/// The sizes of a module; types that were looked at once are known.
class Sizes {
public:
  explicit Sizes(ModuleOp module) {
    for (auto symbol : module.getOps<SymbolOp>()) {
      declared.insert(symbol.getSymName());
      hasRank |= symbol.getSymName() == kRankSymbol && isOfRun(symbol);
    }
  }

  /// What is wrong with the sizes of the type; "": nothing.
  std::string problem(Type type) {
    // Types are unique: each is looked at once.
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.hasStaticShape() || !seen.insert(type).second)
      return "";
    std::string text;
    for (DimAttr dim : getDims(tensor))
      dim.forEachSymbol([&](StringRef symbol) {
        if (!declared.contains(symbol))
          text = undeclared(symbol);
        else if (hasRank && symbol == kRankSymbol)
          text = "sizes are the same on all ranks, only starts depend on which it is";
      });
    return text;
  }
  /// The same of numbers that are made of sizes, such as the steps of a loop.
  std::string problem(Operation &op) {
    std::string text;
    for (NamedAttribute attribute : op.getAttrs())
      if (seenNumbers.insert(attribute.getValue()).second)
        attribute.getValue().walk([&](DimAttr dim) {
          dim.forEachSymbol([&](StringRef symbol) {
            if (!declared.contains(symbol))
              text = undeclared(symbol);
          });
        });
    return text;
  }

private:
  static std::string undeclared(StringRef symbol) {
    return "every size is declared, but no train.symbol has the name '" + symbol.str() + "'";
  }

  llvm::StringSet<> declared;
  bool hasRank = false;
  llvm::DenseSet<Type> seen;
  llvm::DenseSet<Attribute> seenNumbers;
};
} // namespace

/// Empty where it is absent or no text: both are wrong then.
static StringRef textOf(DictionaryAttr attributes, StringRef name) {
  auto text = attributes ? attributes.getAs<StringAttr>(name) : StringAttr();
  return text ? text.getValue() : StringRef();
}

LogicalResult phases::checkFunction(func::FuncOp function, StringRef phase, const Roles &roles) {
  if (!function.getBody().hasOneBlock() ||
      !isa<func::ReturnOp>(function.getBody().front().getTerminator()))
    return refuse(function, phase)
           << "the body of a function is one block, which func.return ends, and that of @"
           << function.getName() << " is not";
  // Role and name of each, for what results update.
  llvm::DenseSet<std::pair<StringRef, StringRef>> arguments;
  auto check = [&](ArrayRef<StringRef> allowed, DictionaryAttr attributes, StringRef what,
                   unsigned index) -> LogicalResult {
    // A role that the phase knows, and a name.
    StringRef role = textOf(attributes, kRoleAttr), name = textOf(attributes, kNameAttr);
    if (!llvm::is_contained(allowed, role))
      return refuse(function, phase)
             << what << " " << index << " of @" << function.getName() << " is one of "
             << llvm::join(allowed, ", ") << ", not '" << role << "'";
    if (name.empty())
      return refuse(function, phase)
             << what << " " << index << " of @" << function.getName() << " has a name";
    return success();
  };
  Sizes sizes(function->getParentOfType<ModuleOp>());
  auto checkType = [&](Operation *op, Type type) -> LogicalResult {
    // Types of arguments and of all results.
    if (std::string problem = sizes.problem(type); !problem.empty())
      return refuse(op, phase) << problem;
    return success();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    DictionaryAttr attributes = function.getArgAttrDict(i);
    if (failed(check(roles.arguments, attributes, "argument", i)) ||
        failed(checkType(function, function.getArgument(i).getType())))
      return failure();
    arguments.insert({textOf(attributes, kRoleAttr), textOf(attributes, kNameAttr)});
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    DictionaryAttr attributes = function.getResultAttrDict(i);
    if (failed(check(roles.results, attributes, "result", i)))
      return failure();
    // An update names an argument of this function.
    StringRef name = textOf(attributes, kNameAttr), updates = textOf(attributes, kUpdatesAttr);
    if (textOf(attributes, kRoleAttr) == "update" && !arguments.contains({updates, name}))
      return refuse(function, phase)
             << "what is updated is an argument, but @" << function.getName() << " has no "
             << updates << " '" << name << "'";
  }
  for (Operation &op : function.getBody().front()) {
    for (Type type : op.getResultTypes())
      if (failed(checkType(&op, type)))
        return failure();
    if (std::string problem = sizes.problem(op); !problem.empty())
      return refuse(&op, phase) << problem;
  }
  return success();
}

LogicalResult phases::checkGraphOps(func::FuncOp function, StringRef phase, StringRef leaves) {
  // Only ops of the dialect and of plug-ins, and no kernels yet.
  for (Operation &op : function.getBody().front().without_terminator()) {
    Dialect *dialect = op.getDialect();
    const bool isKnown = isa_and_nonnull<TrainDialect>(dialect) ||
                         (dialect && plugin::findPluginOfDialect(dialect->getNamespace()));
    if (!isKnown || isa<FusionOp>(op))
      return refuseOp(&op, phase, leaves);
  }
  return success();
}

LogicalResult phases::checkFunctions(ModuleOp module, StringRef phase, StringRef leaves) {
  SmallVector<Operation *> functions;
  for (Operation &op : *module.getBody()) {
    // Symbols may stand anywhere.
    if (isa<SymbolOp>(op))
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return refuseOp(&op, phase, leaves);
    if (failed(checkFunction(function, phase,
                             {{"parameter", "input", "hyper", "state", "gradient", "derived"},
                              {"loss", "output", "update"}})))
      return failure();
    functions.push_back(function);
  }
  // Functions are right one by one; now together.
  return checkFunctionNames(module, phase, functions);
}
