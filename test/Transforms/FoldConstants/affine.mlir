// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integers as affine functions of their coordinates (AffineOpInterface), op by op: where the difference to what
// they should be is the same everywhere, comparisons with it are folded. Nothing is evaluated (max-elements).
// RUN: trainc-opt %s --fold-constants=max-elements=0 --cse --split-input-file | FileCheck %s

// Element i is i + 3, 2 * i, n - 1 - i.
// CHECK-LABEL: func.func @arithmetic
// CHECK: %[[T:.*]] = train.full true : tensor<?xi1
// CHECK-NOT: train.compare
// CHECK: return %[[T]], %[[T]], %[[T]]
func.func @arithmetic() -> (tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>) {
  %i = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %three = train.full 3 : i64 : tensor<?xi64, #train.dims<n>>
  %two = train.full 2 : i64 : tensor<?xi64, #train.dims<n>>
  %one = train.full 1 : i64 : tensor<?xi64, #train.dims<n>>
  %0 = train.add %i, %three : tensor<?xi64, #train.dims<n>>
  %1 = train.compare gt %0, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %2 = train.mul %two, %i : tensor<?xi64, #train.dims<n>>
  %3 = train.sub %2, %i : tensor<?xi64, #train.dims<n>>
  %4 = train.compare eq %3, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %d = train.dim <n> : tensor<i64>
  %5 = train.broadcast %d axes = [] : tensor<i64> -> tensor<?xi64, #train.dims<n>>
  %6 = train.sub %5, %one : tensor<?xi64, #train.dims<n>>
  %7 = train.sub %6, %i : tensor<?xi64, #train.dims<n>>
  %8 = train.add %7, %i : tensor<?xi64, #train.dims<n>>
  %9 = train.compare lt %8, %5 : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  return %1, %4, %9 : tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>
}

// -----
// i < 3 depends on i, i * i is not affine, n > 3 is not known.
// CHECK-LABEL: func.func @arithmetic_unknown
// CHECK-COUNT-3: train.compare
func.func @arithmetic_unknown() -> (tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>) {
  %i = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %three = train.full 3 : i64 : tensor<?xi64, #train.dims<n>>
  %0 = train.compare lt %i, %three : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %1 = train.mul %i, %i : tensor<?xi64, #train.dims<n>>
  %2 = train.compare ge %1, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %d = train.dim <n> : tensor<i64>
  %3 = train.broadcast %d axes = [] : tensor<i64> -> tensor<?xi64, #train.dims<n>>
  %4 = train.compare gt %3, %three : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  return %0, %2, %4 : tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>
}

// -----
// Moves: the columns of a transposed tensor of row numbers, of a slice from 1 in steps of 2, of two parts that follow
// each other, of a constant that counts.
// CHECK-LABEL: func.func @moves
// CHECK: %[[M:.*]] = train.full true : tensor<3x4xi1>
// CHECK: %[[T:.*]] = train.full true : tensor<4xi1>
// CHECK: return %[[M]], %[[T]], %[[T]], %[[T]]
func.func @moves() -> (tensor<3x4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %rows = train.iota 0 : tensor<4x3xi64>
  %columns = train.iota 1 : tensor<3x4xi64>
  %0 = train.transpose %rows permutation = [1, 0] : tensor<4x3xi64> -> tensor<3x4xi64>
  %1 = train.compare eq %0, %columns : tensor<3x4xi64> -> tensor<3x4xi1>
  %i = train.iota 0 : tensor<4xi64>
  %eight = train.iota 0 : tensor<8xi64>
  %2 = train.slice %eight starts = <1> steps = [2] : tensor<8xi64> -> tensor<4xi64>
  %3 = train.sub %2, %i : tensor<4xi64>
  %4 = train.compare gt %2, %3 : tensor<4xi64> -> tensor<4xi1>
  %5 = train.sub %3, %i : tensor<4xi64>
  %one = train.full 1 : i64 : tensor<4xi64>
  %6 = train.compare eq %5, %one : tensor<4xi64> -> tensor<4xi1>
  %two = train.iota 0 : tensor<2xi64>
  %by = train.full 2 : i64 : tensor<2xi64>
  %7 = train.add %two, %by : tensor<2xi64>
  %8 = train.concat %two, %7 axis = 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %9 = train.compare eq %8, %i : tensor<4xi64> -> tensor<4xi1>
  %c = train.constant dense<[5, 6, 7, 8]> : tensor<4xi64>
  %10 = train.compare gt %c, %i : tensor<4xi64> -> tensor<4xi1>
  return %1, %6, %9, %10 : tensor<3x4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// -----
// Parts with a gap between them, a constant that counts until its last element.
// CHECK-LABEL: func.func @moves_unknown
// CHECK-COUNT-2: train.compare
func.func @moves_unknown(%x: tensor<?xi64, #train.dims<n>>) -> (tensor<?xi1, #train.dims<2 * n>>, tensor<?x4xi1, #train.dims<n, 4>>) {
  %p = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %0 = train.concat %p, %p axis = 0 : (tensor<?xi64, #train.dims<n>>, tensor<?xi64, #train.dims<n>>) -> tensor<?xi64, #train.dims<2 * n>>
  %1 = train.iota 0 : tensor<?xi64, #train.dims<2 * n>>
  %2 = train.compare eq %0, %1 : tensor<?xi64, #train.dims<2 * n>> -> tensor<?xi1, #train.dims<2 * n>>
  %c = train.constant dense<[5, 6, 7, 9]> : tensor<4xi64>
  %3 = train.broadcast %c axes = [1] : tensor<4xi64> -> tensor<?x4xi64, #train.dims<n, 4>>
  %4 = train.iota 1 : tensor<?x4xi64, #train.dims<n, 4>>
  %5 = train.compare gt %3, %4 : tensor<?x4xi64, #train.dims<n, 4>> -> tensor<?x4xi1, #train.dims<n, 4>>
  return %2, %5 : tensor<?xi1, #train.dims<2 * n>>, tensor<?x4xi1, #train.dims<n, 4>>
}

// -----
// One side decides a conjunction or disjunction, whatever the other one is; sums of zeros; a boolean and its negation.
// CHECK-LABEL: func.func @booleans
// CHECK-DAG: %[[F:.*]] = train.full false : tensor<?xi1
// CHECK-DAG: %[[T:.*]] = train.full true : tensor<?xi1
// CHECK-DAG: %[[Z:.*]] = train.full 0 : i64 : tensor<?xi64
// CHECK: return %[[F]], %[[T]], %[[Z]], %[[F]]
func.func @booleans(%x: tensor<?xi1, #train.dims<n>>) -> (tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi64, #train.dims<n>>, tensor<?xi1, #train.dims<n>>) {
  %i = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %never = train.compare ne %i, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %always = train.compare le %i, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %0 = train.and %x, %never : tensor<?xi1, #train.dims<n>>
  %1 = train.or %always, %x : tensor<?xi1, #train.dims<n>>
  %2 = train.cast %never : tensor<?xi1, #train.dims<n>> -> tensor<?xi64, #train.dims<n>>
  %3 = train.cumsum %2 axis = 0 : tensor<?xi64, #train.dims<n>>
  %4 = train.not %always : tensor<?xi1, #train.dims<n>>
  return %0, %1, %3, %4 : tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi64, #train.dims<n>>, tensor<?xi1, #train.dims<n>>
}

// -----
// The other side decides; sums of ones count; 300 is no i8.
// CHECK-LABEL: func.func @booleans_unknown
// CHECK: train.and
// CHECK: train.or
// CHECK: train.cumsum
// CHECK: train.cast {{.*}} -> tensor<?xi8
func.func @booleans_unknown(%x: tensor<?xi1, #train.dims<n>>) -> (tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi64, #train.dims<n>>, tensor<?xi8, #train.dims<n>>) {
  %i = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %never = train.compare ne %i, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %always = train.compare le %i, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %0 = train.and %x, %always : tensor<?xi1, #train.dims<n>>
  %1 = train.or %never, %x : tensor<?xi1, #train.dims<n>>
  %one = train.full 1 : i64 : tensor<?xi64, #train.dims<n>>
  %2 = train.cumsum %one axis = 0 : tensor<?xi64, #train.dims<n>>
  %many = train.full 300 : i64 : tensor<?xi64, #train.dims<n>>
  %3 = train.cast %many : tensor<?xi64, #train.dims<n>> -> tensor<?xi8, #train.dims<n>>
  return %0, %1, %2, %3 : tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi64, #train.dims<n>>, tensor<?xi8, #train.dims<n>>
}

// -----
// Positions looked up at positions inside are positions; one that may be negative or past the end is not known.
// CHECK-LABEL: func.func @gathers
// CHECK: %[[T:.*]] = train.full true : tensor<?xi1
// CHECK: train.gather
// CHECK: %[[U:.*]] = train.compare
// CHECK: train.gather
// CHECK: %[[V:.*]] = train.compare
// CHECK: return %[[T]], %[[U]], %[[V]]
func.func @gathers() -> (tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>) {
  %i = train.iota 0 : tensor<?xi64, #train.dims<n>>
  %one = train.full 1 : i64 : tensor<?xi64, #train.dims<n>>
  %0 = train.gather %i, %i axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?xi64, #train.dims<n>> -> tensor<?xi64, #train.dims<n>>
  %1 = train.compare eq %0, %i : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %2 = train.sub %i, %one : tensor<?xi64, #train.dims<n>>
  %3 = train.gather %i, %2 axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?xi64, #train.dims<n>> -> tensor<?xi64, #train.dims<n>>
  %4 = train.compare eq %3, %2 : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  %5 = train.add %i, %one : tensor<?xi64, #train.dims<n>>
  %6 = train.gather %i, %5 axis = 0 : tensor<?xi64, #train.dims<n>>, tensor<?xi64, #train.dims<n>> -> tensor<?xi64, #train.dims<n>>
  %7 = train.compare eq %6, %5 : tensor<?xi64, #train.dims<n>> -> tensor<?xi1, #train.dims<n>>
  return %1, %4, %7 : tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>, tensor<?xi1, #train.dims<n>>
}
