#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""snippets.py SOURCE FOLDER: runs the commands of pages that no other test runs, as they stand there, with small models.

A page's commands run one after the other in a folder of its own, which has the files that the page speaks of. What is left out needs
more than a small model on a CPU, or is another test's; it is held to the options that there are by commands.py.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy

#: Two layers over sequences of any length, with the dropout and GELU that patterns ask for.
TEXT = """opset 20
input x f32[batch,seq,4]
input labels f32[batch,seq,4]
output loss f32[]
init ratio f32[] = 0.1
init train bool[] = 1
{layers}
node Sub(x2, labels) -> error
node Mul(error, error) -> squares
node ReduceMean(squares) -> loss keepdims=0
meta trainable = w0\\nb0\\nv0\\nw1\\nb1\\nv1
"""
LAYER = """init w{0} f32[4,8] = {1}
init b{0} f32[8] = 0.0
init v{0} f32[8,4] = {1}
node MatMul({2}, w{0}) -> h{0}
node Add(h{0}, b{0}) -> s{0}
node Gelu(s{0}) -> g{0} approximate="tanh"
node Dropout(g{0}, ratio, train) -> d{0}
node MatMul(d{0}, v{0}) -> m{0}
node Add({2}, m{0}) -> x{3}"""

#: {page: (its models and data, what is made first, what is left out)}.
PAGES = {
    "README.md": ({"model.onnx": "mlp", "train.npz": "mlp"}, "", r"^\./scripts"),
    "docs/training.md": ({"bert.onnx": "mlp", **dict.fromkeys(("train.npz", "valid.npz", "test.npz"), "mlp")}, "", "pip install|cuda|where an NVIDIA GPU is"),
    "docs/data.md": ({"bert.onnx": "mlp", "train.npz": "mlp", "valid.npz": "mlp"}, "trainc bert.onnx", r"gpt2?\.tpk"),
    "docs/embedding.md": (
        {"model.onnx": "mlp", "train.npz": "mlp"},
        "trainc model.onnx --lora r=2 && trainc-run model.tpk --data train.npz --save checkpoints",
        "scripts/build|^cmake",
    ),
    "docs/inspection.md": (
        {"model.onnx": "mlp", "bert.onnx": "mlp", "train.npz": "mlp", "valid.npz": "mlp"}, "trainc bert.onnx", "trainc inspect|model.tpk",
    ),
    "docs/memory.md": ({"model.onnx": "text", "train.npz": "text"}, "", None),
    # Patterns are of a model; the rest of the page is of any.
    "docs/recompute.md": ({"model.onnx": "text"}, "", "by pattern|cuda"),
    "docs/optimizers.md": ({"bert.onnx": "text"}, "", None),
    "docs/lora.md": ({"model.onnx": "mlp", "peft-model.onnx": "lora", "train.npz": "mlp"}, "trainc model.onnx --lora r=2", "FOLDER"),
    "docs/aarch64.md": ({"model.onnx": "mlp"}, "", "cmake|cpack|tar xf|examples/embed|qemu"),
    "docs/design/package.md": ({"model.onnx": "mlp", "train.npz": "mlp"}, "", None),
}  # fmt: skip


def write_text(make_onnx, folder):
    """The model `text`, and 32 rows for it."""
    layers = "\n".join(LAYER.format(i, 0.1 * (i + 1), f"x{i}" if i else "x", i + 1) for i in range(2))
    (folder / "text.txt").write_text(TEXT.format(layers=layers))
    subprocess.run([sys.executable, make_onnx, folder / "text.txt", folder / "text.onnx"], check=True)
    rows = numpy.random.default_rng(1).standard_normal((2, 32, 128, 4)).astype(numpy.float32)
    numpy.savez(folder / "text.npz", x=rows[0], labels=rows[1])


def commands(page):
    """Those of a page's shell blocks, each with the lines that it goes on in."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S))
    return [line for line in re.split(r"(?<!\\)\n", blocks) if line]


def main():
    source, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    write_text(source / "test/Import/Inputs/make_onnx.py", folder)
    environment = {**os.environ, "TRAINC_CACHE": str(folder / "cache")}
    count = 0
    for page, (files, first, left_out) in PAGES.items():
        here = folder / page.replace("/", "-")
        here.mkdir()
        for name, stored in files.items():
            stored += pathlib.Path(name).suffix
            shutil.copy(next(path for path in (folder / stored, source / "test/e2e/models" / stored) if path.exists()), here / name)
        for line in [first, *commands((source / page).read_text())]:
            if not line or (left_out and re.search(left_out, line)):
                continue
            done = subprocess.run(["sh", "-euc", line], cwd=here, env=environment, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{page}: {line}\n{done.stderr}")
            count += bool(line != first)
    print(f"{count} commands have run")


if __name__ == "__main__":
    main()
