# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of ONNX operators, through the whole compiler, against central differences.

    gradients.py --build DIR [--shard I/N] [--filter REGEX]

One node test of every ONNX operator that `trainc-translate --list-operators` says has a gradient is made a
training model in f64: its float inputs become trainable initializers, the loss is the sum of its float
outputs times fixed random numbers. Along random directions the difference quotient of the loss has to
be the gradient's product with the direction.
"""

import argparse
import ctypes
import os
import re
import sys
import tempfile
from ctypes import byref, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from backend import Fault, Refusal, compile_model, fold, foldings, list_operators, NAMES_INPUT
from node_tests import NUMBERS, Case
from runtime import Batch, Library, NamedTensor, RuntimeFailure, SessionOptions, Tensor, DTYPES

DIRECTIONS = 3
STEP = 1e-5
TOLERANCE = 2e-6
# Tests of these operators whose own data cannot tell; another test of the operator is taken.
UNFIT = re.compile(
    "_expanded|empty_set|zero_size|nan|_inf$|inf_|dropout|int|bcast_scalar_noop|training_mode"
)
# Why an operator that has a gradient is not tested here.
UNTESTED = {
    "Cast": "its node tests change types",
    "CastLike": "its node tests change types",
    "DequantizeLinear": "behind QuantizeLinear only; tested by test/e2e/exported_forms.py",
    "Dropout": "random; tested by test/e2e",
    "GlobalLpPool": "no node test; LpPool is the same",
    "If": "its node tests have constants only; its branch is walked like the graph",
    "Loop": "its node tests count in integers; its body is walked like the graph",
    "ConcatFromSequence": "its node tests give sequences, which the runtime does not have",
    "SequenceAt": "as ConcatFromSequence",
    "SequenceConstruct": "as ConcatFromSequence",
    "SequenceEmpty": "as ConcatFromSequence",
    "SequenceErase": "as ConcatFromSequence",
    "SequenceInsert": "as ConcatFromSequence",
    "SplitToSequence": "as ConcatFromSequence",
    "OptionalGetElement": "the same value",
}
# Float inputs, by position, that are no data (sizes, positions, running statistics); they stay constants.
CONSTANT = {"OneHot": [0, 1], "Pad": [2], "Resize": [1, 2], "Upsample": [1], "BatchNormalization": [3, 4]}
# Those of them whose type is that of the data.
TYPED = ("Pad", "BatchNormalization")
# Operators whose node tests move integers, which may as well be reals: the positions of the inputs.
MOVES = {"Trilu": [0], "Gather": [0]}
OPTIONS = {"BatchNormalization": ["--batchnorm", "frozen"]}


class StepResult(ctypes.Structure):
    """trainrt_step_result"""

    _fields_ = [
        ("size", c_size_t),
        ("step", c_int64),
        ("loss", c_double),
        ("lr", c_double),
        ("milliseconds", c_double),
        ("peak_bytes", c_uint64),
        ("nonfinite", c_int32),
        ("wait_milliseconds", c_double),
    ]


class EvalResult(ctypes.Structure):
    """trainrt_eval_result"""

    _fields_ = [
        ("size", c_size_t),
        ("loss", c_double),
        ("milliseconds", c_double),
        ("peak_bytes", c_uint64),
    ]


def is_real(value):
    return value.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE)


def training_model(case, rng):
    """(model, values of the parameters, values of the other inputs), or None if nothing is a float."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    inputs, outputs = next(case.data())
    values = dict(zip((i.name for i in graph.input), inputs))
    node = graph.node[0]
    for position in MOVES.get(node.op_type, []):
        for value in (*graph.output, *(i for i in graph.input if i.name == node.input[position])):
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    fixed = [node.input[i] for i in CONSTANT.get(node.op_type, []) if i < len(node.input)]
    fixed = {name: values.pop(name) for name in fixed if name}
    if node.op_type in TYPED:
        fixed = {name: value.astype(numpy.float64) for name, value in fixed.items()}
    model = fold(model, list(fixed), fixed)
    graph = model.graph
    floats = [i.name for i in graph.input if is_real(i) and values[i.name].size]
    weighted = [(o, y) for o, y in zip(graph.output, outputs) if is_real(o) and y.size]
    if not floats or not weighted:
        return None
    for value in (*graph.input, *graph.output, *graph.value_info):
        if is_real(value):
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    parameters = {name: values.pop(name).astype(numpy.float64) for name in floats}
    model = fold(model, floats, parameters)
    graph = model.graph
    terms = []
    for output, value in weighted:
        weight = rng.standard_normal(value.shape)
        graph.initializer.append(numpy_helper.from_array(weight, "loss_weight_" + output.name))
        product, term = "loss_product_" + output.name, "loss_term_" + output.name
        graph.node.append(helper.make_node("Mul", [output.name, "loss_weight_" + output.name], [product]))
        graph.node.append(helper.make_node("ReduceSum", [product], [term], keepdims=0))
        terms.append(term)
    graph.node.append(helper.make_node("Sum", terms, ["weighted_loss"]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("weighted_loss", TensorProto.DOUBLE, []))
    trainable = model.metadata_props.add()
    trainable.key, trainable.value = "trainable", "\n".join(floats)
    return model, parameters, values


class Session:
    """A compiled training model with its one batch."""

    def __init__(self, library, package, inputs):
        self.library, self.inputs = library, inputs
        self.package, self.session = c_void_p(), c_void_p()
        library.call("trainrt_package_open", package.encode(), byref(self.package))
        options = SessionOptions(size=ctypes.sizeof(SessionOptions), threads=1)
        library.call("trainrt_session_create", self.package, byref(options), byref(self.session))
        needed = library.names(self.package, 0)
        self.named, self.alive = (NamedTensor * max(1, len(needed)))(), []
        for slot, name in zip(self.named, needed):
            slot.name, slot.tensor = name.encode(), self._tensor(inputs[name])
        self.batch = Batch(self.named, len(needed))

    def _tensor(self, array):
        array = numpy.ascontiguousarray(array).reshape(numpy.shape(array))
        shape = (c_int64 * max(1, array.ndim))(*array.shape)
        self.alive += [array, shape]
        return Tensor(array.ctypes.data, DTYPES.index(array.dtype), array.ndim, shape)

    def gradients(self, names):
        result = StepResult(size=ctypes.sizeof(StepResult))
        arguments = (byref(self.batch), c_size_t(1), None, byref(result))
        self.library.call("trainrt_gradients", self.session, *arguments)
        found = {}
        for name in names:
            view = Tensor()
            self.library.call("trainrt_session_gradient", self.session, name.encode(), byref(view))
            shape = tuple(view.shape[i] for i in range(view.rank))
            size = int(numpy.prod(shape, dtype=numpy.int64)) * 8
            found[name] = numpy.frombuffer(ctypes.string_at(view.data, size)).reshape(shape)
        return found

    def set(self, parameters):
        for name, value in parameters.items():
            tensor = self._tensor(value)
            self.library.call("trainrt_session_set_parameter", self.session, name.encode(), byref(tensor))

    def loss(self, parameters):
        self.set(parameters)
        result = EvalResult(size=ctypes.sizeof(EvalResult))
        self.library.call("trainrt_eval", self.session, byref(self.batch), None, byref(result))
        return result.loss

    def difference(self, parameters, gradients, rng):
        """What is wrong with the gradients of these parameters along one random direction, or None."""
        direction = {n: rng.standard_normal(p.shape) for n, p in parameters.items()}

        def moved(step):
            return self.loss({n: p + step * direction[n] for n, p in parameters.items()})

        quotient = (moved(STEP) - moved(-STEP)) / (2 * STEP)
        self.set(parameters)
        terms = [(gradients[n] * direction[n]).ravel() for n in parameters]
        product = float(sum(t.sum() for t in terms))
        if not numpy.isfinite(quotient):
            return "its data lie where the function ends"
        scale = max(1.0, float(sum(numpy.abs(t).sum() for t in terms)))
        if not abs(quotient - product) <= TOLERANCE * scale:
            return f"difference quotient {quotient!r}, gradient {product!r}"
        return None

    def close(self):
        self.library.lib.trainrt_session_free(self.session)
        self.library.lib.trainrt_package_free(self.package)


def compile_training(trainc, model, inputs, folder):
    """Compiles, with inputs folded where they decide shapes; (package, inputs that are left)."""
    options = ["--optimizer", "sgd", *OPTIONS.get(model.graph.node[0].op_type, [])]
    try:
        return compile_model(trainc, model, folder, options), inputs
    except Refusal as refusal:
        first = refusal
    named = [name for name in NAMES_INPUT.findall(str(first)) if name in inputs]
    for names in ([tuple(named)] if named else []) + list(foldings(inputs)):
        try:
            package = compile_model(trainc, fold(model, names, inputs), folder, options)
            return package, {k: v for k, v in inputs.items() if k not in names}
        except Refusal as refusal:
            first = refusal
    raise first


def check(trainc, library, case, seed):
    """None, or what is wrong."""
    rng = numpy.random.default_rng(seed)
    made = training_model(case, rng)
    if made is None:
        return "it has no float input and output"
    model, parameters, inputs = made
    with tempfile.TemporaryDirectory() as folder:
        package, inputs = compile_training(trainc, model, inputs, folder)
        session = Session(library, package, inputs)
        try:
            gradients = session.gradients(parameters)
            for _ in range(DIRECTIONS):
                if wrong := session.difference(parameters, gradients, rng):
                    return wrong
        finally:
            session.close()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    parser.add_argument("--shard", default="0/1", help="I/N: operators number I, I + N, ...")
    parser.add_argument("--filter", default="", help="expression of the operators' names")
    options = parser.parse_args()
    binaries = os.path.join(options.build, "bin")
    library = Library(os.path.join(options.build, "lib", "libtrainrt.so"))
    operators = sorted(row[0] for row in list_operators(options.build) if row[3] == "yes" and onnx.defs.has(row[0]))

    # The tests of an operator, those with the shortest names first: the plain ones.
    tests = {}
    for test in sorted(load_model_tests(kind="node"), key=lambda t: (len(t.name), t.name)):
        if UNFIT.search(test.name):
            continue
        case = Case(test)
        if len(case.model.graph.node) == 1 and case.category() == NUMBERS:
            tests.setdefault(case.model.graph.node[0].op_type, []).append(case)
    index, count = (int(part) for part in options.shard.split("/"))
    wrong = checked = 0
    for seed, operator in enumerate(operators):
        if seed % count != index or not re.search(options.filter, operator):
            continue
        if operator in UNTESTED:
            continue
        reason = "it has no node test of floats"
        for case in tests.get(operator, [])[:6]:
            try:
                reason = check(os.path.join(binaries, "trainc"), library, case, seed)
            except (Fault, Refusal, RuntimeFailure) as error:
                reason = f"{error}"
            if reason is None or "difference quotient" in reason:
                break
        checked += 1
        if reason:
            wrong += 1
            name = tests[operator][0].name if operator in tests else "no test"
            print(f"WRONG {operator} ({name}): {reason}")
    print(f"{checked} operators, {wrong} with wrong gradients")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
