#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what limits are made of on this machine, with PyTorch; prints one JSON line.

  machine.py [--shapes FILE] [--seconds 60] [--device cuda]

Copy speed in bytes read and written a second (4 GiB, beyond any cache), the speed of an 8192 cubed
bf16 matmul on random data, and for each shape in FILE (`limits.shapes_of`) the operations a second
of the quickest of PyTorch's libraries: matmuls by cuBLAS and cuBLASLt, as they lie and with both
factors row major; attention by each kernel of `scaled_dot_product_attention` that takes it,
deterministic or not. All of it behind a second of matmuls, so that clock and power are those of a
run, and each for long enough to stay there, as CUDA graphs of ten calls: short ones would be timed
as the host's otherwise. Shapes that --seconds leave no time for are left out and counted.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

#: Calls of a graph.
CALLS = 10

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Machine:
    def __init__(self, device):
        self.device = device
        self.cuda = device == "cuda"
        if self.cuda:  # gradients run on the stream of what they are of, which a capture must be on
            torch.cuda.set_stream(torch.cuda.Stream())

    def median_ms(self, work, rounds, warm=3):
        for _ in range(warm):
            work()
        if not self.cuda:
            marks = [time.perf_counter()]
            for _ in range(rounds):
                work()
                marks.append(time.perf_counter())
            return statistics.median(1e3 * (b - a) for a, b in zip(marks, marks[1:]))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            for _ in range(CALLS):
                work()
        graph.replay()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(max(2, rounds // CALLS) + 1)]
        marks[0].record()
        for mark in marks[1:]:
            graph.replay()
            mark.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) / CALLS

    def sustained_ms(self, work, flops):
        """Of about 60 ms of work, at 400 TFLOP/s; on a CPU of three rounds."""
        rounds = int(min(1000, max(20, 0.06 * 400e12 / max(flops, 1)))) if self.cuda else 3
        return self.median_ms(work, rounds)

    def tensor(self, *shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def copy_speed(self):
        source = self.tensor(2**30 if self.cuda else 2**24, dtype=torch.float32)
        target = torch.empty_like(source)
        return 2 * source.nbytes / (self.median_ms(lambda: target.copy_(source), 20) * 1e-3)

    def gemm_speed(self):
        size = 8192 if self.cuda else 512
        a, b = self.tensor(size, size), self.tensor(size, size)
        out = torch.empty_like(a)

        def work():
            torch.matmul(a, b, out=out)

        if self.cuda:
            begin = time.monotonic()
            while time.monotonic() - begin < 1:
                work()
                torch.cuda.synchronize()
        return 2 * size**3 / (self.median_ms(work, 20) * 1e-3)

    def libraries(self):
        return ("cublas", "cublaslt") if self.cuda else (None,)

    def matmul_ms(self, shape, flops):
        dtype = TYPES[shape["type"]]
        torch.backends.cuda.matmul.allow_tf32 = bool(shape["tf32"])
        batch, m, n, k = (shape[name] for name in ("batch", "m", "n", "k"))
        best = float("inf")

        def factor(rows, columns, turned):
            if turned:
                return self.tensor(batch, columns, rows, dtype=dtype).transpose(1, 2)
            return self.tensor(batch, rows, columns, dtype=dtype)

        layouts = {(shape["a_transposed"], shape["b_transposed"]), (0, 0)}
        for a_turned, b_turned in sorted(layouts):
            a, b = factor(m, k, a_turned), factor(k, n, b_turned)
            if batch == 1:
                a, b = a[0], b[0]
            out = torch.matmul(a, b)
            for library in self.libraries():
                if library:
                    torch.backends.cuda.preferred_blas_library(library)
                best = min(best, self.sustained_ms(lambda: torch.matmul(a, b, out=out), flops))
        return best

    def attention_speed(self, shape, flops):
        """Segments are timed as rows of a batch, all of the mean length, windows as if there were
        none: what counts is the speed."""
        batch, rows, keys = shape["batch"], shape["rows"], shape["keys"]
        if shape["segments"]:
            batch = shape["segments"]
            rows = keys = max(1, rows // batch)
        dtype = TYPES[shape["type"]]

        def operand(heads, length, columns):
            value = self.tensor(batch, length, heads, columns, dtype=dtype).transpose(1, 2)
            return value.requires_grad_(bool(shape["backward"]))

        q = operand(shape["heads"], rows, shape["columns"])
        k = operand(shape["kv_heads"], keys, shape["columns"])
        v = operand(shape["kv_heads"], keys, shape["value_columns"])
        bias = self.tensor(1, shape["heads"], rows, keys, dtype=dtype) if shape["bias"] else None
        options = dict(
            attn_mask=bias,
            is_causal=bool(shape["causal"]) and bias is None,
            enable_gqa=shape["heads"] != shape["kv_heads"],
        )
        backends = torch.nn.attention.SDPBackend
        tried = [backends.MATH]
        if self.cuda:
            tried = [backends.CUDNN_ATTENTION, backends.FLASH_ATTENTION, backends.EFFICIENT_ATTENTION]
        best = float("inf")
        for backend in tried:
            try:
                with torch.nn.attention.sdpa_kernel(backend):
                    out = F.scaled_dot_product_attention(q, k, v, **options)
                    if shape["backward"]:
                        gradient = torch.randn_like(out)

                        def work():
                            torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
                    else:

                        def work():
                            F.scaled_dot_product_attention(q, k, v, **options)

                    best = min(best, self.sustained_ms(work, flops))
            except RuntimeError:  # not this kernel's shape
                continue
        unseen = min(rows, keys) * (min(rows, keys) - 1) / 2 if options["is_causal"] else 0
        products = 2 * (shape["columns"] + shape["value_columns"]) * (2.5 if shape["backward"] else 1)
        return batch * shape["heads"] * (rows * keys - unseen) * products / (best * 1e-3)

    def speed_of(self, shape, flops):
        """Operations a second; 0 where no library computes it."""
        if shape["class"] == "attention":
            return self.attention_speed(shape, flops)
        return flops / (self.matmul_ms(shape, flops) * 1e-3)

    def describe(self):
        if not self.cuda:
            return {"device": "cpu"}
        return {
            "device": torch.cuda.get_device_name(),
            "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", help="JSON: a list of {key, flops}")
    parser.add_argument("--seconds", type=float, default=60, help="for all shapes")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    machine = Machine(arguments.device)
    result = machine.describe()
    result["copy_bytes_per_s"] = machine.copy_speed()
    result["gemm_flops"] = machine.gemm_speed()
    result["torch"] = torch.__version__
    speeds, left_out, begin = {}, 0, time.monotonic()
    wanted = json.load(open(arguments.shapes, encoding="utf-8")) if arguments.shapes else []
    for entry in wanted:
        if time.monotonic() - begin > arguments.seconds:
            left_out += 1
            continue
        speed = machine.speed_of(json.loads(entry["key"]), entry["flops"])
        if speed:
            speeds[entry["key"]] = speed
    print(json.dumps(result | {"shapes": speeds, "shapes_left_out": left_out}))


if __name__ == "__main__":
    main()
