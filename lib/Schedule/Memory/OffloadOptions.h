// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `offload` as the options and the sizes ask for it.
#ifndef TRAINC_LIB_SCHEDULE_MEMORY_OFFLOADOPTIONS_H
#define TRAINC_LIB_SCHEDULE_MEMORY_OFFLOADOPTIONS_H

#include "lib/Report/Sizes.h"
#include "lib/Schedule/Offload/Offload.h"
#include "trainc/Driver.h"

namespace trainc {

inline OffloadPassOptions offloadPassOptions(mlir::ModuleOp module, const CompileOptions &options,
                                             const Sizes &sizes) {
  OffloadPassOptions pass;
  pass.target = options.target->name().str();
  pass.limit = options.offload.limit;
  pass.rate = options.offload.rate;
  for (auto symbol : module.getOps<train::SymbolOp>())
    if (std::optional<int64_t> value = sizes(symbol.getSymName()))
      pass.sizes.push_back((symbol.getSymName() + "=" + llvm::Twine(*value)).str());
  return pass;
}

} // namespace trainc

#endif // TRAINC_LIB_SCHEDULE_MEMORY_OFFLOADOPTIONS_H
