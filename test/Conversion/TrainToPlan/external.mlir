// A call of a plug-in is one command; its tensors are whole and row major, results that nobody reads have a place.
// RUN: trainc-test-opt %s --test-train-to-plan | FileCheck %s

// CHECK-LABEL: plan.function @step
// CHECK: %[[X:.*]] = plan.buffer input "x"
// CHECK: %[[Y:.*]] = plan.buffer output "y"
// CHECK: %[[Z:.*]] = plan.buffer arena : tensor<3xi64>
// CHECK: plan.external "p" "f"(%[[X]], %[[Y]], %[[Z]]) inputs 1 : [tensor<?x4xf32, #train.dims<n, 4>>, tensor<?xf32, #train.dims<n>>, tensor<3xi64>] flops <8*n> settings {a = 1 : i64}
func.func @step(%x: tensor<?x4xf32, #train.dims<n, 4>> {train.role = "input", train.name = "x"})
    -> (tensor<?xf32, #train.dims<n>> {train.role = "output", train.name = "y"}) {
  %0:2 = train.external "p" "f"(%x) flops <8*n> settings {a = 1 : i64}
      : (tensor<?x4xf32, #train.dims<n, 4>>) -> (tensor<?xf32, #train.dims<n>>, tensor<3xi64>)
  return %0#0 : tensor<?xf32, #train.dims<n>>
}
