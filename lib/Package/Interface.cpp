// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects the interface of a package from function attributes.

#include "trainc/Package/Interface.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/Collectives/Shards.h"
#include "trainc/Analysis/Roles.h"
#include "trainc/Analysis/TokenInputs.h"
#include "trainc/Conversion/GradNorm.h"
#include "trainc/Conversion/LossWeight.h"
#include "trainc/Conversion/ParameterGroups.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// From a blob of the importer, a small constant, or everything if wanted.
bool trainc::travelsInside(const InterfaceTensor &tensor, bool all) {
  return tensor.weight && !tensor.weight.getAbsent() &&
         (all || tensor.weight.getFile().getValue().empty() ||
          (!tensor.trainable && tensor.weight.getLength() <= kSmallConstant));
}

/// Linear: tables are short, and looked up only while compiling.
int PackageInterface::find(const std::vector<InterfaceTensor> &table, StringRef name) {
  for (auto [index, tensor] : llvm::enumerate(table))
    if (tensor.name == name)
      return index;
  return -1;
}

StringRef PackageInterface::loss() const {
  for (const InterfaceTensor &output : outputs)
    if (output.isLoss)
      return output.name;
  return {};
}

/// The entry of that name, made if it is new.
/// In the order in which functions mention them.
static InterfaceTensor &entry(std::vector<InterfaceTensor> &table, StringRef name, Type type) {
  int index = PackageInterface::find(table, name);
  if (index < 0) {
    InterfaceTensor tensor;
    tensor.name = name.str();
    assert(isa<RankedTensorType>(type) && "arguments are tensors");
    tensor.type = cast<RankedTensorType>(type);
    table.push_back(std::move(tensor));
    index = table.size() - 1;
  }
  return table[index];
}

/// State as a whole, where the function has a rank's shard; of accumulators the shard alone is
/// noted.
static void addShared(PackageInterface &interface, func::FuncOp function, unsigned argument) {
  const std::optional<Shard> shard = getShard(function, argument);
  StringRef name = getArgName(function, argument);
  Type type = shard ? Type(shard->of) : function.getArgument(argument).getType();
  if (getArgRole(function, argument) == "state")
    entry(interface.state, name, type).shardUnit = shard ? shard->unit : 0;
  else if (shard)
    entry(interface.parameters, name, type).gradientUnit = shard->unit;
}

/// What a function says of a parameter.
static void addParameter(PackageInterface &interface, func::FuncOp function, unsigned argument) {
  // The whole, where a rank holds a shard.
  const std::optional<Shard> shard = getShard(function, argument);
  InterfaceTensor &tensor =
      entry(interface.parameters, getArgName(function, argument),
            shard ? Type(shard->of) : function.getArgument(argument).getType());
  if (shard)
    tensor.shardUnit = shard->unit;
  // Trained in one function is trained; the others agree or say nothing.
  tensor.trainable |= function.getArgAttr(argument, kTrainableAttr) != nullptr;
  if (auto weight = function.getArgAttrOfType<WeightAttr>(argument, kWeightAttr))
    tensor.weight = weight;
  // The last function that says something wins: all say the same.
  tensor.group.clear();
  for (auto [attribute, key] : {std::pair<StringRef, StringRef>(kLrScaleAttr, "lr_factor"),
                                {kDecayScaleAttr, "weight_decay_factor"},
                                {kWeightDecayAttr, "weight_decay"}})
    if (auto value = function.getArgAttrOfType<FloatAttr>(argument, attribute))
      tensor.group.emplace_back(key, value.getValueAsDouble());
  if (auto init = function.getArgAttrOfType<DictionaryAttr>(argument, kInitAttr))
    tensor.init = init;
  if (auto quantized = function.getArgAttrOfType<DictionaryAttr>(argument, kQuantizedAttr)) {
    // Codes are bytes without a sign, except those of int8.
    tensor.quantized = quantized;
    tensor.isUnsigned = tensor.type.getElementType().isInteger(8) &&
                        quantized.getAs<StringAttr>("format").getValue() != "int8";
  }
  // A piece of a quantized parameter: its scales or its codes.
  if (auto owner = function.getArgAttrOfType<StringAttr>(argument, kPartOfAttr)) {
    tensor.partOf = owner.getValue().str();
    tensor.isUnsigned = tensor.type.getElementType().isInteger(8);
  }
}

/// The symbol whose axis rows are: one that is called the batch, on whatever axis, as PyTorch's
/// recurrent layers have the time first. Else that of the first axis of the first input with one.
static std::string findBatch(ArrayRef<InterfaceTensor> inputs) {
  StringRef first;
  for (const InterfaceTensor &input : inputs)
    for (auto [axis, dim] : llvm::enumerate(getDims(input.type))) {
      std::optional<StringRef> symbol = dim.getSymbol();
      if (!symbol)
        continue;
      if (symbol->equals_insensitive("batch") || symbol->equals_insensitive("batch_size"))
        return symbol->str();
      if (axis == 0 && first.empty())
        first = *symbol;
    }
  return first.str();
}

FailureOr<PackageInterface> trainc::collectInterface(ModuleOp module) {
  PackageInterface interface;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto role = function.getArgAttrOfType<StringAttr>(i, kRoleAttr);
      auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
      // Functions that earlier passes made all have both.
      if (!role || !name)
        return function.emitError("argument ") << i << " has no role or no name";
      Type type = function.getArgument(i).getType();
      // A variant counts as what it stands in for.
      auto base = function->getAttrOfType<StringAttr>(train::kVariantOfAttr);
      bool eval = (base ? base.getValue() : function.getName()) == "eval";
      if (role == "parameter") {
        addParameter(interface, function, i);
      } else if (role == "state" || role == "gradient") {
        addShared(interface, function, i);
      } else if (role == "derived") {
        entry(interface.derived, name.getValue(), type);
      } else if (role == "hyper") {
        entry(interface.hypers, name.getValue(), type);
      } else if (role == "input") {
        InterfaceTensor &tensor = entry(interface.inputs, name.getValue(), type);
        // Which inputs a batch has to have: what no op reads may be left out.
        bool used = !function.getArgument(i).use_empty();
        tensor.usedInEval |= eval && used;
        tensor.usedInTrain |= !eval && used;
      }
    }
    StringRef lossWeight; // behind the loss
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto role = function.getResultAttrOfType<StringAttr>(i, kRoleAttr);
      auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
      if (!role || !name)
        return function.emitError("result ") << i << " has no role or no name";
      // Gradients and updates are no outputs of the package.
      if (role == "loss" || role == "output") {
        InterfaceTensor &tensor =
            entry(interface.outputs, name.getValue(), function.getResultTypes()[i]);
        tensor.isLoss |= role == "loss";
        tensor.isGradNorm |= function.getResultAttr(i, kGradNormAttr) != nullptr;
        // Then the loss is a mean, over what this output counts.
        if (auto weight = function.getResultAttrOfType<StringAttr>(i, kLossWeightAttr)) {
          interface.lossIsMean = true;
          lossWeight = weight.getValue();
        }
        tensor.isWeight |= !lossWeight.empty() && name.getValue() == lossWeight;
      }
      if (auto updates = function.getResultAttrOfType<StringAttr>(i, kUpdatesAttr);
          // Statistics and the like: changed, but not trained.
          updates && updates == "parameter") {
        InterfaceTensor &tensor =
            entry(interface.parameters, name.getValue(), function.getResultTypes()[i]);
        tensor.updated |= !tensor.trainable;
      }
    }
    // Each function may know something of the tokens; equal entries are one.
    for (const TokenInput &found : findTokenInputs(function)) {
      if (!found.knowsPadding())
        continue;
      auto nameOf = [&](BlockArgument argument) {
        return function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr).getValue();
      };
      assert(PackageInterface::find(interface.inputs, nameOf(found.input)) >= 0 && "an input");
      InterfaceTokens tokens;
      tokens.isLabel = found.role == TokenRole::Label;
      if (found.byMask)
        tokens.mask = nameOf(found.mask).str();
      else
        tokens.pad = found.padValue;
      auto &all =
          interface.inputs[PackageInterface::find(interface.inputs, nameOf(found.input))].tokens;
      if (!llvm::is_contained(all, tokens))
        all.push_back(std::move(tokens));
    }
    for (InputRule &rule : collectInputRules(function)) {
      // Where the rule comes from does not make it another, nor does it that rows of a parameter
      // are not counted from the end, but those of its gradient might be.
      auto covers = [&](const InputRule &other) {
        return other.input == rule.input &&
               (other.begin.empty() || (other.begin == rule.begin && other.end == rule.end)) &&
               (other.rule.min == rule.rule.min || other.rule.min.isConstant(0)) &&
               other.rule.max == rule.rule.max && other.rule.except == rule.rule.except;
      };
      if (llvm::none_of(interface.rules, covers))
        interface.rules.push_back(std::move(rule));
    }
  }
  interface.batchSymbol = findBatch(interface.inputs);
  return interface;
}

size_t trainc::takeState(PackageInterface &interface, ArrayRef<StateBytes> state,
                         MLIRContext *context) {
  size_t taken = 0;
  for (const StateBytes &bytes : state) {
    int index = PackageInterface::find(interface.state, bytes.name);
    // The checkpoint may know of states that this optimizer does not have.
    if (index < 0)
      continue;
    interface.state[index].weight =
        WeightAttr::get(context, StringAttr::get(context, bytes.file), bytes.offset, bytes.length,
                        /*absent=*/false);
    ++taken;
  }
  return taken;
}
