// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registration of the train dialect, its attributes and interfaces, and the rules for function
// arguments.

#include "dialects/Train/TrainDialect.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Collectives/Shards.h"
#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/CustomGradient/CustomGradient.h"
#include "dialects/Train/External/External.h"
#include "dialects/Train/Loops/Loops.h"
#include "dialects/Train/Precision/Precision.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/Reorder/Reorder.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainShards.h.inc"

#include "dialects/Train/TrainDialect.cpp.inc"
#include "dialects/Train/TrainEnums.cpp.inc"
#include "dialects/Train/TrainInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Train/TrainAttrs.cpp.inc"

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Train/TrainAttrs.cpp.inc"
      >();
  registerTrainDialectOperations(this);
  addOperations<
#define GET_OP_LIST
#include "dialects/Train/TrainCollectives.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Train/TrainConvolution.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Train/TrainLoops.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Train/TrainCustomGradient.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Train/TrainExternal.cpp.inc"
      >();
  detail::attachAffineInterfaces(getContext());
  detail::attachRangeInterfaces(getContext());
  detail::attachReorderInterfaces(getContext());
  detail::attachPrecisionInterfaces(getContext());
}

Operation *TrainDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                             Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements)
    return nullptr;
  // A splat of a symbolic shape has no dense form of its own.
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    return FullOp::create(builder, loc, type, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
  if (elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

LogicalResult TrainDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                     NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kRoleAttr) {
    auto role = dyn_cast<StringAttr>(attribute.getValue());
    static constexpr StringLiteral roles[] = {"parameter", "input",    "hyper",
                                              "state",     "gradient", "derived"};
    if (!role || !llvm::is_contained(roles, role.getValue()))
      return op->emitOpError("argument ")
             << argument
             << ": expected train.role parameter, input, hyper, state, gradient or derived, got "
             << attribute.getValue();
    Type type = cast<FunctionOpInterface>(op).getArgumentTypes()[argument];
    if (!isa<RankedTensorType>(type))
      return op->emitOpError("argument ") << argument << ": expected a ranked tensor, got " << type;
  } else if (name == kNameAttr) {
    if (!isa<StringAttr>(attribute.getValue()))
      return op->emitOpError("argument ") << argument << ": expected train.name to be a string";
  } else if (name == kWeightAttr) {
    if (!isa<WeightAttr>(attribute.getValue()))
      return op->emitOpError("argument ")
             << argument << ": expected train.weight to be a #train.weight";
  } else if (name == kTrainableAttr) {
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError("argument ") << argument << ": expected train.trainable to be unit";
  } else if (name == kDecayScaleAttr || name == kLrScaleAttr) {
    if (!isa<FloatAttr>(attribute.getValue()))
      return op->emitOpError("argument ") << argument << ": expected " << name << " to be a float";
  } else if (name == kShardAttr) {
    auto shard = dyn_cast<DictionaryAttr>(attribute.getValue());
    auto of = shard ? shard.getAs<TypeAttr>("of") : TypeAttr();
    auto unit = shard ? shard.getAs<IntegerAttr>("unit") : IntegerAttr();
    auto whole = of ? dyn_cast<RankedTensorType>(of.getValue()) : RankedTensorType();
    if (!whole || !whole.hasStaticShape() || !unit || unit.getInt() < 1)
      return op->emitOpError("argument ")
             << argument << ": expected train.shard to be {of = a tensor of known size, unit = a "
             << "number of elements}, got " << attribute.getValue();
    Type type = cast<FunctionOpInterface>(op).getArgumentTypes()[argument];
    const DimAttr elements = Shard{whole, unit.getInt()}.elements();
    if (!isa<RankedTensorType>(type) || getNumElements(type) != elements)
      return op->emitOpError("argument ")
             << argument << ": expected a shard of " << elements.str() << " elements, got " << type;
  }
  return success();
}

Operation *trainc::train::detail::defaultCloneRestricted(Operation *op, OpBuilder &builder,
                                                         ValueRange operands,
                                                         ArrayRef<LoopExtent> extents) {
  AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  for (auto [result, axes] : llvm::zip_equal(clone->getResults(), map.results)) {
    SmallVector<DimAttr> dims = getDims(result);
    for (auto [dim, loop] : llvm::zip_equal(dims, axes))
      for (const LoopExtent &restricted : extents)
        if (loop == int(restricted.loop))
          dim = restricted.extent;
    result.setType(getTensorType(dims, getElementType(result)));
  }
  return clone;
}

DimAttr trainc::train::detail::elementCount(Operation *op) {
  DimAttr count = DimAttr::constant(op->getContext(), 0);
  for (Value result : op->getResults())
    count = count + getNumElements(result.getType());
  return count;
}

bool trainc::train::detail::isRowMajor(Value value, const StridedLayout &layout) {
  SmallVector<DimAttr> dims = getDims(value);
  DimAttr stride = DimAttr::constant(value.getContext(), 1);
  for (size_t axis = dims.size(); axis-- > 0; stride = stride * dims[axis])
    if (!dims[axis].isConstant(1) && layout.strides[axis] != stride)
      return false;
  return layout.offset.isConstant(0);
}
