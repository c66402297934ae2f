#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times PyTorch's training step of one case on several GPUs: `torchrun --nproc-per-node 2 peer_ranks.py CASE WAY`.

Every rank has batches of the case's size, so that two GPUs do twice the work of one. WAY:

  alone   one process, compiled, as peer_torch.py does it
  ddp     DistributedDataParallel around the model, compiled
  fsdp2   fully_shard of every layer and of the model (parameters in bf16 for computing, gradients reduced in f32), every layer compiled
  fsdp2-whole  the same with the model compiled as a whole

A step is forward, backward, clipping of the global norm to 1.0 and fused AdamW. Rank 0 prints one JSON line; times are the
slowest rank's.
"""

import argparse
import contextlib
import json
import os
import statistics
import time
import warnings

import models
import peer_torch
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

WAYS = ("alone", "ddp", "fsdp2", "fsdp2-whole")


def layers_of(model):
    """The modules of the longest list of equal ones."""
    return max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)


def shard(model, whole):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layers = layers_of(model)
    for layer in layers:
        if not whole:
            layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return torch.compile(model) if whole else model


def distributed(case, way, precision):
    """(the model, what is called, whether autocast is needed)."""
    model = peer_torch.build(case, precision, "cuda")
    if way == "ddp":
        return model, torch.compile(DistributedDataParallel(model, gradient_as_bucket_view=True)), True
    if way.startswith("fsdp2"):
        return model, shard(model, way == "fsdp2-whole"), False
    return model, torch.compile(model), True


def measure(case, arguments):
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    batches = peer_torch.load_batches(case, arguments.data, "cuda")[rank::world]
    model, forward, casts = distributed(case, arguments.way, case.precision)
    batch = {name: value.to("cuda") for name, value in batches[0].items()}
    step = peer_torch.Step(model, forward, batch, case.precision, False)
    if not casts:
        step.autocast = contextlib.nullcontext
    begin = time.perf_counter()
    losses = [step().item()]
    first = time.perf_counter() - begin
    torch.cuda.reset_peak_memory_stats()
    clock = peer_torch.Clock("cuda")
    for i in range(arguments.warmup + arguments.steps):
        if i >= arguments.warmup:
            clock.mark()
        for name, value in batches[i % len(batches)].items():
            batch[name].copy_(value, non_blocking=True)
        loss = step()
    clock.mark()
    times = torch.tensor(clock.milliseconds(), device="cuda")
    if world > 1:
        dist.all_reduce(times, dist.ReduceOp.MAX)
    times = times.tolist()
    tenths = statistics.quantiles(times, n=10)
    free, total = torch.cuda.mem_get_info()
    return {
        "step_ms": statistics.median(times),
        "p10": tenths[0],
        "p90": tenths[-1],
        "first_step_s": first,
        "losses": [*losses, loss.item()],
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "device_bytes": total - free,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=models.CASES, metavar="CASE")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--data", help=".npz with the inputs (default: made here)")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=8)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if arguments.way != "alone":
        dist.init_process_group("nccl")
    line = {"case": arguments.case, "who": f"torch {arguments.way}", "torch": torch.__version__}
    line.update(measure(models.CASES[arguments.case], arguments))
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(json.dumps(line), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
