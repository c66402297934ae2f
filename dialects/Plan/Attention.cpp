// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.attention: what it demands, writes to program.fb, costs; and how train.attention and its
// gradient become one.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "format/memory/working_memory.h"
#include "format/memory/workspace_bounds.h"
#include "format/program.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using namespace trainc::train;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void plan::AttentionOp::getEffects(Effects &effects) {
  for (OpOperand *buffer : {&getQMutable(), &getKMutable(), &getVMutable()})
    read(effects, *buffer);
  for (MutableOperandRange buffers : {getBiasMutable(), getSeedMutable(), getDOMutable(),
                                      getSegmentsMutable(), getPositionsMutable()})
    read(effects, buffers);
  for (OpOperand *buffer : {&getOMutable(), &getStatsMutable()})
    if (getDO())
      read(effects, *buffer);
    else
      write(effects, *buffer);
  for (MutableOperandRange buffers :
       {getDQMutable(), getDKMutable(), getDVMutable(), getDBiasMutable()})
    write(effects, buffers);
}

LogicalResult plan::AttentionOp::verify() {
  auto expect = [&](StringRef name, std::optional<train::DimsAttr> list,
                    size_t count) -> LogicalResult {
    if (list && list->getDims().size() != count)
      return emitOpError("expected ") << count << " " << name << ", got " << list->getDims().size();
    return success();
  };
  if (failed(expect("sizes", getSizes(), 7)) ||
      failed(expect("offsets, one for each operand", getOffsets(), getNumOperands())) ||
      failed(expect("strides of q", getQStrides(), 3)) ||
      failed(expect("strides of k", getKStrides(), 3)) ||
      failed(expect("strides of v", getVStrides(), 3)) ||
      failed(expect("strides of o", getOStrides(), 3)) ||
      failed(expect("strides of the bias", getBiasStrides(), 4)) ||
      failed(expect("strides of d_o", getDOStrides(), 3)) ||
      failed(expect("strides of d_q", getDQStrides(), 3)) ||
      failed(expect("strides of d_k", getDKStrides(), 3)) ||
      failed(expect("strides of d_v", getDVStrides(), 3)) ||
      failed(expect("sizes of segments", getSegmentSizes(), 2)))
    return failure();
  if (bool(getBias()) != (getBiasStrides() && getBiasType()))
    return emitOpError("expected strides and a type of the bias where there is one");
  if (bool(getSegments()) != getSegmentSizes().has_value())
    return emitOpError("expected sizes of segments where there are any");
  const bool backward = bool(getDO());
  if (backward != bool(getDQ()) || backward != bool(getDK()) || backward != bool(getDV()) ||
      backward != getDOStrides().has_value() || backward != getDQStrides().has_value() ||
      backward != getDKStrides().has_value() || backward != getDVStrides().has_value())
    return emitOpError("expected d_o, d_q, d_k and d_v with their strides, or none of them");
  if (getDBias() && (!backward || !getBias()))
    return emitOpError("expected d_bias only with d_o and a bias");
  const double dropout = getDropout().convertToDouble();
  if (!(dropout >= 0 && dropout < 1))
    return emitOpError("expected a dropout from 0 to below 1, got ") << dropout;
  if (dropout > 0 && !getSeed())
    return emitOpError("expected a seed with dropout");
  return success();
}

SmallVector<CommandSlot> plan::AttentionOp::getSlots() {
  Builder builder(getContext());
  Type element = getElementType(), f32 = builder.getF32Type(), i32 = builder.getI32Type();
  const std::pair<OpOperand *, Type> operands[] = {
      {&getQMutable(), element},
      {&getKMutable(), element},
      {&getVMutable(), element},
      {&getOMutable(), element},
      {&getStatsMutable(), f32},
      {only(getBiasMutable()), getBiasType().value_or(element)},
      {only(getSeedMutable()), builder.getI64Type()},
      {only(getDOMutable()), element},
      {only(getDQMutable()), element},
      {only(getDKMutable()), element},
      {only(getDVMutable()), element},
      {only(getSegmentsMutable()), i32},
      {only(getPositionsMutable()), i32},
      {only(getDBiasMutable()), getBiasType().value_or(element)}};
  // Offsets are those of the operands that are there.
  ArrayRef<DimAttr> offsets = getOffsets().getDims();
  SmallVector<CommandSlot> slots;
  // Runtimes that do not know the gradient of a bias read all other packages.
  for (auto [operand, type] : ArrayRef(operands).drop_back(getDBias() ? 0 : 1)) {
    slots.push_back({operand, operand ? inBytes(offsets.front(), type) : DimAttr()});
    offsets = offsets.drop_front(operand ? 1 : 0);
  }
  return slots;
}

SmallVector<DimAttr> plan::AttentionOp::getCommandSizes() {
  SmallVector<DimAttr> sizes(getSizes().getDims());
  const DimAttr zero = DimAttr::constant(getContext(), 0);
  auto add = [&](std::optional<DimsAttr> list, size_t count) {
    if (list)
      llvm::append_range(sizes, list->getDims());
    else
      sizes.append(count, zero);
  };
  for (DimsAttr strides : {getQStrides(), getKStrides(), getVStrides(), getOStrides()})
    add(strides, 3);
  add(getBiasStrides(), 4);
  for (std::optional<DimsAttr> strides :
       {getDOStrides(), getDQStrides(), getDKStrides(), getDVStrides()})
    add(strides, 3);
  add(getSegmentSizes(), 2);
  return sizes;
}

CommandTable plan::AttentionOp::buildTable(TableBuilder &builder) {
  const double dropout = getDropout().convertToDouble();
  if (getDBias())
    builder.version = std::max(builder.version, trainrt::programMajorSent);
  return builder.finish(fb::CreateAttention(
      builder.out, getDO() != nullptr, *getDType(getElementType()),
      *getDType(getBiasType().value_or(getElementType())), getScale().convertToDouble(), dropout,
      getCausal(), getSegments() ? dropout : 0, getBefore().value_or(-1), getAfter().value_or(-1)));
}

/// What a row sees, where there are as many rows as columns.
static trainrt::AttentionBand bandOf(plan::AttentionOp op) {
  return trainrt::AttentionBand::of(op.getBefore().value_or(-1),
                                    op.getCausal() ? 0 : op.getAfter().value_or(-1));
}

CommandCost plan::AttentionOp::getCommandCost(EvaluateReal value) {
  ArrayRef<DimAttr> sizes = getSizes().getDims();
  double keys = value(sizes[4]);
  if (getSegmentSizes()) // a row meets those of its segment only
    keys = std::min(keys, value(getSegmentSizes()->getDims()[1]));
  // Of a causal mask half; of a window, all that it shows.
  const double causal = getCausal() ? 0.5 * keys : keys;
  const trainrt::AttentionBand band = bandOf(*this);
  keys = std::min(causal, double(band.before + band.after + 1));
  const double scores = value(sizes[0]) * value(sizes[1]) * value(sizes[3]) * keys;
  double flops = 2 * scores * (value(sizes[5]) + value(sizes[6]));
  flops *= getDO() ? 2.5 : 1; // with the scores once more
  return {flops, getElementType()};
}

CommandWorkspace plan::AttentionOp::getGpuWorkspace(EvaluateInteger value) {
  SmallVector<int64_t> s = evaluateAll(getSizes(), value);
  if (getSegmentSizes()) {
    SmallVector<int64_t> segments = evaluateAll(*getSegmentSizes(), value);
    s[0] = segments[0];
    s[3] = s[4] = segments[1];
  }
  return {trainrt::cuda::attentionWorkspaceLimit(
      {s[0], s[1], s[2], s[3], s[4], s[5], s[6], getDO() != nullptr, getSegmentSizes().has_value(),
       getDropout().convertToDouble() > 0, getDBias() != nullptr})};
}

void plan::AttentionOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  SmallVector<int64_t> s = evaluateAll(getSizes(), value);
  if (getSegmentSizes() && !llvm::is_contained(s, 0))
    memory.addAttention({value(getSegmentSizes()->getDims()[1]), s[5], s[6], getDO() != nullptr,
                         getDropout().convertToDouble() > 0, bandOf(*this)});
}

//===----------------------------------------------------------------------===//
// From train.attention and its gradient
//===----------------------------------------------------------------------===//

namespace {

/// Attention, or its gradient with the four values of that.
struct AttentionCall {
  Value q, k, v, o, stats, bias, seed, dO, dQ, dK, dV, segments, positions, dBias;
  DimAttr longest;
  FloatAttr scale, dropout;
  UnitAttr causal;
  IntegerAttr before, after;

  void emit(Location loc, CallEmitter &emitter) const {
    MLIRContext *context = loc.getContext();
    auto bufferOf = [&](Value value) { return value ? emitter.placeOf(value).buffer : Value(); };
    auto strides = [&](Value value) {
      return value ? DimsAttr::get(context,
                                   ArrayRef(emitter.placeOf(value).layout.strides).take_front(3))
                   : DimsAttr();
    };
    // In the order of the op's operands.
    SmallVector<DimAttr> offsets;
    for (Value value : {q, k, v, o, stats, bias, seed, dO, dQ, dK, dV, segments, positions, dBias})
      if (value)
        offsets.push_back(emitter.placeOf(value).layout.offset);
    SmallVector<DimAttr> dims = getDims(q), keys = getDims(k), values = getDims(v);
    auto sizes =
        DimsAttr::get(context, {dims[0], dims[1], keys[1], dims[2], keys[2], dims[3], values[3]});
    DimsAttr segmentSizes;
    if (segments)
      segmentSizes =
          DimsAttr::get(context, {getDim(segments, 0) - DimAttr::constant(context, 1), longest});
    plan::AttentionOp::create(emitter.builder, loc, bufferOf(q), bufferOf(k), bufferOf(v),
                              bufferOf(o), bufferOf(stats), bufferOf(bias), bufferOf(seed),
                              bufferOf(dO), bufferOf(dQ), bufferOf(dK), bufferOf(dV),
                              bufferOf(segments), bufferOf(positions), bufferOf(dBias), sizes,
                              DimsAttr::get(context, offsets), strides(q), strides(k), strides(v),
                              strides(o), biasStrides(emitter), strides(dO), strides(dQ),
                              strides(dK), strides(dV), TypeAttr::get(train::getElementType(q)),
                              bias ? TypeAttr::get(train::getElementType(bias)) : TypeAttr(), scale,
                              dropout, causal, segmentSizes, before, after);
  }

private:
  /// The axes of length 1 of a bias are repeated.
  DimsAttr biasStrides(CallEmitter &emitter) const {
    if (!bias)
      return {};
    SmallVector<DimAttr> strides = emitter.placeOf(bias).layout.strides;
    for (auto [stride, size] : llvm::zip_equal(strides, getDims(bias)))
      if (size.isConstant(1))
        stride = DimAttr::constant(bias.getContext(), 0);
    return DimsAttr::get(bias.getContext(), strides);
  }
};

/// What an attention and its gradient have in common.
template <typename Op> AttentionCall callOf(Op op) {
  AttentionCall call;
  call.q = op.getQ();
  call.k = op.getK();
  call.v = op.getV();
  call.stats = op.getStats();
  call.bias = op.getBias();
  call.seed = op.getSeed();
  call.segments = op.getOffsets();
  call.positions = op.getPositions();
  call.longest = op.getLongestAttr();
  call.scale = op.getScaleAttr();
  call.dropout = op.getDropoutAttr();
  call.causal = op.getCausalAttr();
  call.before = op.getBeforeAttr();
  call.after = op.getAfterAttr();
  return call;
}

struct AttentionModel : LibraryCallOpInterface::ExternalModel<AttentionModel, train::AttentionOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto op = cast<train::AttentionOp>(operation);
    if (op.getOffsets())
      for (Operation *user : op.getStats().getUsers())
        if (!isa<AttentionGradOp>(user))
          return user->emitError("reads the stats of an attention over segments, which only its "
                                 "gradient may read");
    emitter.placeResult(op.getResult());
    emitter.placeResult(op.getStats());
    AttentionCall call = callOf(op);
    call.o = op.getResult();
    call.emit(op.getLoc(), emitter);
    return success();
  }
};

struct AttentionGradModel
    : LibraryCallOpInterface::ExternalModel<AttentionGradModel, AttentionGradOp> {
  LogicalResult emitCall(Operation *operation, CallEmitter &emitter) const {
    auto op = cast<AttentionGradOp>(operation);
    for (Value result : op.getResults())
      emitter.placeResult(result);
    AttentionCall call = callOf(op);
    call.o = op.getOutput();
    call.dO = op.getCotangent();
    call.dQ = op.getDq();
    call.dK = op.getDk();
    call.dV = op.getDv();
    call.dBias = op.getDbias();
    call.emit(op.getLoc(), emitter);
    return success();
  }
};
} // namespace

void plan::attachAttentionCalls(MLIRContext *context) {
  train::AttentionOp::attachInterface<AttentionModel>(*context);
  AttentionGradOp::attachInterface<AttentionGradModel>(*context);
}
