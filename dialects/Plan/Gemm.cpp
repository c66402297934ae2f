// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plan.gemm: what it demands, writes to program.fb, costs; and how a train.matmul becomes one.

#include "dialects/Plan/CallEmitter.h"
#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"
#include "format/memory/working_memory.h"
#include "format/memory/workspace_bounds.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
using train::DimAttr;
using train::DimsAttr;
using namespace trainc::train;
using trainc::plan::GemmOp;
namespace fb = trainrt::fb;

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

void GemmOp::getEffects(Effects &effects) {
  using train::Epilogue;
  read(effects, getAMutable());
  read(effects, getBMutable());
  if (getAccumulate())
    read(effects, getCMutable());
  write(effects, getCMutable());
  if (getEpilogue() == Epilogue::dgelu_bgrad)
    write(effects, getBiasMutable());
  else
    read(effects, getBiasMutable());
  if (getEpilogue() == Epilogue::gelu_aux || getEpilogue() == Epilogue::gelu_aux_bias)
    write(effects, getAuxMutable());
  else
    read(effects, getAuxMutable());
}

LogicalResult GemmOp::verify() {
  size_t rank = getBatch().getDims().size() + 2;
  for (train::DimsAttr strides : {getAStrides(), getBStrides(), getCStrides()})
    if (strides.getDims().size() != rank)
      return emitOpError("expected ") << rank << " strides, got " << strides.getDims().size();
  if (getSizes().getDims().size() != 3 || getOffsets().getDims().size() != 3)
    return emitOpError("expected sizes [m, n, k] and offsets [a, b, c]");
  using train::Epilogue;
  std::optional<Epilogue> epilogue = getEpilogue();
  bool bias = epilogue && *epilogue != Epilogue::gelu_aux && *epilogue != Epilogue::dgelu;
  bool aux = epilogue && *epilogue != Epilogue::bias;
  if (epilogue && getAccumulate())
    return emitOpError("expected `accumulate`, without an epilogue, for a sum");
  const bool storesSums = getElementType().getIntOrFloatBitWidth() == 16 && !epilogue;
  if (getResultType() != getElementType() && !(storesSums && getResultType().isF32()))
    return emitOpError("expected a result of ")
           << getElementType() << (storesSums ? " or f32" : "") << ", got " << getResultType();
  if (bias != bool(getBias()) || aux != bool(getAux()))
    return emitOpError("expected ") << (bias ? "a" : "no") << " bias and " << (aux ? "an" : "no")
                                    << " aux with this epilogue";
  return success();
}

SmallVector<CommandSlot> GemmOp::getSlots() {
  ArrayRef<DimAttr> offsets = getOffsets().getDims();
  return {{&getAMutable(), inBytes(offsets[0], getElementType())},
          {&getBMutable(), inBytes(offsets[1], getElementType())},
          {&getCMutable(), inBytes(offsets[2], getResultType())},
          {only(getBiasMutable())},
          {only(getAuxMutable())}};
}

SmallVector<DimAttr> GemmOp::getCommandSizes() {
  SmallVector<DimAttr> sizes(getSizes().getDims());
  const std::array strides = {getAStrides(), getBStrides(), getCStrides()};
  const size_t rank = getBatch().getDims().size();
  for (DimsAttr list : strides)
    llvm::append_range(sizes, list.getDims().drop_front(rank));
  llvm::append_range(sizes, getBatch().getDims());
  for (DimsAttr list : strides)
    llvm::append_range(sizes, list.getDims().take_front(rank));
  return sizes;
}

CommandTable GemmOp::buildTable(TableBuilder &builder) {
  // Train's enum has no case for "none", which is 0.
  using train::Epilogue;
  static_assert(int(Epilogue::bias) == int(fb::GemmEpilogue::bias) &&
                int(Epilogue::gelu_aux) == int(fb::GemmEpilogue::gelu_aux) &&
                int(Epilogue::gelu_aux_bias) == int(fb::GemmEpilogue::gelu_aux_bias) &&
                int(Epilogue::dgelu) == int(fb::GemmEpilogue::dgelu) &&
                int(Epilogue::dgelu_bgrad) == int(fb::GemmEpilogue::dgelu_bgrad));
  return builder.finish(
      fb::CreateGemm(builder.out, *getDType(getElementType()), *getDType(getResultType()), 1.0f,
                     getAccumulate() ? 1.0f : 0.0f, getTf32(),
                     getEpilogue() ? fb::GemmEpilogue(*getEpilogue()) : fb::GemmEpilogue::none));
}

CommandCost GemmOp::getCommandCost(EvaluateReal value) {
  ArrayRef<DimAttr> sizes = getSizes().getDims();
  const double m = value(sizes[0]), n = value(sizes[1]), k = value(sizes[2]);
  double batch = 1;
  for (DimAttr extent : getBatch().getDims())
    batch *= value(extent);
  // Its operands may be parts of their buffers.
  return {batch * 2 * m * n * k, getElementType(), getTf32(),
          batch * ((m * k + k * n) * getElementBytes(getElementType()) +
                   m * n * getElementBytes(getResultType()))};
}

CommandWorkspace GemmOp::getGpuWorkspace(EvaluateInteger) {
  return {trainrt::cuda::gemmWorkspaceLimit, /*mayRunAside=*/true};
}

/// Whether two buffers are the same memory: of the program's tensors there may be several.
static bool isSameMemory(Value a, Value b) {
  auto first = a.getDefiningOp<BufferOp>(), second = b.getDefiningOp<BufferOp>();
  return a == b || (first.getSpace() != Space::arena && first.getSpace() == second.getSpace() &&
                    first.getNameAttr() == second.getNameAttr());
}

/// Whether an operand is the same in all steps of a loop that begins here. The runtime has a
/// function of this name that asks it of a package's commands, and has to come to the same answer,
/// as what is kept packed is counted in the memory that is told while compiling. They are two
/// because that is told of ops, when there is no package yet, and because what a package said of
/// itself would have to be checked by asking once more.
static bool isSameInAllSteps(LoopOp begin, Value buffer) {
  size_t open = 0;
  for (Operation *op = begin; op; op = op->getNextNode()) {
    if (isa<PlanCommandOpInterface>(op))
      for (OpOperand &operand : op->getOpOperands())
        if (isSameMemory(operand.get(), buffer) && getAccess(operand) != fb::Access::read)
          return false;
    if (auto loop = dyn_cast<LoopOp>(op))
      if ((open += loop.getEnd() ? size_t(-1) : 1) == 0)
        return true;
  }
  llvm_unreachable("a loop has an end");
}

static trainrt::GemmConstants findConstants(GemmOp op) {
  // What is made in front of a loop is an operand of it: most matmuls need no walk.
  auto isOfLoop = [](Value buffer) {
    return llvm::any_of(buffer.getUsers(), llvm::IsaPred<LoopOp>);
  };
  if (!isOfLoop(op.getA()) && !isOfLoop(op.getB()))
    return {};
  LoopOp innermost, outermost;
  size_t closed = 0;
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
    if (auto loop = dyn_cast<LoopOp>(before)) {
      if (loop.getEnd()) {
        ++closed;
      } else if (closed) {
        --closed;
      } else {
        innermost = innermost ? innermost : loop;
        outermost = loop;
      }
    }
  if (!innermost)
    return {};
  return {outermost.getOperation(), isSameInAllSteps(innermost, op.getA()),
          isSameInAllSteps(innermost, op.getB())};
}

void GemmOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  SmallVector<int64_t> sizes = evaluateAll(getSizes(), value),
                       batch = evaluateAll(getBatch(), value),
                       a = evaluateAll(getAStrides(), value), b = evaluateAll(getBStrides(), value),
                       c = evaluateAll(getCStrides(), value);
  if (llvm::any_of(sizes, [](int64_t size) { return size < 0; }))
    return;
  const size_t n = batch.size();
  memory.addGemm({nullptr,  nullptr,
                  nullptr,  sizes[0],
                  sizes[1], sizes[2],
                  a[n],     a[n + 1],
                  b[n],     b[n + 1],
                  c[n],     c[n + 1],
                  int(n),   batch.data(),
                  a.data(), b.data(),
                  c.data(), 1,
                  0,        getElementType().isBF16()},
                 findConstants(*this));
}

//===----------------------------------------------------------------------===//
// From train.matmul
//===----------------------------------------------------------------------===//

namespace {

/// A matmul, whose loops its axis map tells.
LogicalResult emitProduct(MatmulOp op, CallEmitter &emitter) {
  AxisMap map = cast<AxisMapOpInterface>(*op).getAxisMap();
  Value a = op.getLhs(), b = op.getRhs(), c = op.getResult(), addend = op.getAddend();
  const Place placeC = addend ? emitter.placeSum(op, addend, c) : emitter.placeResult(c),
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
  if (op.getExtra())
    emitter.placeResult(op.getExtra());
  for (Value value : {Value(op.getOperand()), Value(op.getExtra())})
    if (value)
      (getRank(value) == 1 ? bias : aux) = emitter.placeOf(value).buffer;
  plan::GemmOp::create(
      emitter.builder, op->getLoc(), placeA.buffer, placeB.buffer, placeC.buffer, bias, aux,
      dims(batch), dims(sizes), dims(aStrides), dims(bStrides), dims(cStrides),
      dims({placeA.layout.offset, placeB.layout.offset, placeC.layout.offset}), getElementType(a),
      getElementType(c), emitter.tf32 && train::getElementType(a).isF32(), addend != nullptr,
      op.getEpilogueAttr());
  return success();
}

struct ProductModel : LibraryCallOpInterface::ExternalModel<ProductModel, MatmulOp> {
  LogicalResult emitCall(Operation *op, CallEmitter &emitter) const {
    return emitProduct(cast<MatmulOp>(op), emitter);
  }
};
} // namespace

void plan::attachGemmCalls(MLIRContext *context) {
  MatmulOp::attachInterface<ProductModel>(*context);
}
