#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random nodes with random inputs and attributes: legalization says yes or no, and never crashes.

  fuzz_nodes.py MAKE_ONNX FOLDER MODELS      (trainc-translate and trainc-opt are on the path)
"""

import pathlib
import random
import re
import subprocess
import sys

OPERATORS = """Abs Add And ArgMax Attention Cast CastLike Ceil Clip Concat ConcatFromSequence Constant ConstantOfShape Cos
CumSum Div Dropout Elu Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual
HardSigmoid HardSwish Identity IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min
Mish Mod Mul Neg NegativeLogLikelihoodLoss Not OneHot Or PRelu Pad Pow RMSNormalization Range Reciprocal ReduceL1 ReduceL2
ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Selu
SequenceAt SequenceConstruct SequenceLength Shape Sigmoid Sign Sin Size Slice Softmax SoftmaxCrossEntropyLoss Softplus
Softsign Split SplitToSequence Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu Tile Transpose Trilu Unsqueeze Where
Xor""".split()
HEAD = """opset 23
input x f32[batch,seq,8]
input m f32[8,6]
input s f32[]
input i i64[batch,seq]
input b bool[batch,seq]
input h f16[8]
input z f32[0,8]
init w f32[8,6] = 0.5
init zero i64[] = 0
init two i64[] = 2
init one i64[1] = 1
init pair i64[2] = 1 2
init minus i64[1] = -1
init far i64[1] = 9223372036854775807
init near i64[1] = -9223372036854775808
init huge i64[2] = 1099511627776 1099511627776
init r f32[] = 0.5
init yes bool[] = 1
init big i64[5] = 5 1 4 2 3
"""
VALUES = "x m s i b h z w zero one pair minus far near huge r yes big shape seq".split()
ATTRIBUTES = """axis=-9 axis=0 axis=1 axis=-1 keepdims=0 perm=[0,2,1] perm=[1,0] perm=[7] to=1 to=7 to=9 to=99 alpha=0.5
transA=1 transB=1 beta=0.0 start=1 end=-1 start=-9 allowzero=1 mode="constant" mode="edge" reduction="none" reduction="sum"
ignore_index=1 axes=[0] axes=[5] num_outputs=3 batch_dims=1 batch_dims=9 exclusive=1 fmod=1 approximate="tanh" value=i64[2]:1,2
value=f32[1]:1.5 value_ints=[1,2] value_float=1.0 new_axis=1 is_causal=1 scale=0.5 noop_with_empty_axes=1 epsilon=0.1
select_last_index=1 detect_negative=0 upper=0 axis=1.5 axis="x" perm=1""".split()


# Inputs that mostly make sense: f float, m matrix, i index or integer, b boolean, s shape or axes, a any, q sequence.
KINDS = {"f": "x x x m s r h w z".split(), "m": "m w".split(), "i": "i i zero one pair big shape".split(),
         "b": "b b yes".split(), "s": "zero one pair minus far near huge shape big".split(), "q": ["seq"]}
KINDS["a"] = KINDS["f"] + KINDS["i"] + KINDS["b"]
SHAPES = {"f": "f", "ff": "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Mul PRelu Pow Sub Mod Max Min Sum Mean",
          "mm": "MatMul Gemm", "fm": "MatMul LayerNormalization RMSNormalization", "ai": "Gather GatherElements GatherND",
          "as": "Expand Reshape Tile Squeeze Unsqueeze Split SplitToSequence CumSum Pad ReduceSum ReduceMax ReduceMean",
          "ass": "Slice", "asss": "Slice", "bb": "And Or Xor", "b": "Not", "baa": "Where", "sss": "Range", "qi": "SequenceAt",
          "q": "ConcatFromSequence SequenceLength", "s": "ConstantOfShape", "ii": "Add Mul Sub Div Mod Equal Less Max Min",
          "fff": "Clip", "aa": "Concat CastLike SequenceConstruct", "fi": "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss"}


def sensible(rng):
    """An operator and inputs of the right kinds."""
    kinds = rng.choice(list(SHAPES))
    operator = rng.choice([o for o in OPERATORS if o[0] in "CERSTLF"] if kinds == "f" else SHAPES[kinds].split())
    return operator, [rng.choice(KINDS[k]) for k in kinds]


def model(rng, count):
    lines, values = [HEAD, "node Shape(x) -> shape", "node SplitToSequence(m, two) -> seq axis=1"], list(VALUES)
    for n in range(count):
        operator, inputs = sensible(rng)
        if rng.random() < 0.3:
            operator = rng.choice(OPERATORS)
            inputs = [rng.choice(values + ["_"]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]))]
        elif len(values) > len(VALUES) and rng.random() < 0.5:
            inputs[0] = rng.choice(values[len(VALUES):])
        outputs = [f"v{n}"] + [f"v{n}_{k}" for k in range(rng.choice([0, 0, 0, 0, 0, 0, 0, 1, 2]))]
        attributes = {a.split("=")[0]: a for a in rng.sample(ATTRIBUTES, rng.choice([0, 0, 1, 2, 3]))}
        lines.append(f"node {operator}({', '.join(inputs)}) -> {', '.join(outputs)} "
                     + " ".join(attributes.values()))
        lines += [f"output {o} f32" for o in outputs]
        if rng.random() < 0.3:
            values.append(outputs[0])
    return "\n".join(lines) + "\n"


def main():
    make, folder, models = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    folder.mkdir(parents=True, exist_ok=True)
    problems, legal = [], 0
    for number in range(models):
        text = model(random.Random(seed * 1000 + number), 40)
        source, onnx, mlir = (folder / f"m.{e}" for e in ("txt", "onnx", "mlir"))
        source.write_text(text)
        subprocess.run([sys.executable, make, source, onnx], check=True)
        subprocess.run(["trainc-translate", "--import-onnx", onnx, "--mlir-print-debuginfo", "-o", mlir], check=True)
        # Nodes that are refused go, until what is left is legal: then the result must verify, too.
        for _ in range(30):
            command = ["trainc-opt", "--legalize-onnx=inference", mlir, "-o", folder / "out.mlir"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            refused = set(re.findall(r"error: node '(\w+)#(\d+)'", done.stderr))
            if done.returncode not in (0, 1) or "train." in done.stderr:
                (folder / f"bad{number}.txt").write_text(text)
                problems.append(f"model {seed}/{number}: exit code {done.returncode}\n{done.stderr[:2000]}")
            sequences = re.findall(r"the output '(\w+)' is a sequence", done.stderr)
            for name in sequences:
                text = text.replace(f"\noutput {name} f32\n", "\n")
            if done.returncode == 0 or not (refused or sequences):
                legal += text.count("\nnode ") - 2
                break
            text = drop(text, {int(i) for _, i in refused})
            source.write_text(text)
            subprocess.run([sys.executable, make, source, onnx], check=True)
            subprocess.run(["trainc-translate", "--import-onnx", onnx, "--mlir-print-debuginfo", "-o", mlir], check=True)
    print(f"{legal} legal nodes")
    if problems:
        sys.exit("\n".join(problems))


def drop(text, refused):
    """The model without these nodes, by position, and without what uses their results."""
    nodes, lines, gone = 0, [], set()
    for line in text.splitlines():
        if line.startswith("node "):
            head, tail = line.split(" -> ")
            outputs = [word for word in re.split(r"[\s,]+", tail) if word and "=" not in word]
            used = set(re.split(r"[\s,()]+", head)[2:])
            position, nodes = nodes, nodes + 1
            if position in refused or used & gone:
                gone |= set(outputs)
                continue
        elif line.startswith("output ") and line.split()[1] in gone:
            continue
        lines.append(line)
    if not any(line.startswith("output ") for line in lines):
        lines.append("output shape i64[3]")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
