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
  Converter(func::FuncOp function, KernelSource kernels, bool tf32)
      : function(function), kernels(kernels), tf32(tf32), builder(function) {}

  LogicalResult run() {
    auto plan = plan::FunctionOp::create(builder, function.getLoc(), function.getName());
    for (StringRef kept : {train::kVariantOfAttr, train::kConditionsAttr, train::kFlopsAttr})
      if (Attribute value = function->getAttr(kept))
        plan->setAttr(kept, value);
    plan.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&plan.getBody().front());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(addArgument(i)))
        return failure();
    if (failed(assignResults()))
      return failure();
    for (Value value : function.getArguments())
      finishResults(function, value);
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
          updates[computedValue(value)].push_back(target);
        continue;
      }
      plan::Space space = role == "gradient" ? plan::Space::gradient : plan::Space::output;
      Value buffer = declare(space, name, value.getType(), value.getLoc());
      if (!canOwn(value) || wanted.contains(value))
        copies[value].push_back(buffer);
      else
        wanted[value] = buffer;
    }
    return success();
  }
  /// What a kernel has computed, where `value` is that in another shape.
  static Value computedValue(Value value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    return reshape && reshape.getOperand().getDefiningOp<train::FusionOp>() ? reshape.getOperand()
                                                                            : value;
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
      done = convertLibrary(op);
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
    if (auto it = copies.find(value); it != copies.end())
      for (Value to : it->second)
        plan::CopyOp::create(builder, op->getLoc(), places[value].buffer, to,
                             plan::getBytes(value.getType()));
    if (auto it = updates.find(value); it != updates.end())
      for (Value target : it->second)
        if (places[value].buffer != places[target].buffer)
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
        buffer = overwriteInput(fusion, *kernel, index, value);
      if (!buffer)
        buffer = newBuffer(value);
      places[value] = {buffer, contiguousLayout(value.getType())};
      buffers.push_back(buffer);
    }
    MLIRContext *context = builder.getContext();
    if (kernel->temporaryBytes) {
      Type bytes = getTensorType({kernel->temporaryBytes}, builder.getI8Type());
      buffers.push_back(declare(plan::Space::arena, "", bytes, fusion.getLoc()));
    }
    for (const codegen::KernelStage &stage : kernel->stages) {
      ArrayAttr names;
      DimsAttr work;
      DenseI64ArrayAttr grains;
      if (!stage.variants.empty()) {
        SmallVector<StringRef> list;
        SmallVector<DimAttr> workList;
        SmallVector<int64_t> grainList;
        for (const codegen::KernelStage &variant : stage.variants) {
          list.push_back(variant.name);
          workList.push_back(variant.work);
          grainList.push_back(variant.grain);
        }
        names = builder.getStrArrayAttr(list);
        work = DimsAttr::get(context, workList);
        grains = builder.getDenseI64ArrayAttr(grainList);
      }
      plan::LaunchOp::create(builder, fusion.getLoc(), builder.getStringAttr(stage.name), buffers,
                             builder.getI64IntegerAttr(fusion.getInputs().size()),
                             DimsAttr::get(context, kernel->dims), stage.work,
                             builder.getI64IntegerAttr(stage.grain), stage.scratchBytes, DimsAttr(),
                             names, work, grains);
    }
    return success();
  }

  /// The argument's buffer where this result updates it and nothing reads the old value afterwards.
  Value updateInPlace(train::FusionOp fusion, const codegen::KernelInfo &kernel, unsigned index,
                      Value value) {
    auto updated = updates.find(value);
    if (updated == updates.end())
      return {};
    for (Value target : updated->second) {
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

  /// Whether `op` is the last to read an operand and may write over it.
  bool isFree(Value operand, Operation *op) {
    Value buffer = places[operand].buffer;
    Operation *def = operand.getDefiningOp();
    auto declared = buffer.getDefiningOp<plan::BufferOp>();
    // A view's buffer has other readers; a new value waits in its own for the end of the function.
    return def && !isa<StridedViewOpInterface>(def) && declared &&
           declared.getSpace() == plan::Space::arena && lastReader(operand) == op &&
           llvm::count_if(op->getOperands(),
                          [&](Value other) { return places.lookup(other).buffer == buffer; }) ==
               1 &&
           !updates.contains(operand);
  }

  /// The buffer of an input that nothing reads any more, where the kernel may write this result
  /// over it.
  Value overwriteInput(train::FusionOp fusion, const codegen::KernelInfo &kernel, unsigned index,
                       Value value) {
    if (wanted.contains(value))
      return {};
    for (auto [from, result] : kernel.inPlace) {
      Value input = fusion.getInputs()[from], buffer = places[input].buffer;
      if (result != index || !isFree(input, fusion) ||
          llvm::any_of(fusion.getResults(),
                       [&](Value other) { return places.lookup(other).buffer == buffer; }))
        continue;
      return buffer;
    }
    return {};
  }

  LogicalResult convertLibrary(Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      return convertAttention(attention);
    if (auto gradient = dyn_cast<AttentionGradOp>(op))
      return convertAttentionGrad(gradient);
    return convertGemm(op);
  }

  /// The place of a library call's result: a permuted reader may decide the layout.
  Place placeResult(Value value) {
    Place place;
    if (Operation *reader = getAbsorbedView(value))
      place = {newBuffer(reader->getResult(0)), *layoutForContiguousResult(reader)};
    else
      place = {newBuffer(value), contiguousLayout(value.getType())};
    return places[value] = place;
  }

  //===--------------------------------------------------------------------===//
  // Attention
  //===--------------------------------------------------------------------===//

  /// Strides of the first `count` axes; the axes of length 1 of a bias are repeated.
  DimsAttr leadingStrides(Value value, unsigned count) {
    SmallVector<DimAttr> strides(ArrayRef(places[value].layout.strides).take_front(count));
    return DimsAttr::get(builder.getContext(), strides);
  }
  DimsAttr biasStrides(Value bias) {
    SmallVector<DimAttr> strides = places[bias].layout.strides;
    for (auto [stride, size] : llvm::zip_equal(strides, getDims(bias)))
      if (size.isConstant(1))
        stride = DimAttr::constant(builder.getContext(), 0);
    return DimsAttr::get(builder.getContext(), strides);
  }
  DimsAttr offsetsOf(ValueRange values) {
    SmallVector<DimAttr> offsets;
    for (Value value : values)
      if (value)
        offsets.push_back(places[value].layout.offset);
    return DimsAttr::get(builder.getContext(), offsets);
  }
  /// batch, heads, key heads, rows, key rows, columns, value columns
  DimsAttr attentionSizes(Value q, Value k, Value v) {
    SmallVector<DimAttr> dims = getDims(q), keys = getDims(k), values = getDims(v);
    return DimsAttr::get(builder.getContext(),
                         {dims[0], dims[1], keys[1], dims[2], keys[2], dims[3], values[3]});
  }
  /// Number and length of the segments, where there are any.
  DimsAttr segmentSizes(Value offsets, DimAttr longest) {
    if (!offsets)
      return {};
    DimAttr segments = getDim(offsets, 0) - DimAttr::constant(builder.getContext(), 1);
    return DimsAttr::get(builder.getContext(), {segments, longest});
  }
  Value bufferOf(Value value) { return value ? places[value].buffer : Value(); }

  LogicalResult convertAttention(AttentionOp op) {
    Value q = op.getQ(), k = op.getK(), v = op.getV(), bias = op.getBias(), seed = op.getSeed();
    Value o = op.getResult(), stats = op.getStats();
    Value segments = op.getOffsets(), positions = op.getPositions();
    if (segments)
      for (Operation *user : stats.getUsers())
        if (!isa<AttentionGradOp>(user))
          return user->emitError("reads the stats of an attention over segments, which only its "
                                 "gradient may read");
    placeResult(o);
    placeResult(stats);
    plan::AttentionOp::create(
        builder, op.getLoc(), bufferOf(q), bufferOf(k), bufferOf(v), bufferOf(o), bufferOf(stats),
        bufferOf(bias), bufferOf(seed), Value(), Value(), Value(), Value(), bufferOf(segments),
        bufferOf(positions), attentionSizes(q, k, v),
        offsetsOf({q, k, v, o, stats, bias, seed, segments, positions}), leadingStrides(q, 3),
        leadingStrides(k, 3), leadingStrides(v, 3), leadingStrides(o, 3),
        bias ? biasStrides(bias) : DimsAttr(), DimsAttr(), DimsAttr(), DimsAttr(), DimsAttr(),
        TypeAttr::get(getElementType(q)), bias ? TypeAttr::get(getElementType(bias)) : TypeAttr(),
        op.getScaleAttr(), op.getDropoutAttr(), op.getCausalAttr(),
        segmentSizes(segments, op.getLongestAttr()));
    return success();
  }

  LogicalResult convertAttentionGrad(AttentionGradOp op) {
    Value q = op.getQ(), k = op.getK(), v = op.getV(), bias = op.getBias(), seed = op.getSeed();
    Value o = op.getOutput(), stats = op.getStats(), dO = op.getCotangent();
    Value dQ = op.getDq(), dK = op.getDk(), dV = op.getDv();
    Value segments = op.getOffsets(), positions = op.getPositions();
    for (Value result : {dQ, dK, dV})
      placeResult(result);
    plan::AttentionOp::create(
        builder, op.getLoc(), bufferOf(q), bufferOf(k), bufferOf(v), bufferOf(o), bufferOf(stats),
        bufferOf(bias), bufferOf(seed), bufferOf(dO), bufferOf(dQ), bufferOf(dK), bufferOf(dV),
        bufferOf(segments), bufferOf(positions), attentionSizes(q, k, v),
        offsetsOf({q, k, v, o, stats, bias, seed, dO, dQ, dK, dV, segments, positions}),
        leadingStrides(q, 3), leadingStrides(k, 3), leadingStrides(v, 3), leadingStrides(o, 3),
        bias ? biasStrides(bias) : DimsAttr(), leadingStrides(dO, 3), leadingStrides(dQ, 3),
        leadingStrides(dK, 3), leadingStrides(dV, 3), TypeAttr::get(getElementType(q)),
        bias ? TypeAttr::get(getElementType(bias)) : TypeAttr(), op.getScaleAttr(),
        op.getDropoutAttr(), op.getCausalAttr(), segmentSizes(segments, op.getLongestAttr()));
    return success();
  }

  /// What is added to lies where the sum will: in its own buffer, if nothing else needs that.
  Place placeSum(FusedMatmulOp op) {
    Value addend = op.getOperand(), sum = op.getResult();
    Place place = {places[addend].buffer, places[addend].layout};
    if (wanted.contains(sum) || !isFree(addend, op)) {
      place = {newBuffer(sum), contiguousLayout(sum.getType())};
      plan::CopyOp::create(builder, op.getLoc(), places[addend].buffer, place.buffer,
                           plan::getBytes(sum.getType()));
    }
    return places[sum] = place;
  }

  LogicalResult convertGemm(Operation *op) {
    AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
    Value a = op->getOperand(0), b = op->getOperand(1), c = op->getResult(0);
    auto fused = dyn_cast<FusedMatmulOp>(op);
    const bool accumulates = fused && fused.getEpilogue() == Epilogue::add;
    const auto [buffer, layout] = accumulates ? placeSum(fused) : placeResult(c);
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
    for (int loop = 0; loop < int(map.loops.size()); ++loop) {
      if (!uses(map.results[0], loop))
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
    Value bias, aux;
    EpilogueAttr epilogue;
    if (fused && !accumulates) {
      epilogue = fused.getEpilogueAttr();
      if (fused.getExtra())
        placeResult(fused.getExtra());
      for (Value value : {fused.getOperand(), fused.getExtra()})
        if (value)
          (getRank(value) == 1 ? bias : aux) = places[value].buffer;
    }
    plan::GemmOp::create(builder, op->getLoc(), places[a].buffer, places[b].buffer, buffer, bias,
                         aux, dims(batch), dims(sizes), dims(aStrides), dims(bStrides),
                         dims(cStrides),
                         dims({places[a].layout.offset, places[b].layout.offset, layout.offset}),
                         getElementType(a), tf32 && getElementType(a).isF32(), accumulates,
                         getElementType(c) != getElementType(a), epilogue);
    return success();
  }

  func::FuncOp function;
  KernelSource kernels;
  bool tf32;
  OpBuilder builder;
  DenseMap<Value, Place> places;
  DenseMap<std::pair<StringRef, StringRef>, Value> argumentOf;
  /// Buffers that are not in the arena and that a value's maker writes directly.
  DenseMap<Value, Value> wanted;
  DenseMap<Value, SmallVector<Value, 1>> copies;
  /// By new value the arguments that it replaces.
  DenseMap<Value, SmallVector<Value, 1>> updates;
  llvm::DenseSet<Value> claimed;
  SmallVector<std::tuple<Value, Value, DimAttr>> lateCopies;
};
} // namespace

LogicalResult trainc::convertTrainToPlan(func::FuncOp function, KernelSource kernels, bool tf32) {
  return Converter(function, kernels, tf32).run();
}
