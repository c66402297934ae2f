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

#: Tokens of sequences of any length.
TOKENS = """opset 20
input input_ids i64[batch,seq]
input labels i64[batch,seq]
output loss f32[]
init table f32[64,8] = 0.1
init head f32[8,64] = 0.2
init rows i64[2] = -1 64
init all i64[1] = -1
node Gather(table, input_ids) -> h
node MatMul(h, head) -> scores
node Reshape(scores, rows) -> logits
node Reshape(labels, all) -> wanted
node SoftmaxCrossEntropyLoss(logits, wanted) -> loss ignore_index=-100
meta trainable = table\\nhead
"""

#: {page: (its models and data, what is made first, what is left out)}.
PAGES = {
    "README.md": ({"model.onnx": "mlp", "train.npz": "mlp"}, "", r"^\./scripts"),
    "docs/training.md": ({"bert.onnx": "mlp", **dict.fromkeys(("train.npz", "valid.npz", "test.npz"), "mlp")}, "", "pip install|where an NVIDIA GPU is"),
    "docs/data.md": (
        {"bert.onnx": "mlp", "train.npz": "mlp", "valid.npz": "mlp", "gpt.onnx": "tokens", "train.bin": "tokens", "val.bin": "tokens", "tokens": "tokens", "held": "tokens"},
        "trainc bert.onnx && trainc gpt.onnx && cp gpt.tpk gpt2.tpk", None,
    ),
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
    "docs/recompute.md": ({"model.onnx": "text"}, "", "by pattern"),
    "docs/optimizers.md": ({"bert.onnx": "text"}, "", None),
    "docs/lora.md": ({"model.onnx": "mlp", "peft-model.onnx": "lora", "train.npz": "mlp"}, "trainc model.onnx --lora r=2", "FOLDER"),
    "docs/aarch64.md": ({"model.onnx": "mlp"}, "", "cmake|cpack|tar xf|examples/embed|qemu"),
    "docs/training-graphs.md": ({"artifacts": "ort/mlp"}, "cp artifacts/* . && mv data.npz train.npz", None),
    "docs/design/package.md": ({"model.onnx": "mlp", "train.npz": "mlp"}, "", None),
}  # fmt: skip

#: {page: the test that runs its commands}.
ELSEWHERE = {
    "docs/add-an-onnx-op.md": "test/meta/developer_pages.py",
    "docs/add-an-op.md": "test/meta/developer_pages.py",
    "docs/finetuning.md": "test/python/finetune.test",
    "docs/plugins.md": "test/python/plugins.test",
    "docs/python.md": "test/python/wheels.py",
    "docs/ranks.md": "test/tools/trainc-run/ranks.py",
    "docs/sanitizers.md": "test/meta/developer_pages.py",
    "docs/sdk.md": "test/embed/packages.py",
    "docs/testing.md": "test/meta/developer_pages.py",
}
#: {page with Python: the test that runs it}; those that import torch are torch_examples.py's, which runs where it is installed.
PYTHON = {
    "docs/exporting.md": "test/python/torch_examples.py",
    "docs/plugins.md": "test/python/plugins.test",
    "docs/python.md": "test/python/docs.test",
}
#: {page: why none does}; commands.py holds the options to those that there are.
BY_HAND = {
    "docs/benchmarks.md": "GPUs, and frameworks to compare with",
    "docs/exporting.md": "PyTorch; test/python/torch_examples.py runs them where it is",
}


def check_all_named(source):
    """No page has commands that nobody has looked at."""
    pages = [page for page in [source / "README.md", *source.glob("docs/**/*.md")] if "tutorial" not in page.parts and "```sh\n" in page.read_text()]
    found, named = {str(page.relative_to(source)) for page in pages}, {**PAGES, **ELSEWHERE, **BY_HAND}
    if found != set(named):
        sys.exit(f"pages with commands are {found ^ set(named)} more or less than those named here")
    python = {str(page.relative_to(source)) for page in source.glob("docs/**/*.md") if "```python\n" in page.read_text()}
    if python != set(PYTHON):
        sys.exit(f"pages with Python are {python ^ set(PYTHON)} more or less than those named here")
    for page, test in [*ELSEWHERE.items(), *PYTHON.items()]:
        if pathlib.Path(page).name not in (source / test).read_text():
            sys.exit(f"{test} does not name {page}")


def write_inputs(source, folder):
    """The models `text` and `tokens`, and 32 rows for each, of the latter also as a stream and as a folder."""
    make_onnx = source / "test/Import/Inputs/make_onnx.py"
    layers = "\n".join(LAYER.format(i, 0.1 * (i + 1), f"x{i}" if i else "x", i + 1) for i in range(2))
    for name, text in (("text", TEXT.format(layers=layers)), ("tokens", TOKENS)):
        (folder / f"{name}.txt").write_text(text)
        subprocess.run([sys.executable, make_onnx, folder / f"{name}.txt", folder / f"{name}.onnx"], check=True)
    numpy.random.default_rng(1).integers(0, 64, 32 * 1024).astype(numpy.uint16).tofile(folder / "tokens.bin")
    make_folder = source / "test/tools/trainc-run/Inputs/make_data_folder.py"
    subprocess.run([sys.executable, make_folder, folder / "tokens", "--rows", "32", "--vocabulary", "64"], check=True)
    rows = numpy.random.default_rng(1).standard_normal((2, 32, 128, 4)).astype(numpy.float32)
    numpy.savez(folder / "text.npz", x=rows[0], labels=rows[1])


def commands(page):
    """Those of a page's shell blocks, each with the lines that it goes on in."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S))
    return [line for line in re.split(r"(?<!\\)\n", blocks) if line]


def main():
    source, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    check_all_named(source)
    write_inputs(source, folder)
    environment = {**os.environ, "TRAINC_CACHE": str(folder / "cache")}
    count = 0
    for page, (files, first, left_out) in PAGES.items():
        here = folder / page.replace("/", "-")
        here.mkdir()
        for name, stored in files.items():
            stored += pathlib.Path(name).suffix
            found = next(path for path in (folder / stored, source / "test/e2e/models" / stored) if path.exists())
            (shutil.copytree if found.is_dir() else shutil.copy)(found, here / name)
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
