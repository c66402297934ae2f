// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registration and verifiers of the plan dialect.

#include "dialects/Plan/PlanDialect.h"
#include "dialects/Plan/CallEmitter.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::plan;

#include "dialects/Plan/PlanDialect.cpp.inc"
#include "dialects/Plan/PlanEnums.cpp.inc"
#include "dialects/Plan/PlanInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Plan/PlanTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
  attachLibraryCalls(getContext());
}

//===----------------------------------------------------------------------===//
// What commands read and write
//===----------------------------------------------------------------------===//

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

static void read(Effects &effects, OpOperand &buffer) {
  effects.emplace_back(MemoryEffects::Read::get(), &buffer);
}
static void write(Effects &effects, OpOperand &buffer) {
  effects.emplace_back(MemoryEffects::Write::get(), &buffer);
}
static void read(Effects &effects, MutableOperandRange buffers) {
  for (OpOperand &buffer : buffers)
    read(effects, buffer);
}
static void write(Effects &effects, MutableOperandRange buffers) {
  for (OpOperand &buffer : buffers)
    write(effects, buffer);
}

void LaunchOp::getEffects(Effects &effects) {
  const size_t members = getGroup() ? getGroup()->getDims().size() : 1;
  const size_t arguments = getBuffers().size() / members;
  for (auto [i, buffer] : llvm::enumerate(getBuffersMutable()))
    if (i % arguments < getNumInputs())
      read(effects, buffer);
    else
      write(effects, buffer);
}
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
void AttentionOp::getEffects(Effects &effects) {
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
  for (MutableOperandRange buffers : {getDQMutable(), getDKMutable(), getDVMutable()})
    write(effects, buffers);
}
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
  if (epilogue == Epilogue::add || (epilogue && getAccumulate()))
    return emitOpError("expected `accumulate`, without an epilogue, for a sum");
  if (getWide() && (epilogue || getElementType().getIntOrFloatBitWidth() != 16))
    return emitOpError("expected `wide` for a 16-bit type, without an epilogue");
  if (bias != bool(getBias()) || aux != bool(getAux()))
    return emitOpError("expected ") << (bias ? "a" : "no") << " bias and " << (aux ? "an" : "no")
                                    << " aux with this epilogue";
  return success();
}

Type GemmOp::getResultElementType() {
  return getWide() ? Float32Type::get(getContext()) : getElementType();
}

LogicalResult AttentionOp::verify() {
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
  const double dropout = getDropout().convertToDouble();
  if (!(dropout >= 0 && dropout < 1))
    return emitOpError("expected a dropout from 0 to below 1, got ") << dropout;
  if (dropout > 0 && !getSeed())
    return emitOpError("expected a seed with dropout");
  return success();
}

train::DimAttr trainc::plan::getBytes(Type tensorType) {
  unsigned bits = getElementTypeOrSelf(tensorType).getIntOrFloatBitWidth();
  int64_t bytes = bits < 8 ? 1 : bits / 8;
  return train::getNumElements(tensorType) *
         train::DimAttr::constant(tensorType.getContext(), bytes);
}
