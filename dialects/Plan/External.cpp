// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.external: what it demands and writes to program.fb; and how train.external becomes one.

#include "dialects/Train/External/External.h"
#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using train::DimAttr;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void ExternalOp::getEffects(Effects &effects) {
  for (auto [i, buffer] : llvm::enumerate(getBuffersMutable()))
    i < getNumInputs() ? read(effects, buffer) : write(effects, buffer);
}

LogicalResult ExternalOp::verify() {
  if (getTypes().size() != getBuffers().size())
    return emitOpError("expected a type for each of ")
           << getBuffers().size() << " buffers, got " << getTypes().size();
  if (getNumInputs() > getBuffers().size())
    return emitOpError("expected at most ")
           << getBuffers().size() << " inputs, got " << getNumInputs();
  for (Type type : getTypes().getAsValueRange<TypeAttr>())
    if (!train::hasNamedDims(type) || !getDType(getElementTypeOrSelf(type)))
      return emitOpError("expected tensors with named sizes and types of a package's, got ")
             << type;
  const std::string fault = train::faultOfExternalCall(getSettingsAttr(), getLaunchAttr(),
                                                       getArgumentsAttr(), getBuffers().size());
  return fault.empty() ? success() : emitOpError("expected ") << fault;
}

SmallVector<CommandSlot> ExternalOp::getSlots() {
  return llvm::map_to_vector(getOperation()->getOpOperands(),
                             [](OpOperand &operand) { return CommandSlot{&operand}; });
}

SmallVector<DimAttr> ExternalOp::getCommandSizes() {
  SmallVector<DimAttr> sizes;
  for (Type type : getTypes().getAsValueRange<TypeAttr>())
    llvm::append_range(sizes, train::getDims(type));
  if (!getLaunch())
    return sizes;
  llvm::append_range(sizes, getLaunch()->getDims());
  for (auto size : getArguments()->getAsRange<Attribute>())
    if (auto dim = dyn_cast<DimAttr>(size))
      sizes.push_back(dim);
  return sizes;
}

/// A number or several, or a text.
static flatbuffers::Offset<fb::ExternalAttribute> settingOf(flatbuffers::FlatBufferBuilder &out,
                                                            NamedAttribute entry) {
  auto name = out.CreateString(entry.getName().str());
  if (auto text = dyn_cast<StringAttr>(entry.getValue()))
    return fb::CreateExternalAttribute(out, name, 0, 0, out.CreateString(text.str()));
  std::vector<int64_t> integers;
  std::vector<double> reals;
  auto add = [&](Attribute number) {
    if (auto integer = dyn_cast<IntegerAttr>(number))
      integers.push_back(integer.getInt());
    else
      reals.push_back(cast<FloatAttr>(number).getValueAsDouble());
  };
  if (auto list = dyn_cast<ArrayAttr>(entry.getValue()))
    llvm::for_each(list, add);
  else
    add(entry.getValue());
  return fb::CreateExternalAttribute(out, name, out.CreateVector(integers),
                                     out.CreateVector(reals));
}

static std::vector<fb::ExternalArgument> argumentsOf(ArrayAttr arguments) {
  std::vector<fb::ExternalArgument> result;
  for (Attribute argument : arguments ? arguments.getValue() : ArrayRef<Attribute>())
    if (auto tensor = dyn_cast<IntegerAttr>(argument))
      result.emplace_back(fb::ArgumentKind::tensor, uint32_t(tensor.getInt()), 0);
    else if (auto real = dyn_cast<FloatAttr>(argument))
      result.emplace_back(real.getType().isF32() ? fb::ArgumentKind::f32 : fb::ArgumentKind::f64, 0,
                          real.getValueAsDouble());
    else
      result.emplace_back(fb::ArgumentKind::size, 0, 0);
  return result;
}

CommandTable ExternalOp::buildTable(TableBuilder &builder) {
  std::vector<uint8_t> types, ranks;
  for (Type type : getTypes().getAsValueRange<TypeAttr>()) {
    types.push_back(uint8_t(*getDType(getElementTypeOrSelf(type))));
    ranks.push_back(uint8_t(cast<RankedTensorType>(type).getRank()));
  }
  std::vector<flatbuffers::Offset<fb::ExternalAttribute>> settings;
  if (DictionaryAttr all = getSettingsAttr())
    for (NamedAttribute entry : all)
      settings.push_back(settingOf(builder.out, entry));
  const std::vector<fb::ExternalArgument> arguments = argumentsOf(getArgumentsAttr());
  auto typesAt = builder.out.CreateVector(types), ranksAt = builder.out.CreateVector(ranks);
  auto settingsAt = builder.out.CreateVector(settings);
  auto argumentsAt = builder.out.CreateVectorOfStructs(arguments);
  fb::ExternalBuilder table(builder.out);
  table.add_function(builder.externalFunction(getPlugin(), getSymbol()));
  table.add_dtypes(typesAt);
  table.add_ranks(ranksAt);
  table.add_attributes(settingsAt);
  table.add_launched(getLaunch().has_value());
  table.add_arguments(argumentsAt);
  return builder.finish(table.Finish());
}

/// Of the first tensor that it writes.
CommandCost ExternalOp::getCommandCost(EvaluateReal value) {
  CommandCost cost;
  cost.flops = value(getFlops());
  if (getNumInputs() < getTypes().size())
    cost.elementType = getElementTypeOrSelf(cast<TypeAttr>(getTypes()[getNumInputs()]).getValue());
  return cost;
}

//===----------------------------------------------------------------------===//
// From the train dialect
//===----------------------------------------------------------------------===//

namespace {
struct ExternalModel : LibraryCallOpInterface::ExternalModel<ExternalModel, train::ExternalOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto op = cast<train::ExternalOp>(operation);
    SmallVector<Value> buffers;
    for (Value input : op.getInputs())
      buffers.push_back(emitter.placeOf(input).buffer);
    for (Value result : op.getResults())
      buffers.push_back(emitter.placeResult(result).buffer);
    SmallVector<Type> types(op.getInputs().getTypes());
    llvm::append_range(types, op.getResultTypes());
    ExternalOp::create(emitter.builder, op.getLoc(), buffers, uint64_t(op.getInputs().size()),
                       emitter.builder.getTypeArrayAttr(types), op.getPlugin(), op.getSymbol(),
                       op.getFlops(), op.getSettingsAttr(), op.getLaunchAttr(),
                       op.getArgumentsAttr());
    return success();
  }
};
} // namespace

void plan::attachExternalCalls(MLIRContext *context) {
  train::ExternalOp::attachInterface<ExternalModel>(*context);
}
