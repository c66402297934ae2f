# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc behind the interface of onnx.backend.base: compile with --inference, run in this process.

An ahead-of-time compiler has to know shapes. Node tests give what decides a shape (axes, pads, split
sizes, the length of a range) as graph inputs, like data. Where trainc refuses such a model because an
operand "has to be known while compiling" or "is not constant", some of its inputs are folded: they
become initializers with the value that the test gives, as few of them as it takes. Every ahead-of-time
backend does this; how many tests need it is counted. Nothing else of a model is changed.
"""

import itertools
import os
import re
import subprocess
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

WANTS_CONSTANT = re.compile(r"known while compiling|not constant|not a constant")
NAMES_INPUT = re.compile(r"the graph's input '(.*?)' would have to be an initializer")
# Operands that decide shapes are small; folding large data would leave nothing to compile.
MOST_FOLDED_ELEMENTS = 64
MOST_FOLDED_INPUTS = 4


def list_operators(build):
    """The cells of each row of the table of operators that are supported; the first one is the name."""
    command = [os.path.join(build, "bin", "trainc-translate"), "--list-operators", "/dev/null"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in rows]


class Refusal(Exception):
    """trainc said that it does not compile this model, and why."""


class Fault(Exception):
    """trainc or the runtime broke: a crash, an internal error, no reason."""


def compile_model(trainc, model, folder, options=("--inference",)):
    """Compiles into `folder` and returns the package's path; raises Refusal or Fault."""
    source, package = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.tpk")
    onnx.save(model, source)
    command = [trainc, *options, "--target", "cpu:native", source, "-o", package]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode == 0:
        return package
    errors = [line.split("error: ", 1)[1] for line in done.stderr.splitlines() if "error: " in line]
    if done.returncode != 1 or not errors:
        tail = "\n".join(done.stderr.splitlines()[-12:])
        raise Fault(f"trainc ended with {done.returncode}:\n{tail}")
    raise Refusal("\n".join(errors))


def fold(model, names, values):
    """The model with the inputs `names` as initializers."""
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    kept = [i for i in folded.graph.input if i.name not in names]
    del folded.graph.input[:]
    folded.graph.input.extend(kept)
    for name in names:
        folded.graph.initializer.append(numpy_helper.from_array(values[name], name))
    return folded


def foldings(inputs):
    """Sets of inputs to fold, the smallest first, where trainc does not say which one it needs."""
    small = [name for name, array in inputs.items() if array.size <= MOST_FOLDED_ELEMENTS]
    small.sort(key=lambda name: (inputs[name].dtype.kind not in "iub", inputs[name].size))
    for count in range(1, min(len(small), MOST_FOLDED_INPUTS) + 1):
        yield from itertools.combinations(small, count)


class TraincRep(BackendRep):
    """A model whose package is made when the inputs are known, since some may have to be folded."""

    def __init__(self, backend, model):
        self.backend, self.model, self.folded = backend, model, ()

    def compile(self):
        """Only compiles, and nothing is folded."""
        with tempfile.TemporaryDirectory() as folder:
            compile_model(self.backend.trainc, self.model, folder)

    def run(self, inputs, **kwargs):
        names = [i.name for i in self.model.graph.input]
        outputs = [o.name for o in self.model.graph.output]
        values = dict(zip(names, inputs))
        with tempfile.TemporaryDirectory() as folder:
            package = self._compile(values, folder)
            results = self.backend.library.predict(package, values, outputs)
        # Unsigned integers come in the next wider signed type.
        for index, output in enumerate(self.model.graph.output):
            if not output.type.HasField("tensor_type"):
                continue
            declared = helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
            if declared.kind == "u" and numpy.array_equal(results[index], results[index].astype(declared)):
                results[index] = results[index].astype(declared)
        return results

    def _compile(self, values, folder):
        names, refusal = [], None
        while True:  # folds what trainc names, until it is content
            try:
                package = compile_model(self.backend.trainc, fold(self.model, names, values), folder)
                self.folded = tuple(names)
                return package
            except Refusal as raised:
                refusal = raised
            named = [n for n in NAMES_INPUT.findall(str(refusal)) if n in values and n not in names]
            if not named:
                break
            names += named
        if WANTS_CONSTANT.search(str(refusal)):
            for names in foldings(values):
                try:
                    package = compile_model(self.backend.trainc, fold(self.model, names, values), folder)
                    self.folded = names
                    return package
                except Refusal as raised:
                    if not WANTS_CONSTANT.search(str(raised)):
                        refusal = raised
        raise refusal


class TraincBackend(Backend):
    """The backend; `configure` says where trainc and its runtime are."""

    trainc = None
    library = None

    @classmethod
    def configure(cls, trainc, library):
        cls.trainc, cls.library = trainc, library

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return TraincRep(cls, model)

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"
