#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much slower kernels are beside an exchange of two GPUs: `beside.py WAY`.

WAY is `nccl4`, `nccl8`, `nccl16` (all-reduces of NCCL with so many blocks), `copies` (what an all-reduce moves, by copy
engines) or `sums` (copies, and the kernel that adds up). Matmuls of GPT-2 XL with 8 x 1024 tokens in bf16, a pointwise
kernel of two of its activations, and one that reads and writes 256 MiB. Needs PyTorch and two GPUs that reach each other.
"""

import argparse
import os
import statistics

FLOATS = 32 << 20  # of an exchange
TOKENS, HIDDEN, INTER = 8192, 1600, 6400


class Gpu:
    def __init__(self, torch, device):
        def random(*shape):
            return torch.randn(*shape, device=device, dtype=torch.bfloat16)

        self.device = device
        self.x, self.up, self.h, self.down = random(TOKENS, HIDDEN), random(HIDDEN, INTER), random(TOKENS, INTER), random(INTER, HIDDEN)
        self.h2, self.x2, self.dw = random(TOKENS, INTER), random(TOKENS, HIDDEN), random(HIDDEN, INTER)
        self.large = torch.randn(64 << 20, device=device)
        self.sent, self.room = torch.ones(FLOATS, device=device), torch.ones(FLOATS, device=device)
        self.compute, self.exchange = torch.cuda.Stream(device), torch.cuda.Stream(device, priority=-5)


def kernels(torch):
    return {
        "matmul, forward": lambda g: torch.matmul(g.x, g.up, out=g.h2),
        "matmul, gradient of its input": lambda g: torch.matmul(g.h, g.down, out=g.x2),
        "matmul, gradient of its weight": lambda g: torch.matmul(g.x.t(), g.h, out=g.dw),
        "pointwise": lambda g: torch.add(g.h, g.h2, out=g.h2),
        "256 MiB read and written": lambda g: g.large.mul_(0.999),
    }


def exchange(torch, way, gpus):
    if way.startswith("nccl"):
        torch.cuda.nccl.all_reduce([g.sent for g in gpus], streams=[g.exchange for g in gpus])
        return
    half = FLOATS // 2
    for own, other in (gpus, gpus[::-1]):
        with torch.cuda.device(own.device), torch.cuda.stream(own.exchange):
            own.room[:half].copy_(other.sent[:half], non_blocking=True)
            if way == "sums":
                own.room[:half].add_(own.sent[:half])
            own.room[half:].copy_(other.sent[half:], non_blocking=True)


def timed(torch, kernel, count, gpus, begin):
    """Microseconds of a kernel, the slower GPU's; `begin` enqueues what is beside."""
    begin()
    around = []
    for g in gpus:
        with torch.cuda.device(g.device):
            around.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            around[-1][0].record(g.compute)
    for i in range(0, count, 10):
        for g in gpus:
            with torch.cuda.device(g.device), torch.cuda.stream(g.compute):
                for _ in range(min(10, count - i)):
                    kernel(g)
    for g, (_, end) in zip(gpus, around):
        end.record(g.compute)
    for g in gpus:
        torch.cuda.synchronize(g.device)
    return max(begin.elapsed_time(end) for begin, end in around) / count * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=("nccl4", "nccl8", "nccl16", "copies", "sums"))
    way = parser.parse_args().way
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    if way.startswith("nccl"):
        os.environ["NCCL_MAX_CTAS"] = os.environ["NCCL_MIN_CTAS"] = way[4:]
    import torch
    import torch.cuda.nccl

    gpus = [Gpu(torch, device) for device in (0, 1)]
    for name, kernel in kernels(torch).items():
        alone = min(timed(torch, kernel, 200, gpus, lambda: None) for _ in range(3))
        # A burst that ends before the exchanges do.
        count = max(10, int(1200 / alone) // 10 * 10)
        burst = statistics.median(timed(torch, kernel, count, gpus, lambda: None) for _ in range(9))
        beside = statistics.median(
            timed(torch, kernel, count, gpus, lambda: [exchange(torch, way, gpus) for _ in range(6)]) for _ in range(9)
        )
        print(f"{way:8}{name:32}{burst:8.1f} us, beside {beside:8.1f}: {beside / burst:.2f}x", flush=True)


if __name__ == "__main__":
    main()
