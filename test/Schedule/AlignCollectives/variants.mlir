// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of functions that ranks run at once one may gather a weight again that the other has kept, and have a gradient later: both
// make all of these calls, in one order, and so does whoever has no batch.
// RUN: trainc-opt %s --align-collectives | FileCheck %s

!shard = tensor<?x64xf32, #train.dims<64*floordiv(world + 1, world), 64>>
!whole = tensor<128x64xf32>
!x = tensor<64x128xf32>
!w = tensor<64x64xf32>

train.symbol @world min 1 {train.run}
train.symbol @rank min 0 {train.run}

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[A:[a-z0-9]+]]: {{[^%]*}}%[[B:[a-z0-9]+]]:
// CHECK: %[[FIRST:.*]] = train.all_gather %[[A]] units = [4096] :
// CHECK-NEXT: %[[G:.*]] = train.matmul {{.*}}, %[[FIRST]]
// CHECK: train.all_gather {{.*}} units = [4096] :
// CHECK-NEXT: train.all_gather %[[B]] units = [4096] {train.for_others}
// CHECK-NEXT: train.all_reduce %[[G]] {train.bucket = 0 : i64}
// CHECK-NOT: train.all
func.func @micro(%a: !shard {train.role = "parameter", train.name = "a", train.shard = {of = !whole, unit = 4096 : i64}},
                 %b: !shard {train.role = "parameter", train.name = "b", train.shard = {of = !whole, unit = 4096 : i64}},
                 %x: !x {train.role = "input", train.name = "x"})
    -> (!w {train.role = "update", train.updates = "gradient", train.name = "a"}, !w {train.role = "output", train.name = "y"})
    attributes {train.in_step = "micro"} {
  %0 = train.all_gather %a units = [4096] : (!shard) -> !whole
  %1 = train.matmul %x, %0 : !x, !whole -> !w
  %2 = train.barrier %a : !shard
  %3 = train.all_gather %2 units = [4096] : (!shard) -> !whole
  %4 = train.matmul %x, %3 : !x, !whole -> !w
  %5 = train.all_reduce %1 {train.bucket = 0 : i64} : (!w) -> !w
  return %5, %4 : !w, !w
}

// CHECK-LABEL: func.func @micro.packed(
// CHECK-SAME: %[[A:[a-z0-9]+]]: {{[^%]*}}%[[B:[a-z0-9]+]]:
// CHECK: train.all_gather %[[A]] units = [4096] :
// CHECK-NEXT: train.all_gather %[[A]] units = [4096] {train.for_others}
// CHECK: train.all_gather %[[B]] units = [4096] :
// CHECK: train.all_reduce %{{.*}} {train.bucket = 0 : i64}
// CHECK-NOT: train.all
func.func @micro.packed(%a: !shard {train.role = "parameter", train.name = "a", train.shard = {of = !whole, unit = 4096 : i64}},
                        %b: !shard {train.role = "parameter", train.name = "b", train.shard = {of = !whole, unit = 4096 : i64}},
                        %x: !x {train.role = "input", train.name = "x"})
    -> (!w {train.role = "update", train.updates = "gradient", train.name = "a"}, !w {train.role = "output", train.name = "y"})
    attributes {train.in_step = "micro", train.variant_of = "micro"} {
  %0 = train.all_gather %a units = [4096] : (!shard) -> !whole
  %1 = train.matmul %x, %0 : !x, !whole -> !w
  %2 = train.all_gather %b units = [4096] : (!shard) -> !whole
  %3 = train.matmul %x, %2 : !x, !whole -> !w
  %4 = train.all_reduce %3 {train.bucket = 0 : i64} : (!w) -> !w
  return %4, %1 : !w, !w
}

// CHECK-LABEL: func.func @absent(
// CHECK-SAME: %[[A:[a-z0-9]+]]: {{[^%]*}}%[[B:[a-z0-9]+]]: {{.*}}train.name = "b"
// CHECK: train.all_gather %[[A]] units = [4096] {train.for_others}
// CHECK-NEXT: train.all_gather %[[A]] units = [4096] {train.for_others}
// CHECK-NEXT: train.all_gather %[[B]] units = [4096] {train.for_others}
// CHECK-NEXT: train.all_reduce %{{.*}} {train.bucket = 0 : i64}
// CHECK-NOT: train.all
func.func @absent(%a: !shard {train.role = "parameter", train.name = "a", train.shard = {of = !whole, unit = 4096 : i64}},
                  %b: !shard {train.role = "parameter", train.name = "b", train.shard = {of = !whole, unit = 4096 : i64}},
                  %g: !w {train.role = "gradient", train.name = "a"})
    -> (!w {train.role = "update", train.updates = "gradient", train.name = "a"}) attributes {train.in_step = "micro"} {
  %0 = train.all_reduce %g {train.bucket = 0 : i64} : (!w) -> !w
  return %0 : !w
}
