#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plug-ins on a GPU: in C a kernel in PTX and a function that gets the stream, and one in C++ (examples/plugins/cpp).

  plugins.py compile FOLDER [--trainc PROGRAM] [--cuda TARGET] [--cpp LIBRARY]
      writes the packages and data; needs clang-22 with NVPTX, and no GPU. LIBRARY: libsquareplus.so, as docs/plugins.md builds it
  plugins.py run FOLDER [--trainc-run PROGRAM]
      trains them: as on the CPU, and twice with the same bits; then looks at the time of each command
"""

import argparse
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = """
opset 18
opset example 1
input x f32[batch,64]
init w f32[64,48] = WEIGHTS
init beta f32[48] = 1.0
meta trainable = w\\nbeta
output loss f32[]
node MatMul(x, w) -> h
node example::swish(h, beta) -> a
node example::pass(a) -> y
node Mul(y, y) -> squares
node ReduceMean(squares) -> loss keepdims=0
"""
#: The same with the plug-in in C++ in the place of those in C.
MODEL_CPP = MODEL.replace("node example::swish(h, beta) -> a\nnode example::pass(a) -> y", "node Add(h, beta) -> a\nnode example::Squareplus(a) -> y b=2.0")
KERNELS = r"""
#define KERNEL extern "C" __attribute__((global)) void
static __attribute__((device)) float sigmoid(float x) { return 1 / (1 + __nvvm_ex2_approx_f(-1.44269504f * x)); }
KERNEL swish_kernel(const float *x, const float *beta, float *y, long long count, long long channels) {
  const long long i = (long long)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
  if (i < count)
    y[i] = x[i] * sigmoid(beta[i % channels] * x[i]);
}
KERNEL swish_grad_kernel(const float *x, const float *beta, const float *dy, float *dx, float *dbeta, long long count, long long channels) {
  const long long c = __nvvm_read_ptx_sreg_ctaid_x();
  float sum = 0;
  for (long long i = c; i < count; i += channels) {
    const float s = sigmoid(beta[c] * x[i]), slope = x[i] * s * (1 - s);
    dx[i] = dy[i] * (s + beta[c] * slope);
    sum += dy[i] * x[i] * slope;
  }
  dbeta[c] = sum;
}
"""
PASS = r"""
#include <dlfcn.h>
#include <string.h>
#include <trainrt/plugin.h>
TRAINRT_PLUGIN
TRAINRT_PLUGIN_EXPORT int pass(const trainrt_external_call *call) {
  const size_t bytes = 4 * (size_t)call->inputs[0].elements;
  if (!call->stream)
    return memcpy(call->outputs[0].data, call->inputs[0].data, bytes), 0;
  int (*copy)(unsigned long long, unsigned long long, size_t, void *);
  *(void **)&copy = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoDAsync_v2");
  return copy((uintptr_t)call->outputs[0].data, (uintptr_t)call->inputs[0].data, bytes, call->stream);
}
"""


def describe(folder):
    plugin = json.loads((ROOT / "examples/plugins/swish.json").read_text())
    plugin["cuda"] = ["swish.ptx"]
    forward, backward = plugin["operators"]
    forward["cuda"] = {
        "kernel": "swish_kernel", "grid": ["ceildiv(size(x), 256)"], "block": ["256"],
        "arguments": ["x", "beta", "y", "size(x)", "channels"],
    }  # fmt: skip
    backward["cuda"] = {
        "kernel": "swish_grad_kernel", "grid": ["channels"], "block": ["1"],
        "arguments": ["x", "beta", "grad_y", "grad_x", "grad_beta", "size(x)", "channels"],
    }  # fmt: skip
    (folder / "swish.json").write_text(json.dumps(plugin))
    passes = [
        {"name": f"example::{name}", "inputs": [f"{prefix}x: f32[..., n]"], "outputs": [f"{prefix}y: f32[..., n]"], "cpu": "pass", "cuda": "pass"}
        for name, prefix in (("pass", ""), ("pass_grad", "grad_"))
    ]
    passes[0]["gradient"] = "example::pass_grad"
    passes[1]["inputs"], passes[1]["outputs"] = ["grad_y: f32[..., n]"], ["grad_x: f32[..., n]"]
    (folder / "pass.json").write_text(json.dumps({"plugin": 1, "library": "pass.so", "operators": passes}))


def compile(folder, name, text, cuda, trainc, *plugins):
    """`name`.cpu.tpk and `name`.gpu.tpk."""
    (folder / f"{name}.txt").write_text(text)
    subprocess.run([sys.executable, ROOT / "test/Import/Inputs/make_onnx.py", folder / f"{name}.txt", folder / f"{name}.onnx"], check=True)
    for kind, target in (("cpu", "cpu"), ("gpu", cuda)):
        command = [trainc, folder / f"{name}.onnx", *plugins, "-o", folder / f"{name}.{kind}.tpk", "--target", target, "--lr", "0.01", "--embed-weights"]
        subprocess.run(command, check=True)


def make(folder, trainc, cuda, cpp):
    folder.mkdir(parents=True, exist_ok=True)
    describe(folder)
    (folder / "swish.cu").write_text(KERNELS)
    (folder / "pass.c").write_text(PASS)
    flags = "-x cuda --cuda-device-only -nocudainc -nocudalib -S -O3 --cuda-gpu-arch=sm_80 --cuda-feature=+ptx78 -Wno-unknown-cuda-version"
    subprocess.run(["clang++-22", *flags.split(), folder / "swish.cu", "-o", folder / "swish.ptx"], check=True)
    for name, source in (("swish", ROOT / "examples/plugins/swish.c"), ("pass", folder / "pass.c")):
        command = ["cc", "-O2", "-shared", "-fPIC", "-I", ROOT / "runtime/include", source, "-o", folder / f"{name}.so", "-lm", "-ldl"]
        subprocess.run(command, check=True)
    random = np.random.default_rng(7)
    weights = " ".join(f"{number:.5f}" for number in 0.1 * random.standard_normal(64 * 48))
    np.savez(folder / "d.npz", x=random.standard_normal((64, 64)).astype(np.float32))
    compile(folder, "c", MODEL.replace("WEIGHTS", weights), cuda, trainc, "--plugin", folder / "swish.json", "--plugin", folder / "pass.json")
    if cpp:
        compile(folder, "cpp", MODEL_CPP.replace("WEIGHTS", weights), cuda, trainc, "--plugin", cpp)


def losses(folder, program, package):
    command = [program, folder / package, "--data", folder / "d.npz", "--batch-size", "16", "--epochs", "5", "--log-format", "json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [entry["loss"] for line in told.splitlines() if "loss" in (entry := json.loads(line))]


def check(folder, program, name):
    cpu, first, second = (losses(folder, program, f"{name}.{kind}.tpk") for kind in ("cpu", "gpu", "gpu"))
    assert first == second, (first, second)
    worst = max(abs(a - b) / abs(b) for a, b in zip(first, cpu, strict=True))
    assert worst < 1e-4 and cpu[-1] < cpu[0], (worst, first, cpu)
    print(f"plug-ins in {name} on a GPU: {len(first)} losses, {first[0]:.6f} .. {first[-1]:.6f}, off by {worst:.1e}, the same bits twice")


def profile(folder, program, name, wanted):
    """The time of each command, as the runtime and the page of trainc inspect tell it."""
    package, times, page = folder / f"{name}.gpu.tpk", folder / f"{name}.json", folder / f"{name}.html"
    command = [program, package, "--data", folder / "d.npz", "--batch-size", "64", "--steps", "20", "--profile", times]
    subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in times.read_text().splitlines()]
    found = [line for line in lines if re.search(wanted, " ".join([line["name"], *line.get("nodes", [])]))]
    assert len(found) >= 2 and all(line["ms"] > 0 and line["bytes"] > 0 for line in found), lines
    for line in found:
        print(f"  {line['function']} {line['name']}: {line['class']}, {1000 * line['ms']:.1f} us, {line['bytes']} bytes, {line['flops']} FLOP")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python/trainc'}:{ROOT / 'python/trainrt'}"}
    subprocess.run([sys.executable, "-m", "trainc", "inspect", package, "--profile", times, "-o", page], check=True, env=environment)
    (facts,) = re.findall(r'id="facts">([^<]*)<', page.read_text())
    commands = [one for function in json.loads(zlib.decompress(base64.b64decode(facts)))["functions"] for one in function["commands"]]
    told = {one["n"]: one["t"] for one in commands if one["t"] is not None}
    assert all(told[line["name"]] for line in found), (found, told)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    parser.add_argument("--cuda", default="cuda:sm_90")
    parser.add_argument("--cpp", type=pathlib.Path)
    options = parser.parse_args()
    if options.what == "compile":
        return make(options.folder, options.trainc, options.cuda, options.cpp)
    for name, wanted in (("c", "external"), ("cpp", "Squareplus")):
        if (options.folder / f"{name}.gpu.tpk").exists():
            check(options.folder, options.trainc_run, name)
            profile(options.folder, options.trainc_run, name, wanted)


if __name__ == "__main__":
    main()
