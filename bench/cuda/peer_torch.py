#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times PyTorch's training step of one case: `peer_torch.py CASE [--modes ...] [--precision ...]`.

A step is forward, backward, clipping of the global norm to 1.0 and fused AdamW, with the batch
copied from pinned memory. Modes:

  eager         as written
  compile       torch.compile with its defaults
  reduce-overhead  torch.compile with its own CUDA graphs, of forward and backward each
  graphs        the compiled step captured in one CUDA graph, optimizer and clipping included
  max-autotune  torch.compile(mode="max-autotune-no-cudagraphs"); takes minutes

Models are made to take the flash path, or the comparison would be with an accident: without
padding there is no mask argument at all, causal models say is_causal. Convolutional nets have the
channels last. Times are between CUDA events
at the beginnings of steps, without waiting for a step, so that nothing but the device (or the
host, where it is slower) is measured. Prints one JSON line for each mode; a mode that fails prints
its error there.
"""

import argparse
import dataclasses
import contextlib
import gc
import json
import statistics
import sys
import time
import warnings

import convnets
import models
import numpy as np
import torch
import torch._functorch.config
import torch.nn.functional as F

MODES = ("eager", "compile", "reduce-overhead", "graphs", "max-autotune")
LR = 1e-4


def maskless_attention(module, query, key, value, mask, dropout=0.0, scaling=None, **_):
    """Attention without a mask, in the shape that transformers' models call."""
    out = F.scaled_dot_product_attention(
        query,
        key,
        value,
        dropout_p=dropout,
        is_causal=bool(getattr(module, "is_causal", False)),
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out.transpose(1, 2).contiguous(), None


def build(case, precision, device):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    # A name that has no mask function: models then build no mask.
    ALL_ATTENTION_FUNCTIONS.register("maskless", maskless_attention)
    torch.manual_seed(1)
    with torch.device(device):
        model = models.build(case, "maskless" if models.is_maskless(case) else "sdpa")
    if case.family in convnets.FAMILIES:
        model = model.to(memory_format=torch.channels_last)
    return model.to(torch.bfloat16) if precision == "pure-bf16" else model


class Step:
    """One training step on fixed input buffers."""

    def __init__(self, model, forward, batch, precision, graphs):
        self.forward, self.batch = forward, batch
        self.parameters = list(model.parameters())
        device = self.parameters[0].device.type
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=LR, weight_decay=0.01, fused=True, capturable=graphs
        )
        self.autocast = (
            (lambda: torch.autocast(device, torch.bfloat16))
            if precision == "bf16"
            else contextlib.nullcontext
        )

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            out = self.forward(**self.batch)
            loss = out[0] if isinstance(out, tuple) else out.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        return loss.detach()


class Capture:
    """A step as one CUDA graph."""

    def __init__(self, step):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                step()
        torch.cuda.current_stream().wait_stream(side)
        step.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = step()

    def __call__(self):
        self.graph.replay()
        return self.loss


class Clock:
    """Marks at the beginnings of steps: events on a GPU, wall clock on a CPU."""

    def __init__(self, device):
        self.cuda = device == "cuda"
        self.marks = []

    def mark(self):
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def milliseconds(self):
        if self.cuda:
            torch.cuda.synchronize()
            return [a.elapsed_time(b) for a, b in zip(self.marks, self.marks[1:])]
        return [(b - a) * 1e3 for a, b in zip(self.marks, self.marks[1:])]


def load_batches(case, path, device):
    arrays = dict(np.load(path)) if path else models.make_data(case, 4)
    count = len(next(iter(arrays.values()))) // case.batch
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    if device == "cuda":
        tensors = {name: value.pin_memory() for name, value in tensors.items()}
    return [
        {name: value[i * case.batch : (i + 1) * case.batch] for name, value in tensors.items()}
        for i in range(count)
    ]


def on_device(value, device):
    """Images with the channels last in memory, which convolutions are quicker with."""
    layout = torch.channels_last if value.dim() == 4 else torch.contiguous_format
    return value.to(device).contiguous(memory_format=layout)


def measure(case, mode, arguments):
    device = arguments.device
    batches = load_batches(case, arguments.data, device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    model = build(case, arguments.precision, device)
    built = time.perf_counter()
    kinds = {"max-autotune": "max-autotune-no-cudagraphs", "reduce-overhead": "reduce-overhead"}
    forward = model if mode == "eager" else torch.compile(model, mode=kinds.get(mode))
    batch = {name: on_device(value, device) for name, value in batches[0].items()}
    step = Step(model, forward, batch, arguments.precision, mode == "graphs")
    losses = [step().item()]
    first = time.perf_counter() - built
    run = Capture(step) if mode == "graphs" else step
    clock = Clock(device)
    for i in range(arguments.warmup + arguments.steps):
        if i == arguments.warmup:
            clock.mark()
        for name, value in batches[i % len(batches)].items():
            batch[name].copy_(value, non_blocking=True)
        torch.compiler.cudagraph_mark_step_begin()
        loss = run()
        if i >= arguments.warmup:
            clock.mark()
    times = clock.milliseconds()
    losses.append(loss.item())
    tenths = statistics.quantiles(times, n=10)
    result = {
        "step_ms": statistics.median(times),
        "p10": tenths[0],
        "p90": tenths[-1],
        "steps": len(times),
        "first_step_s": first,
        "build_s": built - begin,
        "losses": losses,
    }
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        result["peak_allocated"] = torch.cuda.max_memory_allocated()
        result["peak_reserved"] = torch.cuda.max_memory_reserved()
        result["device_used"] = total - free
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=models.CASES, metavar="CASE")
    parser.add_argument("--modes", default="eager,compile,graphs")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16", "pure-bf16"))
    parser.add_argument("--data", help=".npz with the inputs (default: made here)")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, help="in place of the case's")
    parser.add_argument("--memory-budget", type=float, help="torch._functorch.config.activation_memory_budget")
    arguments = parser.parse_args()
    case = models.CASES[arguments.case]
    if arguments.batch:
        case = dataclasses.replace(case, batch=arguments.batch)
    if arguments.memory_budget is not None:
        torch._functorch.config.activation_memory_budget = arguments.memory_budget
    arguments.precision = arguments.precision or case.precision
    warnings.filterwarnings("ignore")
    torch.set_float32_matmul_precision("highest" if arguments.precision == "fp32" else "high")
    torch._dynamo.config.automatic_dynamic_shapes = False
    failed = 0
    for mode in arguments.modes.split(","):
        if mode not in MODES:
            parser.error(f"unknown mode {mode}; there are {', '.join(MODES)}")
        torch._dynamo.reset()
        gc.collect()
        line = {"case": case.name, "who": f"torch {mode}", "precision": arguments.precision}
        try:
            line.update(measure(case, mode, arguments))
        except Exception as error:  # a mode that does not work is a result of its own
            line["error"] = f"{type(error).__name__}: {error}"[:400]
            failed = 1
        line["torch"] = torch.__version__
        print(json.dumps(line), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
