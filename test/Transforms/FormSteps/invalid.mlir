// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: trainc-opt %s --form-steps --split-input-file --verify-diagnostics

// expected-error@+1 {{expected the function @forward: legalize the model first}}
module {
}

// -----

// expected-error@+1 {{@step exists already: steps are formed once}}
module {
  func.func @forward() {
    return
  }
  // expected-note@+1 {{it is here}}
  func.func @step() {
    return
  }
}

// -----

module {
  func.func @forward() {
    return
  }
  // expected-error@+1 {{expected @gradients beside @update}}
  func.func @update() {
    return
  }
}
