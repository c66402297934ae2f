// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is reordered computes the same values (symbols are 2 here), random numbers included.
// RUN: trainc-test-opt %S/basic.mlir --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %S/basic.mlir --move-transposes --test-evaluate --mlir-disable-threading -o /dev/null > %t.after
// RUN: %python %S/../HoistSlices/random_graphs.py compare %t.before %t.after
// RUN: FileCheck %s < %t.after
// CHECK: @residual
module {
}
