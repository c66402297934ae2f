// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and attention as commands. The train dialect knows nothing of plans: its ops get the
// interface here.

#include "dialects/Plan/CallEmitter.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::train;
using trainc::plan::GemmOp;

namespace {

/// A product of matrices, whose loops its axis map tells.
LogicalResult emitProduct(Operation *op, CallEmitter &emitter) {
  AxisMap map = cast<AxisMapOpInterface>(op).getAxisMap();
  Value a = op->getOperand(0), b = op->getOperand(1), c = op->getResult(0);
  auto fused = dyn_cast<FusedMatmulOp>(op);
  const bool accumulates = fused && fused.getEpilogue() == Epilogue::add;
  const Place placeC = accumulates ? emitter.placeSum(op, fused.getOperand(), c)
                                   : emitter.placeResult(c),
              placeA = emitter.placeOf(a), placeB = emitter.placeOf(b);
  auto strideOf = [&](const Place &place, ArrayRef<int> axes, int loop) {
    DimAttr stride = DimAttr::constant(op->getContext(), 0);
    for (auto [axis, l] : llvm::enumerate(axes))
      if (l == loop)
        stride = place.layout.strides[axis];
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
    aStrides.push_back(strideOf(placeA, map.operands[0], loop));
    bStrides.push_back(strideOf(placeB, map.operands[1], loop));
    cStrides.push_back(strideOf(placeC, map.results[0], loop));
  }
  sizes = {extent(c, map.results[0], rows), extent(c, map.results[0], columns),
           extent(a, map.operands[0], inner)};
  for (auto [place, axes, strides, first, second] :
       {std::tuple(&placeA, ArrayRef<int>(map.operands[0]), &aStrides, rows, inner),
        std::tuple(&placeB, ArrayRef<int>(map.operands[1]), &bStrides, inner, columns),
        std::tuple(&placeC, ArrayRef<int>(map.results[0]), &cStrides, rows, columns)}) {
    strides->push_back(strideOf(*place, axes, first));
    strides->push_back(strideOf(*place, axes, second));
  }
  MLIRContext *context = op->getContext();
  auto dims = [&](ArrayRef<DimAttr> list) { return DimsAttr::get(context, list); };
  Value bias, aux;
  EpilogueAttr epilogue;
  if (fused && !accumulates) {
    epilogue = fused.getEpilogueAttr();
    if (fused.getExtra())
      emitter.placeResult(fused.getExtra());
    for (Value value : {fused.getOperand(), fused.getExtra()})
      if (value)
        (getRank(value) == 1 ? bias : aux) = emitter.placeOf(value).buffer;
  }
  GemmOp::create(emitter.builder, op->getLoc(), placeA.buffer, placeB.buffer, placeC.buffer, bias,
                 aux, dims(batch), dims(sizes), dims(aStrides), dims(bStrides), dims(cStrides),
                 dims({placeA.layout.offset, placeB.layout.offset, placeC.layout.offset}),
                 getElementType(a), emitter.tf32 && train::getElementType(a).isF32(), accumulates,
                 getElementType(c) != getElementType(a), epilogue);
  return success();
}

/// Attention, or its gradient with the four values of that.
struct AttentionCall {
  Value q, k, v, o, stats, bias, seed, dO, dQ, dK, dV, segments, positions;
  DimAttr longest;
  FloatAttr scale, dropout;
  UnitAttr causal;

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
    for (Value value : {q, k, v, o, stats, bias, seed, dO, dQ, dK, dV, segments, positions})
      if (value)
        offsets.push_back(emitter.placeOf(value).layout.offset);
    SmallVector<DimAttr> dims = getDims(q), keys = getDims(k), values = getDims(v);
    auto sizes =
        DimsAttr::get(context, {dims[0], dims[1], keys[1], dims[2], keys[2], dims[3], values[3]});
    DimsAttr segmentSizes;
    if (segments)
      segmentSizes =
          DimsAttr::get(context, {getDim(segments, 0) - DimAttr::constant(context, 1), longest});
    plan::AttentionOp::create(
        emitter.builder, loc, bufferOf(q), bufferOf(k), bufferOf(v), bufferOf(o), bufferOf(stats),
        bufferOf(bias), bufferOf(seed), bufferOf(dO), bufferOf(dQ), bufferOf(dK), bufferOf(dV),
        bufferOf(segments), bufferOf(positions), sizes, DimsAttr::get(context, offsets), strides(q),
        strides(k), strides(v), strides(o), biasStrides(emitter), strides(dO), strides(dQ),
        strides(dK), strides(dV), TypeAttr::get(train::getElementType(q)),
        bias ? TypeAttr::get(train::getElementType(bias)) : TypeAttr(), scale, dropout, causal,
        segmentSizes);
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
  return call;
}

template <typename Op>
struct ProductModel : LibraryCallOpInterface::ExternalModel<ProductModel<Op>, Op> {
  LogicalResult emitCall(Operation *op, CallEmitter &emitter) const {
    return emitProduct(op, emitter);
  }
};

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
    for (Value result : {op.getDq(), op.getDk(), op.getDv()})
      emitter.placeResult(result);
    AttentionCall call = callOf(op);
    call.o = op.getOutput();
    call.dO = op.getCotangent();
    call.dQ = op.getDq();
    call.dK = op.getDk();
    call.dV = op.getDv();
    call.emit(op.getLoc(), emitter);
    return success();
  }
};
} // namespace

void plan::attachLibraryCalls(MLIRContext *context) {
  MatmulOp::attachInterface<ProductModel<MatmulOp>>(*context);
  FusedMatmulOp::attachInterface<ProductModel<FusedMatmulOp>>(*context);
  train::AttentionOp::attachInterface<AttentionModel>(*context);
  AttentionGradOp::attachInterface<AttentionGradModel>(*context);
}
