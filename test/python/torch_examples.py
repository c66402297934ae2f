# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page's snippets with PyTorch, and the example with Hugging Face's Trainer."""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


#: Those of PyTorch are of the formula.
GRADIENTS = """
module = Model()
trainc.autograd(module, batch)(**batch).backward()
found = [parameter.grad for parameter in module.parameters()]
module.zero_grad()
swish = lambda x, beta: x * torch.sigmoid(beta * x)
module(**batch).backward()
for gradient, parameter in zip(found, module.parameters()):
    torch.testing.assert_close(gradient, parameter.grad)
"""
#: What examples/plugins/train.py has as an operator of torch.library.
FUNCTION = """class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        if torch.onnx.is_in_onnx_export():
            return torch.onnx.ops.symbolic("example::swish", [x, beta], dtype=x.dtype, shape=x.shape, version=1)
        return x * torch.sigmoid(beta * x)


swish = Swish.apply
"""


class Examples(unittest.TestCase):
    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "test/python/docs.py", ROOT / "docs/python.md", folder, "--torch"], check=True)

    def test_own_gradient(self):
        """PyTorch's gradient and that of the exported model, both of the estimator's backward."""
        import numpy
        import torch
        from safetensors.torch import load_file

        code = re.search(r"^```python\n(import torch.*?)^```", (ROOT / "docs/plugins.md").read_text(), re.M | re.S)[1]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            names = {"__name__": "page"}
            exec(compile(code, "snippet", "exec"), names)
            x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
            names["model"](x).backward()
            numpy.savez("x.npz", x=x.numpy())
            tools = ROOT / "build" / "bin"
            subprocess.run([tools / "trainc", "model.onnx", "-o", "model.tpk"], check=True)
            data = ["--data", "x.npz", "--batch-size", "6", "--dump-gradients", "g.safetensors"]
            subprocess.run([tools / "trainc-run", "model.tpk", *data], check=True)
            torch.testing.assert_close(load_file("g.safetensors")["linear.weight"], names["model"].linear.weight.grad)

    def test_plugin(self):
        """An operator of torch.library whose plug-in is loaded is exported as it, and trains; so does a function that writes its node."""
        with tempfile.TemporaryDirectory() as folder:
            example = ROOT / "examples/plugins"
            shutil.copy(example / "swish.json", folder)
            header = ROOT / "runtime/include"
            subprocess.run(
                ["cc", "-O2", "-shared", "-fPIC", "-I", header, example / "swish.c", "-o", f"{folder}/swish.so", "-lm"], check=True
            )
            program = (example / "train.py").read_text()
            operator = program[program.index("@torch.library") : program.index("class Model")]
            for own in (operator, FUNCTION):
                ran = subprocess.run(
                    [sys.executable, "-", f"{folder}/swish.json"], capture_output=True, text=True, input=program.replace(operator, own)
                )
                self.assertEqual(ran.returncode, 0, ran.stderr)
                losses = list(map(float, ran.stdout.split()))
                self.assertLess(losses[-1], 0.2 * losses[0])
            begin, call = program.index("trainc.load_plugin"), program.index("step = trainc")
            ran = subprocess.run(
                [sys.executable, "-", f"{folder}/swish.json"], capture_output=True, text=True, input=program[:call] + GRADIENTS
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            ran = subprocess.run([sys.executable, "-"], capture_output=True, text=True, input=program[:begin] + program[call:])
            self.assertIn("ExportError: Model cannot be exported: example::swish is an operator of its own, and no plug-in", ran.stderr)
            code = re.search(r"^```python\n(import torch, trainc.*?)^```", (ROOT / "docs/plugins.md").read_text(), re.M | re.S)[1]
            given = "import torch\nclass M(torch.nn.Module):\n  def forward(self, x): return swish(x, self.beta).mean()\n"
            given += "model = M()\nmodel.beta = torch.nn.Parameter(torch.ones(3))\nbatch = {'x': torch.randn(4, 3)}\n"
            subprocess.run([sys.executable, "-"], check=True, text=True, input=given + code + "\nfloat(step(batch))", cwd=folder)

    def test_exporting(self):
        """The page's snippets, of a model with the inputs that they name; its function is PyTorch's own label smoothing."""
        import onnx
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = torch.nn.Embedding(11, 4), torch.nn.Linear(4, 3)

            def forward(self, input_ids, labels):
                logits = self.head(self.table(input_ids).mean(1))
                return torch.nn.functional.cross_entropy(logits, labels), logits

        batch = {"input_ids": torch.randint(0, 11, (4, 5)), "labels": torch.tensor([0, 2, 1, 2])}
        model, args = Model(), tuple(batch.values())
        page = (ROOT / "docs/exporting.md").read_text()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            names, logits = {"torch": torch, "onnx": onnx, "model": model, "batch": batch, "args": args}, torch.randn(4, 3)
            for code in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
                exec(compile(code, "snippet", "exec"), names)
                if "smoothed_cross_entropy" in code:
                    exact = torch.nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=0.1)
                    torch.testing.assert_close(names["smoothed_cross_entropy"](logits, batch["labels"], 0.1), exact)
                if "onnx.export" in code:
                    subprocess.run([ROOT / "build/bin/trainc", "model.onnx", "-o", "model.tpk"], check=True)

    def test_trainer(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([sys.executable, ROOT / "examples/trainer/train.py", folder], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stdout, r"loss 0\.\d+, accuracy 1\.00")
            import transformers

            transformers.AutoModelForSequenceClassification.from_pretrained(folder)


if __name__ == "__main__":
    unittest.main()
