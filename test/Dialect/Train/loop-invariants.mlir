// What is the same in each step is made once, in front of a loop; what repeats elements stays.
// RUN: trainc-opt --canonicalize %s | FileCheck %s

// CHECK-LABEL: func.func @cast(
// CHECK-SAME: %[[H:.*]]: tensor<2x4xf32>, %[[X:.*]]: tensor<?x2x4xf32, {{.*}}>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4xf32>,
// CHECK: %[[LOW:.*]] = train.cast %[[W]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[T:.*]] = train.transpose %[[LOW]]
// CHECK: train.loop(%[[H]]) scanned(%[[X]]) invariant(%[[B]], %[[T]]) steps <seq>
// CHECK-NEXT: ^bb0(%{{.*}}, %{{.*}}, %[[BIAS:.*]]: tensor<4xf32>, %[[WEIGHT:.*]]: tensor<4x4xbf16>):
// CHECK: train.cast %{{.*}} : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK: train.matmul %{{.*}}, %[[WEIGHT]]
// CHECK: train.broadcast %[[BIAS]]
func.func @cast(%h: tensor<2x4xf32>, %x: tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, %w: tensor<4x4xf32>, %b: tensor<4xf32>,
                %unused: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = train.loop(%h) scanned(%x) invariant(%w, %unused, %b) steps <seq> : (tensor<2x4xf32>, tensor<?x2x4xf32, #train.dims<seq, 2, 4>>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32> {
  ^bb0(%c: tensor<2x4xf32>, %s: tensor<2x4xf32>, %v: tensor<4x4xf32>, %n: tensor<4xf32>, %a: tensor<4xf32>):
    %low = train.cast %v : tensor<4x4xf32> -> tensor<4x4xbf16>
    %t = train.transpose %low permutation = [1, 0] : tensor<4x4xbf16> -> tensor<4x4xbf16>
    %state = train.cast %c : tensor<2x4xf32> -> tensor<2x4xbf16>
    %1 = train.matmul %state, %t : tensor<2x4xbf16>, tensor<4x4xbf16> -> tensor<2x4xf32>
    %rows = train.broadcast %a axes = [1] : tensor<4xf32> -> tensor<2x4xf32>
    %2 = train.add %1, %rows : tensor<2x4xf32>
    %3 = train.add %2, %s : tensor<2x4xf32>
    train.loop_yield %3 : tensor<2x4xf32>
  }
  return %0 : tensor<2x4xf32>
}
