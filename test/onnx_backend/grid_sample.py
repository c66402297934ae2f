# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GridSample and AffineGrid: `grid_sample.py --build DIR`.

One training model in f64 has a node for every mode, padding, alignment and number of axes, each with an
image and positions of its own, many of them outside. Results are compared with onnx.reference, the
gradients of both inputs with difference quotients, node by node. Then a spatial transformer of
images whose sizes only the data have.
"""

import argparse
import itertools
import os
import sys
import tempfile

import numpy
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from backend import compile_model
from gradients import Session
from runtime import Library

DOUBLE = TensorProto.DOUBLE
SHAPES = {2: ((2, 3, 5, 4), (2, 3, 3, 2)), 3: ((2, 2, 3, 4, 2), (2, 2, 1, 3, 3)), 1: ((2, 3, 1), (2, 4, 1))}


def forms():
    """(opset 20's mode, attributes, axes)"""
    for axes, mode, padding, align in itertools.product(
        (2, 3), ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
    ):
        yield mode, {"padding_mode": padding, "align_corners": align}, axes
    for padding, align in itertools.product(("border", "reflection"), (0, 1)):
        # A single pixel. It has no two corners to mirror at: onnx.reference divides by zero.
        if padding == "border" or not align:
            yield "linear", {"padding_mode": padding, "align_corners": align}, 1


def positions(rng, shape, image, align):
    """Coordinates in [-1.9, 1.9], none near where a result jumps or bends."""
    while True:
        grid = rng.uniform(-1.9, 1.9, shape)
        sizes = numpy.array(image[2:][::-1])
        at = (grid + 1) / 2 * (sizes - 1) if align else ((grid + 1) * sizes - 1) / 2
        # A single pixel with aligned corners is at 0 wherever one looks.
        if (align and sizes.max() == 1) or numpy.abs(2 * at - numpy.round(2 * at)).min() > 0.01:
            return grid


def beyond_border(mode, image, grid, how):
    """The results where pixels beyond the border are those at the border: of a wider image."""
    wide, axes = 8, image.ndim - 2
    padded = numpy.pad(image, [(0, 0), (0, 0), *[(wide, wide)] * axes], mode="edge")
    sizes, more = numpy.array(image.shape[2:][::-1]), numpy.array(padded.shape[2:][::-1])
    if how["align_corners"]:
        moved = ((grid + 1) / 2 * (sizes - 1) + wide) * 2 / (more - 1) - 1
    else:
        moved = (((grid + 1) * sizes - 1) / 2 + wide + 0.5) * 2 / more - 1
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, align_corners=how["align_corners"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, DOUBLE, None) for n in "xg"],
                              [helper.make_tensor_value_info("y", DOUBLE, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return ReferenceEvaluator(model).run(None, {"x": padded, "g": moved})[0]


def check_forms(trainc, library):
    rng = numpy.random.default_rng(11)
    nodes, outputs, values, cases, terms = [], [], {}, {}, []
    for i, (mode, how, axes) in enumerate(forms()):
        x, grid, y = f"x{i}", f"grid{i}", f"y{i}"
        image, places = SHAPES[axes]
        values[x], values[grid] = rng.standard_normal(image), positions(rng, places, image, how["align_corners"])
        result = (*image[:2], *places[1:-1])
        values[f"w{i}"] = rng.standard_normal(result)
        nodes += [
            helper.make_node("GridSample", [x, grid], [y], mode=mode, **how),
            helper.make_node("Mul", [y, f"w{i}"], [f"p{i}"]),
            helper.make_node("ReduceSum", [f"p{i}"], [f"s{i}"], keepdims=0),
        ]
        outputs.append(helper.make_tensor_value_info(y, DOUBLE, result))
        terms.append(f"s{i}")
        cases[y] = (mode, how, axes)
    nodes.append(helper.make_node("Sum", terms, ["loss"]))
    outputs.append(helper.make_tensor_value_info("loss", DOUBLE, []))
    parameters = [n for n in values if not n.startswith("w")]
    initializers = [numpy_helper.from_array(v, n) for n, v in values.items()]
    graph = helper.make_graph(nodes, "g", [], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8)
    helper.set_model_props(model, {"trainable": "\n".join(parameters)})
    wanted = ReferenceEvaluator(model).run(None, {})
    with tempfile.TemporaryDirectory() as folder:
        session = Session(library, compile_model(trainc, model, folder, ["--optimizer", "sgd"]), {})
        try:
            found = library._evaluate(session.package, session.session, {}, list(cases))
            gradients = session.gradients(parameters)
            for i, ((y, case), a, b) in enumerate(zip(cases.items(), found, wanted)):
                # onnx.reference moves positions to the border, PyTorch and ONNX Runtime only pixels, which differs here.
                if case[0] == "cubic" and case[1]["padding_mode"] == "border":
                    b = beyond_border(case[0], values[f"x{i}"], values[f"grid{i}"], case[1])
                # Positions are f32 in the evaluator.
                error = numpy.abs(a - b).max()
                if not error < 3e-5:
                    return f"{case}: off by {error}"
                for name in (f"x{i}", f"grid{i}"):
                    if wrong := session.difference({name: values[name]}, gradients, rng):
                        return f"{case}: {name[:-len(str(i))]}: {wrong}"
                    if case[0] != "nearest" and not numpy.abs(gradients[name]).max() > 0.01 and case[2] > 1:
                        return f"{case}: no gradient of {name}"
        finally:
            session.close()
    return None


def check_transformer(trainc, library):
    """theta is trained so that the image turned by it is the target."""
    rng = numpy.random.default_rng(12)
    theta = numpy.array([[[0.9, -0.2, 0.11], [0.3, 0.8, -0.07]]])
    nodes = [
        helper.make_node("Shape", ["image"], ["size"]),
        helper.make_node("Slice", ["size", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "matrix"], ["all"], axis=0),
        helper.make_node("Expand", ["theta", "all"], ["thetas"]),
        helper.make_node("AffineGrid", ["thetas", "size"], ["grid"]),
        helper.make_node("GridSample", ["image", "grid"], ["y"]),
        helper.make_node("Sub", ["y", "target"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["loss"], keepdims=0),
    ]
    constants = {"zero": [0], "one": [1], "matrix": [2, 3]}
    initializers = [numpy_helper.from_array(numpy.array(v, numpy.int64), n) for n, v in constants.items()]
    initializers.append(numpy_helper.from_array(theta, "theta"))
    shape = ["n", 2, "h", "w"]
    inputs = [helper.make_tensor_value_info(name, DOUBLE, shape) for name in ("image", "target")]
    outputs = [helper.make_tensor_value_info("loss", DOUBLE, []), helper.make_tensor_value_info("y", DOUBLE, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    helper.set_model_props(model, {"trainable": "theta"})
    with tempfile.TemporaryDirectory() as folder:
        package = compile_model(trainc, model, folder, ["--optimizer", "sgd"])
        for sizes in ((3, 2, 6, 5), (1, 2, 2, 9)):
            data = {name: rng.standard_normal(sizes) for name in ("image", "target")}
            session = Session(library, package, data)
            try:
                found = library._evaluate(session.package, session.session, data, ["loss", "y"])
                wanted = ReferenceEvaluator(model).run(None, data)
                # Positions are f32 in the evaluator.
                if not numpy.abs(found[1] - wanted[1]).max() < 1e-5:
                    return f"spatial transformer of {sizes}: off by {numpy.abs(found[1] - wanted[1]).max()}"
                if wrong := session.difference({"theta": theta}, session.gradients(["theta"]), rng):
                    return f"spatial transformer of {sizes}: {wrong}"
            finally:
                session.close()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    options = parser.parse_args()
    trainc = os.path.join(options.build, "bin", "trainc")
    library = Library(os.path.join(options.build, "lib", "libtrainrt.so"))
    wrong = check_forms(trainc, library) or check_transformer(trainc, library)
    if wrong:
        print("WRONG", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
