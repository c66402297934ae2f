#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients are freed as soon as they are complete: `gradient_lifetimes.py TRAINC TRAINC_RUN MAKE_ONNX`.

BERT, GPT-2, Llama and DeBERTa, as exported, at two depths: gradients that are alive at once are at most two blocks' and the
largest of an embedding or head, at both depths. `--no-schedule-updates` keeps all of them, and changes no bit; nor does `--grad-norm`, which keeps none. With a
clipped norm each is kept once, those of matrices in the type that the policy has for products. A tied embedding has one
gradient, to which both uses are added.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from stretch import layer_of, stretch

FOLDER = pathlib.Path(__file__).resolve().parent
MODELS = ["models/bert-cls", "models/gpt2", "deep/llama", "deep/deberta"]
DEPTHS = (3, 8)
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8}
WIDTH, BLOCKS = 1024, 6
VOCABULARY, HIDDEN = 3072, 48


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def elements(text):
    """Number and type of the elements of a tensor of fixed sizes; None for others."""
    *sizes, kind = re.match(r"tensor<([^>,]*)", text)[1].split("x")
    return (int(np.prod([int(s) for s in sizes])), kind) if all(s.isdigit() for s in sizes) else None


class Step:
    """The plan of @step: its buffers, and the gradients among them by the parameter that they are for."""

    def __init__(self, text):
        text = text[text.index("plan.function @step "):]
        lines = text[:text.index("\n  }")].splitlines()
        buffers, commands = {}, []
        for line in lines:
            if found := re.match(r'\s*(%\d+) = plan\.buffer +(\w+)(?: "([^"]*)")?(?: value .*)? : (tensor<[^>]*>+)', line):
                buffers[found[1]] = (found[2], found[3], elements(found[4]))
            elif re.match(r"\s*plan\.", line):
                commands.append(re.findall(r"%\d+", line))
        life = {}
        for i, operands in enumerate(commands):
            for name in operands:
                life.setdefault(name, [i, i])[1] = i
        self.parameters = {b[1]: b[2][0] * BYTES[b[2][1]] for b in buffers.values() if b[0] == "parameter"}
        self.gradients = {}
        for operands in commands:
            # Its update reads and writes a parameter, and reads a gradient of its size.
            written = [buffers[o] for o in set(operands) if buffers[o][0] == "parameter" and operands.count(o) > 1]
            sizes = {b[2][0] for b in written}
            for name in operands:
                space, _, size = buffers[name]
                if space == "arena" and size and size[0] in sizes and size[0] > 1:
                    self.gradients[name] = (*size, *life[name])
        alive = np.zeros(len(commands) + 1, np.int64)
        for count, kind, first, last in self.gradients.values():
            alive[first:last + 1] += count * BYTES[kind]
        self.most = int(alive.max())
        self.arena = [(*buffers[name][2], *lives) for name, lives in life.items()
                      if buffers[name][0] == "arena" and buffers[name][2]]

    def most_of(self, count):
        """Bytes at once of buffers of so many elements, gradients or not."""
        sized = [b for b in self.arena if b[0] == count]
        return max(sum(size * BYTES[kind] for size, kind, first, last in sized if first <= at <= last) for *_, at, _ in sized)

    def bound(self):
        blocks, largest = {}, 0
        for name, size in self.parameters.items():
            layer = layer_of(name)
            if layer is None:
                largest = max(largest, size)
            else:
                blocks[layer] = blocks.get(layer, 0) + size
        return 2 * max(blocks.values()) + largest


def plan(trainc, model, folder, *options):
    run(trainc, model, "--stop-after", "codegen", "--save-ir", folder, *options)
    return Step((folder / "5-codegen.mlir").read_text())


def exported(trainc, scratch, failures):
    for name in MODELS:
        most = {}
        for depth in DEPTHS:
            model = scratch / f"{pathlib.Path(name).name}-{depth}.onnx"
            onnx.save(stretch(FOLDER / f"{name}.onnx", depth), model)
            step = plan(trainc, model, scratch / "ir", "--target", "cpu:native")
            most[depth] = step.most
            # Their norm is put together of sums that each leaves behind; only vectors may wait.
            told = plan(trainc, model, scratch / "ir", "--target", "cpu:native", "--grad-norm")
            if not 0 < told.most <= step.bound():
                failures.append(f"{name}, {depth} layers: {told.most} bytes of gradients with --grad-norm, bound {step.bound()}")
            print(f"{name}, {depth} layers: {step.most} bytes of gradients at once, bound {step.bound()}, "
                  f"all {sum(step.parameters.values())}")
            if not 0 < step.most <= step.bound():
                failures.append(f"{name}, {depth} layers: {step.most} bytes of gradients, bound {step.bound()}")
        late = plan(trainc, model, scratch / "ir", "--target", "cpu:native", "--no-schedule-updates")
        print(f"{name}, {depth} layers, updates last: {late.most}")
        if most[DEPTHS[0]] != most[DEPTHS[1]]:
            failures.append(f"{name}: gradients grow with the depth: {most}")
        if late.most < 2 * late.bound():
            failures.append(f"{name}: --no-schedule-updates keeps only {late.most} bytes of gradients")


def wide(trainc, make_onnx, scratch, failures):
    """On a GPU, where launches of one kernel wait for each other as long as their gradients are small."""
    text = ["opset 20", f"input x f32[batch,{WIDTH}]"]
    for i in range(BLOCKS):
        text += [f"init h.{i}.{n} f32[{WIDTH},{WIDTH}] external none.bin" for n in "ab"]
        text += [f"init h.{i}.bias f32[{WIDTH}] = 0"]
        text += [f"node MatMul({f'x{i}' if i else 'x'}, h.{i}.a) -> p{i}", f"node Add(p{i}, h.{i}.bias) -> q{i}",
                 f"node Tanh(q{i}) -> t{i}", f"node MatMul(t{i}, h.{i}.b) -> u{i}",
                 f"node Add({f'x{i}' if i else 'x'}, u{i}) -> x{i + 1}"]
    text += [f"init head f32[{WIDTH},{4 * WIDTH}] external none.bin", f"node MatMul(x{BLOCKS}, head) -> y",
             "node Mul(y, y) -> squares", "node ReduceMean(squares) -> loss keepdims=0", "output loss f32[]"]
    (scratch / "wide.txt").write_text("\n".join(text) + "\n")
    model = scratch / "wide.onnx"
    run(sys.executable, make_onnx, scratch / "wide.txt", model)
    target = ("--target", "cuda:sm_90", "--precision", "bf16")
    step = plan(trainc, model, scratch / "ir", *target)
    late = plan(trainc, model, scratch / "ir", *target, "--no-schedule-updates")
    told = plan(trainc, model, scratch / "ir", *target, "--grad-norm")
    if not 0 < told.most <= 1.01 * step.most:
        failures.append(f"for a GPU: {told.most} bytes of gradients with --grad-norm, {step.most} without")
    clipped = plan(trainc, model, scratch / "ir", *target, "--clip-norm", "1")
    kinds = sorted({(kind, count > WIDTH) for count, kind, *_ in clipped.gradients.values()})
    lowest = sum(2 * b // 4 if b > 4 * WIDTH else b for b in clipped.parameters.values())
    print(f"for a GPU: {step.most} bytes of gradients at once, bound {step.bound()}, updates last: {late.most}; "
          f"clipped: {clipped.most} of {lowest}, {kinds}")
    if not 0 < step.most <= step.bound() // 2 or late.most < 2 * step.most:
        failures.append(f"for a GPU: {step.most} bytes of gradients, {late.most} with updates last")
    if len(clipped.gradients) != len(clipped.parameters) or not 0.9 * lowest <= clipped.most <= lowest:
        failures.append(f"clipped: {len(clipped.gradients)} gradients of {clipped.most} bytes, lowest types {lowest}")


def tied(trainc, make_onnx, scratch, failures, lookups):
    """The head's gradient, made first, is where the embedding's sums are added; those of a decoder's lookup, too."""
    text = ["opset 20", "input ids i64[batch,8]", f"init table f32[{VOCABULARY},{HIDDEN}] external none.bin",
            f"init h.0.a f32[{HIDDEN},{HIDDEN}] external none.bin", "node Gather(table, ids) -> x",
            "node MatMul(x, h.0.a) -> y", "node Tanh(y) -> z", "node Transpose(table) -> head perm=[1,0]",
            "node MatMul(z, head) -> logits", "node Mul(logits, logits) -> squares",
            "node ReduceMean(squares) -> loss keepdims=0", "output loss f32[]"]
    if lookups > 1:
        text.insert(2, "input target i64[batch,8]")
        tanh = text.index("node Tanh(y) -> z")
        text[tanh:tanh + 1] = ["node Tanh(y) -> e", "node Gather(table, target) -> w", "node Add(e, w) -> z"]
    (scratch / "tied.txt").write_text("\n".join(text) + "\n")
    model = scratch / "tied.onnx"
    run(sys.executable, make_onnx, scratch / "tied.txt", model)
    one = 4 * VOCABULARY * HIDDEN
    for target in (("cpu:native",), ("cuda:sm_90",), ("cuda:sm_90", "--precision", "bf16")):
        for options in ((), ("--clip-norm", "1"), ("--grad-norm",), ("--optimizer", "sgd")):
            step = plan(trainc, model, scratch / "ir", "--target", *target, *options)
            most, bound = step.most_of(VOCABULARY * HIDDEN), one
            # The product has the type of products, and a sum of the other type cannot be where it is.
            if "bf16" in target:
                bound += one // 2
            print(f"tied, {lookups} lookups, {' '.join((*target, *options))}: {most} bytes of the table's gradients at once, "
                  f"bound {bound}")
            if not 0 < most <= bound:
                failures.append(f"tied, {lookups} lookups, {target} {options}: {most} bytes of gradients, bound {bound}")


def same_bits(trainc, trainc_run, scratch, failures):
    results = []
    for number, options in enumerate(([], ["--no-schedule-updates"], ["--grad-norm"])):
        run(trainc, FOLDER / "models/gpt2.onnx", "-o", scratch / "m.tpk", "--target", "cpu:native", *options)
        log = run(trainc_run, scratch / "m.tpk", "--data", FOLDER / "models/gpt2.npz", "--batch-size", "2", "--steps", "3",
                  "--log-format", "json", "--save", scratch / f"out{number}")
        steps = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        saved = sorted((scratch / f"out{number}").rglob("*.safetensors"))
        results.append(([e["loss"] for e in steps if "loss" in e and "event" not in e], [f.read_bytes() for f in saved]))
    for option, result in (("--no-schedule-updates", results[1]), ("--grad-norm", results[2])):
        if not results[0][0] or not results[0][1] or results[0] != result:
            failures.append(f"{option} changes losses or parameters")


def main():
    trainc, trainc_run, make_onnx = sys.argv[1:]
    failures = []
    with tempfile.TemporaryDirectory(prefix="trainc-gradients-") as folder:
        scratch = pathlib.Path(folder)
        exported(trainc, scratch, failures)
        wide(trainc, make_onnx, scratch, failures)
        for lookups in (1, 2):
            tied(trainc, make_onnx, scratch, failures, lookups)
        same_bits(trainc, trainc_run, scratch, failures)
    print("\n".join(failures) or "passed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
