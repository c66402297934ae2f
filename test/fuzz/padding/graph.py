# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX graphs written as arithmetic: values know their graph, so `a * b + 1` adds nodes to it."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "i64": TensorProto.INT64, "bool": TensorProto.BOOL}
NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}


class Value:
    """The result of a node. Numbers beside it become constants of the graph's float type."""

    def __init__(self, graph, name, integer=False):
        self.graph, self.name, self.integer = graph, name, integer

    def _with(self, op, other, swap=False):
        if not isinstance(other, Value):
            other = self.graph.const(other, "i64" if self.integer else None)
        a, b = (other, self) if swap else (self, other)
        compares = op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        return self.graph.op(op, a, b, integer=self.integer and not compares)

    def __add__(self, other):
        return self._with("Add", other)

    def __radd__(self, other):
        return self._with("Add", other, True)

    def __sub__(self, other):
        return self._with("Sub", other)

    def __rsub__(self, other):
        return self._with("Sub", other, True)

    def __mul__(self, other):
        return self._with("Mul", other)

    def __rmul__(self, other):
        return self._with("Mul", other, True)

    def __truediv__(self, other):
        return self._with("Div", other)

    def __rtruediv__(self, other):
        return self._with("Div", other, True)

    def __matmul__(self, other):
        return self._with("MatMul", other)

    def __neg__(self):
        return self.graph.op("Neg", self, integer=self.integer)

    def __gt__(self, other):
        return self._with("Greater", other)

    def __ge__(self, other):
        return self._with("GreaterOrEqual", other)

    def __lt__(self, other):
        return self._with("Less", other)

    def __le__(self, other):
        return self._with("LessOrEqual", other)

    def equals(self, other):
        return self._with("Equal", other)

    def __and__(self, other):
        return self._with("And", other)

    def __or__(self, other):
        return self._with("Or", other)

    def __xor__(self, other):
        return self._with("Xor", other)

    def __invert__(self):
        return self.graph.op("Not", self)

    def __getattr__(self, name):
        """Functions of one value: x.exp(), x.tanh(), x.is_nan() ..."""
        if name.startswith("__"):
            raise AttributeError(name)
        op = "".join(part.capitalize() for part in name.split("_")).replace("Nan", "NaN")
        return lambda **attributes: self.graph.op(op, self, integer=self.integer, **attributes)

    def to(self, kind=None):
        """Cast; without a kind, to the graph's floats."""
        kind = kind or self.graph.dtype
        return self.graph.op("Cast", self, to=TYPES[kind], integer=kind == "i64")

    def reduce(self, how, axes, keep=False):
        axes = [axes] if isinstance(axes, int) else axes
        return self.graph.op("Reduce" + how, self, self.graph.ints(axes), keepdims=int(keep), integer=self.integer)

    def sum(self, axes, keep=False):
        return self.reduce("Sum", axes, keep)

    def mean(self, axes, keep=False):
        return self.reduce("Mean", axes, keep)

    def max(self, axes, keep=False):
        return self.reduce("Max", axes, keep)

    def min(self, axes, keep=False):
        return self.reduce("Min", axes, keep)

    def minimum(self, other):
        return self._with("Min", other)

    def maximum(self, other):
        return self._with("Max", other)

    def clip(self, low, high):
        return self.maximum(low).minimum(high)

    def unsqueeze(self, *axes):
        return self.graph.op("Unsqueeze", self, self.graph.ints(axes), integer=self.integer)

    def squeeze(self, *axes):
        return self.graph.op("Squeeze", self, self.graph.ints(axes), integer=self.integer)

    def reshape(self, *shape):
        """0 is the size that is there, as in ONNX."""
        return self.graph.op("Reshape", self, self.graph.ints(shape), integer=self.integer)

    def transpose(self, *perm):
        return self.graph.op("Transpose", self, perm=list(perm), integer=self.integer)

    def slice(self, axis, start, end):
        ints = self.graph.ints
        return self.graph.op("Slice", self, ints([start]), ints([end]), ints([axis]), integer=self.integer)

    def pad(self, axis, before, after, value=0, rank=3):
        pads = [0] * (2 * rank)
        pads[axis], pads[rank + axis] = before, after
        fill = self.graph.const(value, "i64" if self.integer else None)
        return self.graph.op("Pad", self, self.graph.ints(pads), fill, integer=self.integer)

    def softmax(self, axis=-1):
        return self.graph.op("Softmax", self, axis=axis)

    def cumsum(self, axis):
        return self.graph.op("CumSum", self, self.graph.const(axis, "i64"), integer=self.integer)


class Graph:
    def __init__(self, seed, dtype="f32"):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.nodes, self.initializers, self.trained = [], [], []
        self.inputs, self.known = {}, {}

    def op(self, kind, *inputs, outputs=1, integer=False, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, [i.name if i is not None else "" for i in inputs], names,
                                           name=f"n{len(self.nodes)}_{kind}", **attributes))
        values = [Value(self, n, integer) for n in names]
        return values[0] if outputs == 1 else values

    def tensor(self, array, name):
        self.initializers.append(numpy_helper.from_array(array, name))
        return Value(self, name, array.dtype == np.int64)

    def const(self, value, kind=None):
        kind = kind or self.dtype
        key = (repr(value), kind)
        if key not in self.known:
            with np.errstate(over="ignore"):
                self.known[key] = self.tensor(np.asarray(value, NUMPY[kind]), f"c{len(self.known)}")
        return self.known[key]

    def ints(self, values):
        return self.const([int(v) for v in values], "i64")

    def weight(self, *shape, scale=None):
        """A parameter that is trained."""
        scale = scale or 0.8 / np.sqrt(shape[0] if len(shape) > 1 else 1)
        name = f"p{len(self.trained)}"
        self.trained.append(name)
        return self.tensor((self.rng.standard_normal(shape) * scale).astype(NUMPY[self.dtype]), name)

    def input(self, name, kind, dims):
        if name not in self.inputs:
            self.inputs[name] = (kind or self.dtype, dims)
        return Value(self, name, kind == "i64")

    def where(self, condition, a, b):
        a, b = (v if isinstance(v, Value) else self.const(v) for v in (a, b))
        return self.op("Where", condition, a, b, integer=a.integer)

    def concat(self, axis, *values):
        return self.op("Concat", *values, axis=axis, integer=values[0].integer)

    def cross_entropy(self, logits, labels, ignore=-100, reduction="mean", weights=None):
        inputs = [logits, labels] + ([weights] if weights else [])
        attributes = {} if ignore is None else {"ignore_index": ignore}
        return self.op("SoftmaxCrossEntropyLoss", *inputs, reduction=reduction, **attributes)

    def model(self, loss, sizes={}):
        """`sizes`: numbers in the place of names of sizes."""
        self.nodes.append(helper.make_node("Identity", [loss.name], ["loss"], name="the_loss"))
        inputs = [helper.make_tensor_value_info(name, TYPES[kind], [sizes.get(d, d) for d in dims]) for name, (kind, dims) in self.inputs.items()]
        output = helper.make_tensor_value_info("loss", TYPES[self.dtype], [])
        graph = helper.make_graph(self.nodes, "program", inputs, [output], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        helper.set_model_props(model, {"trainable": "\n".join(self.trained)})
        return model
