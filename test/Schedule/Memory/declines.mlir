// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a budget leaves as it is, and why: the values of a step that fits with them, those that would not make it smaller, other batches.
// RUN: split-file %S/choose-recompute.mlir %t
// DEFINE: %{step} = trainc-opt %t/step.mlir --autodiff --attach-optimizer=kind=sgd --form-steps=micro=false --canonicalize --cse
// DEFINE: %{remarks} = --remarks-filter=choose-recompute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: %{step} --choose-recompute=budget=1GB %{remarks} --check-prefix=FITS
// RUN: %{step} --choose-recompute=budget=0.7 %{remarks} --check-prefix=SOME
// RUN: not %{step} --choose-recompute=budget=0.1 %{remarks} --check-prefix=NONE
// RUN: %{step} --choose-recompute="budget=1GB world=1" %{remarks} --check-prefix=ALONE
// RUN: not %{step} --choose-recompute="budget=0.1 world=2" %{remarks} --check-prefix=RANKS
// RUN: %{step} --choose-recompute=budget=fit:450KB %{remarks} --check-prefix=BATCH

// FITS-NOT: [Passed]
// FITS: [Missed] Declined {{.*}} Reason="the step fits as it is", Remark="nothing is rematerialized"

// SOME: [Passed] Chosen {{.*}} Remark="a step of 2.0 MiB is made one of 1.3 MiB: 3 values are rematerialized"
// SOME: [Missed] Declined {{.*}} Reason="the step fits with them; to rematerialize them would take {{.*}} ms", Remark="1 of 4 values of @matmul+ are kept"

// All are taken and it is not enough: the error says what is left, and what takes less.
// NONE-NOT: [Passed]
// NONE: error: --memory-budget 0.1: the least that a step can do with is
// NONE: note: a smaller batch (--dim), more micro-batches (--accumulate) or, on a GPU, --offload take less

// With ranks the budget is for each of them.
// ALONE: [Missed] Ranks {{.*}} Reason="it holds all that ranks share out, and exchanges nothing: --dim world=N says how many there will be", Remark="the budget is for one rank alone"
// RANKS: note: a smaller batch (--dim), more micro-batches (--accumulate), more ranks (--dim world=N) or, on a GPU, --offload take less
// RANKS: [Passed] Ranks {{.*}} Remark="the budget is for each of 2 ranks"

// BATCH: [Passed] Batch {{.*}} Remark="batch 192 has the best predicted rate"
// BATCH: [Passed] Chosen {{.*}} Remark="a step of 512.2 KiB is made one of 416.2 KiB: 2 values are rematerialized"
// BATCH: Remark="2 of 4 values of @matmul+ are kept"
// BATCH: Reason="the least that a step can do with is 464.2 KiB: {{.*}}", Remark="batch 256 is not chosen"
// BATCH: Reason="batch 256 does not fit", Remark="batch 384 is not chosen"
// BATCH: Reason="batch 192 has the better predicted rate: {{.*}} samples a second, this one {{[0-9.]+}}", Remark="batch 128 is not chosen"
