// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a budget leaves as it is, and why: the values of a step that fits with them, those that would not make it smaller, other batches.
// RUN: split-file %S/choose-recompute.mlir %t
// DEFINE: %{step} = trainc-opt %t/step.mlir --autodiff --attach-optimizer=kind=sgd --form-steps=micro=false --canonicalize --cse
// DEFINE: %{remarks} = --remarks-filter=choose-recompute --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: %{step} --choose-recompute=budget=1GB %{remarks} --check-prefix=FITS
// RUN: %{step} --choose-recompute=budget=0.7 %{remarks} --check-prefix=SOME
// RUN: not %{step} --choose-recompute=budget=0.1 %{remarks} --check-prefix=NONE
// RUN: %{step} --choose-recompute=budget=fit:1MB %{remarks} --check-prefix=BATCH
