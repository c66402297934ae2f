// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registration, verifiers and the textual form of `onnx.graph`. Structure is checked, meaning is
// not.

#include "dialects/ONNX/ONNXDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc::onnx;

#include "dialects/ONNX/ONNXDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ONNX/ONNXTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ONNX/ONNXAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/ONNX/ONNXOps.cpp.inc"

void ONNXDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/ONNX/ONNXTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/ONNX/ONNXAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/ONNX/ONNXOps.cpp.inc"
      >();
}

//===- GraphOp ------------------------------------------------------------===//

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildFuncType = [](Builder &builder, ArrayRef<Type> argTypes, ArrayRef<Type> results,
                          function_interface_impl::VariadicFlag,
                          std::string &) { return builder.getFunctionType(argTypes, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildFuncType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult GraphOp::verifyRegions() {
  if (!getBody().hasOneBlock())
    return emitOpError("needs a body of exactly one block");
  auto ret = dyn_cast_or_null<ReturnOp>(getBody().front().getTerminator());
  if (!ret)
    return emitOpError("needs to end with onnx.return");
  if (ret.getOutputs().getTypes() != TypeRange(getResultTypes())) {
    InFlightDiagnostic error = ret.emitOpError("returns types that differ from those of the graph");
    error.attachNote(getLoc()) << "the graph has results of " << getResultTypes();
    return error;
  }
  return success();
}

/// The string `onnx.name` of a dictionary, or "".
static StringRef nameIn(DictionaryAttr attrs) {
  auto name = attrs ? attrs.getAs<StringAttr>("onnx.name") : StringAttr();
  return name ? name.getValue() : StringRef();
}

StringRef GraphOp::getInputName(unsigned index) { return nameIn(getArgAttrDict(index)); }
StringRef GraphOp::getOutputName(unsigned index) { return nameIn(getResultAttrDict(index)); }

SmallVector<StringRef> GraphOp::getInputDims(unsigned index) {
  SmallVector<StringRef> names;
  if (auto type = dyn_cast<RankedTensorType>(getArgumentTypes()[index]))
    names.resize(type.getRank());
  auto dims = getArgAttrOfType<ArrayAttr>(index, "onnx.dims");
  for (auto [i, name] : llvm::enumerate(dims ? dims.getValue() : ArrayRef<Attribute>()))
    if (i < names.size())
      if (auto text = dyn_cast<StringAttr>(name))
        names[i] = text.getValue();
  return names;
}

//===- NodeOp, InitializerOp ----------------------------------------------===//

LogicalResult NodeOp::verify() {
  if (getOpType().empty())
    return emitOpError("needs an operator type");
  size_t names = getSubgraphNames() ? getSubgraphNames()->size() : 0;
  if (names != getSubgraphs().size())
    return emitOpError("has ") << getSubgraphs().size() << " subgraphs but " << names
                               << " subgraph names";
  return success();
}

LogicalResult InitializerOp::verify() {
  if (getName().empty())
    return emitOpError("needs a name");
  if (!cast<ShapedType>(getType()).hasStaticShape())
    return emitOpError("needs a static shape");
  if (auto value = getValue(); value && value->getShapedType() != getType())
    return emitOpError("has a value of type ") << value->getShapedType() << ", not " << getType();
  return success();
}
