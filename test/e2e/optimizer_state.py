#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizer state in 8 and 16 bits against NumPy: `optimizer_state.py TRAINC TRAINC_RUN [TARGET]`.

Twenty steps of every optimizer with parameters of one dimension, of two, of blocks that are not full
and of too few elements, and with gradients over nine decades. NumPy keeps the same state: the same
random bits, so the same codes but where rounding of the last bit decides. The loss is the sum of
products of parameters and data, so that the data of a step are its gradients.

Then the storage: what a code stands for against what was stored, the mean of what is stored, and the
bytes that it takes.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import mini_onnx
import safetensors_io

# 8192 = 32 * 256, 9600 = 40 * 240, 4099 is a prime number, 100 is few.
SHAPES = {"w": (64, 128), "v": (96, 100), "p": (4099,), "few": (100,)}
STEPS, SEED, LR, DECAY = 20, 7, 1e-2, 0.1
OPTIMIZERS = {
    "adamw": [],
    "adam": ["--eps", "1e-6"],
    "adamw-hf": [],
    "lamb": [],
    "sgd": ["--momentum", "0.9", "--nesterov"],
}
f32 = np.float32


def philox(counter, key):
    """Philox4x32-10 of arrays of words (Salmon et al. 2011)."""
    counter = [np.asarray(c, np.uint64) for c in counter]
    low = np.uint64(0xFFFFFFFF)
    key = [np.uint64(k) for k in key]
    for _ in range(10):
        p0, p1 = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        half = np.uint64(32)
        counter = [p1 >> half ^ counter[1] ^ key[0], p1 & low, p0 >> half ^ counter[3] ^ key[1], p0 & low]
        key = [key[0] + np.uint64(0x9E3779B9) & low, key[1] + np.uint64(0xBB67AE85) & low]
    return counter


def random_words(name, step, shape):
    """32 bits for each element: of seed, step, the parameter's name and the coordinates."""
    node = 0xCBF29CE484222325
    for byte in f"{name}/state".encode():
        node = (node ^ byte) * 0x100000001B3 % 2**64
    words = philox([step, 0, 0, node % 2**32], [(SEED ^ node >> 32) % 2**32, 0])
    key = [int(words[0]), int(words[1]) & 0x1FFFFF]
    inner = np.broadcast_to(np.arange(shape[-1]), shape)
    outer = np.broadcast_to(np.arange(shape[0])[:, None], shape) if len(shape) == 2 else 0 * inner
    words = philox([inner // 4, outer, 0 * inner, 0 * inner], key)
    return np.choose(inner % 4, words)


def blocks_of(count):
    """Length of a block, and how many there are."""
    length = next((n for n in range(256, 63, -1) if count % n == 0), 256)
    return length, -(-count // length)


class Store:
    """State of one parameter as it is stored, and as it is computed with."""

    def __init__(self, form, name, shape):
        few = form == "int8" and np.prod(shape) < 4096
        self.form, self.name, self.shape = "fp32" if few else form, name, shape
        self.count = int(np.prod(shape))
        self.parts, self.value = {}, {}

    def get(self, state):
        return self.value.get(state, np.zeros(self.shape, f32))

    def put(self, state, x, number, step):
        if self.form == "fp32":
            self.value[state] = self.parts[state] = x
        elif self.form == "bf16":
            random = random_words(self.name, step, self.shape) >> np.uint64(16 * number)
            bits = x.view(np.uint32) + (random & np.uint64(0xFFFF)).astype(np.uint32)
            self.parts[state] = (bits >> np.uint32(16)).astype(np.uint16)
            self.value[state] = (bits & np.uint32(0xFFFF0000)).view(f32)
        else:
            self.put_codes(state, x, number, step)

    def put_codes(self, state, x, number, step):
        length, rows = blocks_of(self.count)
        x = np.pad(x.reshape(-1), (0, rows * length - self.count)).reshape(rows, length)
        largest, power = np.abs(x).max(1), 4 if state == "exp_avg_sq" else 2
        top = f32(255**4 if power == 4 else 127**2)
        random = random_words(self.name, step, x.shape) >> np.uint64(16 * number)
        uniform = (random & np.uint64(0xFFFF)).astype(f32) * f32(2**-16)
        scaled = np.abs(x) / np.where(largest > 0, largest, f32(1))[:, None] * top
        code = np.floor(np.sqrt(np.sqrt(scaled)) if power == 4 else np.sqrt(scaled))
        below, above = code**power, (code + f32(1)) ** power
        code = np.where(uniform < (scaled - below) / (above - below), code + f32(1), code)
        if power == 4:
            code = np.where(scaled > 0, np.maximum(code, 1), code)
        self.parts[state] = (code - 128 if power == 4 else np.copysign(code, x)).astype(np.int8)
        self.parts[state + ".absmax"] = largest
        value = code**power * (largest * (f32(1) / top))[:, None] * (1 if power == 4 else np.sign(x))
        self.value[state] = value.reshape(-1)[: self.count].reshape(self.shape).astype(f32)


def moments(store, g, step):
    m, v = store.get("exp_avg"), store.get("exp_avg_sq")
    m = m + (g - m) * f32(1 - 0.9)
    v = v * f32(0.999) + f32(1 - 0.999) * g * g
    store.put("exp_avg", m, 0, step)
    store.put("exp_avg_sq", v, 1, step)
    return m, v


def update(kind, store, p, g, step):
    """PyTorch's formulas (LAMB: You et al. 2020, algorithm 2): the new parameter."""
    first, second = 1 - 0.9**step, 1 - 0.999**step
    if kind == "sgd":
        g = g + f32(DECAY) * p
        buffer = g if step == 1 else store.get("momentum_buffer") * f32(0.9) + g
        store.put("momentum_buffer", buffer, 0, step)
        return p - f32(LR) * (g + buffer * f32(0.9))
    if kind == "lamb":
        m, v = moments(store, g, step)
        u = m / f32(first) / (np.sqrt(v / f32(second)) + f32(1e-6)) + f32(DECAY) * p
        norms = np.linalg.norm(p.astype(float)), np.linalg.norm(u.astype(float))
        return p - f32(LR * (norms[0] / norms[1] if min(norms) > 0 else 1)) * u
    if kind == "adamw-hf":
        m, v = moments(store, g, step)
        p = p - f32(LR * second**0.5 / first) * m / (np.sqrt(v) + f32(1e-6))
        return p - f32(LR * DECAY) * p
    if kind == "adam":
        g = g + f32(DECAY) * p
    else:
        p = p * f32(1 - LR * DECAY)
    m, v = moments(store, g, step)
    epsilon = f32(1e-6 if kind == "adam" else 1e-8)
    return p - f32(LR / first) * m / (np.sqrt(v) / f32(second**0.5) + epsilon)


class Bench:
    """The model in a scratch folder, its data, and what it begins with."""

    def __init__(self, trainc, trainc_run, target, scratch):
        self.trainc, self.trainc_run, self.target = trainc, trainc_run, target
        self.base = pathlib.Path(scratch)
        rng = np.random.default_rng(3)
        self.start = {n: rng.normal(size=s).astype(f32) for n, s in SHAPES.items()}
        self.data = {}
        for name, shape in SHAPES.items():
            scale = 10.0 ** rng.uniform(-9, 0, (1, *shape))
            self.data["d" + name] = (rng.normal(size=(STEPS, *shape)) * scale).astype(f32)
        self.data["dw"][:, :2] = 0  # a block of zeros
        self.data["dw"][5:, 2:4] = 0  # and one that decays
        np.savez(self.base / "d.npz", **self.data)
        nodes, terms = [], []
        for name in SHAPES:
            nodes.append(mini_onnx.node("Mul", ["d" + name, name], ["y" + name], "scale_" + name))
            nodes.append(
                mini_onnx.node(
                    "ReduceSum", ["y" + name], ["z" + name], "sum_" + name, attributes=[("keepdims", 0)]
                )
            )
            terms.append("z" + name)
        nodes.append(mini_onnx.node("Sum", terms, ["loss"], "total"))
        inputs = [mini_onnx.value_info("d" + n, mini_onnx.FLOAT, ["batch", *s]) for n, s in SHAPES.items()]
        outputs = [mini_onnx.value_info("loss", mini_onnx.FLOAT, [])]
        tensors = [mini_onnx.tensor(n, s, self.start[n].ravel()) for n, s in SHAPES.items()]
        (self.base / "m.onnx").write_bytes(mini_onnx.model(nodes, inputs, outputs, tensors))

    def compile(self, name, *flags):
        command = [self.trainc, self.base / "m.onnx", "-o", self.base / name, "--target", self.target]
        subprocess.run([*command, *flags], check=True, capture_output=True)

    def run(self, package, steps, folder, *flags, data="d.npz"):
        """Parameters and state after some steps of one row each."""
        command = [self.trainc_run, self.base / package, "--data", self.base / data, "--batch-size", "1"]
        command += ["--steps", str(steps), "--seed", str(SEED), "--save", self.base / folder]
        subprocess.run([*command, *flags], check=True, capture_output=True)
        saved = self.base / folder / f"step-{steps}"
        return [safetensors_io.load(saved / f"{n}.safetensors") for n in ("parameters", "optimizer")]


def compare(bench, kind, form):
    """One optimizer and one form of its state."""
    flags = ["--optimizer", kind, "--lr", str(LR), "--weight-decay", str(DECAY), *OPTIMIZERS[kind]]
    bench.compile("m.tpk", *flags, "--optimizer-state", form)
    parameters, state = bench.run("m.tpk", STEPS, f"{kind}-{form}")
    others, worst = 0, 0.0
    expected = {"nonfinite"}
    for name, shape in SHAPES.items():
        store, p = Store(form, name, shape), bench.start[name]
        for step in range(1, STEPS + 1):
            p = update(kind, store, p, bench.data["d" + name][step - 1], step)
        worst = max(worst, float(np.abs(parameters[name] - p).max()))
        for part, wanted in store.parts.items():
            found = state[f"{name}/{part}"]
            expected.add(f"{name}/{part}")
            assert found.dtype == wanted.dtype and found.shape == wanted.shape, (part, found.dtype, found.shape)
            if found.dtype == f32:
                bound = 1e-6 * float(np.abs(wanted).max())
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=bound, err_msg=f"{kind} {form} {part}")
                continue
            apart = np.abs(found.astype(int) - wanted.astype(int))
            others += int((apart != 0).sum())
            assert (apart > 1).mean() < 1e-3, f"{kind} {form} {name}/{part}: codes are apart"
    assert set(state) == expected, set(state) ^ expected
    count = sum(int(np.prod(s)) for s in SHAPES.values())
    print(f"{kind} {form}: parameters within {worst:.1e}, {others} codes of {count} differ by one")
    assert worst < 1e-5 and others < 1e-3 * count, f"{kind} {form}: apart from NumPy"


def decode(parts, state):
    """The numbers that are stored, and the code and the block's unit of each."""
    code = parts[state].astype(float)
    if state == "exp_avg_sq":
        code = code + 128
        unit = parts[state + ".absmax"][:, None].astype(float) / 255**4
        return code**4 * unit, code, unit
    unit = parts[state + ".absmax"][:, None].astype(float) / 127**2
    return code * np.abs(code) * unit, np.abs(code), unit


def part_of(state, name):
    return {key.partition("/")[2]: value for key, value in state.items() if key.startswith(name + "/")}


def check_storage(bench):
    """What one step stores, from nothing: the gradient, and a thousandth of its square."""
    flags = ["--optimizer-state", "int8"]
    bench.compile("unit.tpk", *flags, "--optimizer", "sgd", "--momentum", "0.5")
    bench.compile("adam.tpk", *flags, "--optimizer", "adam")
    bench.compile("bf16.tpk", "--optimizer-state", "bf16", "--optimizer", "sgd", "--momentum", "0.5")
    momentum, adam, narrow = (bench.run(p, 1, p + "-1")[1] for p in ("unit.tpk", "adam.tpk", "bf16.tpk"))
    for name in ("w", "v", "p"):
        g = bench.data["d" + name][0].reshape(-1).astype(float)
        for state, parts, wanted in (
            ("momentum_buffer", part_of(momentum, name), g),
            ("exp_avg_sq", part_of(adam, name), (1 - 0.999) * g * g),
        ):
            value, code, unit = decode(parts, state)
            power = 4 if state == "exp_avg_sq" else 2
            length, rows = blocks_of(len(g))
            wanted = np.pad(wanted, (0, rows * length - len(g))).reshape(rows, length)
            below = np.maximum(code - 1, 0)
            # The codes next to the number, on either side.
            step = np.maximum((code + 1) ** power - code**power, code**power - below**power)
            assert (np.abs(value - wanted) <= 1.0001 * step * unit).all(), f"{name}/{state}: too far"
            assert ((value != 0) == (wanted != 0)).all() or power == 2, f"{name}/{state}: rounded to 0"
            held = parts[state].nbytes + parts[state + ".absmax"].nbytes
            assert held == rows * (length + 4), f"{name}/{state}: {held} bytes"
            error = (np.abs(value - wanted) / parts[state + ".absmax"][:, None].clip(1e-30)).max()
            print(f"{name}/{state}: {held / len(g):.3f} bytes each, within {error:.2%} of the largest")
        bits = narrow[f"{name}/momentum_buffer"].reshape(-1).astype(np.uint32) << 16
        error = np.abs(bits.view(f32).astype(float) - g)
        assert (error <= 2.0**-7 * np.abs(g)).all(), f"{name}: bf16 is too far"


def check_mean(bench):
    """A number between two codes or two bf16 is kept in the mean."""
    x, count = f32(0.32171), SHAPES["w"][0] * SHAPES["w"][1]
    data = dict(bench.data)
    data["dw"] = np.full_like(data["dw"], x)
    data["dw"][:, ::2, 0] = 1  # the largest one of each block
    np.savez(bench.base / "mean.npz", **data)
    for package, step in (("unit.tpk", 1 / 127), ("bf16.tpk", 2.0**-9)):
        _, state = bench.run(package, 1, "mean-" + package, data="mean.npz")
        parts = part_of(state, "w")
        if "momentum_buffer.absmax" in parts:
            value = decode(parts, "momentum_buffer")[0]
        else:
            value = (parts["momentum_buffer"].astype(np.uint32) << 16).view(f32).astype(float)
        value = value[value != 1]
        off = abs(value.mean() - x)
        assert len(np.unique(value)) == 2 and off < 5 * step / 2 / count**0.5, f"{package}: mean is off by {off}"
        print(f"mean of {package}: off by {off:.1e}, steps of {np.ptp(value):.1e}")


def check_resume(bench):
    """A run that goes on has the bits of one that was not stopped; other state is refused."""
    for form in ("bf16", "int8"):
        bench.compile(form + "-r.tpk", "--optimizer", "adamw", "--optimizer-state", form)
        whole, folder = f"{form}-whole", f"{form}-parts"
        bench.run(form + "-r.tpk", STEPS, whole)
        bench.run(form + "-r.tpk", 7, folder)
        bench.run(form + "-r.tpk", STEPS, folder, "--resume", bench.base / folder)
        for file in ("parameters.safetensors", "optimizer.safetensors"):
            one, other = (
                safetensors_io.digest(bench.base / f / f"step-{STEPS}" / file) for f in (whole, folder)
            )
            assert one == other, f"{form}: {file} differs after --resume"
    # Each row in two micro-batches: the gradients are the same, and so is what `@update` stores.
    np.savez(bench.base / "twice.npz", **{n: np.repeat(d, 2, axis=0) for n, d in bench.data.items()})
    twice = bench.run("int8-r.tpk", 7, "twice", "--accumulate", "2", data="twice.npz")
    once = bench.run("int8-r.tpk", 7, "once")
    for one, other in zip(once, twice):
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=f"{name} with micro-batches")
    command = [bench.trainc_run, bench.base / "int8-r.tpk", "--data", bench.base / "d.npz", "--batch-size"]
    command += ["1", "--steps", "30", "--resume", bench.base / "bf16-whole"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for part in ("'w/exp_avg' is bf16 [64, 128], and i8 [32, 256]", "--optimizer-state", "--weights '"):
        assert done.returncode == 1 and part in done.stderr, done.stderr


def main():
    trainc, trainc_run, *target = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="trainc-state-") as scratch:
        bench = Bench(trainc, trainc_run, target[0] if target else "cpu:native", scratch)
        for kind in OPTIMIZERS:
            for form in ("fp32", "bf16", "int8"):
                compare(bench, kind, form)
        check_storage(bench)
        check_mean(bench)
        check_resume(bench)


if __name__ == "__main__":
    main()
