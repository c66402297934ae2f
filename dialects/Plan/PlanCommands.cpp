// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each command, as program.fbs and the runtime's libraries take it.

#include "dialects/Plan/PlanDialect.h"
#include "dialects/Plan/TableBuilder.h"
#include "format/memory/working_memory.h"
#include "format/memory/workspace_bounds.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using train::DimAttr;
using train::DimsAttr;
namespace fb = trainrt::fb;

std::optional<fb::DType> trainc::plan::getDType(Type type) {
  if (type.isF32())
    return fb::DType::f32;
  if (type.isF64())
    return fb::DType::f64;
  if (type.isF16())
    return fb::DType::f16;
  if (type.isBF16())
    return fb::DType::bf16;
  if (type.isInteger(1))
    return fb::DType::bool8;
  if (type.isInteger(8))
    return fb::DType::i8;
  if (type.isInteger(16))
    return fb::DType::i16;
  if (type.isInteger(32))
    return fb::DType::i32;
  if (type.isInteger(64))
    return fb::DType::i64;
  return std::nullopt;
}

fb::Access trainc::plan::getAccess(OpOperand &operand) {
  SmallVector<SideEffects::EffectInstance<MemoryEffects::Effect>> effects;
  cast<MemoryEffectOpInterface>(operand.getOwner()).getEffects(effects);
  bool reads = false, writes = false;
  for (auto &effect : effects)
    if (effect.getEffectValue<OpOperand *>() == &operand) {
      reads |= isa<MemoryEffects::Read>(effect.getEffect());
      writes |= isa<MemoryEffects::Write>(effect.getEffect());
    }
  return reads && writes ? fb::Access::update : writes ? fb::Access::write : fb::Access::read;
}

static DimAttr inBytes(DimAttr elements, Type element) {
  return elements * DimAttr::constant(element.getContext(), element.getIntOrFloatBitWidth() / 8);
}
static OpOperand *only(MutableOperandRange range) { return range.empty() ? nullptr : &range[0]; }

static SmallVector<int64_t> evaluateAll(DimsAttr dims, EvaluateInteger value) {
  return llvm::map_to_vector(dims.getDims(), value);
}

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

SmallVector<CommandSlot> LaunchOp::getSlots() {
  return llvm::map_to_vector(getBuffersMutable(),
                             [](OpOperand &buffer) { return CommandSlot{&buffer}; });
}

SmallVector<DimAttr> LaunchOp::getCommandSizes() {
  auto constant = [&](int64_t value) { return DimAttr::constant(getContext(), value); };
  SmallVector<DimAttr> sizes = {getWork(), constant(getGrain()), getScratch()};
  llvm::append_range(sizes, getDims().getDims());
  if (getGroup())
    llvm::append_range(sizes, getGroup()->getDims());
  if (getVariants())
    for (auto [work, grain] : llvm::zip_equal(getVariantWork()->getDims(), *getVariantGrain()))
      llvm::append_values(sizes, work, constant(grain));
  return sizes;
}

CommandKernels LaunchOp::getKernels() {
  const size_t members = getGroup() ? getGroup()->getDims().size() : 1;
  CommandKernels kernels{
      {getKernel()}, getBuffers().size() / members, getDims().getDims().size() / members};
  if (getVariants())
    llvm::append_range(kernels.names, getVariants()->getAsValueRange<StringAttr>());
  return kernels;
}

CommandTable LaunchOp::buildTable(TableBuilder &builder) {
  return builder.finish(
      fb::CreateLaunch(builder.out, getGroup() ? getGroup()->getDims().size() : 0));
}

DimAttr LaunchOp::getThreadScratch() { return getScratch(); }

//===----------------------------------------------------------------------===//
// gemm
//===----------------------------------------------------------------------===//

SmallVector<CommandSlot> GemmOp::getSlots() {
  ArrayRef<DimAttr> offsets = getOffsets().getDims();
  return {{&getAMutable(), inBytes(offsets[0], getElementType())},
          {&getBMutable(), inBytes(offsets[1], getElementType())},
          {&getCMutable(), inBytes(offsets[2], getResultElementType())},
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
      fb::CreateGemm(builder.out, *getDType(getElementType()), *getDType(getResultElementType()),
                     1.0f, getAccumulate() ? 1.0f : 0.0f, getTf32(),
                     getEpilogue() ? fb::GemmEpilogue(*getEpilogue()) : fb::GemmEpilogue::none));
}

CommandCost GemmOp::getCommandCost(EvaluateReal value) {
  ArrayRef<DimAttr> sizes = getSizes().getDims();
  const double m = value(sizes[0]), n = value(sizes[1]), k = value(sizes[2]);
  double batch = 1;
  for (DimAttr extent : getBatch().getDims())
    batch *= value(extent);
  auto bytes = [](Type element) { return element.getIntOrFloatBitWidth() / 8; };
  // Its operands may be parts of their buffers.
  return {batch * 2 * m * n * k, getElementType(), getTf32(),
          batch *
              ((m * k + k * n) * bytes(getElementType()) + m * n * bytes(getResultElementType()))};
}

CommandWorkspace GemmOp::getGpuWorkspace(EvaluateInteger) {
  return {trainrt::cuda::gemmWorkspaceLimit, /*mayRunAside=*/true};
}

void GemmOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  SmallVector<int64_t> sizes = evaluateAll(getSizes(), value),
                       batch = evaluateAll(getBatch(), value),
                       a = evaluateAll(getAStrides(), value), b = evaluateAll(getBStrides(), value),
                       c = evaluateAll(getCStrides(), value);
  if (llvm::any_of(sizes, [](int64_t size) { return size < 0; }))
    return;
  const size_t n = batch.size();
  memory.addGemm({nullptr, nullptr, nullptr, sizes[0], sizes[1], sizes[2], a[n], a[n + 1], b[n],
                  b[n + 1], c[n], c[n + 1], int(n), batch.data(), a.data(), b.data(), c.data(), 1,
                  0});
}

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

SmallVector<CommandSlot> AttentionOp::getSlots() {
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
      {only(getPositionsMutable()), i32}};
  // Offsets are those of the operands that are there.
  ArrayRef<DimAttr> offsets = getOffsets().getDims();
  SmallVector<CommandSlot> slots;
  for (auto [operand, type] : operands) {
    slots.push_back({operand, operand ? inBytes(offsets.front(), type) : DimAttr()});
    offsets = offsets.drop_front(operand ? 1 : 0);
  }
  return slots;
}

SmallVector<DimAttr> AttentionOp::getCommandSizes() {
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

CommandTable AttentionOp::buildTable(TableBuilder &builder) {
  const double dropout = getDropout().convertToDouble();
  return builder.finish(fb::CreateAttention(
      builder.out, getDO() != nullptr, *getDType(getElementType()),
      *getDType(getBiasType().value_or(getElementType())), getScale().convertToDouble(), dropout,
      getCausal(), getSegments() ? dropout : 0));
}

CommandCost AttentionOp::getCommandCost(EvaluateReal value) {
  ArrayRef<DimAttr> sizes = getSizes().getDims();
  double keys = value(sizes[4]);
  if (getSegmentSizes()) // a row meets those of its segment only
    keys = std::min(keys, value(getSegmentSizes()->getDims()[1]));
  const double scores = value(sizes[0]) * value(sizes[1]) * value(sizes[3]) * keys;
  double flops = 2 * scores * (value(sizes[5]) + value(sizes[6]));
  flops *= getDO() ? 2.5 : 1; // with the scores once more
  flops *= getCausal() ? 0.5 : 1;
  return {flops, getElementType()};
}

CommandWorkspace AttentionOp::getGpuWorkspace(EvaluateInteger value) {
  SmallVector<int64_t> s = evaluateAll(getSizes(), value);
  if (getSegmentSizes()) {
    SmallVector<int64_t> segments = evaluateAll(*getSegmentSizes(), value);
    s[0] = segments[0];
    s[3] = s[4] = segments[1];
  }
  return {trainrt::cuda::attentionWorkspaceLimit({s[0], s[1], s[2], s[3], s[4], s[5], s[6],
                                                  getDO() != nullptr, getSegmentSizes().has_value(),
                                                  getDropout().convertToDouble() > 0})};
}

void AttentionOp::addCpuWorkspace(EvaluateInteger value, trainrt::WorkingMemory &memory) {
  SmallVector<int64_t> s = evaluateAll(getSizes(), value);
  if (getSegmentSizes() && !llvm::is_contained(s, 0))
    memory.addAttention({value(getSegmentSizes()->getDims()[1]), s[5], s[6], getDO() != nullptr,
                         getDropout().convertToDouble() > 0});
}

//===----------------------------------------------------------------------===//
// copy
//===----------------------------------------------------------------------===//

SmallVector<CommandSlot> CopyOp::getSlots() { return {{&getFromMutable()}, {&getToMutable()}}; }

SmallVector<DimAttr> CopyOp::getCommandSizes() { return {getBytes()}; }

CommandTable CopyOp::buildTable(TableBuilder &builder) {
  return builder.finish(fb::CreateCopy(builder.out));
}

CommandCost CopyOp::getCommandCost(EvaluateReal) {
  CommandCost cost;
  cost.isTransfer = isTransfer();
  return cost;
}
