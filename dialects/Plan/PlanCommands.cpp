// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches and copies as commands; what all commands share.

#include "dialects/Plan/CommandDetail.h"
#include "dialects/Plan/TableBuilder.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;
using namespace trainc::plan::detail;
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

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

void LaunchOp::getEffects(Effects &effects) {
  const size_t members = getGroup() ? getGroup()->getDims().size() : 1;
  const size_t arguments = getBuffers().size() / members;
  for (auto [i, buffer] : llvm::enumerate(getBuffersMutable()))
    if (i % arguments < getNumInputs())
      read(effects, buffer);
    else
      write(effects, buffer);
}

LogicalResult LaunchOp::verify() {
  if (getNumInputs() > getBuffers().size())
    return emitOpError("expected at most ")
           << getBuffers().size() << " inputs, got " << getNumInputs();
  size_t variants = getVariants() ? getVariants()->size() : 0;
  if (variants != (getVariantWork() ? getVariantWork()->getDims().size() : 0) ||
      variants != (getVariantGrain() ? getVariantGrain()->size() : 0))
    return emitOpError("expected a work and a grain for each variant");
  if (variants && getGroup())
    return emitOpError("expected no variants of a group");
  return success();
}

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
  static_assert(unsigned(fb::KernelForm::product) == unsigned(KernelForm::product) &&
                unsigned(fb::KernelForm::MAX) == getMaxEnumValForKernelForm());
  return builder.finish(
      fb::CreateLaunch(builder.out, getGroup() ? getGroup()->getDims().size() : 0,
                       getForm() ? fb::KernelForm(*getForm()) : fb::KernelForm::unknown));
}

SmallVector<DimAttr> LaunchOp::getCosts() {
  if (!getMoved())
    return {};
  return {*getMoved(), *getFlops()};
}

DimAttr LaunchOp::getThreadScratch() { return getScratch(); }

//===----------------------------------------------------------------------===//
// copy
//===----------------------------------------------------------------------===//

void CopyOp::getEffects(Effects &effects) {
  read(effects, getFromMutable());
  write(effects, getToMutable());
}

static Space spaceOf(Value buffer) {
  auto declaration = buffer.getDefiningOp<BufferOp>();
  return declaration ? declaration.getSpace() : Space::arena;
}
bool CopyOp::isTransfer() {
  return spaceOf(getFrom()) == Space::host || spaceOf(getTo()) == Space::host;
}
LogicalResult CopyOp::verify() {
  if (spaceOf(getFrom()) == Space::host && spaceOf(getTo()) == Space::host)
    return emitOpError("expected a buffer of the device on one side");
  return success();
}

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
