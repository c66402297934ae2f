#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recompute: `recompute.py bits|memory TRAINC TRAINC_RUN MODELS MAKE_ONNX`.

bits: losses of three steps and all gradients are the same bits with and without recompute, by level, pattern and budget, on
exported models; packed steps and accumulation included. memory: on models of 6, 12 and 24 layers of pre-norm, post-norm and
parallel blocks, the arena at level:1 is at most the layers' inputs and what a model of one layer takes, plus 5 %.
A budget is at least what the report says of all that is held, on a GPU, too.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

MODELS = ["gpt2-dropout", "bert-mlm", "deberta-cls", "llama", "t5", "bert-joint", "mixtral", "unet"]
BATCH, TOKENS, WIDTH = 4, 16, 64


def run(command, expect=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    if done.returncode != expect:
        sys.exit(f"{command}: exit {done.returncode}, expected {expect}\n{done.stderr[-3000:]}")
    return done


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Runner:
    def __init__(self, trainc, trainc_run, scratch):
        self.trainc, self.trainc_run, self.scratch = trainc, trainc_run, scratch

    def compile(self, model, name, *options):
        package = self.scratch / f"{name}.tpk"
        run([self.trainc, model, "-o", package, "--target", "cpu:native", *options])
        return package

    def results(self, package, data, *options):
        """Losses of three steps and the gradients' bytes."""
        command = [self.trainc_run, package, "--data", data, "--log-format", "json", "--batch-size", "2", *options]
        losses = [e["loss"] for e in events(run([*command, "--steps", "3"]).stdout) if "event" not in e]
        gradients = package.with_suffix(".safetensors")
        run([*command, "--dump-gradients", gradients])
        return losses, gradients.read_bytes()

    def arena(self, package, data):
        command = [self.trainc_run, package, "--data", data, "--log-format", "json", "--batch-size", str(BATCH)]
        shown = events(run([*command, "--steps", "1", "--memory-stats"]).stdout)
        return [e["arena"] for e in shown if e.get("event") == "memory" and "arena" in e][-1]


def same_bits(runner, models, name):
    model, data = models / f"{name}.onnx", models / f"{name}.npz"
    failures = []
    plain = runner.compile(model, name)
    level1 = runner.compile(model, f"{name}-level1", "--recompute", "level:1")
    level2 = runner.compile(model, f"{name}-level2", "--recompute", "level:2")
    # bert-joint's gradients are given: no batch to accumulate over.
    for more, packages in (((), (level1, level2)), (("--accumulate", "2"), (level1,) if name != "bert-joint" else ())):
        expected = runner.results(plain, data, *more) if packages else None
        for package in packages:
            if runner.results(package, data, *more) != expected:
                failures.append(f"{package.stem} {' '.join(more)}: other losses or gradients than without recompute")
    return failures


def block(kind, i):
    """One layer of `MODEL`'s text; reads x{i}, makes x{i + 1}."""
    x = f"x{i}"
    lines, weights = [], []

    def node(op, *operands, attributes=""):
        name = f"b{i}_{len(lines)}"
        lines.append(f"node {op}({', '.join(operands)}) -> {name} {attributes}")
        return name

    def weight():
        name = f"w{i}_{len(weights)}"
        values = np.random.default_rng([i, len(weights)]).normal(0, 0.1, WIDTH * WIDTH)
        weights.append(f"init {name} f32[{WIDTH},{WIDTH}] = " + " ".join(f"{v:.6g}" for v in values))
        return name

    def norm(value):
        return node("LayerNormalization", value, "one", "zero")

    def attention(value):
        query, key, content = (node("MatMul", value, weight()) for _ in range(3))
        scores = node("MatMul", query, node("Transpose", key, attributes="perm=[0,2,1]"))
        return node("MatMul", node("MatMul", node("Softmax", scores), content), weight())

    def mlp(value):
        return node("MatMul", node("Tanh", node("MatMul", value, weight())), weight())

    if kind == "pre":
        middle = node("Add", x, attention(norm(x)))
        out = node("Add", middle, mlp(norm(middle)))
    elif kind == "post":
        middle = norm(node("Add", x, attention(x)))
        out = norm(node("Add", middle, mlp(middle)))
    else:
        inner = norm(x)
        out = node("Add", node("Add", x, attention(inner)), mlp(inner))
    lines[-1] = lines[-1].replace(f"-> {out} ", f"-> x{i + 1} ")
    return weights + lines


def deep_model(kind, layers):
    text = ["opset 17", f"input x0 f32[batch,{TOKENS},{WIDTH}]"]
    text.append(f"init one f32[{WIDTH}] = " + " ".join(["1"] * WIDTH))
    text.append(f"init zero f32[{WIDTH}] = " + " ".join(["0"] * WIDTH))
    for i in range(layers):
        text += block(kind, i)
    text += [f"node Mul(x{layers}, x{layers}) -> squares", "node ReduceMean(squares) -> loss keepdims=0"]
    return "\n".join([*text, "output loss f32[]"]) + "\n"


def bounded_arena(runner, make_onnx, kind):
    failures, data = [], runner.scratch / f"{kind}.npz"
    x = np.random.default_rng(0).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    np.savez(data, x0=x)

    def arena(layers, *options):
        base = runner.scratch / f"{kind}-{layers}"
        if not base.with_suffix(".onnx").exists():
            base.with_suffix(".txt").write_text(deep_model(kind, layers))
            run([sys.executable, make_onnx, base.with_suffix(".txt"), base.with_suffix(".onnx")])
        package = runner.compile(base.with_suffix(".onnx"), base.name, *options)
        return runner.arena(package, data)

    # Backward of one layer by itself, kept or computed again: a fused gradient may hold one tensor more.
    one = max(arena(1), arena(1, "--recompute", "level:1"))
    for layers in (6, 12, 24):
        taken, plain = arena(layers, "--recompute", "level:1"), arena(layers)
        limit = 1.05 * (layers * x.nbytes + one)
        print(f"{kind} {layers} layers: arena {plain} -> {taken} bytes, limit {limit:.0f}")
        if taken > limit or plain <= limit:
            failures.append(f"{kind}, {layers} layers: arena {taken} of {plain} bytes, expected at most {limit:.0f}")
    return failures


def budgets(runner, make_onnx):
    """A budget is kept; the least one is named."""
    failures, base = [], runner.scratch / "budget"
    base.with_suffix(".txt").write_text(deep_model("pre", 8))
    run([sys.executable, make_onnx, base.with_suffix(".txt"), base.with_suffix(".onnx")])
    model, data = base.with_suffix(".onnx"), runner.scratch / "budget.npz"
    x = np.random.default_rng(0).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    np.savez(data, x0=x)
    plain = runner.compile(model, "budget-plain")
    full = runner.arena(plain, data)
    for fraction in (0.8, 0.6, 0.4):
        options = ["--memory-budget", str(fraction), "--dim", f"batch={BATCH}"]
        package = runner.compile(model, f"budget-{fraction}", *options)
        taken = runner.arena(package, data)
        print(f"budget {fraction}: arena {full} -> {taken} bytes")
        if not taken <= 1.02 * fraction * full:
            failures.append(f"budget {fraction}: arena {taken} of {full} bytes")
    done = run([runner.trainc, model, "-o", base, "--target", "cpu:native", "--memory-budget", "10KB", "--dim",
                f"batch={BATCH}"], expect=1)
    if "the least that a step can do with is" not in done.stderr:
        failures.append(f"a budget that is too small: {done.stderr}")
    done = run([runner.trainc, model, "-o", base, "--target", "cpu:native", "--memory-budget", "1GB"], expect=1)
    if "--dim batch=N" not in done.stderr:
        failures.append(f"a size without a number: {done.stderr}")
    return failures


def cuda_budgets(runner, models):
    """A budget counts all that the report of a GPU does: libraries' workspaces, both batches, room for overlap."""
    failures = []
    command = [runner.trainc, models / "gpt2.onnx", "-o", runner.scratch / "none", "--target", "cuda:sm_90",
               "--precision", "bf16", "--dim", "batch=1..512", "--dim", "seq=16", "--stop-after", "codegen", "--report"]

    def total(*options):
        report = run([*command, *options]).stdout
        rows = re.findall(r"^  (workspace|peak) .*?([0-9]+)(?: and what the driver.*)?$", report, re.M)
        return int(dict(rows)["peak"]), report

    def kept(report):
        number, unit = re.search(r"^  kept for the backward +([0-9.]+) (KiB|MiB)", report, re.M).groups()
        return float(number) * (1024 if unit == "MiB" else 1)

    plain, plain_report = total()
    level, level_report = total("--recompute", "level:1")
    # Nothing but what a layer passes on: not what its norm made in f32 for the cast behind it, either.
    if kept(level_report) > 0.25 * kept(plain_report):
        failures.append(f"gpt2 for a GPU: layers keep {kept(level_report)} of {kept(plain_report)} KiB")
    for budget in (plain - 1, (plain + level) // 2, level):
        peak, report = total("--memory-budget", str(budget))
        print(f"gpt2 for a GPU: budget {budget}, peak {peak}")
        workspace = float(re.search(r"^  workspace +([0-9.]+) MiB", report, re.M)[1])
        if peak > budget or workspace < 60 or peak < workspace * 2**20:
            failures.append(f"gpt2 for a GPU: peak {peak} with a budget of {budget}")
    done = run([*command, "--memory-budget", "50MB"], expect=1)
    if not re.search(r"the least .* of parameters, .* of inputs, .* MiB of workspace, .* of activations", done.stderr):
        failures.append(f"a budget that is too small for a GPU: {done.stderr}")
    return failures


def convolutional_model(stages, blocks):
    """Stages of bottleneck blocks with batch norm; the first block of a stage changes the channels."""
    text, channels, count = ["opset 17", "input x f32[batch,8,16,16]"], 8, 0
    nodes = []

    def conv(value, inputs, outputs, size):
        nonlocal count
        count += 1
        weight = np.random.default_rng(count).normal(0, 0.1, outputs * inputs * size * size)
        text.append(f"init w{count} f32[{outputs},{inputs},{size},{size}] = " + " ".join(f"{v:.6g}" for v in weight))
        for kind, number in (("scale", 1), ("bias", 0), ("mean", 0), ("var", 1)):
            text.append(f"init {kind}{count} f32[{outputs}] = " + " ".join([str(number)] * outputs))
        pads = ",".join([str(size // 2)] * 4)
        nodes.append(f"node Conv({value}, w{count}) -> c{count} pads=[{pads}]")
        nodes.append(f"node BatchNormalization(c{count}, scale{count}, bias{count}, mean{count}, var{count}) -> n{count}")
        return f"n{count}"

    def node(op, *operands):
        nonlocal count
        count += 1
        nodes.append(f"node {op}({', '.join(operands)}) -> r{count}")
        return f"r{count}"

    x = "x"
    for stage in range(stages):
        for block in range(blocks):
            outputs = 32 if stage + block == 0 else channels * (2 if block == 0 else 1)
            inner = node("Relu", conv(x, channels, outputs // 4, 1))
            inner = node("Relu", conv(inner, outputs // 4, outputs // 4, 3))
            inner = conv(inner, outputs // 4, outputs, 1)
            x = node("Relu", node("Add", inner, x if block else conv(x, channels, outputs, 1)))
            channels = outputs
    nodes += [f"node Mul({x}, {x}) -> squares", "node ReduceMean(squares) -> loss keepdims=0"]
    return "\n".join([*text, *nodes, "output loss f32[]"]) + "\n"


def convolutional_nets(runner, make_onnx):
    """Blocks are the layers, not stages, and what batch norm makes is never kept: of a block's 32 + 8 + 8 + 8 + 8 + 32 channels
    the 32 that it passes on, and statistics."""
    failures, base = [], runner.scratch / "convolutional"
    base.with_suffix(".txt").write_text(convolutional_model(2, 4))
    run([sys.executable, make_onnx, base.with_suffix(".txt"), base.with_suffix(".onnx")])
    for target, precision in (("cpu:native", "fp32"), ("cuda:sm_90", "bf16")):
        command = [runner.trainc, base.with_suffix(".onnx"), "-o", runner.scratch / "none", "--target", target, "--precision",
                   precision, "--batchnorm", "train", "--dim", "batch=4096", "--stop-after", "codegen", "--report"]

        def kept(*options):
            return int(re.search(r"^  kept for the backward .* ([0-9]+)$", run([*command, *options]).stdout, re.M)[1])

        plain, level = kept(), kept("--recompute", "level:1")
        print(f"a convolutional net, {target}: keeps {plain} -> {level} bytes")
        if level > 0.5 * plain:
            failures.append(f"a convolutional net, {target}: keeps {level} of {plain} bytes")
    return failures


def main():
    part, trainc, trainc_run, models, make_onnx = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="trainc-recompute-") as scratch:
        runner = Runner(trainc, trainc_run, pathlib.Path(scratch))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            if part == "bits":
                jobs = [pool.submit(same_bits, runner, pathlib.Path(models), name) for name in MODELS]
            else:
                jobs = [pool.submit(bounded_arena, runner, make_onnx, kind) for kind in ("pre", "post", "parallel")]
                jobs.append(pool.submit(budgets, runner, make_onnx))
                jobs.append(pool.submit(convolutional_nets, runner, make_onnx))
                jobs.append(pool.submit(cuda_budgets, runner, pathlib.Path(models)))
            failures = [failure for job in jobs for failure in job.result()]
    print("\n".join(failures) or "passed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
