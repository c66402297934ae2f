#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plug-ins on a GPU: a kernel in PTX, and a function in C that gets the stream.

  plugins.py compile FOLDER [--trainc PROGRAM] [--cuda TARGET]   writes the packages and data; needs clang-22 with NVPTX, and no GPU
  plugins.py run FOLDER [--trainc-run PROGRAM]                   trains them: as on the CPU, and twice with the same bits
"""

import argparse
import json
import pathlib
import subprocess
import sys

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


def make(folder, trainc, cuda):
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
    (folder / "m.txt").write_text(MODEL.replace("WEIGHTS", weights))
    subprocess.run([sys.executable, ROOT / "test/Import/Inputs/make_onnx.py", folder / "m.txt", folder / "m.onnx"], check=True)
    np.savez(folder / "d.npz", x=random.standard_normal((64, 64)).astype(np.float32))
    for name, target in (("cpu", "cpu"), ("gpu", cuda)):
        plugins = ["--plugin", folder / "swish.json", "--plugin", folder / "pass.json"]
        command = [trainc, folder / "m.onnx", *plugins, "-o", folder / f"{name}.tpk", "--target", target, "--lr", "0.01", "--embed-weights"]
        subprocess.run(command, check=True)


def losses(folder, program, package):
    command = [program, folder / package, "--data", folder / "d.npz", "--batch-size", "16", "--epochs", "5", "--log-format", "json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [entry["loss"] for line in told.splitlines() if "loss" in (entry := json.loads(line))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    parser.add_argument("--cuda", default="cuda:sm_90")
    options = parser.parse_args()
    if options.what == "compile":
        return make(options.folder, options.trainc, options.cuda)
    cpu, first, second = (losses(options.folder, options.trainc_run, name) for name in ("cpu.tpk", "gpu.tpk", "gpu.tpk"))
    assert first == second, (first, second)
    worst = max(abs(a - b) / abs(b) for a, b in zip(first, cpu, strict=True))
    assert worst < 1e-4 and cpu[-1] < cpu[0], (worst, first, cpu)
    print(f"plug-ins on a GPU: {len(first)} losses, off by {worst:.1e}, the same bits twice")


if __name__ == "__main__":
    main()
