#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random operators in training graphs: `random_numbers.py TRAINC TRAINC_RUN MAKE_ONNX`.

Their numbers are held against Philox in NumPy and the exact quantile of the normal distribution, and
looked at as numbers: moments, distribution, correlation. Then a variational auto-encoder of tokens
with padding and a denoising step are trained through them: gradients against NumPy's, given the
noise that the graph's outputs show, and of every form of the package against those of -O0.
"""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import safetensors_io

SEED = 7
DRAWS = """
opset 22
graph body
  input i i64[]
  input go bool[]
  input s f32[batch,4]
  output goes bool[]
  output next f32[batch,4]
  node Identity(go) -> goes
  node RandomNormalLike(s) -> e name=walk
  node Add(s, e) -> next
input x f32[batch,4]
input zeros f32[batch,4]
init w f32[] = 1.0
output loss f32[]
output u f32[24,10,50]
output u64 f64[1000]
output half f32[4000]
output brain f32[1000]
output normal f32[3,24,10,50]
output seeded f32[2000]
output wide f64[2000]
output coin f32[2000]
output kept bool[2000]
output classes i32[4,3000]
output steps f32[batch,4]
output like f32[batch,4]
node RandomUniform() -> u name=u shape=[24,10,50]
node RandomUniform() -> u64 name=u64 shape=[1000] dtype=11 low=-1.0 high=3.0
node RandomUniform() -> h name=half shape=[4000] dtype=10 low=1.0 high=2.0
node Cast(h) -> half to=1
node RandomUniform() -> b name=brain shape=[1000] dtype=16
node Cast(b) -> brain to=1
node RandomNormal() -> normal name=normal shape=[3,24,10,50]
node RandomNormal() -> seeded name=seeded shape=[2000] mean=2.0 scale=3.0 seed=4.0
node RandomNormal() -> wide name=wide shape=[2000] dtype=11
init odds f32[2000] = ODDS
node Bernoulli(odds) -> coin name=coin
node Bernoulli(odds) -> kept name=kept dtype=9
init logits f32[4,3] = 0 0 0 -inf 1 1.5 3 0 -2 5 5 0
node Multinomial(logits) -> classes name=classes sample_size=3000
init three i64[] = 3
node Loop(three, _, zeros) -> steps body=graph:body
node RandomNormalLike(x) -> like name=like
node ReduceMean(like) -> mean keepdims=0
node Mul(mean, w) -> loss
meta trainable = w
"""
W = {
    "table": (11, 6),
    "to_mean": (6, 5),
    "to_deviation": (6, 5),
    "out": (5, 11),
    "denoise": (4, 4),
}
ENCODER = """
opset 18
input ids i64[batch,seq]
input attention_mask i64[batch,seq]
input labels i64[batch,seq]
input image f32[batch,4]
WEIGHTS
output loss f32[]
output eps f32[batch,seq,5]
output time f32[batch,1]
output noise f32[batch,4]
output coin f32[batch,seq,5]
node Gather(table, ids) -> x
node MatMul(x, to_mean) -> mean
node MatMul(x, to_deviation) -> log_deviation
node Exp(log_deviation) -> deviation
node RandomNormalLike(mean) -> eps name=eps
node Mul(deviation, eps) -> spread
node Add(mean, spread) -> z
init odds f32[] = 0.8
node Shape(z) -> zs
node Expand(odds, zs) -> p
node Bernoulli(p) -> coin name=coin
node Mul(z, coin) -> kept
node MatMul(kept, out) -> logits
init rows i64[2] = -1 11
init flat i64[1] = -1
node Reshape(logits, rows) -> l
node Reshape(labels, flat) -> y
node SoftmaxCrossEntropyLoss(l, y) -> told ignore_index=-100
init two f32[] = 2
init half f32[] = 0.5
node Mul(mean, mean) -> mean2
node Mul(deviation, deviation) -> variance
node Add(mean2, variance) -> both
node Mul(log_deviation, two) -> logs
node Sub(both, logs) -> d
node Mul(d, half) -> divergence
init last i64[1] = 2
node Unsqueeze(attention_mask, last) -> m1
node Cast(m1) -> m to=1
node Mul(divergence, m) -> dm
node ReduceSum(dm) -> kls keepdims=0
node ReduceSum(m) -> tokens keepdims=0
node Div(kls, tokens) -> kl
init zero i64[1] = 0
init one i64[1] = 1
node Slice(image, zero, one, one) -> column
node RandomUniformLike(column) -> time name=time low=0.1 high=1.4
node Cos(time) -> signal
node Sin(time) -> amount
node RandomNormalLike(image) -> noise name=noise
node Mul(image, signal) -> kept_image
node Mul(noise, amount) -> added
node Add(kept_image, added) -> noisy
node MatMul(noisy, denoise) -> guess
node Sub(guess, noise) -> error
node Mul(error, error) -> error2
node ReduceMean(error2) -> denoising keepdims=0
node Add(told, kl) -> vae
node Add(vae, denoising) -> loss
meta trainable = table\\nto_mean\\nto_deviation\\nout\\ndenoise
"""


def check(ok, what):
    if not ok:
        raise SystemExit(f"FAILED: {what}")


def philox(counter, key):
    """Four words of Philox4x32-10 for arrays of counters [4, n]."""
    c, (k0, k1) = [np.asarray(x, np.uint64) for x in counter], key
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def words(name, shape, step=1, micro_batch=0):
    """What a node draws: a word of 32 bits an element."""
    node = 0xCBF29CE484222325
    for byte in name.encode():
        node = (node ^ byte) * 0x100000001B3 % 2**64
    key = philox([[step], [micro_batch], [0], [node & 0xFFFFFFFF]], ((SEED & 0xFFFFFFFF) ^ (node >> 32), SEED >> 32))
    key = int(key[0][0]), int(key[1][0]) & 0x1FFFFF
    at = [i.reshape(-1).astype(np.uint64) for i in np.indices(shape)][::-1]
    at += [np.zeros_like(at[0])] * (4 - len(at))
    drawn = np.stack(philox([at[0] // np.uint64(4), at[1], at[2], at[3]], key))
    return drawn[at[0] % np.uint64(4), np.arange(at[0].size)].reshape(shape)


def uniform(drawn, digits):
    # The upper half of the words is negative, which the cast to floats sees.
    signed = drawn.astype(np.uint32).astype(np.int32) & np.int32(-(2 ** (32 - digits)))
    return signed * 2.0**-32 + 0.5


def normal(drawn):
    quantile = statistics.NormalDist().inv_cdf
    sizes = [-quantile((int(w) & 0x7FFFFFFF) * 2.0**-32 + 2.0**-33) for w in drawn.reshape(-1)]
    return np.where(drawn >> np.uint64(31), -1, 1) * np.reshape(sizes, drawn.shape)


def near(found, wanted, tolerance, what):
    error = np.max(np.abs(found - wanted) / (1 + np.abs(wanted)))
    check(error < tolerance, f"{what}: off by {error}")


class Model:
    def __init__(self, tools, folder, name, text):
        self.tools, self.folder, self.name = tools, folder, name
        (folder / f"{name}.txt").write_text(text)
        self.run([sys.executable, tools[2], folder / f"{name}.txt", folder / f"{name}.onnx"])

    def run(self, command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def compile(self, *options):
        self.run([self.tools[0], self.folder / f"{self.name}.onnx", "--target", "cpu:native", "-o", self.folder / f"{self.name}.tpk",
                  "--optimizer", "sgd", *options])
        return self

    def data(self, **arrays):
        self.rows = len(next(iter(arrays.values())))
        np.savez(self.folder / f"{self.name}.npz", **arrays)

    def train(self, *options, batch=None):
        """What the log says of every step."""
        out = self.run([self.tools[1], self.folder / f"{self.name}.tpk", "--data", self.folder / f"{self.name}.npz", "--batch-size",
                        batch or self.rows, "--seed", SEED, "--log-format", "json", *options])
        return [json.loads(line) for line in out.splitlines() if '"loss"' in line]

    def outputs(self, steps=0, *options):
        """The outputs after so many steps: with the numbers of the next one."""
        out = self.folder / "outputs.safetensors"
        data = self.folder / f"{self.name}.npz"
        training = ["--data", data, "--steps", steps, "--lr", "0"] if steps else []
        self.run([self.tools[1], self.folder / f"{self.name}.tpk", "--batch-size", self.rows, "--seed", SEED, *training, "--predict", data,
                  "-o", out, *options])
        return safetensors_io.load(out)

    def gradients(self, *options):
        out = self.folder / "gradients.safetensors"
        loss = self.train("--dump-gradients", out, *options)[0]["loss"]
        return loss, safetensors_io.load(out)


def check_numbers(draws):
    found = draws.outputs()
    check(np.array_equal(found["u"], uniform(words("u", (24, 10, 50)), 24)), "uniform in [0, 1)")
    near(found["u64"], uniform(words("u64", (1000,)), 32) * 4 - 1, 1e-15, "uniform, f64")
    near(found["half"], 1 + uniform(words("half", (4000,)), 11), 6e-4, "uniform, f16")
    check(found["half"].min() >= 1 and found["half"].max() < 2, "the end of an interval is not drawn")
    check(np.array_equal(found["brain"], uniform(words("brain", (1000,)), 8)), "uniform, bf16")
    near(found["normal"], normal(words("normal", (3, 24, 10, 50))), 1e-6, "normal")
    near(found["wide"], normal(words("wide", (2000,))), 2e-7, "normal, f64")
    near(found["seeded"], 2 + 3 * normal(words("seeded\x01seed 4616189618054758400", (2000,))), 3e-6, "normal of a seed")
    odds = np.linspace(0, 1, 2000, dtype=np.float32)
    check(np.array_equal(found["coin"], uniform(words("coin", (2000,)), 24) < odds), "coins")
    check(np.array_equal(found["kept"], uniform(words("kept", (2000,)), 24) < odds), "coins of booleans")
    # A loop's node draws anew every time.
    walk = sum(normal(words("walk" + more, (6, 4))) for more in ("", "\x011", "\x012"))
    near(found["steps"], walk, 2e-6, "a loop's numbers")
    times = -np.log(uniform(words("classes", (4, 3000, 3)), 32) + 2.0**-33)
    logits = np.array([[0, 0, 0], [-np.inf, 1, 1.5], [3, 0, -2], [5, 5, 0]])
    check(np.array_equal(found["classes"], np.argmax(logits[:, None] - np.log(times), axis=2)), "classes")
    odds = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for row, p in zip(found["classes"], odds):
        near(np.bincount(row, minlength=3) / 3000, p, 0.03, "frequencies of classes")
    return found


def check_distribution(draws, found):
    later = draws.outputs(2)
    near(later["normal"], normal(words("normal", (3, 24, 10, 50), step=3)), 1e-6, "normal in step 3")
    for kind, mean, deviation in (("u", 0.5, 12**-0.5), ("normal", 0, 1)):
        x = found[kind].astype(float)
        n = x.size
        check(abs(x.mean() - mean) < 4 * deviation / n**0.5, f"{kind}: mean {x.mean()}")
        check(abs(x.std() / deviation - 1) < 4 / n**0.5, f"{kind}: deviation {x.std()}")
        y = (x - mean) / deviation
        pairs = {"step": (y, (later[kind] - mean) / deviation)}
        for axis in range(y.ndim):
            first, second = (np.take(y, range(i, y.shape[axis] - 1 + i), axis) for i in (0, 1))
            pairs[f"axis {axis}"] = first, second
        pairs["node"] = y.reshape(-1)[:2000], (found["wide"] if kind == "u" else (found["seeded"] - 2) / 3)
        for what, (a, b) in pairs.items():
            r = np.mean(a * b)
            check(abs(r) < 4 / a.size**0.5, f"{kind}: correlation {r} along {what}")
        # Kolmogorov and Smirnov's distance, at 1 %.
        rank = np.arange(1, n + 1) / n
        below = np.sort(x.reshape(-1))
        if kind == "normal":
            below = np.array([0.5 + 0.5 * math.erf(v / 2**0.5) for v in below])
        distance = max(np.max(rank - below), np.max(below - rank + 1 / n))
        check(distance * n**0.5 < 1.63, f"{kind}: distance {distance} from the distribution")


def check_micro_batches(draws):
    """The loss is the mean of what was drawn."""
    wanted = [np.mean([normal(words("like", (3, 4), step, part)).mean() for part in (0, 1)]) for step in (1, 2)]
    found = [line["loss"] for line in draws.train("--accumulate", 2, "--steps", 2, "--lr", 0, batch=3)]
    near(np.array(found), np.array(wanted), 1e-6, "losses of two micro-batches")


def encoder():
    lines = []
    for i, (name, shape) in enumerate(W.items()):
        values = 0.4 * np.sin(1.7 * np.arange(np.prod(shape)) ** 1.1 + i)
        lines.append(f"init {name} f32[{','.join(map(str, shape))}] = " + " ".join(f"{v:.5f}" for v in values))
        W[name] = np.array([float(f"{v:.5f}") for v in values], np.float32).reshape(shape).astype(float)
    return ENCODER.replace("WEIGHTS", "\n".join(lines))


def reference(data, drawn):
    """Loss and gradients in double."""
    ids, mask, labels = data["ids"], data["attention_mask"][..., None], data["labels"]
    eps, coin = drawn["eps"].astype(float), drawn["coin"]
    x = W["table"][ids]
    mean, log = x @ W["to_mean"], x @ W["to_deviation"]
    kept = (mean + np.exp(log) * eps) * coin
    logits = kept @ W["out"]
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    is_label = labels >= 0
    hot = np.eye(11)[np.where(is_label, labels, 0)]
    loss = -(np.log((p * hot).sum(-1)) * is_label).sum() / is_label.sum()
    dlogits = (p - hot) * is_label[..., None] / is_label.sum()
    count = mask.sum()
    loss += (0.5 * (mean**2 + np.exp(2 * log) - 2 * log) * mask).sum() / count
    dz = dlogits @ W["out"].T * coin
    dmean = dz + mean * mask / count
    dlog = dz * np.exp(log) * eps + (np.exp(2 * log) - 1) * mask / count
    dx = dmean @ W["to_mean"].T + dlog @ W["to_deviation"].T
    table = np.zeros_like(W["table"])
    np.add.at(table, ids, dx)
    time, noise = drawn["time"].astype(float), drawn["noise"].astype(float)
    noisy = data["image"] * np.cos(time) + noise * np.sin(time)
    error = noisy @ W["denoise"] - noise
    loss += np.mean(error**2)

    def sums(a, b):
        return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])

    return loss, {"table": table, "to_mean": sums(x, dmean), "to_deviation": sums(x, dlog), "out": sums(kept, dlogits),
                  "denoise": noisy.T @ error * 2 / error.size}


def check_training(model):
    rng = np.random.default_rng(3)
    shape = 5, 9
    mask = (np.arange(9) < np.array([9, 4, 6, 1, 7])[:, None]).astype(np.int64)
    data = {"ids": rng.integers(0, 11, shape), "attention_mask": mask, "image": rng.standard_normal((5, 4)).astype(np.float32),
            "labels": np.where((rng.random(shape) < 0.5) & (mask > 0), rng.integers(0, 11, shape), -100)}
    model.data(**data)
    wanted, drawn = None, None
    for options in (["-O0"], [], ["--recompute", "mul+add+mul+:1:-1,exp+:1:-1,matmul+sub+:1:-1"]):
        model.compile(*options)
        drawn = drawn or model.outputs()
        wanted = wanted or reference(data, drawn)
        for name, array in model.outputs().items():
            near(array, drawn[name], 1e-6, f"{name} of {options}")
        loss, gradients = model.gradients()
        near(loss, wanted[0], 1e-6, f"loss of {options}")
        for name, gradient in wanted[1].items():
            near(gradients[name] / np.abs(gradient).max(), gradient / np.abs(gradient).max(), 3e-6, f"gradient of {name}, {options}")
        _, again = model.gradients("--threads", 3)
        check(all(np.array_equal(again[name], gradients[name]) for name in again), "the number of threads changes bits")
    near(drawn["time"], 0.1 + 1.3 * uniform(words("time", (5, 1)), 24), 1e-6, "times")
    once, cut = model.folder / "once.safetensors", model.folder / "cut.safetensors"
    model.train("--steps", 4, "--lr", 0.1, "--export", once)
    model.train("--steps", 2, "--lr", 0.1, "--save", model.folder / "saved")
    model.train("--steps", 4, "--lr", 0.1, "--resume", model.folder / "saved", "--export", cut)
    check(once.read_bytes() == cut.read_bytes(), "a run that was cut in two is another one")


def main():
    with tempfile.TemporaryDirectory(prefix="trainc-random-") as scratch:
        folder = pathlib.Path(scratch)
        odds = " ".join(f"{v:.9g}" for v in np.linspace(0, 1, 2000, dtype=np.float32))
        draws = Model(sys.argv[1:4], folder, "draws", DRAWS.replace("ODDS", odds))
        draws.data(x=np.ones((6, 4), np.float32), zeros=np.zeros((6, 4), np.float32))
        found = check_numbers(draws.compile())
        check_distribution(draws, found)
        check_micro_batches(draws)
        check_training(Model(sys.argv[1:4], folder, "encoder", encoder()))


if __name__ == "__main__":
    main()
