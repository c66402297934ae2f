// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-offload`.

#include "lib/Schedule/Memory/ChooseOffload.h"

#include "lib/Schedule/Offload/Offload.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Report/MemoryReport.h"

using namespace mlir;
using namespace trainc;

namespace trainc {
#define GEN_PASS_DEF_CHOOSEOFFLOADPASS
#include "lib/Schedule/Memory/ChooseOffload.h.inc"
} // namespace trainc

/// The inputs, whose elements are counted.
/// Each input once, though every function has a buffer of its own for it.
static PackageInterface inputsOf(ModuleOp module) {
  PackageInterface interface;
  for (auto function : module.getOps<plan::FunctionOp>())
    for (auto buffer : function.getOps<plan::BufferOp>()) {
      StringRef name = buffer.getName().value_or("");
      if (buffer.getSpace() != plan::Space::input ||
          PackageInterface::find(interface.inputs, name) >= 0)
        continue;
      InterfaceTensor tensor;
      tensor.name = name.str();
      tensor.type = cast<RankedTensorType>(buffer.getType());
      interface.inputs.push_back(std::move(tensor));
    }
  return interface;
}

namespace {
struct ChooseOffload final : public trainc::impl::ChooseOffloadPassBase<ChooseOffload> {
  using ChooseOffloadPassBase::ChooseOffloadPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const PackageInterface interface = inputsOf(module);
    // Sizes that were planned before (the batch that a budget has chosen) go before those of the
    // options.
    Sizes sizes = Sizes(module, interface).counted(density);
    if (auto planned = module->getAttrOfType<DictionaryAttr>(kPlannedSizesAttr))
      for (NamedAttribute size : planned)
        if (auto value = dyn_cast<IntegerAttr>(size.getValue()))
          sizes = sizes.with(size.getName().strref(), value.getInt());
    if (std::string missing = missingSizes(sizes); !missing.empty()) {
      module.emitError("--offload ") << missing;
      return signalPassFailure();
    }
    OffloadPassOptions options;
    options.target = target;
    options.limit = limit;
    options.rate = rate;
    options.sizes = sizesOf(module, sizes);
    OpPassManager pm(ModuleOp::getOperationName());
    pm.addNestedPass<plan::FunctionOp>(createOffloadPass(options));
    if (failed(runPipeline(pm, module)))
      signalPassFailure();
  }
};
} // namespace
