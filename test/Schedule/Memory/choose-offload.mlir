// Which sizes offload plans for: the largest, those that choose-recompute has chosen, a share of what is counted.
// RUN: split-file %s %t
// RUN: trainc-opt %S/../Offload/basic.mlir --offload="sizes=n=16384" | sed 1d >%t/expected
// RUN: cat %t/axis.mlir %S/../Offload/basic.mlir >%t/step.mlir
// RUN: trainc-opt %t/step.mlir --choose-offload | sed 1,2d | diff - %t/expected

// The options are those of offload: the limit, here a byte short of what would be moved, and the link.
// DEFINE: %{remarks} = --remarks-filter=offload --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: trainc-opt %t/step.mlir --choose-offload=limit=67108863 %{remarks} --check-prefix=LIMIT
// RUN: trainc-opt %t/step.mlir --choose-offload=rate=20 %{remarks} --check-prefix=RATE

// RUN: sh -c '(cat %t/planned.mlir; grep -v ^#dims %t/step.mlir; echo "}") | sed "s/#dims/#train.dims<n, 1024>/" | trainc-opt --choose-offload %{remarks} --check-prefix=PLANNED'
// RUN: sed 's/^plan.function.*/&\n  %%ids = plan.buffer input "ids" : tensor<256x128xi64>/' %S/../Offload/basic.mlir >%t/body.mlir
// RUN: cat %t/count.mlir %t/body.mlir >%t/counted.mlir
// RUN: trainc-opt %t/counted.mlir --choose-offload=density=0.5 %{remarks} --check-prefix=HALF
// RUN: trainc-opt %t/counted.mlir --choose-offload %{remarks} --check-prefix=ALL

// RUN: cat %t/open.mlir %S/../Offload/basic.mlir | not trainc-opt --choose-offload -o /dev/null 2>&1 | FileCheck %s --check-prefix=OPEN
// RUN: not trainc-opt %t/step.mlir --choose-offload=target=tpu -o /dev/null 2>&1 | FileCheck %s --check-prefix=TARGET

// LIMIT: loc("first"): [Missed] Kept {{.*}} Reason="pinned memory would be 64.00 MiB, the limit is 64.00 MiB"{{.*}}Suggestion="raise it: trainc --offload=SIZE"
// RATE: loc("first"): [Missed] Kept {{.*}} Reason="its longest pause, {{.*}} ms, is too short
// PLANNED: the value of 'first' (32.00 MiB)
// HALF: the value of 'first' (64.00 MiB)
// ALL: the value of 'first' (128.00 MiB)
// OPEN: error: --offload needs a size for n (--dim n=32 fixes it, --dim n=1..32 says the most)
// TARGET: tpu

//--- axis.mlir
train.symbol @n min 1 max 16384 input "x" axis 0
//--- planned.mlir
module attributes {train.planned_sizes = {n = 8192 : i64}} {
//--- count.mlir
train.symbol @n min 8 divisor 8 input "ids" differs 0
//--- open.mlir
train.symbol @n min 1 input "x" axis 0
