#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the numbers of CUDA packages on the GPU.

  compare.py compile GRAPHS FOLDER    the small cases of export_models.py, as packages
  compare.py run FOLDER               on the machine with the GPU

What `run` checks, for a small BERT and GPT-2, each with and without dropout, and for a small Llama,
Gemma 3 and Qwen3 whose parameters are of bf16 (bits and gradients):

  losses     fp32 on the GPU against fp32 on the CPU, 50 steps: relative difference at most 1e-5
             (masks of dropout are the same on both)
  bits       the same seed twice, and a run continued from a checkpoint in its middle, give the same
             weights, bit for bit, in fp32 and in bf16
  gradients  bf16 against PyTorch in fp64: the error, over all parameters and for each, at most so
             much beyond that of PyTorch's own autocast (without dropout, whose masks differ), or of
             its model in bf16
  curve      losses of 200 bf16 steps against PyTorch in fp64, judged in the same way, as the mean
             over several first weights, and for autocast over its fused and its plain attention: a
             trajectory amplifies any rounding, and those two alone differ by a third

Exit code 1 where one fails. Needs numpy, safetensors, torch and transformers.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import models
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = [name for name in models.CASES if name.startswith("small")]
STEPS, BATCHES, LR = 50, 16, 1e-3
LOSS_TOLERANCE = 1e-5
#: How much worse than PyTorch's bf16: the norm of all gradients, of one, and the loss curve.
GRADIENTS, GRADIENT, CURVE = 1.25, 2.0, 1.25


def compile_all(arguments):
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases:
        case = models.CASES[name]
        for kind, target, precision in (
            ("cpu", "cpu", "fp32"),
            ("fp32", arguments.target, "fp32"),
            ("bf16", arguments.target, "fp32" if arguments.target == "cpu" else case.precision),
        ):
            package = arguments.folder / f"{name}.{kind}.tpk"
            command = [arguments.trainc, arguments.graphs / f"{case.graph}.onnx", "-o", package]
            command += ["--target", target, "--precision", precision, "--optimizer", "adamw"]
            command += ["--lr", LR, "--weight-decay", "0.01", "--clip-norm", "1.0"]
            subprocess.run([str(p) for p in command], check=True, stderr=subprocess.DEVNULL)
            print(f"{package}: {package.stat().st_size} bytes")


class Checks:
    def __init__(self):
        self.failed = 0

    def __call__(self, what, ok, detail):
        self.failed += not ok
        print(f"{'ok    ' if ok else 'FAILED'} {what}: {detail}", flush=True)


class Runner:
    """Runs trainc-run on one case's packages, with its data and first weights."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments, self.folder = name, arguments, folder
        self.case = models.CASES[name]
        self.data = folder / "data.npz"
        self.arrays = models.make_data(self.case, BATCHES)
        np.savez(self.data, **self.arrays)

    def __call__(self, kind, *options):
        """The losses by step."""
        package = self.arguments.folder / f"{self.name}.{kind}.tpk"
        command = [self.arguments.trainc_run, package, "--data", self.data, "--seed", 7]
        command += ["--batch-size", self.case.batch, "--log-format", "json", *options]
        out = subprocess.run([str(p) for p in command], stdout=subprocess.PIPE, text=True)
        if out.returncode:
            sys.exit(
                f"trainc-run failed with exit code {out.returncode}: {' '.join(map(str, command))}"
            )
        entries = [json.loads(line) for line in out.stdout.splitlines()]
        return {e["step"]: e["loss"] for e in entries if "step" in e and "event" not in e}


def check_losses(run, check):
    options = ["--init", "normal:0.02", "--steps", STEPS]
    cpu, cuda = run("cpu", *options), run("fp32", *options)
    worst = max(abs(cuda[step] - loss) / abs(loss) for step, loss in cpu.items())
    detail = f"largest relative difference {worst:.1e}, loss {cpu[1]:.4f} -> {cpu[STEPS]:.4f}"
    check(f"{run.name}, fp32 on GPU and CPU", worst <= LOSS_TOLERANCE, detail)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_bits(run, kind, check):
    weights = [run.folder / f"{kind}{i}.safetensors" for i in range(3)]
    start = ["--init", "normal:0.02"]
    losses = [run(kind, *start, "--steps", STEPS, "--export", path) for path in weights[:2]]
    same = losses[0] == losses[1] and digest(weights[0]) == digest(weights[1])
    check(f"{run.name}, {kind}, same seed twice", same, "same bits" if same else "other bits")
    saved = run.folder / f"{kind}-checkpoints"
    head = run(kind, *start, "--steps", STEPS // 2, "--save", saved)
    rest = run(kind, "--resume", saved, "--steps", STEPS, "--export", weights[2])
    same = {**head, **rest} == losses[0] and digest(weights[2]) == digest(weights[0])
    check(f"{run.name}, {kind}, resumed", same, "same bits" if same else "other bits")


class Reference:
    """The same model, weights and batches in PyTorch."""

    def __init__(self, run, seed=1):
        import torch

        self.torch, self.run = torch, run
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(seed)
        first = models.build(run.case, "eager")
        # Weights that are of bf16 are the same numbers in all types.
        if run.case.precision == "pure-bf16":
            first = first.to(torch.bfloat16).float()
        self.first = first.state_dict()

    def save_weights(self, path):
        from safetensors.torch import save_file

        save_file({name: value.clone().contiguous() for name, value in self.first.items()}, path)

    def model(self, dtype):
        model = models.build(self.run.case, "sdpa")
        model.load_state_dict(self.first)
        return model.to(device=self.device, dtype=dtype)

    def loss(self, model, step, autocast):
        rows = slice(
            step % BATCHES * self.run.case.batch, (step % BATCHES + 1) * self.run.case.batch
        )
        batch = {
            k: self.torch.from_numpy(v[rows]).to(self.device) for k, v in self.run.arrays.items()
        }
        with self.torch.autocast(self.device, self.torch.bfloat16, enabled=autocast):
            return model(**batch).loss

    def gradients(self, dtype, autocast):
        model = self.model(dtype)
        self.loss(model, 0, autocast).backward()
        return {n: p.grad.double().cpu().numpy() for n, p in model.named_parameters()}

    def plain_curve(self, *arguments):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.MATH):
            return self.curve(*arguments)

    def curve(self, dtype, autocast, steps):
        model = self.model(dtype)
        optimizer = self.torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
        losses = []
        for step in range(steps):
            optimizer.zero_grad()
            loss = self.loss(model, step, autocast)
            loss.backward()
            self.torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return np.array(losses)


def relative(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def check_gradients(run, reference, check):
    from safetensors.numpy import load_file

    torch = reference.torch
    weights = run.folder / "weights.safetensors"
    reference.save_weights(weights)
    path = run.folder / "gradients.safetensors"
    run("bf16", "--weights", weights, "--dump-gradients", path)
    exact = reference.gradients(torch.float64, False)
    if run.case.precision == "pure-bf16":
        peer = reference.gradients(torch.bfloat16, False)
    else:
        peer = reference.gradients(torch.float32, True)
    ours = {name: value.astype(np.float64) for name, value in load_file(path).items()}
    # A tied parameter has another of its names in the graph.
    names = {name: name for name in exact if name in ours}
    for name in exact:
        if name not in names:
            candidates = [n for n in ours if n not in exact and ours[n].shape == exact[name].shape]
            if len(candidates) != 1:
                check(f"{run.name}, gradient of {name}", False, "not in the file")
                return
            names[name] = candidates[0]

    def together(gradients):
        return np.concatenate([gradients[n].ravel() for n in exact])

    mine = {name: ours[names[name]] for name in exact}
    own, theirs = (relative(together(g), together(exact)) for g in (mine, peer))
    check(
        f"{run.name}, bf16 gradients",
        own <= GRADIENTS * theirs,
        f"relative error {own:.2e}, PyTorch's {theirs:.2e}",
    )
    # A gradient that is zero but for rounding (a key's bias) has no relative error: a millionth of
    # the largest gradient's root mean square is added to both errors.
    scale = max(np.sqrt(np.mean(g**2)) for g in exact.values())
    worst, where = 0.0, ""
    for name, value in exact.items():
        floor = 1e-6 * scale * np.sqrt(value.size)
        own, theirs = (np.linalg.norm(g[name] - value) + floor for g in (mine, peer))
        if own / theirs > worst:
            worst, where = own / theirs, name
    check(
        f"{run.name}, each bf16 gradient",
        worst <= GRADIENT,
        f"error at most {worst:.2f} times PyTorch's ({where})",
    )


def check_curve(run, steps, seeds, check):
    distances = []
    for seed in range(1, seeds + 1):
        reference = Reference(run, seed)
        weights = run.folder / f"weights{seed}.safetensors"
        reference.save_weights(weights)
        found = run("bf16", "--weights", weights, "--steps", steps)
        ours = np.array([found[step] for step in range(1, steps + 1)])
        exact = reference.curve(reference.torch.float64, False, steps)
        peers = [
            curve(reference.torch.float32, True, steps)
            for curve in (reference.curve, reference.plain_curve)
        ]
        distances.append([np.mean(np.abs(c - exact) / exact) for c in (ours, *peers)])
        print(
            f"       from seed {seed}: last losses {ours[-1]:.4f}, autocast's {peers[0][-1]:.4f} and"
            f" {peers[1][-1]:.4f}, fp64 {exact[-1]:.4f}; distances"
            f" {', '.join(f'{d:.2e}' for d in distances[-1])}"
        )
    own, fused, plain = np.mean(distances, axis=0)
    check(
        f"{run.name}, {steps} bf16 steps from {seeds} seeds",
        own <= CURVE * (fused + plain) / 2,
        f"mean relative difference of losses {own:.2e}, autocast's {fused:.2e} and {plain:.2e}",
    )


def run_all(arguments):
    check = Checks()
    for name in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            run = Runner(name, arguments, pathlib.Path(folder))
            wanted = set(arguments.only or ("losses", "bits", "gradients", "curve"))
            # Rounded weights: another model than that of f32, which no curve stays near.
            if run.case.precision == "pure-bf16":
                wanted -= {"losses", "curve"}
            if "losses" in wanted:
                check_losses(run, check)
            for kind in ("fp32", "bf16") if "bits" in wanted else ():
                check_bits(run, kind, check)
            if run.case.dropout:
                continue
            if "gradients" in wanted:
                check_gradients(run, Reference(run), check)
            if "curve" in wanted:
                check_curve(run, arguments.curve_steps, arguments.curve_seeds, check)
    print(f"{check.failed} failed")
    return 1 if check.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", default=ROOT / "build/bin/trainc")
    parser.add_argument("--trainc-run", default=ROOT / "build/bin/trainc-run")
    actions = parser.add_subparsers(dest="action", required=True)
    compiling = actions.add_parser("compile")
    compiling.add_argument("graphs", type=pathlib.Path)
    compiling.add_argument("folder", type=pathlib.Path)
    compiling.add_argument("--target", default="cuda:sm_90")
    running = actions.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("--curve-steps", type=int, default=200)
    running.add_argument("--curve-seeds", type=int, default=5)
    running.add_argument("--only", nargs="*", choices=("losses", "bits", "gradients", "curve"))
    for action in (compiling, running):
        action.add_argument(
            "--cases", nargs="+", default=CASES, choices=CASES, metavar="CASE", help="default: all"
        )
    arguments = parser.parse_args()
    if arguments.action == "compile":
        compile_all(arguments)
        return 0
    return run_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
