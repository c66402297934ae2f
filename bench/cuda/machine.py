#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what limits are made of on this GPU, with PyTorch; prints one JSON line.

Copy speed in bytes read and written a second (4 GiB, beyond any cache), and the speed of an 8192
cubed bf16 matmul on random data.
"""

import json
import statistics

import torch


def median_ms(work, rounds):
    for _ in range(3):
        work()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


def main():
    source = torch.randn(2**30, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / (median_ms(lambda: target.copy_(source), 20) * 1e-3)
    del source, target
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    gemm = 2 * size**3 / (median_ms(lambda: torch.matmul(a, b, out=out), 20) * 1e-3)
    result = {
        "device": torch.cuda.get_device_name(),
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "copy_bytes_per_s": copy,
        "gemm_flops": gemm,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
