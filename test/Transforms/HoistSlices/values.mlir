// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is hoisted computes the same values (symbols are 2 here).
// RUN: trainc-test-opt %S/basic.mlir --test-evaluate --mlir-disable-threading -o /dev/null > %t.before
// RUN: trainc-test-opt %S/basic.mlir --hoist-slices --test-evaluate --mlir-disable-threading -o /dev/null > %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s < %t.after
// CHECK: @first_token
module {
}
