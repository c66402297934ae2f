// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --split-input-file --verify-codegen --verify-diagnostics -o /dev/null

plan.function @eval {
  %0 = plan.buffer input "x" : tensor<2xf32>
  %1 = plan.buffer output "y" : tensor<2xf32>
  plan.copy %0 to %1 bytes <8>
}

// -----

// expected-error @below {{after the phase 'codegen' there is no place for the op 'func.func': it leaves train.symbol and plan.function, of ops of its dialect}}
func.func @eval() {
  return
}

// -----

// expected-error @below {{after the phase 'codegen' there is a function @eval, and here is none}}
module {
  plan.function @step {
  }
}
