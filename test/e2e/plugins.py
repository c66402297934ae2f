#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of plug-ins: `plugins.py CC SOURCE TRAINC TRAINC_RUN MAKE_ONNX`.

examples/plugins trains as the same operator written in ONNX does; attributes, sizes that are expressions, threads and loops reach
the functions; and what fails at run time is told with the function and the node.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np

from selected_rows import Run, expect_equal

HEAD = """
opset 18
opset example 1
input x f32[batch,4]
init w f32[4,3] = 0.1 -0.2 0.3 0.4 0.5 -0.6 0.7 0.8 -0.9 1.0 0.2 0.3
init beta f32[3] = 1.0 0.5 2.0
meta trainable = w\\nbeta
output loss f32[]
node MatMul(x, w) -> h
"""
MEAN = "node Mul(y, y) -> squares\nnode ReduceMean(squares) -> loss keepdims=0\n"
SWISH = "node example::swish(h, beta) -> y name=/act\n"
# The same in ONNX, as a function of that name: a plug-in goes before it.
FUNCTION = """function example swish(x, beta) -> y
  node Mul(x, beta) -> z
  node Sigmoid(z) -> s
  node Mul(x, s) -> y
"""
# A gradient that is a function of the model, of an operator with attributes and two results: y = alpha x, its halves apart.
HALVES = """
{"plugin": 1, "library": "halves.so", "operators": [{
  "name": "example::halves", "inputs": ["x: f32|f64[..., n]"], "outputs": ["low: x[..., n / 2]", "high: x[..., ceildiv(n, 2)]"],
  "attributes": ["alpha: float = 2", "pads: ints = [1, -2]", "mode: string = sum", "weights: floats", "axis: int"],
  "cpu": "halves", "gradient": "example::halves_grad", "flops": "size(x) + axis"}]}
"""
HALVES_C = r"""
#include <string.h>
#include <trainrt/plugin.h>
TRAINRT_PLUGIN
struct job { const trainrt_external_call *call; };
static void rows(void *context, int64_t begin, int64_t end) {
  const trainrt_external_call *call = ((struct job *)context)->call;
  const trainrt_external_tensor *x = call->inputs, *low = call->outputs, *high = call->outputs + 1;
  const int64_t n = x->shape[x->rank - 1], a = low->shape[x->rank - 1], b = high->shape[x->rank - 1];
  const float alpha = (float)call->attributes[0].floats[0];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < n; ++i)
      *(i < a ? (float *)low->data + r * a + i : (float *)high->data + r * b + i - a) = alpha * ((const float *)x->data)[r * n + i];
}
TRAINRT_PLUGIN_EXPORT int halves(const trainrt_external_call *call) {
  const trainrt_external_attribute *a = call->attributes;
  if (call->num_attributes != 5 || strcmp(a[0].name, "alpha") || a[1].ints[0] != 1 || strcmp(a[2].text, "sum") ||
      a[3].count != 2 || a[3].ints[1] != -2 || a[4].count != 3 || a[4].floats[2] != 0.5)
    return 2;
  struct job job = {call};
  call->parallel_for(call, call->inputs->elements / call->inputs->shape[call->inputs->rank - 1], 1, rows, &job);
  return 0;
}
"""
HALVES_GRAD = """function example halves_grad(x, grad_low, grad_high) -> grad_x alpha,pads,mode,weights,axis
  node Constant() -> a value_float=@alpha
  node Concat(grad_low, grad_high) -> both axis=-1
  node Mul(both, a) -> grad_x
"""
SPLIT = "node example::halves(h) -> low, high alpha=1.5 weights=[1.0,2.0,0.5] axis=1\nnode Mul(low, low) -> l2\nnode ReduceSum(l2) -> l keepdims=0\nnode Mul(high, l) -> y\n"
PLAIN = """init sizes i64[2] = 1 2
init a f32[] = 1.5
node Mul(h, a) -> ha
node Split(ha, sizes) -> low, high axis=1
node Mul(low, low) -> l2
node ReduceSum(l2) -> l keepdims=0
node Mul(high, l) -> y
"""
RECURSION = r"""
#include <stdlib.h>
static int deeper(const void *call) {
  const void *volatile here[1000] = {call};
  return here[0] ? deeper((const void *)here[0]) + (here[1] == call) : 0;
}
"""
FAULTS = r"""
#include <stdio.h>
#include <trainrt/plugin.h>
TRAINRT_PLUGIN
TRAINRT_PLUGIN_EXPORT int swish(const trainrt_external_call *call) {
  snprintf(call->message, call->message_size, "row %d is empty", 3);
  return 42;
}
static void crash(void *context, int64_t begin, int64_t end) { *(volatile int *)(begin * 0) = 1; }
TRAINRT_PLUGIN_EXPORT int swish_grad(const trainrt_external_call *call) {
  call->parallel_for(call, 1, 1, crash, 0);
  return 0;
}
"""
#: What keeps a plug-in from being loaded: (code in front of the function, how it is linked, what is told).
NOT_LOADED = [
    (
        "float elsewhere(float x);\n__attribute__((constructor)) static void use(void) { elsewhere(1); }",
        ("-Wl,--no-as-needed", "-L.", "-lelsewhere"),
        "cannot be loaded: it needs libelsewhere.so, which is not on this machine: install that, name its folder in LD_LIBRARY_PATH, or link it statically",
    ),
    (
        "float elsewhere(float x);\n__attribute__((constructor)) static void use(void) { elsewhere(1); }",
        (),
        "cannot be loaded: it needs 'elsewhere', which none of the libraries has that it was linked with: link the one that does (cc -l...)",
    ),
    ("__attribute__((constructor)) static void use(void) { *(volatile int *)0 = 1; }", (), "while it was loaded has crashed"),
    ("#include <stdlib.h>\n__attribute__((constructor)) static void use(void) { exit(0); }", (), "while it was loaded has ended the process"),
]


class Plugins(Run):
    def __init__(self, cc, source, *rest):
        super().__init__(*rest)
        self.cc, self.source = cc, pathlib.Path(source)
        self.folder = self.base / "plugin"
        self.folder.mkdir()

    def build(self, code, name, *options):
        (self.folder / f"{name}.c").write_text(code)
        command = [self.cc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I", self.source / "runtime/include"]
        subprocess.run([*command, self.folder / f"{name}.c", "-o", self.folder / f"{name}.so", *options, "-lm"], cwd=self.folder, check=True)

    def compile(self, text, plugin=None, *options):
        source, model, package = (self.base / f"m.{kind}" for kind in ("txt", "onnx", "tpk"))
        source.write_text(text)
        subprocess.run([sys.executable, self.make_onnx, source, model], check=True)
        command = [self.tools[0], model, "-o", package, "--target", "cpu:native", *options]
        subprocess.run(command + (["--plugin", self.folder / plugin] if plugin else []), check=True, capture_output=True)
        return package

    def train(self, package, data, *options):
        np.savez(self.base / "d.npz", **data)
        command = [self.tools[1], package, "--data", self.base / "d.npz", "--epochs", "2", *(options or ("--batch-size", "4"))]
        return subprocess.run(command + ["--log-format", "json"], capture_output=True, text=True)

    def losses(self, package, data, *options):
        done = self.train(package, data, *options)
        if done.returncode:
            sys.exit(done.stderr)
        return [entry["loss"] for line in done.stdout.splitlines() if "loss" in (entry := json.loads(line))]


def main():
    data = {"x": np.random.default_rng(5).standard_normal((8, 4)).astype(np.float32)}
    with tempfile.TemporaryDirectory(prefix="trainc-plugins-") as scratch:
        run = Plugins(*sys.argv[1:3], *sys.argv[3:], scratch)
        example = run.source / "examples/plugins"
        (run.folder / "swish.json").write_text((example / "swish.json").read_text())
        run.build((example / "swish.c").read_text(), "swish")
        wanted = run.gradients(run.compile(HEAD + FUNCTION + SWISH + MEAN), **data)
        package = run.compile(HEAD + FUNCTION + SWISH + MEAN, "swish.json")
        expect_equal("the example", run.gradients(package, **data), wanted)
        info = [subprocess.run([run.tools[1], package, "--info", *form], check=True, capture_output=True, text=True).stdout for form in ((), ("--log-format", "json"))]
        here = "aarch64" if os.uname().machine == "aarch64" else "x86-64"
        assert f"\nplug-in      swish: code for {here}\n" in info[0], info[0]
        assert json.loads(info[1])["plugins"] == {"swish": [here]}, info[1]
        losses = run.losses(package, data, "--batch-size", "4", "--threads", "1")
        assert losses == run.losses(package, data, "--batch-size", "4", "--threads", "2") and losses[-1] < losses[-3], losses
        # Ranks, each of which holds a part of the optimizer's state, have the bits of micro-batches.
        accumulated = run.losses(package, data, "--accumulate", "2", "--batch-size", "2")
        ranks = run.compile(HEAD + SWISH + MEAN, "swish.json", "--distribute", "zero1")
        assert accumulated == run.losses(ranks, data, "--emulate-world", "2", "--batch-size", "2"), accumulated

        (run.folder / "halves.json").write_text(HALVES)
        run.build(HALVES_C, "halves")
        halves = run.compile(HEAD + HALVES_GRAD + SPLIT + MEAN, "halves.json")
        expect_equal("attributes", run.gradients(halves, **data), run.gradients(run.compile(HEAD + PLAIN + MEAN), **data))

        # What the function does is not known while compiling: the same package with other code.
        run.build(FAULTS, "swish")
        done = run.train(run.compile(HEAD + SWISH + MEAN, "swish.json"), data)
        said = "function 'swish' of the plug-in 'swish' (node '/act/swish'): it has returned the error 42: row 3 is empty"
        assert done.returncode == 1 and said in done.stderr, done
        for code, said in (
            ("return deeper(call)", "has crashed"),
            ("exit(deeper(0))", "has ended the process; it is to return an error"),
        ):
            run.build(RECURSION + FAULTS.replace("return 42", code), "swish")
            done = run.train(run.compile(HEAD + SWISH + MEAN, "swish.json"), data)
            assert done.returncode and f"error: function 'swish' of the plug-in 'swish' (node '/act/swish') {said}" in done.stderr, done
        run.build(FAULTS.replace("return 42", "call->message[0] = 0; return 0"), "swish")
        done = run.train(run.compile(HEAD + SWISH + MEAN, "swish.json"), data)
        said = "error: function 'swish_grad' of the plug-in 'swish' (node '/act/gradient/swish_grad') has crashed"
        assert done.returncode == -signal.SIGSEGV and said in done.stderr, done

        check_not_loaded(run, data)


def check_not_loaded(run, data):
    """What is told names the package, the plug-in, its node, and the way out."""
    run.build("float elsewhere(float x) { return x; }", "libelsewhere")
    for code, options, said in NOT_LOADED:
        run.build(code + FAULTS, "swish", *options)
        package = run.compile(HEAD + SWISH + MEAN, "swish.json")
        done, plugin = run.train(package, data), "the plug-in 'swish' (node '/act/swish') "
        assert done.returncode and plugin + said in done.stderr, done
        if "cannot be loaded" in said:
            assert f"error: package '{package}': {plugin}" in done.stderr, done


if __name__ == "__main__":
    os.environ.pop("TRAINC_VERIFY_KEY", None)
    main()
