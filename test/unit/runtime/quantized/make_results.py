#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes results.safetensors: tensors and what bitsandbytes makes of them, for quantize_test.cpp.

Needs torch and bitsandbytes. With --device cuda the results are those of bitsandbytes' CUDA kernels.
Without a GPU they are those of the functions below, which say in numpy what these kernels
(csrc/kernels.cu) and PyTorch's mean (ATen/native/cuda/Reduce.cuh) compute; they are compared with
bitsandbytes on the CPU, and where that has to differ is said at `check_cpu`. With --device cuda the
functions are compared with the GPU, and differences are told.
"""
import argparse
import json
import os
import struct

import bitsandbytes.functional as bnb
import numpy as np
import torch

F32 = np.float32
# As in the kernels' code objects: their compiler rounds 0.1202552504837513f once, not by way of a double that lies in
# the middle of two floats.
NF4 = [-0.84809643, -0.6106329, -0.45999527, -0.33967942, -0.2346074, -0.13791174, -0.045525018, 0.03979015,
       0.120255254, 0.20352125, 0.29201376, 0.38931254, 0.5016634, 0.6427869, 0.8614784]
FP4 = [(0.8333333, 3), (0.583333, 2), (0.4166667, 5), (0.29166667, 4), (0.20833333, 7), (0.0859375, 6), (0.00260417, 1)]
CODES = {"nf4": [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                 -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0],
         "fp4": [0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25]}
CODES["fp4"] += [-x for x in CODES["fp4"]]


def flush(x):
    """As with -ftz=true: subnormal numbers are zeros of their sign."""
    x = np.asarray(x, dtype=F32)
    return np.where(np.abs(x) < F32(2.0**-126), np.copysign(F32(0), x), x)


def blocks(x, size):
    return np.pad(x, (0, -len(x) % size)).reshape(-1, size)


def normalized(x, size):
    x = flush(blocks(x, size))
    absmax = np.abs(x).max(axis=1)
    with np.errstate(all="ignore"):
        return flush(x * flush(F32(1) / absmax)[:, None]), absmax


def four_bit(x, kind, size):
    scaled, absmax = normalized(x, size)
    scaled = scaled.reshape(-1)[: (len(x) + 1) // 2 * 2]
    if kind == "nf4":
        codes = sum((scaled > F32(t)).astype(np.uint8) for t in NF4)
    else:
        codes = np.zeros(scaled.shape, dtype=np.uint8)
        for threshold, code in reversed(FP4):
            codes[np.abs(scaled) > F32(threshold)] = code
        codes += np.where(scaled < 0, 8, 0).astype(np.uint8)
    return (codes[0::2] << 4 | codes[1::2]).astype(np.uint8), absmax


def device_mean(x, processors=132):
    n = len(x)
    vector = 4 if n >= 128 else 1
    items = n // vector
    width = 1 << min(9, items.bit_length() - 1)
    per_thread = -(-n // width)
    parts = 1
    if per_thread >= 256:
        parts = min(max(processors * 4, -(-per_thread // 256)), -(-per_thread // 16))
    if vector == 4:
        body = x[: n // 4 * 4].reshape(-1, 4)
        body = np.pad(body, ((0, -len(body) % (width * parts)), (0, 0))).reshape(-1, parts, width, 4)
        sums = np.zeros(body.shape[1:], dtype=F32)
        for row in body:
            sums += row
        tail = x[n // 4 * 4 :]
        sums[0, : len(tail), 0] += tail
    else:
        rows = blocks(x, width)
        sums = np.zeros((1, width, 4), dtype=F32)
        for i, row in enumerate(rows):
            sums[0, :, i % 4] += row
    threads = ((sums[..., 0] + sums[..., 1]) + sums[..., 2]) + sums[..., 3]

    def tree(values):
        while values.shape[-1] > 1:
            half = values.shape[-1] // 2
            values = values[..., :half] + values[..., half:]
        return values[..., 0]

    total = tree(threads)
    if parts > 1:
        rows = blocks(total, width)
        last = np.zeros(width, dtype=F32)
        for row in rows:
            last = last + row
        total = tree(last)
    return F32(np.ravel(total)[0]) * (F32(1) / F32(n))


def dynamic_code(x, table):
    """dQuantize of kernels.cu."""
    pivot, upper, lower = 127, 255, 0
    for step in (64, 32, 16, 8, 4, 2, 1):
        if x > table[pivot]:
            lower = pivot
            pivot += step
        else:
            upper = pivot
            pivot -= step
    value = table[pivot]
    if x > value:
        return upper if x > (table[upper] + value) * F32(0.5) else pivot
    return lower if x < (table[lower] + value) * F32(0.5) else pivot


def nested(absmax, table):
    offset = device_mean(absmax)
    scaled, absmax2 = normalized(absmax - offset, 256)
    codes = [dynamic_code(x, table) for x in scaled.reshape(-1)[: len(absmax)]]
    return np.array(codes, dtype=np.uint8), absmax2, offset


def int8(x):
    x = x.astype(np.float16).astype(F32)
    absmax = np.abs(x).max(axis=1)
    with np.errstate(all="ignore"):
        codes = np.rint(x * (F32(127) * (F32(1) / absmax))[:, None])
    return np.nan_to_num(codes).astype(np.int8), absmax


def mean_values(n):
    i = np.arange(n, dtype=np.uint64)
    return ((i * 2654435761 % 2**32) >> 8).astype(F32) * F32(2.0**-24)


def tensors():
    rng = np.random.default_rng(7)
    normal = (rng.standard_normal((37, 129)) * 0.02).astype(F32)
    holes = normal[:6].copy()
    holes.reshape(-1)[64:192] = 0
    holes.reshape(-1)[200:264] = -0.0
    yield "random", normal, "f32 bf16 f16"
    yield "wide", (rng.standard_normal((24, 1536)) * np.exp(rng.standard_normal((24, 1)))).astype(F32), "bf16"
    yield "constant", np.full((16, 40), -0.37, dtype=F32), "f32 bf16 f16"
    yield "zero", np.zeros((3, 43), dtype=F32), "f32 bf16 f16"
    yield "holes", holes, "f32 bf16 f16"
    yield "single", np.array([[-3.25]], dtype=F32), "f32 bf16"
    # f16's subnormals are no subnormals of f32, in which all is computed.
    yield "subnormal", (rng.standard_normal((5, 41)) * 1e-39).astype(F32), "f32 bf16"
    yield "small", (rng.standard_normal((5, 41)) * 3e-38).astype(F32), "f32 bf16"
    yield "subnormal", (rng.standard_normal((5, 41)) * 2e-6).astype(F32), "f16"
    yield "huge", (rng.standard_normal((5, 41)) * 5e37).astype(F32), "f32 bf16"
    yield "huge", (rng.uniform(-65504, 65504, (5, 41))).astype(F32), "f16"
    # Quotients next to each threshold, for every mantissa that an absmax of bf16 can have: where they are nearer than
    # the reciprocal is exact, a GPU's may have another code than its rounded value.
    absmax = 1 + np.arange(128) / 128
    for kind, thresholds in (("nf4", NF4), ("fp4", [s * t for t, _ in FP4 for s in (1, -1)])):
        quotients = absmax[:, None] * np.array(thresholds)
        step = 2.0 ** (np.floor(np.log2(np.abs(quotients))) - 7)
        below = np.floor(quotients / step) * step
        block = np.concatenate([absmax[:, None], below, below + step], axis=1)
        yield "ties_" + kind, np.pad(block, ((0, 0), (0, 32 - block.shape[1]))).astype(F32), "bf16"
    yield "ratios", (rng.integers(-12, 13, (4, 64)) / 12).astype(F32), "f32 bf16 f16"


TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def check_cpu(name, kind, size, x, source, codes, absmax):
    """bitsandbytes on the CPU, but for blocks that are zero or beyond what has a reciprocal, FP4 close to zero
    (its sign) or to a threshold (which is another), and remainders close to a threshold (it divides)."""
    packed, state = bnb.quantize_4bit(source, blocksize=size, quant_type=kind)
    packed = packed.reshape(-1).numpy()
    theirs = np.stack([packed >> 4, packed & 15], 1).reshape(-1)[: len(x)]
    ours = np.stack([codes >> 4, codes & 15], 1).reshape(-1)[: len(x)]
    scaled, unused = normalized(x, size)
    scaled = scaled.reshape(-1)[: len(x)]
    limits = np.array(NF4 if kind == "nf4" else [s * t for t, _ in FP4 for s in (1, -1)])
    near = (np.abs(scaled[:, None].astype(float) - limits).min(axis=1) < 1e-6) | np.isnan(scaled)
    if kind == "fp4":
        near |= np.abs(scaled) < 0.0027
    scale = np.repeat(absmax, size)[: len(x)]
    near |= (scale < 1e-37) | (scale > 2.0**126)
    if kind == "nf4" and len(x) >= size:
        full = np.arange(len(x)) < len(x) // size * size
        near &= ~full | np.isnan(scaled) | (scale < 1e-37) | (scale > 2.0**126)
    wrong = (theirs != ours) & ~near
    assert not wrong.any(), (name, kind, size, np.nonzero(wrong))
    normal = absmax >= 1e-37
    assert np.array_equal(state.absmax.numpy()[normal], absmax[normal]), (name, kind, size)
    return int(near.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    gpu = device != "cpu"
    table = bnb.create_dynamic_map().numpy()
    result = {"dynamic_map": torch.from_numpy(table)}
    for kind in ("nf4", "fp4"):
        result[kind + ".map"] = bnb.get_4bit_type(kind, device="cpu")
        assert np.array_equal(result[kind + ".map"].numpy(), np.array(CODES[kind], dtype=F32))
    differences = []

    def take(key, ours, theirs=None):
        ours = torch.from_numpy(np.ascontiguousarray(ours))
        if gpu:
            theirs = theirs.cpu()
            if not torch.equal(theirs.reshape(-1), ours.reshape(-1)):
                count = int((theirs.reshape(-1) != ours.reshape(-1)).sum())
                differences.append(f"{key}: {count} of {ours.numel()} are not as the functions here say")
            ours = theirs.reshape(ours.shape)
        result[key] = ours

    for name, array, types in tensors():
        for type_name in types.split():
            source = torch.from_numpy(array).to(TYPES[type_name])
            case = f"{name}.{type_name}"
            result[case] = source
            x = source.float().numpy()
            sizes = [32, 64, 128, 4096] if name == "random" else [32] if name.startswith("ties") else [64]
            for kind in ("nf4", "fp4"):
                if name.startswith("ties") and not name.endswith(kind):
                    continue
                for size in sizes:
                    key = f"{case}/{kind}.{size}/"
                    codes, absmax = four_bit(x.reshape(-1), kind, size)
                    packed = state = None
                    if gpu:
                        packed, state = bnb.quantize_4bit(source.to(device), blocksize=size, quant_type=kind)
                    else:
                        check_cpu(case, kind, size, x.reshape(-1), source, codes, absmax)
                    take(key + "codes", codes, packed)
                    take(key + "absmax", absmax, state and state.absmax)
                    # Where the sum of the statistics overflows, bitsandbytes' are NaN.
                    if kind == "nf4" and size == 64 and absmax.astype(float).sum() < 2.0**128:
                        codes2, absmax2, offset = nested(absmax, table)
                        if gpu:
                            _, state = bnb.quantize_4bit(source.to(device), blocksize=size, quant_type=kind, compress_statistics=True)
                        else:
                            mean = torch.from_numpy(absmax).mean().item()
                            assert abs(mean - offset) <= 1e-6 * abs(mean)
                        take(key + "nested_codes", codes2, state and state.absmax)
                        take(key + "nested_absmax", absmax2, state and state.state2.absmax)
                        take(key + "nested_offset", np.array([offset], dtype=F32), state and state.offset)
                        statistics = (table[codes2] * np.repeat(absmax2, 256)[: len(codes2)]).astype(F32) + offset
                        decoded = np.array(CODES[kind], dtype=F32)[np.stack([codes >> 4, codes & 15], 1).reshape(-1)[: x.size]]
                        decoded = decoded * np.repeat(statistics, size)[: x.size]
                        theirs = bnb.dequantize_4bit(packed, state) if gpu else None
                        take(key + "decoded", decoded, None if theirs is None else theirs.float())
                        if not gpu:
                            result[key + "decoded"] = result[key + "decoded"].to(TYPES[type_name])
            if name != "wide" and not name.startswith("ties") and (name != "huge" or type_name == "f16"):
                codes, absmax = int8(x)
                theirs = bnb.int8_vectorwise_quant(source.half().to(device))
                if not gpu:
                    rows = absmax > 0
                    assert np.array_equal(theirs[0].numpy()[rows], codes[rows]), case
                    assert np.array_equal(theirs[1].numpy(), absmax), case
                take(f"{case}/int8/codes", codes, theirs[0])
                take(f"{case}/int8/absmax", absmax, theirs[1])
    counts = [1, 2, 3, 5, 31, 33, 127, 128, 131, 600, 2047, 2050, 5000, 131072, 262147, 300001, 2100005]
    result["mean/counts"] = torch.tensor(counts)
    means = [device_mean(mean_values(n)) for n in counts]
    theirs = torch.stack([torch.from_numpy(mean_values(n)).to(device).mean() for n in counts]) if gpu else None
    take("mean/values", np.array(means, dtype=F32), theirs)

    # The file by hand: safetensors' own writer is one more package.
    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.uint8: "U8", torch.int8: "I8", torch.int64: "I64"}
    header, data = {"__metadata__": {"device": torch.cuda.get_device_name() if gpu else "none"}}, b""
    for key, tensor in sorted(result.items(), key=lambda item: -item[1].element_size()):
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.reshape(1).view(torch.uint8).numpy().tobytes()
        header[key] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "results.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    print(len(data), "bytes of tensors", *differences, sep="\n")


if __name__ == "__main__":
    main()
