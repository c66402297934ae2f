# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DFT from one side of a spectrum, and STFT: `signals.py --build DIR`.

Odd and even lengths, spectra that are cut or filled up, several axes; frames with and without a window,
of real and complex signals, overlapping, apart, and with a rest. All in one training model in f64,
compared with NumPy; gradients with difference quotients. Then frames of a signal whose length only the
data have.
"""

import argparse
import os
import sys
import tempfile

import numpy
from onnx import TensorProto, helper, numpy_helper

from backend import compile_model
from gradients import Session
from runtime import Library

DOUBLE = TensorProto.DOUBLE


def frames(x, step, window, onesided):
    """STFT of [batch, length] in NumPy."""
    length = len(window)
    starts = range(0, x.shape[1] - length + 1, step)
    parts = numpy.stack([x[:, s : s + length] * window for s in starts], 1)
    y = numpy.fft.rfft(parts, axis=2) if onesided else numpy.fft.fft(parts, axis=2)
    return numpy.stack([y.real, y.imag], -1)


def cases(rng):
    """(operator, inputs, which are constants, attributes, results)"""
    for shape, axis, length in (((2, 5), 1, None), ((2, 5), 1, 9), ((2, 5), 1, 6), ((3, 4, 2), 1, 11), ((3, 4, 2), 0, 4), ((2, 1), 1, 1)):
        x = rng.standard_normal((*shape, 2))
        y = numpy.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=axis)[..., None]
        size = [] if length is None else [numpy.array(length)]
        yield "DFT", [x, *(size or [None]), numpy.array(axis)], {"inverse": 1, "onesided": 1}, y
    window = rng.random(5)
    x = rng.standard_normal((2, 17))
    yield "STFT", [x, numpy.array(3), (window,)], {}, frames(x, 3, window, True)
    yield "STFT", [x[..., None], numpy.array(4), None, numpy.array(6)], {}, frames(x, 4, numpy.ones(6), True)
    yield "STFT", [x[..., None], numpy.array(7), (window,), numpy.array(5)], {"onesided": 0}, frames(x, 7, window, False)
    z = rng.standard_normal((2, 12, 2))
    yield "STFT", [z, numpy.array(2), (window,)], {"onesided": 0}, frames(z[..., 0] + 1j * z[..., 1], 2, window, False)


def check_all(trainc, library):
    rng = numpy.random.default_rng(5)
    nodes, outputs, values, wanted, terms = [], [], {}, {}, []
    for i, (kind, inputs, how, y) in enumerate(cases(rng)):
        names = []
        for k, value in enumerate(inputs):
            names.append("" if value is None else f"x{i}" if k == 0 else f"c{i}_{k}")
            if value is not None:
                values[names[-1]] = value[0] if isinstance(value, tuple) else value
        values[f"w{i}"] = rng.standard_normal(y.shape)
        nodes += [
            helper.make_node(kind, names, [f"y{i}"], **how),
            helper.make_node("Mul", [f"y{i}", f"w{i}"], [f"p{i}"]),
            helper.make_node("ReduceSum", [f"p{i}"], [f"s{i}"], keepdims=0),
        ]
        outputs.append(helper.make_tensor_value_info(f"y{i}", DOUBLE, y.shape))
        terms.append(f"s{i}")
        wanted[f"y{i}"] = y
    nodes.append(helper.make_node("Sum", terms, ["loss"]))
    outputs.append(helper.make_tensor_value_info("loss", DOUBLE, []))
    parameters = [n for n in values if n.startswith("x")]
    graph = helper.make_graph(nodes, "g", [], outputs, [numpy_helper.from_array(v, n) for n, v in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    helper.set_model_props(model, {"trainable": "\n".join(parameters)})
    with tempfile.TemporaryDirectory() as folder:
        session = Session(library, compile_model(trainc, model, folder, ["--optimizer", "sgd"]), {})
        try:
            found = library._evaluate(session.package, session.session, {}, list(wanted))
            gradients = session.gradients(parameters)
            for node, (name, y), a in zip(nodes[::3], wanted.items(), found):
                if a.shape != y.shape or not numpy.abs(a - y).max() < 1e-12:
                    return f"{node.op_type} {name}: {a.shape} of {y.shape}, off by {numpy.abs(a - y).max()}"
                x = "x" + name[1:]
                if wrong := session.difference({x: values[x]}, gradients, rng):
                    return f"{node.op_type} {name}: {wrong}"
        finally:
            session.close()
    return None


def check_lengths(trainc, library):
    """A signal of any length, in f32."""
    window = numpy.hanning(8).astype(numpy.float32)
    nodes = [helper.make_node("STFT", ["x", "step", "window"], ["y"])]
    initializers = [numpy_helper.from_array(numpy.array(3), "step"), numpy_helper.from_array(window, "window")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "length", 1])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, initializers), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    with tempfile.TemporaryDirectory() as folder:
        package = compile_model(trainc, model, folder)
        for shape in ((2, 8), (1, 30)):
            x = numpy.random.default_rng(6).standard_normal(shape).astype(numpy.float32)
            found = library.predict(package, {"x": x[..., None]}, ["y"])[0]
            if not numpy.abs(found - frames(x, 3, window, True)).max() < 1e-5:
                return f"STFT of {shape}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    options = parser.parse_args()
    trainc = os.path.join(options.build, "bin", "trainc")
    library = Library(os.path.join(options.build, "lib", "libtrainrt.so"))
    wrong = check_all(trainc, library) or check_lengths(trainc, library)
    if wrong:
        print("WRONG", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
