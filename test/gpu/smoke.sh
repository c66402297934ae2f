#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# One model trained by its CPU package and by its CUDA package, on a machine with a GPU: the losses of every
# step must agree, and a second CUDA run must repeat the first one's bit for bit.
#
#   smoke.sh TRAINC_RUN CPU.tpk CUDA.tpk DATA.npz [STEPS [TOLERANCE [trainc-run options...]]]
#
# TOLERANCE: relative, of each loss (default 2e-4 for fp32; losses drift apart as training goes on).
# Exit code 0: they agree.
set -eu
if [ $# -lt 4 ]; then
  sed -n 's/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
run=$1 cpu=$2 cuda=$3 data=$4
steps=${5:-20} tolerance=${6:-2e-4}
if [ $# -gt 6 ]; then shift 6; else shift $#; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

losses() { # PACKAGE OUTPUT [options]: lines "step loss"
  package=$1 output=$2
  shift 2
  "$run" "$package" --data "$data" --steps "$steps" --log-format json "$@" > "$work/log"
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$work/log" > "$output"
  sed -n 's/.*"step_ms":\([^,]*\),.*"peak_bytes":\([0-9]*\).*/\1 ms, \2 bytes/p' "$work/log" |
    tail -n 1 | sed "s|^|$package: last step |"
}

losses "$cpu" "$work/cpu" "$@"
losses "$cuda" "$work/cuda" "$@"
losses "$cuda" "$work/again" "$@"
cmp "$work/cuda" "$work/again" || {
  echo "FAILED: two CUDA runs differ"
  exit 1
}
paste -d ' ' "$work/cpu" "$work/cuda" | awk -v tolerance="$tolerance" -v steps="$steps" '
  function abs(x) { return x < 0 ? -x : x }
  {
    difference = abs($2 - $4) / (abs($2) + 1e-12)
    if ($1 != $3 || NF != 4 || !(difference <= tolerance)) {
      printf "step %s: CPU %s, CUDA %s, relative difference %g\n", $1, $2, $4, difference
      ++failed
    }
    if (difference > worst) worst = difference
  }
  END {
    if (NR != steps) { printf "FAILED: %d steps of %d\n", NR, steps; exit 1 }
    if (failed) { printf "FAILED: %d of %d losses differ by more than %g\n", failed, NR, tolerance; exit 1 }
    printf "%d losses agree, worst relative difference %g; two CUDA runs are equal\n", NR, worst
  }'
