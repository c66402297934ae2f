// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-test-opt %s --hoist-slices --remarks-filter='hoist-slices' --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s

// CHECK: [Passed] Hoisted {{.*}} Function=passes {{.*}}"moved train.slice of node 'take_2' above train.exp of node 'exp_1'"
func.func @passes(%x: tensor<8xf32>) -> tensor<2xf32> {
  %0 = train.exp %x : tensor<8xf32> loc("exp_1")
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<2xf32> loc("take_2")
  return %1 : tensor<2xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=mixed {{.*}}"train.softmax of node 'softmax_1' mixes the elements along the axis", Remark="train.slice of node 'take_2' stays"
func.func @mixed(%x: tensor<4x8xf32>) -> tensor<4x2xf32> {
  %0 = train.softmax %x axis = 1 : tensor<4x8xf32> loc("softmax_1")
  %1 = train.slice %0 starts = <0, 0> steps = [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32> loc("take_2")
  return %1 : tensor<4x2xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=other_user {{.*}}"all of train.exp is used elsewhere, by func.return"
func.func @other_user(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<8xf32>) {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<8xf32>
}

// Element 3 of the mask is not element 0 of a shorter one: dropout takes the coordinate along.
// CHECK: [Passed] Hoisted {{.*}} Function=coordinates {{.*}}"moved train.slice above train.dropout"
func.func @coordinates(%x: tensor<8xf32>, %key: tensor<i64>) -> tensor<1xf32> {
  %0 = train.dropout %x, %key {ratio = 0.5 : f64} : tensor<8xf32>, tensor<i64>
  %1 = train.slice %0 starts = <3> steps = [1] : tensor<8xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=too_long {{.*}}"it selects too much of axis 0 to save work"
func.func @too_long(%x: tensor<4xf32>, %i: tensor<16xi64>) -> tensor<16xf32> {
  %0 = train.exp %x : tensor<4xf32>
  %1 = train.gather %0, %i axis = 0 : tensor<4xf32>, tensor<16xi64> -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=grid {{.*}}"it does more than select along one axis"
func.func @grid(%x: tensor<8xf32>, %i: tensor<2x2xi64>) -> tensor<2x2xf32> {
  %0 = train.exp %x : tensor<8xf32>
  %1 = train.gather %0, %i axis = 0 : tensor<8xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=unknown {{.*}}"math.absf does not say how its axes map"
func.func @unknown(%x: tensor<8xf32>) -> tensor<1xf32> {
  %0 = math.absf %x : tensor<8xf32>
  %1 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=merged {{.*}}"train.reshape mixes the elements along the axis"
func.func @merged(%x: tensor<4x8xf32>) -> tensor<1xf32> {
  %0 = train.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %1 = train.slice %0 starts = <5> steps = [1] : tensor<32xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// Data of the package has no operand to look through.
// CHECK: [Missed] NotHoisted {{.*}} Function=constant_data {{.*}}"train.constant does not say how its axes map"
func.func @constant_data() -> tensor<2xi64> {
  %0 = train.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %1 = train.slice %0 starts = <1> steps = [1] : tensor<4xi64> -> tensor<2xi64>
  return %1 : tensor<2xi64>
}

// Where a part begins is not known for all sizes: the index could be in either.
train.symbol @n min 1 input "x" axis 0
// CHECK: [Missed] NotHoisted {{.*}} Function=some_part {{.*}}"train.concat mixes the elements along the axis"
func.func @some_part(%x: tensor<?xf32, #train.dims<n>>, %y: tensor<4xf32>) -> tensor<1xf32> {
  %0 = train.concat %x, %y axis = 0 : (tensor<?xf32, #train.dims<n>>, tensor<4xf32>) -> tensor<?xf32, #train.dims<n + 4>>
  %1 = train.slice %0 starts = <1> steps = [1] : tensor<?xf32, #train.dims<n + 4>> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// Joined already for somebody else: nothing would be saved.
// CHECK: [Missed] NotHoisted {{.*}} Function=joined_for_others {{.*}}"train.concat mixes the elements along the axis"
func.func @joined_for_others(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<2xf32>, tensor<8xf32>) {
  %0 = train.concat %x, %y axis = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %1 = train.slice %0 starts = <3> steps = [1] : tensor<8xf32> -> tensor<2xf32>
  return %1, %0 : tensor<2xf32>, tensor<8xf32>
}

// A row without a slot is 0, which exp of 0 is not; that there are fewer rows than a count is guessed to be says nothing.
train.symbol @count min 8 divisor 8 input "x" differs 0
// CHECK: [Missed] NotHoisted {{.*}} Function=puts_back {{.*}}"it fills in zeros, of which the op above makes something else"
func.func @puts_back(%x: tensor<?xf32, #train.dims<count>>, %slots: tensor<21xi32>, %rows: tensor<?xi32, #train.dims<count>>, %wanted: tensor<21xi1>) -> tensor<21xf32> {
  %none = train.full -1 : i32 : tensor<21xi32>
  %0 = train.select %wanted, %slots, %none : tensor<21xi1>, tensor<21xi32>
  %1 = train.exp %x : tensor<?xf32, #train.dims<count>>
  %2 = train.select_rows %1, %0 inverse %rows axis = 0 : (tensor<?xf32, #train.dims<count>>, tensor<21xi32>, tensor<?xi32, #train.dims<count>>) -> tensor<21xf32>
  return %2 : tensor<21xf32>
}

// Rows of the view run over axes 0 and 2 of the operand, which no one selection takes.
// CHECK: [Missed] NotHoisted {{.*}} Function=apart {{.*}}"the rows lie apart in an operand of train.transpose"
func.func @apart(%x: tensor<4x6x8xf32>) -> tensor<2x6xf32> {
  %0 = train.transpose %x permutation = [0, 2, 1] : tensor<4x6x8xf32> -> tensor<4x8x6xf32>
  %1 = train.reshape %0 : tensor<4x8x6xf32> -> tensor<32x6xf32>
  %2 = train.slice %1 starts = <3, 0> steps = [1, 1] : tensor<32x6xf32> -> tensor<2x6xf32>
  return %2 : tensor<2x6xf32>
}

// An op may have axes that it says nothing of.
// CHECK: [Missed] NotHoisted {{.*}} Function=silent {{.*}}"axis 0 of testdialect.silent runs over no loop"
func.func @silent(%x: tensor<8xf32>) -> tensor<2xf32> {
  %0 = testdialect.silent %x : tensor<8xf32>
  %1 = train.slice %0 starts = <3> steps = [1] : tensor<8xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Rows of the view run over both axes, and the operand has one of them.
// CHECK: [Missed] NotHoisted {{.*}} Function=part_of_rows {{.*}}"train.broadcast repeats an operand along a part of the rows"
func.func @part_of_rows(%m: tensor<4xf32>) -> tensor<2xf32> {
  %0 = train.broadcast %m axes = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %1 = train.reshape %0 : tensor<4x8xf32> -> tensor<32xf32>
  %2 = train.slice %1 starts = <3> steps = [1] : tensor<32xf32> -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// The same of rows among zeros: each sample has a matrix of its own.
// CHECK: [Missed] NotRestricted {{.*}} Function=matrices {{.*}}"train.matmul repeats an operand along a part of the rows", Remark="train.matmul takes all rows, zeros included"
func.func @matrices(%g: tensor<2x4xf32>, %w: tensor<6x4x4xf32>) -> tensor<6x8x4xf32> {
  %rows = train.constant dense<[1, 5]> : tensor<2xi64>
  %0 = train.scatter_add %rows, %g axis = 0 : tensor<2xi64>, tensor<2x4xf32> -> tensor<48x4xf32>
  %1 = train.reshape %0 : tensor<48x4xf32> -> tensor<6x8x4xf32>
  %2 = train.matmul %1, %w : tensor<6x8x4xf32>, tensor<6x4x4xf32> -> tensor<6x8x4xf32>
  return %2 : tensor<6x8x4xf32>
}

// CHECK: [Missed] NotRestricted {{.*}} Function=integers {{.*}}"train.cast gives no floats, which indices would put back"
func.func @integers(%g: tensor<2x4xf32>) -> tensor<48x4xi64> {
  %rows = train.constant dense<[1, 5]> : tensor<2xi64>
  %0 = train.scatter_add %rows, %g axis = 0 : tensor<2xi64>, tensor<2x4xf32> -> tensor<48x4xf32>
  %1 = train.tanh %0 : tensor<48x4xf32>
  %2 = train.cast %1 : tensor<48x4xf32> -> tensor<48x4xi64>
  return %2 : tensor<48x4xi64>
}

// CHECK: [Missed] NotHoisted {{.*}} Function=region {{.*}}"train.exp has effects, or lies in another block", Remark="train.slice stays"
func.func @region(%x: tensor<8xf32>) -> tensor<2xf32> {
  %0 = train.exp %x : tensor<8xf32>
  %1 = scf.execute_region -> tensor<2xf32> {
    %2 = train.slice %0 starts = <0> steps = [1] : tensor<8xf32> -> tensor<2xf32>
    scf.yield %2 : tensor<2xf32>
  }
  return %1 : tensor<2xf32>
}

// Masks of attention to the same positions compare coordinates, which selected rows have no more. To other positions rows are selected.
// CHECK: [Missed] NotHoisted {{.*}} Function=own_positions {{.*}}"train.matmul of node 'sum_1' sums up over the positions that the rows are, whose order masks them"
func.func @own_positions(%x: tensor<1x2x512x512xf32>, %v: tensor<1x2x512x8xf32>, %rows: tensor<?xi32, #train.dims<count>>) -> tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>> {
  %0 = train.softmax %x axis = 3 : tensor<1x2x512x512xf32>
  %1 = train.matmul %0, %v : tensor<1x2x512x512xf32>, tensor<1x2x512x8xf32> -> tensor<1x2x512x8xf32> loc("sum_1")
  %2 = train.gather %1, %rows axis = 2 : tensor<1x2x512x8xf32>, tensor<?xi32, #train.dims<count>> -> tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>>
  return %2 : tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>>
}

// CHECK: [Passed] Hoisted {{.*}} Function=other_positions {{.*}}"moved train.gather above train.matmul of node 'sum_2'"
func.func @other_positions(%x: tensor<1x2x512x64xf32>, %v: tensor<1x2x64x8xf32>, %rows: tensor<?xi32, #train.dims<count>>) -> tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>> {
  %0 = train.softmax %x axis = 3 : tensor<1x2x512x64xf32>
  %1 = train.matmul %0, %v : tensor<1x2x512x64xf32>, tensor<1x2x64x8xf32> -> tensor<1x2x512x8xf32> loc("sum_2")
  %2 = train.gather %1, %rows axis = 2 : tensor<1x2x512x8xf32>, tensor<?xi32, #train.dims<count>> -> tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>>
  return %2 : tensor<1x2x?x8xf32, #train.dims<1, 2, count, 8>>
}
