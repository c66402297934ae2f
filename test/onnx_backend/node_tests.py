# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ONNX's own node tests (onnx.backend.test) through trainc and prints what came of them.

    node_tests.py --build DIR [--shard I/N] [--jobs N] [--filter REGEX] [--reasons] [--update]

Every test passes (outputs equal at ONNX's tolerances), is refused (trainc says which operator, value
or opset it does not support), or fails (wrong numbers, a crash, a refusal without a name). It ends
with an error if any test fails, or if the tests about floats and integers that are refused are not
those in refused.txt beside this file, which --update writes anew.
"""

import argparse
import collections
import glob
import multiprocessing
import os
import re
import sys

import numpy
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from backend import Fault, Refusal, TraincBackend
from runtime import Library, RuntimeFailure

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = "float and integer"
PLAIN = {
    TensorProto.DataType.Value(name)
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64"),
        *("UINT8", "UINT16", "UINT32", "UINT64"),
    )
}
QUANTISED = re.compile("[Qq]uantize|QLinear|ConvInteger|MatMulInteger")
# Their stored outputs are those of NumPy's generator, which no other implementation has.
RANDOM = re.compile("^test_(bernoulli|random|training_dropout)")
REFUSED_HEAD = """# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Node tests about floats and integers that trainc refuses; made by node_tests.py --update.
"""


def inverse_transform(x, *_):
    """Of complex numbers along axis 1, in doubles."""
    y = numpy.fft.ifft(x[..., 0].astype(float) + 1j * x[..., 1], axis=1)
    return [numpy.stack((y.real, y.imag), axis=-1).astype(x.dtype)]


# Stored outputs that are off by more than the tolerance: they were computed in complex64, where zeros come out as
# 2e-7. They are computed anew, and compared at the same tolerance.
INEXACT = {
    "test_dft_inverse": inverse_transform,
    "test_dft_inverse_opset19": inverse_transform,
}
# How a refusal names what it refuses.
NAMES = re.compile(r"node '.*?' \((\S+?), opset \d+\): |((?:input|output|initializer) '.*?')|(opset \d+)")


class Case:
    """One node test: a model and its data sets."""

    def __init__(self, test):
        self.name = test.name
        self.rtol, self.atol = test.rtol, test.atol
        self.folder = test.model_dir
        self.model = onnx.load(os.path.join(test.model_dir, "model.onnx"))

    def data(self):
        """(inputs, outputs) of every data set."""

        def read(folder, kind):
            count = len(glob.glob(os.path.join(folder, kind + "_*.pb")))
            arrays = []
            for i in range(count):
                tensor = TensorProto()
                with open(os.path.join(folder, f"{kind}_{i}.pb"), "rb") as file:
                    tensor.ParseFromString(file.read())
                arrays.append(numpy_helper.to_array(tensor))
            return arrays

        for folder in sorted(glob.glob(os.path.join(self.folder, "test_data_set_*"))):
            inputs, outputs = read(folder, "input"), read(folder, "output")
            yield inputs, INEXACT[self.name](*inputs) if self.name in INEXACT else outputs

    def category(self):
        """NUMBERS, or why the test is about something else."""
        if any(o.domain.startswith("ai.onnx.") for o in self.model.opset_import):
            return "another domain"
        if any(QUANTISED.search(node.op_type) for node in self.model.graph.node):
            return "quantised"
        if RANDOM.match(self.name):
            return "random"
        for value in (*self.model.graph.input, *self.model.graph.output):
            if not value.type.HasField("tensor_type"):
                return "sequence or optional"
            element = value.type.tensor_type.elem_type
            if element == TensorProto.STRING:
                return "string"
            if element in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
                return "complex"
            if element not in PLAIN:
                return "float8 and narrower"
        return NUMBERS


def outcome(case):
    """("passed" | "folded" | "refused" | "failed", text)"""
    rep = TraincBackend.prepare(case.model)
    category = case.category()
    try:
        if category not in (NUMBERS, "quantised", "random", "another domain"):
            rep.compile()
            return "failed", "trainc compiled values that the runtime does not have"
        for inputs, expected in case.data():
            results = rep.run(inputs)
            if category == "random":
                kinds = [[(a.shape, a.dtype) for a in arrays] for arrays in (results, expected)]
                numpy.testing.assert_equal(*kinds)
                continue
            with numpy.errstate(all="ignore"):
                Runner.assert_similar_outputs(expected, results, case.rtol, case.atol)
    except Refusal as refusal:
        named = NAMES.search(str(refusal))
        if not named:
            return "failed", "refused without a name: " + str(refusal)
        return "refused", str(refusal)
    except (AssertionError, Fault, RuntimeFailure) as error:
        return "failed", str(error)
    return ("folded" if rep.folded else "passed"), " ".join(rep.folded)


def guarded(case):
    """outcome() in a process of its own, so that a crash is a result."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            writer.send(outcome(case))
        except BaseException as error:  # the parent has to hear of everything
            writer.send(("failed", f"{type(error).__name__}: {error}"))
        os._exit(0)
    writer.close()
    try:
        result = reader.recv()
    except EOFError:
        result = None
    status = os.waitpid(child, 0)[1]
    return result or ("failed", f"the process ended with status {status}")


def run_all(cases, jobs):
    """Outcomes by name."""
    if jobs == 1:
        return {case.name: guarded(case) for case in cases}
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        return dict(zip((c.name for c in cases), pool.map(guarded, cases, chunksize=4)))


def print_table(cases, results):
    """One row a category."""
    rows = collections.defaultdict(collections.Counter)
    for case in cases:
        rows[case.category()][results[case.name][0]] += 1
    print(f"{'tests':22} {'passed':>7} {'folded':>7} {'refused':>8} {'failed':>7} {'of':>6}")
    for category in sorted(rows, key=lambda c: (c != NUMBERS, c)):
        row = rows[category]
        print(
            f"{category:22} {row['passed'] + row['folded']:7} {row['folded']:7} {row['refused']:8}"
            f" {row['failed']:7} {sum(row.values()):6}"
        )
    return rows


def print_reasons(cases, results):
    """What refusals of numbers have in common, the most frequent first."""
    reasons = collections.Counter()
    for case in cases:
        kind, text = results[case.name]
        if kind == "refused" and case.category() == NUMBERS:
            first = text.splitlines()[0]
            named = NAMES.search(first)
            reasons[(named.group(1) or named.group(0)) + ": " + first[named.end() :]] += 1
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath, help="the build folder")
    parser.add_argument("--shard", default="0/1", help="I/N: the tests number I, I + N, ...")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--filter", default="", help="expression of the tests' names")
    parser.add_argument("--reasons", action="store_true", help="why tests were refused, and how many")
    parser.add_argument("--update", action="store_true", help="write refused.txt anew")
    options = parser.parse_args()
    if options.update and (options.filter or options.shard != "0/1"):
        parser.error("--update writes all of refused.txt: it goes without --filter and --shard")
    library = Library(os.path.join(options.build, "lib", "libtrainrt.so"))
    TraincBackend.configure(os.path.join(options.build, "bin", "trainc"), library)

    index, count = (int(part) for part in options.shard.split("/"))
    tests = sorted(load_model_tests(kind="node"), key=lambda test: test.name)[index::count]
    cases = [Case(test) for test in tests if re.search(options.filter, test.name)]
    results = run_all(cases, options.jobs)

    path = os.path.join(HERE, "refused.txt")
    refused = {c.name for c in cases if results[c.name][0] == "refused" and c.category() == NUMBERS}
    if options.update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(REFUSED_HEAD + "".join(name + "\n" for name in sorted(refused)))
    with open(path, encoding="utf-8") as file:
        known = {line.strip() for line in file if not line.startswith("#")}
    bad = 0
    for case in cases:
        kind, text = results[case.name]
        if kind == "failed":
            print(f"FAILED {case.name}: {text}")
        elif case.name in refused - known:
            print(f"REFUSED, but not in refused.txt: {case.name}: {text}")
        elif case.name in known - refused:
            print(f"PASSED, but in refused.txt (--update): {case.name}")
        else:
            continue
        bad += 1
    print_table(cases, results)
    if options.reasons:
        print_reasons(cases, results)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
