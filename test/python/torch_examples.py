# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page's snippets with PyTorch, and the example with Hugging Face's Trainer."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Examples(unittest.TestCase):
    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "test/python/docs.py", ROOT / "docs/python.md", folder, "--torch"], check=True)

    def test_trainer(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([sys.executable, ROOT / "examples/trainer/train.py", folder], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stdout, r"loss 0\.\d+, accuracy 1\.00")
            import transformers

            transformers.AutoModelForSequenceClassification.from_pretrained(folder)


if __name__ == "__main__":
    unittest.main()
