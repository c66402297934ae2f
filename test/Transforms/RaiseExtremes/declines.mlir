// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --pass-pipeline='builtin.module(func.func(raise-extremes))' | FileCheck %s

// Each function differs from a maximum pool in what its name says.

// CHECK-LABEL: func.func @minimum(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @minimum(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce min %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @without_nans(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @without_nans(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %2 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @above(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @above(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare gt %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @another_input(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @another_input(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %y, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @ones_elsewhere(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @ones_elsewhere(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 1.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @last_of_equal_ones(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @last_of_equal_ones(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce max %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @all_positions_alike(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @all_positions_alike(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 1 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @none_is_a_position(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @none_is_a_position(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 2 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @largest(
// CHECK: train.reduce max
// CHECK: %[[S:.*]] = train.reduce max {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @largest(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare eq %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce max %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @elsewhere(
// CHECK: %[[S:.*]] = train.reduce sum {{.*}} axes = [0] : tensor<3x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @elsewhere(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>) -> tensor<8xf32> {
  %0 = train.reduce max %x axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  %1 = train.broadcast %0 axes = [1] : tensor<8xf32> -> tensor<3x8xf32>
  %2 = train.compare ge %x, %1 : tensor<3x8xf32> -> tensor<3x8xi1>
  %3 = train.is_nan %x : tensor<3x8xf32> -> tensor<3x8xi1>
  %4 = train.or %2, %3 : tensor<3x8xi1>
  %5 = train.iota 0 : tensor<3x8xi8>
  %6 = train.full 3 : i8 : tensor<3x8xi8>
  %7 = train.select %4, %5, %6 : tensor<3x8xi1>, tensor<3x8xi8>
  %8 = train.reduce min %7 axes = [0] : tensor<3x8xi8> -> tensor<8xi8>
  %9 = train.broadcast %8 axes = [1] : tensor<8xi8> -> tensor<3x8xi8>
  %10 = train.compare ne %5, %9 : tensor<3x8xi8> -> tensor<3x8xi1>
  %11 = train.full 0.0 : f32 : tensor<3x8xf32>
  %12 = train.select %10, %x, %11 : tensor<3x8xi1>, tensor<3x8xf32>
  %13 = train.reduce sum %12 axes = [0] : tensor<3x8xf32> -> tensor<8xf32>
  return %13 : tensor<8xf32>
}
