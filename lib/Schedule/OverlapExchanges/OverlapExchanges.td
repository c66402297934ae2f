// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `overlap-exchanges`.
#ifndef TRAINC_SCHEDULE_OVERLAPEXCHANGES_TD
#define TRAINC_SCHEDULE_OVERLAPEXCHANGES_TD

include "mlir/Pass/PassBase.td"

def OverlapExchangesPass : Pass<"overlap-exchanges", "::trainc::plan::FunctionOp"> {
  let summary = "begins what ranks exchange early, and waits for it late";
  let description = [{
    A runtime runs the collectives of a plan one behind the other, beside its other commands; one of these waits for the
    collectives before it that touch the same bytes. So the order of commands says when an exchange may begin, and when
    it has to be done. A collective moves up to where its operands are there and nobody needs what it writes over.
    Commands that would wait for it move down, with all that waits for them, behind the begin of the next collective:
    while one exchange is under way the next one's operands are computed, and no more than two hold memory. A gather begins no
    earlier than what the one before it brings is used.

    Legal because no two commands change places of which one writes what the other touches. Collectives keep their
    order, which is that of all ranks. `plan.release` keeps what a collective reads until the first command that waits
    for it, or until two others have begun: the bytes order the two in any case, so that without it commands would wait for memory alone.

    ```mlir
    // plan.function(overlap-exchanges)
    plan.function @micro {
      %w = plan.buffer parameter "w" : tensor<16xf32>
      %a = plan.buffer arena : tensor<16xf32>
      %b = plan.buffer arena : tensor<16xf32>
      %pa = plan.buffer arena : tensor<8xf32>
      %pb = plan.buffer arena : tensor<8xf32>
      %ga = plan.buffer gradient "a" : tensor<8xf32>
      %gb = plan.buffer gradient "b" : tensor<8xf32>
      plan.launch "a"(%w, %a) inputs 1 dims <> work <16> grain 16 scratch <0>
      plan.launch "b"(%w, %b) inputs 1 dims <> work <16> grain 16 scratch <0>
      plan.collective reduce_scatter %a, %pa elements <16, 8> : f32
      plan.launch "add"(%pa, %ga) inputs 1 dims <> work <8> grain 8 scratch <0>
      plan.collective reduce_scatter %b, %pb elements <16, 8> : f32
      plan.launch "add"(%pb, %gb) inputs 1 dims <> work <8> grain 8 scratch <0>
    }
    // becomes
    plan.function @micro {
      ...
      plan.launch "a"(%w, %a) ...
      plan.collective reduce_scatter %a, %pa ...
      plan.launch "b"(%w, %b) ...
      plan.collective reduce_scatter %b, %pb ...
      plan.release %a
      plan.launch "add"(%pa, %ga) ...
      plan.release %b
      plan.launch "add"(%pb, %gb) ...
    }
    ```
  }];
}

#endif // TRAINC_SCHEDULE_OVERLAPEXCHANGES_TD
