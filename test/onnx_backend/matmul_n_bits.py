# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""com.microsoft's MatMulNBits: `matmul_n_bits.py --build DIR [--onnxruntime]`.

Every number of bits, with zero points of codes, of numbers and without, rows of groups in any order, a
bias, and sizes that are no multiple of a block: results and gradients against NumPy, in one training model
in f64. Then one with more codes than are looked at while compiling, in f32 and in f16. --onnxruntime
also compares NumPy with that, whose CPU kernel leaves out zero points of codes beside groups in any order (1.31.1).
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

DOUBLE, MICROSOFT = TensorProto.DOUBLE, "com.microsoft"


def unpack(codes, bits, count):
    """The first `count` codes of each row of bytes."""
    parts = [(codes >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return numpy.stack(parts, -1).reshape(len(codes), -1)[:, :count].astype(float)


class Case:
    def __init__(self, rng, rows, columns, bits, block, zeros="", groups=False, bias=False, left=(3,), kind=numpy.float64):
        blocks = -(-columns // block)
        self.how = {"N": rows, "K": columns, "bits": bits, "block_size": block}
        self.x = rng.standard_normal((*left, columns)).astype(kind)
        codes = rng.integers(0, 256, (rows, blocks, block * bits // 8)).astype(numpy.uint8)
        scales = (0.1 + rng.random((rows, blocks))).astype(kind)
        self.inputs = [codes, scales.reshape(-1) if bias else scales, None, None, None]
        zero = numpy.full((rows, blocks), 2.0 ** (bits - 1))
        if zeros == "packed":
            self.inputs[2] = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(numpy.uint8)
            zero = unpack(self.inputs[2], bits, blocks)
        elif zeros == "numbers":
            self.inputs[2] = rng.uniform(0, 2**bits, (rows, blocks)).astype(kind)
            zero = self.inputs[2].astype(float)
        group = numpy.arange(columns) // block
        if groups:
            group = rng.permutation(group)
            self.inputs[3] = group.astype(numpy.int32)
        if bias:
            self.inputs[4] = rng.standard_normal(rows).astype(kind)
        self.weight = (unpack(codes.reshape(rows, -1), bits, columns) - zero[:, group]) * scales.astype(float)[:, group]
        self.y = self.x.astype(float) @ self.weight.T + (self.inputs[4] if bias else 0)

    def node(self, i):
        """The node and its tensors, by name; x and the bias may be trained."""
        names = [f"{n}{i}" for n in ("x", "codes", "scales", "zeros", "groups", "bias")]
        tensors = dict(zip(names, [self.x, *self.inputs]))
        given = ["" if tensors[n] is None else n for n in names]
        node = helper.make_node("MatMulNBits", given, [f"y{i}"], domain=MICROSOFT, **self.how)
        return node, {n: v for n, v in tensors.items() if v is not None}


def make_model(nodes, inputs, outputs, tensors):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, n) for n, v in tensors.items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check_training(trainc, library, rng):
    cases = [
        Case(rng, 5, 37, 4, 16), Case(rng, 7, 37, 4, 16, "packed", left=(2, 3)), Case(rng, 3, 40, 4, 32, "numbers", bias=True),
        Case(rng, 5, 37, 8, 16, "packed", groups=True), Case(rng, 6, 64, 8, 64, bias=True), Case(rng, 5, 50, 4, 16, "packed", groups=True),
        Case(rng, 5, 70, 2, 16, "packed"), Case(rng, 9, 33, 2, 32), Case(rng, 1, 16, 4, 128, left=()), Case(rng, 5, 81, 4, 16, "numbers", groups=True),
    ]
    nodes, outputs, tensors, parameters, seeds = [], [], {}, [], []
    for i, case in enumerate(cases):
        node, own = case.node(i)
        seeds.append(rng.standard_normal(case.y.shape))
        tensors |= own | {f"w{i}": seeds[i]}
        parameters += [n for n in own if n.startswith(("x", "bias"))]
        nodes += [node, helper.make_node("Mul", [f"y{i}", f"w{i}"], [f"p{i}"]), helper.make_node("ReduceSum", [f"p{i}"], [f"s{i}"], keepdims=0)]
        outputs.append(helper.make_tensor_value_info(f"y{i}", DOUBLE, case.y.shape))
    nodes.append(helper.make_node("Sum", [f"s{i}" for i in range(len(cases))], ["loss"]))
    outputs.append(helper.make_tensor_value_info("loss", DOUBLE, []))
    model = make_model(nodes, [], outputs, tensors)
    helper.set_model_props(model, {"trainable": "\n".join(parameters)})
    with tempfile.TemporaryDirectory() as folder:
        session = Session(library, compile_model(trainc, model, folder, ["--optimizer", "sgd"]), {})
        try:
            found = library._evaluate(session.package, session.session, {}, [f"y{i}" for i in range(len(cases))])
            gradients = session.gradients(parameters)
        finally:
            session.close()
    for i, case in enumerate(cases):
        wanted = {f"x{i}": seeds[i] @ case.weight, f"bias{i}": seeds[i].reshape(-1, seeds[i].shape[-1]).sum(0)}
        for what, a, b in [("result", found[i], case.y), *((n, gradients[n], v) for n, v in wanted.items() if n in gradients)]:
            if not numpy.abs(a - b).max() < 1e-12 * max(1, numpy.abs(b).max()):
                return f"{case.how}, {what}: off by {numpy.abs(a - b).max()}"
    return None


def check_large(trainc, library, rng):
    """301 * 512 codes are 77 kB."""
    for kind, limit in ((numpy.float32, 1e-5), (numpy.float16, 2e-2)):
        case = Case(rng, 301, 500, 4, 32, "packed", kind=kind, left=(2,))
        node, tensors = case.node(0)
        x = tensors.pop("x0")
        number = helper.np_dtype_to_tensor_dtype(x.dtype)
        model = make_model([node], [helper.make_tensor_value_info("x0", number, ["rows", 500])],
                           [helper.make_tensor_value_info("y0", number, ["rows", 301])], tensors)
        with tempfile.TemporaryDirectory() as folder:
            found = library.predict(compile_model(trainc, model, folder), {"x0": x}, ["y0"])[0].astype(float)
        error = numpy.abs(found - case.y).max() / numpy.abs(case.y).max()
        if not error < limit:
            return f"{case.how}, {kind.__name__}: off by {error}"
    return None


def check_reference(rng):
    """NumPy against ONNX Runtime."""
    import onnxruntime

    for case in (
        Case(rng, 5, 37, 4, 16, kind=numpy.float32), Case(rng, 7, 37, 4, 32, "packed", kind=numpy.float32, left=(2, 3)),
        Case(rng, 5, 50, 4, 16, groups=True, kind=numpy.float32), Case(rng, 3, 40, 4, 32, "numbers", kind=numpy.float32),
        Case(rng, 5, 50, 8, 16, "packed", kind=numpy.float32), Case(rng, 6, 64, 4, 16, bias=True, kind=numpy.float32),
    ):
        node, tensors = case.node(0)
        x = tensors.pop("x0")
        model = make_model([node], [helper.make_tensor_value_info("x0", 1, x.shape)], [helper.make_tensor_value_info("y0", 1, None)], tensors)
        found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x0": x})[0]
        print(case.how, "NumPy and ONNX Runtime differ by", numpy.abs(found - case.y).max() / numpy.abs(case.y).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    parser.add_argument("--onnxruntime", action="store_true", help="compare NumPy with ONNX Runtime")
    options = parser.parse_args()
    trainc = os.path.join(options.build, "bin", "trainc")
    library = Library(os.path.join(options.build, "lib", "libtrainrt.so"))
    rng = numpy.random.default_rng(9)
    if options.onnxruntime:
        check_reference(rng)
    wrong = check_training(trainc, library, rng) or check_large(trainc, library, rng)
    if wrong:
        print("WRONG", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
