// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions with roles: built from an empty signature that grows.

#include "trainc/Transforms/Support/StepBuilder.h"
#include "trainc/Support/DeadOps.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Behind all arguments: numbers of the others do not change.
BlockArgument trainc::addArgument(func::FuncOp func, StringRef role, StringRef name,
                                  ArrayRef<int64_t> shape, Type element, Location loc,
                                  ArrayRef<NamedAttribute> attributes) {
  Builder b(func.getContext());
  NamedAttrList all(attributes);
  all.set(kRoleAttr, b.getStringAttr(role));
  all.set(kNameAttr, b.getStringAttr(name));
  SmallVector<DimAttr> dims;
  for (int64_t extent : shape)
    dims.push_back(DimAttr::constant(b.getContext(), extent));
  unsigned number = func.getNumArguments();
  (void)func.insertArgument(number, getTensorType(dims, element), all.getDictionary(b.getContext()),
                            loc);
  return func.getArgument(number);
}

Type trainc::accumulatorType(Type gradient) {
  Type element = getElementTypeOrSelf(gradient);
  return element.isF16() || element.isBF16()
             ? train::withElementType(gradient, Float32Type::get(gradient.getContext()))
             : gradient;
}

/// In the form that runtime and passes look for: the role says "update", another attribute of what.
DictionaryAttr trainc::getUpdateAttrs(Builder &b, StringRef role, StringRef name) {
  return b.getDictionaryAttr({b.getNamedAttr(kRoleAttr, b.getStringAttr("update")),
                              b.getNamedAttr(kUpdatesAttr, b.getStringAttr(role)),
                              b.getNamedAttr(kNameAttr, b.getStringAttr(name))});
}

/// The function is added to the module at once, its type set in `finish`.
StepBuilder::StepBuilder(ModuleOp module, StringRef name, Location loc)
    : opBuilder(module.getContext()) {
  opBuilder.setInsertionPointToEnd(module.getBody());
  func = func::FuncOp::create(opBuilder, loc, name, opBuilder.getFunctionType({}, {}));
  opBuilder.setInsertionPointToStart(func.addEntryBlock());
}

/// The argument of this role and name, made at the first request. Attributes of later requests are
/// not looked at.
Value StepBuilder::argument(StringRef role, StringRef name, Type type, Location loc,
                            DictionaryAttr attrs) {
  Value &value = arguments[(role + ":" + name).str()];
  assert((!value || value.getType() == type) && "a role and a name are one argument");
  if (value)
    return value;
  NamedAttrList list(attrs);
  list.set(kRoleAttr, opBuilder.getStringAttr(role));
  list.set(kNameAttr, opBuilder.getStringAttr(name));
  argumentAttrs.push_back(list.getDictionary(opBuilder.getContext()));
  return value = func.getBody().front().addArgument(type, loc);
}

/// Roles and names are unique in `from`, so that each of its arguments has one here.
Value StepBuilder::argumentLike(func::FuncOp from, unsigned number) {
  BlockArgument like = from.getArgument(number);
  return argument(getArgRole(from, number), getArgName(from, number), like.getType(), like.getLoc(),
                  from.getArgAttrDict(number));
}

void StepBuilder::argumentsLike(func::FuncOp from, StringRef role) {
  for (unsigned i = 0; i < from.getNumArguments(); ++i)
    if (getArgRole(from, i) == role)
      argumentLike(from, i);
}

/// Clones the body behind what there is; arguments without a mapping are those of the same role and
/// name.
SmallVector<Value> StepBuilder::inlineBody(func::FuncOp from, IRMapping mapping) {
  assert(from.getBody().hasOneBlock() && "its terminator is its return");
  for (unsigned i = 0; i < from.getNumArguments(); ++i)
    if (!mapping.contains(from.getArgument(i)))
      mapping.map(from.getArgument(i), argumentLike(from, i));
  Block &block = from.getBody().front();
  for (Operation &op : block.without_terminator())
    opBuilder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value operand : block.getTerminator()->getOperands())
    values.push_back(mapping.lookup(operand));
  return values;
}

void StepBuilder::result(Value value, DictionaryAttr attrs) {
  results.push_back(value);
  resultAttrs.push_back(attrs ? attrs : opBuilder.getDictionaryAttr({}));
}

void StepBuilder::update(StringRef role, StringRef name, Value value) {
  result(value, getUpdateAttrs(opBuilder, role, name));
}

/// Order of arguments and results is that of the requests.
func::FuncOp StepBuilder::finish() {
  func::ReturnOp::create(opBuilder, func.getLoc(), results);
  Block &block = func.getBody().front();
  eraseDeadOps(block);
  func.setFunctionType(
      opBuilder.getFunctionType(block.getArgumentTypes(), ValueRange(results).getTypes()));
  func.setArgAttrsAttr(opBuilder.getArrayAttr(argumentAttrs));
  func.setResAttrsAttr(opBuilder.getArrayAttr(resultAttrs));
  return func;
}
