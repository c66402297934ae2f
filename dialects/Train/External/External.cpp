// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing is known of what a plug-in's function does, but that it is one: what interfaces leave out
// keeps others from looking into it.

#include "dialects/Train/External/External.h"

using namespace mlir;
using namespace trainc::train;

#define GET_OP_CLASSES
#include "dialects/Train/TrainExternal.cpp.inc"

static bool isNumber(Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isInteger(64);
  return isa<FloatAttr>(attribute);
}

std::string trainc::train::faultOfExternalCall(DictionaryAttr settings, DimsAttr launch,
                                               ArrayAttr arguments, int64_t tensors) {
  for (NamedAttribute entry : settings ? settings.getValue() : ArrayRef<NamedAttribute>()) {
    auto list = dyn_cast<ArrayAttr>(entry.getValue());
    if (!isa<StringAttr>(entry.getValue()) && !isNumber(entry.getValue()) &&
        !(list && llvm::all_of(list, isNumber)))
      return "a setting '" + entry.getName().str() + "' that is a number, numbers or a string";
  }
  if (bool(launch) != bool(arguments))
    return "a launch with arguments, or neither";
  if (!launch)
    return "";
  // Grid and block along three axes, and shared memory.
  if (launch.getDims().size() != 7)
    return "a launch of seven sizes";
  for (Attribute argument : arguments) {
    auto tensor = dyn_cast<IntegerAttr>(argument);
    if (tensor ? tensor.getInt() < 0 || tensor.getInt() >= tensors
               : !isa<DimAttr, FloatAttr>(argument))
      return "arguments that are tensors from 0 to " + std::to_string(tensors - 1) +
             ", sizes or floats";
  }
  return "";
}

LogicalResult ExternalOp::verify() {
  const std::string fault = faultOfExternalCall(
      getSettingsAttr(), getLaunchAttr(), getArgumentsAttr(), getNumOperands() + getNumResults());
  return fault.empty() ? success() : emitOpError("expected ") << fault;
}

FusionRole ExternalOp::getFusionRole() { return FusionRole::Library; }

bool ExternalOp::acceptsOperandLayout(unsigned operand, const StridedLayout &layout) {
  return detail::isRowMajor(getOperand(operand), layout);
}

bool ExternalOp::acceptsResultLayout(unsigned result, const StridedLayout &layout) {
  return detail::isRowMajor(getResult(result), layout);
}

RecomputeClass ExternalOp::getRecomputeClass() { return RecomputeClass::Costly; }
