// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `choose-offload`.
#ifndef TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD
#define TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD

include "mlir/Pass/PassBase.td"

def ChooseOffloadPass : Pass<"choose-offload", "::mlir::ModuleOp"> {
  let summary = "runs offload for the largest sizes that a plan is made for";
  let description = [{
    The pass `offload` works out times and bytes for numbers. Here they are the largest values of the sizes (`max` of `train.symbol`), for counts
    the share `density` of what they count; where `choose-recompute` has chosen a batch, its size is that (`train.planned_sizes` of the module).

    Fails with an error where a size has no largest value.

    ```mlir
    train.symbol @batch min 1 max 64 input "x" axis 0
    // choose-offload{limit=1048576}: every plan.function gets offload{limit=1048576 sizes=batch=64}
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "", "the name of the target; \"\": the first with memory of its own">,
    Option<"density", "density", "double", "1", "share of the elements that counts count">,
    Option<"limit", "limit", "int64_t", "-1", "bytes of page-locked memory at most; -1: no limit">,
    Option<"rate", "rate", "double", "50", "of the link to the host, each way, in GB/s">,
  ];
}

#endif // TRAINC_SCHEDULE_MEMORY_CHOOSEOFFLOAD_TD
