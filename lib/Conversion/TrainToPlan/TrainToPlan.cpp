// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every value gets a place: a buffer and a layout in it. Kernels read and write whole row-major
// buffers; library calls take any layout; views only compute one.

#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "lib/Analysis/StridedViews.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

struct Place {
  Value buffer;
  StridedLayout layout;
};

class Converter {
public:
  Converter(func::FuncOp function, KernelSource kernels)
      : function(function), kernels(kernels), builder(function) {}

  LogicalResult run() {
    auto plan = plan::FunctionOp::create(builder, function.getLoc(), function.getName());
    plan.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&plan.getBody().front());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(addArgument(i)))
        return failure();
    if (failed(assignResults()))
      return failure();
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(convert(&op)))
        return failure();
    for (auto [from, to, bytes] : lateCopies)
      plan::CopyOp::create(builder, function.getLoc(), from, to, bytes);
    function.erase();
    return success();
  }

private:
  StringRef argument(unsigned index, StringRef name) {
    auto attr = function.getArgAttrOfType<StringAttr>(index, name);
    return attr ? attr.getValue() : StringRef();
  }
  StringRef result(unsigned index, StringRef name) {
    auto attr = function.getResultAttrOfType<StringAttr>(index, name);
    return attr ? attr.getValue() : StringRef();
  }

  Value declare(plan::Space space, StringRef name, Type type, Location loc,
                ElementsAttr value = {}) {
    return plan::BufferOp::create(builder, loc, plan::BufferType::get(builder.getContext()),
                                  plan::SpaceAttr::get(builder.getContext(), space),
                                  name.empty() ? StringAttr() : builder.getStringAttr(name),
                                  TypeAttr::get(type), value);
  }

  LogicalResult addArgument(unsigned index) {
    StringRef role = argument(index, kRoleAttr);
    std::optional<plan::Space> space = plan::symbolizeSpace(role);
    if (!space)
      return function.emitError("argument ") << index << " has no role";
    Value value = function.getArgument(index);
    Value buffer = declare(*space, argument(index, kNameAttr), value.getType(), value.getLoc());
    places[value] = {buffer, contiguousLayout(value.getType())};
    argumentOf[{role, argument(index, kNameAttr)}] = value;
    return success();
  }

  /// The last op of the body that reads `value` or a view of it.
  Operation *lastReader(Value value) {
    Operation *last = nullptr;
    for (Operation *user : value.getUsers()) {
      Operation *reader = user;
      if (isa<StridedViewOpInterface>(user) && user->getNumResults() == 1)
        if (Operation *inner = lastReader(user->getResult(0)))
          reader = inner;
      if (!last || last->isBeforeInBlock(reader))
        last = reader;
    }
    return last;
  }

  /// Decides where results go before any command is emitted.
  LogicalResult assignResults() {
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      StringRef role = result(index, kRoleAttr), name = result(index, kNameAttr);
      if (role == "update") {
        Value target = argumentOf.lookup({result(index, kUpdatesAttr), name});
        if (!target)
          return function.emitError("result ") << index << " updates an unknown argument";
        if (target != value)
          updates.push_back({value, target});
        continue;
      }
      plan::Space space = role == "gradient" ? plan::Space::gradient : plan::Space::output;
      Value buffer = declare(space, name, value.getType(), value.getLoc());
      if (!canOwn(value) || wanted.contains(value))
        copies.push_back({value, buffer});
      else
        wanted[value] = buffer;
    }
    return success();
  }
  /// Whether the op that makes `value` can write it anywhere.
  bool canOwn(Value value) {
    Operation *def = value.getDefiningOp();
    return def && (isa<train::FusionOp>(def) || getFusionRole(def) == FusionRole::Library);
  }

  Value newBuffer(Value value) {
    if (Value buffer = wanted.lookup(value))
      return buffer;
    return declare(plan::Space::arena, "", value.getType(), value.getLoc());
  }

  /// Buffer of a value that is read row major.
  FailureOr<Value> contiguous(Operation *reader, Value value) {
    Place &place = places[value];
    if (!place.buffer)
      return reader->emitError("reads a value without a place");
    if (!isContiguous(place.layout, value.getType()))
      return reader->emitError("reads ") << value.getType() << " through strides";
    return place.buffer;
  }

  LogicalResult convert(Operation *op) {
    LogicalResult done = success();
    switch (getFusionRole(op)) {
    case FusionRole::Library:
      done = convertGemm(op);
      break;
    case FusionRole::View:
    case FusionRole::Access:
      done = convertView(op);
      break;
    default:
      if (auto fusion = dyn_cast<train::FusionOp>(op))
        done = convertFusion(fusion);
      else
        return op->emitError("op '") << op->getName() << "' has no place in a plan";
    }
    if (failed(done))
      return failure();
    for (Value value : op->getResults())
      finishResults(op, value);
    return success();
  }

  /// Copies results that could not be written where they are wanted.
  void finishResults(Operation *op, Value value) {
    for (auto &[from, to] : copies)
      if (from == value)
        plan::CopyOp::create(builder, op->getLoc(), places[value].buffer, to,
                             plan::getBytes(value.getType()));
    for (auto &[from, target] : updates)
      if (from == value && places[value].buffer != places[target].buffer)
        lateCopies.push_back(
            {places[value].buffer, places[target].buffer, plan::getBytes(value.getType())});
  }

  LogicalResult convertView(Operation *op) {
    Value value = op->getResult(0);
    if (auto view = dyn_cast<StridedViewOpInterface>(op)) {
      Place operand = places.lookup(op->getOperand(0));
      std::optional<StridedLayout> layout =
          operand.buffer ? view.getStridedView(operand.layout) : std::nullopt;
      if (!layout)
        return op->emitError("cannot be a view of its operand");
      places[value] = {operand.buffer, *layout};
      return success();
    }
    ElementsAttr data;
    if (!matchPattern(op, m_Constant(&data)))
      return op->emitError("op '") << op->getName() << "' has no place in a plan";
    Value buffer = declare(plan::Space::constant, "", value.getType(), op->getLoc(), data);
    places[value] = {buffer, contiguousLayout(value.getType())};
    return success();
  }

  LogicalResult convertFusion(train::FusionOp fusion) {
    FailureOr<codegen::KernelInfo> kernel = kernels(fusion);
    if (failed(kernel))
      return failure();
    SmallVector<Value> buffers;
    for (Value input : fusion.getInputs()) {
      FailureOr<Value> buffer = contiguous(fusion, input);
      if (failed(buffer))
        return failure();
      buffers.push_back(*buffer);
    }
    for (auto [index, value] : llvm::enumerate(fusion.getResults())) {
      Value buffer = updateInPlace(fusion, *kernel, index, value);
      if (!buffer)
        buffer = newBuffer(value);
      places[value] = {buffer, contiguousLayout(value.getType())};
      buffers.push_back(buffer);
    }
    MLIRContext *context = builder.getContext();
    plan::LaunchOp::create(builder, fusion.getLoc(), builder.getStringAttr(kernel->name), buffers,
                           builder.getI64IntegerAttr(fusion.getInputs().size()),
                           DimsAttr::get(context, kernel->dims), kernel->work,
                           builder.getI64IntegerAttr(kernel->grain), kernel->scratchBytes);
    return success();
  }

  /// The argument's buffer where this result updates it and nothing reads the old value afterwards.
  Value updateInPlace(train::FusionOp fusion, const codegen::KernelInfo &kernel, unsigned index,
                      Value value) {
    for (auto &[from, target] : updates) {
      if (from != value)
        continue;
      Operation *last = lastReader(target);
      if (last && fusion->isBeforeInBlock(last))
        continue;
      bool allowed = true;
      for (auto [input, operand] : llvm::enumerate(fusion.getInputs()))
        if (places[operand].buffer == places[target].buffer)
          allowed = allowed &&
                    llvm::is_contained(kernel.inPlace, std::pair<unsigned, unsigned>(input, index));
      if (allowed && claimed.insert(target).second)
        return places[target].buffer;
    }
    return {};
  }

  LogicalResult convertGemm(Operation *op) {
    AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
    Value a = op->getOperand(0), b = op->getOperand(1), c = op->getResult(0);
    // A permuted reader that nobody shares decides the layout.
    StridedLayout layout = contiguousLayout(c.getType());
    Operation *reader = c.hasOneUse() ? *c.getUsers().begin() : nullptr;
    Value buffer;
    if (reader && isAbsorbedByProducer(reader)) {
      layout = *layoutForContiguousResult(reader);
      buffer = newBuffer(reader->getResult(0));
    } else {
      buffer = newBuffer(c);
    }
    places[c] = {buffer, layout};
    auto strideOf = [&](Value value, ArrayRef<int> axes, int loop) {
      DimAttr stride = DimAttr::constant(op->getContext(), 0);
      for (auto [axis, l] : llvm::enumerate(axes))
        if (l == loop)
          stride = places[value].layout.strides[axis];
      return stride;
    };
    auto uses = [](ArrayRef<int> axes, int loop) { return llvm::is_contained(axes, loop); };
    SmallVector<DimAttr> batch, sizes(3), aStrides, bStrides, cStrides;
    int rows = -1, columns = -1, inner = -1;
    SmallVector<int> batchLoops;
    for (auto [loop, kind] : llvm::enumerate(map.loops)) {
      if (kind == LoopKind::Reduction)
        inner = loop;
      else if (uses(map.operands[0], loop) && uses(map.operands[1], loop))
        batchLoops.push_back(loop);
      else if (uses(map.operands[0], loop))
        rows = loop;
      else
        columns = loop;
    }
    auto extent = [&](Value value, ArrayRef<int> axes, int loop) {
      return getDims(value)[llvm::find(axes, loop) - axes.begin()];
    };
    for (int loop : batchLoops) {
      batch.push_back(extent(c, map.results[0], loop));
      aStrides.push_back(strideOf(a, map.operands[0], loop));
      bStrides.push_back(strideOf(b, map.operands[1], loop));
      cStrides.push_back(strideOf(c, map.results[0], loop));
    }
    sizes = {extent(c, map.results[0], rows), extent(c, map.results[0], columns),
             extent(a, map.operands[0], inner)};
    for (auto [value, axes, strides, first, second] :
         {std::tuple(a, ArrayRef<int>(map.operands[0]), &aStrides, rows, inner),
          std::tuple(b, ArrayRef<int>(map.operands[1]), &bStrides, inner, columns),
          std::tuple(c, ArrayRef<int>(map.results[0]), &cStrides, rows, columns)}) {
      strides->push_back(strideOf(value, axes, first));
      strides->push_back(strideOf(value, axes, second));
    }
    MLIRContext *context = builder.getContext();
    auto dims = [&](ArrayRef<DimAttr> list) { return DimsAttr::get(context, list); };
    plan::GemmOp::create(builder, op->getLoc(), places[a].buffer, places[b].buffer, buffer,
                         dims(batch), dims(sizes), dims(aStrides), dims(bStrides), dims(cStrides),
                         dims({places[a].layout.offset, places[b].layout.offset, layout.offset}),
                         getElementType(c));
    return success();
  }

  func::FuncOp function;
  KernelSource kernels;
  OpBuilder builder;
  DenseMap<Value, Place> places;
  DenseMap<std::pair<StringRef, StringRef>, Value> argumentOf;
  /// Buffers that are not in the arena and that a value's maker writes directly.
  DenseMap<Value, Value> wanted;
  SmallVector<std::pair<Value, Value>> copies;
  /// New value and the argument that it replaces.
  SmallVector<std::pair<Value, Value>> updates;
  llvm::DenseSet<Value> claimed;
  SmallVector<std::tuple<Value, Value, DimAttr>> lateCopies;
};
} // namespace

LogicalResult trainc::convertTrainToPlan(func::FuncOp function, KernelSource kernels) {
  return Converter(function, kernels).run();
}
