// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which fusions share a kernel.

#include "trainc/Codegen/KernelModule.h"
#include "dialects/Train/Diagnostics/Notes.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

KernelModule::KernelModule(MLIRContext &context, StringRef processor, StringRef cache)
    : module(ModuleOp::create(UnknownLoc::get(&context), "kernels")), cache(cache),
      processor(processor) {}

/// What a target can hold in memory; formulas inside may have other types.
LogicalResult KernelModule::checkBuffers(FusionOp fusion) const {
  for (Value value : llvm::concat<Value>(llvm::to_vector(fusion.getInputs()),
                                         llvm::to_vector_of<Value>(fusion.getResults()))) {
    Type element = getElementTypeOrSelf(value.getType());
    if (element.isF32() || element.isF64() || element.isF16() || element.isBF16() ||
        element.isInteger(1) || element.isInteger(8) || element.isInteger(16) ||
        element.isInteger(32) || element.isInteger(64))
      continue;
    return attachNotes(fusion.emitOpError("has a buffer of element type ")
                           << element << ", which " << processor << " kernels do not read or write",
                       {{"the buffer", value}});
  }
  return success();
}

/// An equal kernel, or a new one that `emit` makes. Equal are the text, and the sizes as far as the
/// kernel knows them.
FailureOr<const EmittedKernel *>
KernelModule::share(const StructuralKey &key, StringRef kind,
                    llvm::function_ref<LogicalResult(EmittedKernel &)> emit,
                    SmallVectorImpl<DimAttr> &dims) {
  SmallVector<EmittedKernel> &candidates = kernels[key.text];
  // Sizes beyond the key's were made of the first fusion's: only the same sizes may share it then.
  const EmittedKernel *found = llvm::find_if(candidates, [&](const EmittedKernel &kernel) {
    return kernel.dims.size() == key.dims.size() || kernel.keyDims == key.dims;
  });
  // The launch passes its own fusion's sizes; those that the kernel has made of others come behind.
  dims.assign(key.dims.begin(), key.dims.end());
  if (found == candidates.end()) {
    EmittedKernel kernel;
    kernel.name = ("kernel_" + Twine(count) + "_" + kind).str();
    kernel.keyDims = kernel.dims = key.dims;
    if (failed(emit(kernel)))
      return failure();
    ++count;
    found = &candidates.emplace_back(std::move(kernel));
  }
  assert(found->keyDims.size() == key.dims.size() && "equal keys have corresponding sizes");
  // For equal keys with the same dims the derived sizes are the same.
  dims.append(found->dims.begin() + key.dims.size(), found->dims.end());
  return found;
}

/// By the body first, which is cheap, then by structure.
FailureOr<KernelInfo> ModuleCodegen::add(FusionOp fusion) {
  KernelModule &kernels = getKernels();
  return kernels.known.get(fusion, [&](FusionOp fusion) -> FailureOr<KernelInfo> {
    if (failed(kernels.checkBuffers(fusion)))
      return failure();
    return kernels.make(fusion);
  });
}

} // namespace trainc::codegen
