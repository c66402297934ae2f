# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`compiling.py FOLDER MODELS`."""

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import trainc
import trainrt
from trainc import cache, compiler
from trainc.progress import Progress

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
MODEL = MODELS / "mlp.onnx"
DATA = dict(np.load(MODELS / "mlp.npz"))
os.environ["TRAINC_CACHE"] = str(FOLDER / "cache")
TARGET = {"target": "cpu:x86-64-v3"}


def entries():
    return sorted(path.name for path in (FOLDER / "cache").iterdir() if len(path.name) == 32)


class Options(unittest.TestCase):
    #: By what --help calls the value.
    VALUES = {
        "FILE": "x.json", "KEY": "x.pem", "NAME": "x", "F": 0.5, "F,F": (0.9, 0.99), "TYPE": "x", "N": 2, "REGEX": "bias|norm",
        "REGEX=F,...": {"bias": 0.5}, "NAME=N": {"batch": 8, "seq": (1, 512)}, "WHEN": "on", "HOW": "train", "TOKEN": 3,
        "SETTING,...": {"r": 4, "alpha": 8.0, "dora": True}, "KIND,...": ["mlp", "o"], "FORMAT": "nf4:double", "TARGET": "cpu",
        "DIR": "x", "WHAT": "level:1", "SIZE": "8GB", "PHASE": "graph", "RATE": "10Gbit", "LEVEL": "info", "": True, "=FILE": "x.json",
        "=SIZE": "8GB", "=all": "all",
    }  # fmt: skip

    def test_every_option_of_the_command_line_is_a_keyword(self):
        told = subprocess.run(["trainc", "--help"], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"^  (?:-\w, |-\w (?=\w)|)(-O|--(?:\[no-\])?[\w-]+)?(?:\[(=\w+)\]| ?([A-Z][A-Z=,.]*(?:,F)?))?(?:$|  )", told, re.M)
        known = {re.sub(r"^-+(\[no-\])?", "", name): joined or value for name, joined, value in found if name}
        known["O"] = "N"
        self.assertEqual(len(known), len(re.findall(r"^  --?\w|^  --\[", told, re.M)))
        for part in ("lr", "offload", "explain", "chunk-loss", "betas", "dim", "print-pipeline", "O"):
            self.assertIn(part, known)
        for name, value in known.items():
            if name in ("help", "version", "check-options"):
                continue
            keyword = name.replace("-", "_")
            for setting in [self.VALUES[value]] + ([False] if keyword in compiler.NEGATABLE or name.startswith("no-") else []):
                arguments = compiler.command_line({keyword: setting})
                with self.assertRaises(trainc.Error) as caught:
                    compiler.run([FOLDER / "nothing.onnx", *arguments])
                # What is wrong is the model or the value, but no option is unknown, and nothing is left over.
                self.assertNotRegex(str(caught.exception), "not expected|unknown option|did you mean|is a file of", (name, arguments))
        negated = set(re.findall(r"--\[no-\]([\w-]+)", told)) | set(re.findall(r"--no-(?!command|decay)([\w-]+)", told))
        self.assertEqual({name.replace("-", "_") for name in negated}, set(compiler.NEGATABLE))

    def test_forms(self):
        line = compiler.command_line
        self.assertEqual(line({"lr": 3e-4, "nesterov": True, "clip_norm": None, "embed_ir": False}), ["--lr=0.0003", "--nesterov"])
        self.assertEqual(line({"dim": {"a": 8, "b": (1, 512), "c": range(2, 5)}}), ["--dim=a=8", "--dim=b=1..512", "--dim=c=2..4"])
        self.assertEqual(line({"chunk_loss": False, "O": 0, "offload": True, "explain": "all"}),
                         ["--no-chunk-loss", "-O0", "--offload", "--explain=all"])  # fmt: skip
        self.assertEqual(line({"lora": {"r": 4, "dora": True}, "betas": (0.9, 0.95)}), ["--lora=r=4,dora", "--betas=0.9,0.95"])

    def test_refused(self):
        for options, kind, words in (
            ({"optimiser": "sgd"}, trainc.OptionError, "--optimizer"),
            ({"lr": "fast"}, trainc.OptionError, "--lr"),
            ({"optimizer": "sgdd"}, trainc.OptionError, "sgd"),
            ({"freeze": ".*"}, trainc.CompileError, "train"),
            ({"stop_after": "graph"}, trainc.OptionError, "stop_after= makes no package"),
            ({"dim": {"batch": 0}}, trainc.OptionError, "batch"),
            ({"seed": 2**70}, trainrt.errors.InvalidArgument, "seed: expected a number from -9223372036854775808 to 9223372036854775807"),
            ({"seed": "a"}, trainrt.errors.InvalidArgument, "seed: expected a number .*, got 'a'"),
            ({"threads": -1}, trainrt.errors.InvalidArgument, "threads: expected a number from 0 to 1024, got -1"),
        ):
            with self.assertRaisesRegex(kind, words):
                trainc.compile(MODEL, cache=False, **options)
        with self.assertRaisesRegex(FileNotFoundError, "there is no model"):
            trainc.compile("nothing.onnx")
        with self.assertRaisesRegex(trainc.OptionError, "expected a torch.nn.Module, an ONNX file or a package, got NoneType"):
            trainc.compile(None)
        with self.assertRaisesRegex(trainc.OptionError, "a package is compiled already: lr= says nothing"):
            trainc.compile("model.tpk", lr=1.0)
        damaged = FOLDER / "damaged.onnx"
        damaged.write_bytes(b"\x08\x07no model")
        with self.assertRaises(trainc.CompileError) as caught:
            trainc.compile(damaged)
        self.assertIn("damaged.onnx", str(caught.exception))
        self.assertNotIn("trainc: error", str(caught.exception))
        environment = dict(os.environ)
        os.environ["TRAINC"] = "/nothing/trainc"
        try:
            with self.assertRaisesRegex(trainc.Error, "the compiler '/nothing/trainc' cannot be run"):
                compiler.run(["--version"])
        finally:
            os.environ.update(environment)

    def test_warnings_are_pythons(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            trainc.compile(MODEL, cache=False, dropout="on", **TARGET)
        self.assertTrue(all(".absent" not in str(warning.message) for warning in told))


class Cache(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(FOLDER / "cache", ignore_errors=True)

    def test_found_again(self):
        one = trainc.compile(MODEL, lr=0.01, **TARGET)
        before = entries()
        self.assertEqual(len(before), 1)
        begin = time.monotonic()
        two = trainc.compile(MODEL, lr=0.01, **TARGET)
        self.assertLess(time.monotonic() - begin, 0.3)
        self.assertEqual((entries(), one.package.path), (before, two.package.path))
        trainc.compile(MODEL, lr=0.02, **TARGET)
        self.assertEqual(len(entries()), 2)
        moved = FOLDER / "other.onnx"
        shutil.copy(MODEL, moved)
        trainc.compile(moved, lr=0.02, **TARGET)
        self.assertEqual(len(entries()), 3)
        session = trainc.compile(MODEL, lr=0.01, cache=False, **TARGET)
        self.assertNotIn("cache", session.package.path)
        folder = pathlib.Path(session.package.path).parent
        self.assertTrue(folder.exists())
        del session
        self.assertFalse(folder.exists())
        trainc.compile(MODEL, lr=0.01, cache=FOLDER / "kernels", **TARGET)
        self.assertTrue((FOLDER / "kernels").is_dir())

    def test_a_file_that_is_asked_for_is_written_each_time(self):
        for _ in range(2):
            remarks = FOLDER / "remarks.jsonl"
            trainc.compile(MODEL, remarks=remarks, **TARGET)
            self.assertTrue(remarks.exists())
            remarks.unlink()

    def test_shared_bounded_and_atomic(self):
        made = []

        def make(folder):
            made.append(folder)
            time.sleep(0.1)
            (folder / "file").write_bytes(b"x" * 1000)

        found = []
        threads = [threading.Thread(target=lambda: found.append(cache.get(cache.key("a"), make))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({entry for entry, _ in found}), 1)
        self.assertEqual(os.listdir(found[0][0]), ["file"])

        def fail(folder):
            (folder / "half").write_bytes(b"x")
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            cache.get(cache.key("b"), fail)
        self.assertEqual(entries(), [cache.key("a")])
        self.assertEqual([path for path in (FOLDER / "cache").iterdir() if path.name.startswith("new-")], [])
        os.environ["TRAINC_CACHE_SIZE"] = "2500"
        try:
            for name in "bcd":
                time.sleep(0.01)
                cache.get(cache.key(name), make)
        finally:
            del os.environ["TRAINC_CACHE_SIZE"]
        self.assertEqual(entries(), sorted([cache.key("c"), cache.key("d")]))

    def test_what_is_damaged_is_made_again(self):
        def damage(file):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data)

        def replace(file):
            shutil.rmtree(file.parent)
            file.parent.write_text("no folder")

        trainc.compile(MODEL, lr=0.01, **TARGET)
        for hurt in (damage, lambda file: os.truncate(file, 100), os.unlink, replace):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                hurt(FOLDER / "cache" / entries()[0] / "model.tpk")
                self.assertGreater(trainc.compile(MODEL, lr=0.01, **TARGET)(DATA), 0)
            self.assertEqual(["is damaged and made again" in str(each.message) for each in told], [] if hurt is replace else [True])
            self.assertEqual(len(entries()), 1)

    def test_a_full_disk(self):
        def make(folder):
            with open("/dev/full", "wb") as file:
                file.write(b"x" * 100000)

        with self.assertRaisesRegex(trainc.Error, r"cannot be written \(No space left on device\): set TRAINC_CACHE to another folder"):
            cache.get(cache.key("e"), make)
        self.assertEqual(entries(), [])
        os.environ["TRAINC_CACHE_SIZE"] = "lots"
        try:
            with self.assertRaisesRegex(trainc.Error, "TRAINC_CACHE_SIZE: expected a number of bytes, got 'lots'"):
                trainc.compile(MODEL, **TARGET)
        finally:
            del os.environ["TRAINC_CACHE_SIZE"]

    def test_processes(self):
        code = f"import trainc; print(trainc.compile({str(MODEL)!r}, lr=0.25, target='cpu:x86-64-v3').package.path)"
        ran = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        paths = {process.communicate(timeout=120)[0] for process in ran}
        self.assertEqual((len(paths), [process.returncode for process in ran]), (1, [0, 0, 0]))

    def test_a_folder_that_cannot_be_written(self):
        os.environ["TRAINC_CACHE"] = "/proc/none"
        try:
            with self.assertRaisesRegex(trainc.Error, "the cache '/proc/none' cannot be written.*cache=False"):
                trainc.compile(MODEL, **TARGET)
        finally:
            os.environ["TRAINC_CACHE"] = str(FOLDER / "cache")


class Insight(unittest.TestCase):
    def setUp(self):
        self.session = trainc.compile(MODEL, lr=0.01, **TARGET)

    def test_report(self):
        symbol = self.session.package.batch_symbol
        small, large = (self.session.report({symbol: rows}) for rows in (4, 400))
        self.assertLess(small["peak_bytes"], large["peak_bytes"])
        self.assertRegex(repr(small), rf"^a step needs .* \({symbol} 4; ")
        self.assertIn("activations", repr(small))
        self.assertIn("srcdoc=", small._repr_html_())
        self.assertIn("<html", small.html)
        self.assertEqual(json.loads(json.dumps(dict(small)))["target"], small["target"])
        with self.assertRaisesRegex(trainc.CompileError, "no input has a dimension 'nothing'"):
            self.session.report(nothing=3)
        with self.assertRaisesRegex(trainc.OptionError, rf"give a size for {symbol}, as in report\({symbol}=32\)"):
            self.session.report()

    def test_explain(self):
        decisions = self.session.explain()
        self.assertTrue(decisions)
        first = decisions[0]
        self.assertIn(first, decisions.of(first.pass_name, first.kind))
        self.assertFalse(decisions.of("no pass"))
        self.assertIn(f"{len(decisions)} decisions of ", repr(decisions))
        self.assertIn(f"<td>{first.pass_name}</td>", decisions._repr_html_())

    def test_memory(self):
        self.session.step(DATA)
        memory = self.session.memory()
        self.assertRegex(repr(memory), r"KiB  total\n")
        self.assertIn("<td>total</td>", memory._repr_html_())
        self.assertEqual(trainrt.package.bytes_text(3 << 29), "1.5 GiB")

    def test_a_model_that_is_gone(self):
        moved = FOLDER / "moved.onnx"
        shutil.copy(MODEL, moved)
        session = trainc.compile(moved, cache=False, **TARGET)
        moved.unlink()
        with self.assertRaisesRegex(trainc.OptionError, "moved.onnx', which was compiled, is gone"):
            session.explain()


class Shown(unittest.TestCase):
    def test_a_line_that_goes(self):
        file = io.StringIO()
        with Progress(file, delay=0.01) as progress:
            progress("compiling mlp")
            time.sleep(0.1)
        self.assertRegex(file.getvalue(), r"\rcompiling mlp \(0\.\d s\)")
        self.assertEqual(file.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip(), "")
        quick = io.StringIO()
        with Progress(quick) as progress:
            progress("compiling mlp")
        self.assertEqual(quick.getvalue(), "")
        with Progress(False) as progress:
            progress("nothing")
        self.assertIsNone(progress._thread)

    def test_verbose(self):
        code = f"import trainc; trainc.compile({str(MODEL)!r}, verbose=True, cache=False, target='cpu:x86-64-v3')"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertIn("trains 8 parameters", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
