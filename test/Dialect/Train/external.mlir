// Calls of plug-ins: they are printed as they parse, and what no call could be is refused.
// RUN: trainc-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @calls(
func.func @calls(%x: tensor<?x4xf32, #train.dims<n, 4>>, %i: tensor<3xi64>) {
  // CHECK: train.external "p" "f"(%arg0, %arg1) flops <8*n> settings {a = 1 : i64, b = [1.000000e+00, 2.000000e+00], c = "sum"} : (tensor<?x4xf32, #train.dims<n, 4>>, tensor<3xi64>) -> (tensor<?xf32, #train.dims<n>>, tensor<i1>)
  %0:2 = train.external "p" "f"(%x, %i) flops <8*n> settings {a = 1 : i64, b = [1.0, 2.0], c = "sum"}
      : (tensor<?x4xf32, #train.dims<n, 4>>, tensor<3xi64>) -> (tensor<?xf32, #train.dims<n>>, tensor<i1>)
  // CHECK: train.external "p" "k"() flops <0> launch <n, 1, 1, 256, 1, 1, 0> arguments [0, #train.dim<n>, 5.000000e-01 : f32] : () -> tensor<4xf32>
  %1 = train.external "p" "k"() flops <0> launch <n, 1, 1, 256, 1, 1, 0> arguments [0, #train.dim<n>, 0.5 : f32] : () -> tensor<4xf32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected a setting 'a' that is a number, numbers or a string}}
  %0 = train.external "p" "f"() flops <0> settings {a = unit} : () -> tensor<4xf32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected a launch of seven sizes}}
  %0 = train.external "p" "f"() flops <0> launch <1> arguments [] : () -> tensor<4xf32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected arguments that are tensors from 0 to 0, sizes or floats}}
  %0 = train.external "p" "f"() flops <0> launch <1, 1, 1, 1, 1, 1, 0> arguments [1] : () -> tensor<4xf32>
  return
}

// -----
func.func @f() {
  // expected-error@+1 {{expected a launch with arguments, or neither}}
  %0 = "train.external"() {plugin = "p", symbol = "f", flops = #train.dim<0>, arguments = []} : () -> tensor<4xf32>
  return
}
