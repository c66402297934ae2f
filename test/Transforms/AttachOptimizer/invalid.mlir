// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not trainc-opt %s --attach-optimizer 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not trainc-opt %s --attach-optimizer="kind=lion" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not trainc-opt %s --attach-optimizer="betas=0.9" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not trainc-opt %s --attach-optimizer="betas=0.9,1.0" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not trainc-opt %s --attach-optimizer="kind=sgd nesterov" 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not trainc-opt %s --attach-optimizer="shard-from=4095" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not trainc-opt %s --attach-optimizer="shard-from=4096" 2>&1 | FileCheck %s --check-prefix=SYMBOLS

// NONE: error: expected the function @gradients: run autodiff first
// KIND: error: unknown optimizer 'lion'; known are adam, adamw, adamw-hf, lamb, sgd
// COUNT: error: expected two betas, got 1
// RANGE: error: expected betas in [0, 1), got 1
// NESTEROV: error: expected a momentum above 0 with nesterov
// FEW: error: expected shards of parameters of at least 4096 elements, got 4095
// SYMBOLS: error: expected the symbols of a run, @world and @rank, for shards
module {
}
