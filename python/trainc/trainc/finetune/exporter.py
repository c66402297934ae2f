# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process that exports a model: PyTorch is imported and the graph made while this one makes tokens, and the memory goes with it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from ..errors import Error, ExportError

_MISSING = "exporting a model needs PyTorch, transformers, onnx and onnxscript ({} is missing): pip install 'trainc[hf]'; --graph MODEL.onnx needs none of them"


class Exporter:
    """One export, in a process that begins to import when `start` is called."""

    def __init__(self):
        self._process, self._folder, self._asked = None, None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process:
            self._process.kill()
            self._process.communicate()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def begun(self):
        return self._asked is not None

    def start(self):
        if not self._process:
            code = "from trainc.finetune import exporter; exporter.serve()"
            paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **paths}
            )

    def begin(self, model, options):
        """options: the keywords of pretrained.export, which JSON can say."""
        self.start()
        self._folder = tempfile.mkdtemp(prefix="trainc-export-")
        self._asked = [str(model), self._folder, options]
        # One that has ended says so when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(self._asked) + "\n")
            self._process.stdin.flush()

    def export(self, model, options, entry):
        """Fills the folder `entry` with model.onnx and what belongs to it; returns what export.json is to say. Waits for the export
        that was begun."""
        if not self.begun:
            self.begin(model, options)
        assert self._asked == [str(model), self._folder, options], "another export was begun"
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            raise Error(f"exporting the model ended with {f'signal {-code}' if code < 0 else f'exit code {code}'} (memory?)")
        said = json.loads(answer)
        if "error" in said:
            raise ExportError(said["error"])
        for file in pathlib.Path(self._folder).iterdir():
            shutil.move(file, entry / file.name)
        return said


def serve():
    """The process: reads a line [model, folder, options], writes a line with the facts of the export or {"error"}."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    missing = None
    try:
        from .. import pretrained
    except ModuleNotFoundError as error:
        missing = error.name
    line = sys.stdin.readline()
    if not line:
        return
    model, folder, options = json.loads(line)
    try:
        if missing:
            raise ExportError(_MISSING.format(missing))
        exported = pretrained.export(model, pathlib.Path(folder, "model.onnx"), absent=True, **options)
        said = {
            "count": exported.count, "dtype": str(exported.dtype).removeprefix("torch."), "fresh": exported.fresh,
            "foreign": exported.foreign, "tied": exported.tied, "config": exported.config,
        }  # fmt: skip
    except Error as error:
        said = {"error": str(error)}
    answers.write(json.dumps(said) + "\n")
    answers.flush()
