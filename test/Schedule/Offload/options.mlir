// The limit of pinned memory, the rate of the link, the smallest buffer; and what is wrong with options.
// RUN: trainc-opt %S/basic.mlir --offload="sizes=n=16384 limit=67108864" | FileCheck %s --check-prefix=MOVED
// RUN: trainc-opt %S/basic.mlir --offload="sizes=n=16384 minimum=67108864" | FileCheck %s --check-prefix=MOVED
// RUN: trainc-opt %S/basic.mlir --offload="sizes=n=16384 limit=67108863" --remarks-filter=offload --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefixes=KEPT,LIMIT
// RUN: trainc-opt %S/basic.mlir --offload="sizes=n=16384 rate=20" --remarks-filter=offload --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefixes=KEPT,RATE
// RUN: trainc-opt %S/basic.mlir --offload="sizes=n=16384 minimum=67108865" --remarks-filter=offload --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefixes=KEPT,SIZE
// MOVED: plan.copy
// KEPT-NOT: plan.copy
// LIMIT: loc("first"): [Missed] Kept {{.*}} Reason="pinned memory would be 64.00 MiB, the limit is 64.00 MiB"
// RATE: loc("first"): [Missed] Kept {{.*}} Reason="its longest pause, {{.*}} ms, is too short to move it: both ways take 6.731 ms"
// SIZE: loc("first"): [Missed] Kept {{.*}} Reason="it is smaller than 64.00 MiB"

// RUN: not trainc-opt %S/basic.mlir --offload 2>&1 | FileCheck %s --check-prefix=UNBOUND
// UNBOUND: error: offload: a size has no value (option sizes), or is too large for a number
// RUN: not trainc-opt %S/basic.mlir --offload="sizes=n" 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: error: offload: expected NAME=VALUE in sizes, got 'n'
// RUN: not trainc-opt %S/basic.mlir --offload="sizes=n=1 rate=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: offload: the rate of the link is 0.0{{.*}} GB/s
