#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/ort/ops.npz: single nodes of ONNX Runtime's training domain with its results.

  make_ort_ops.py       needs onnxruntime-training 1.19.2, onnx 1.16.2, numpy 1.26

For each case: `NAME:model` (the ONNX file), `NAME:in:INPUT` and `NAME:out:OUTPUT`. Where ONNX Runtime
has no kernel for the CPU, the results are NumPy's, or those of the forward operator's kernel: the
gradient of a linear operator is its adjoint, whose elements are got one by one.
"""

import pathlib
import sys
import types

import numpy as np

sys.modules.setdefault("onnxruntime.training.optim", types.ModuleType("onnxruntime.training.optim"))

import onnx
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return (x - np.log(np.exp(x).sum(axis, keepdims=True))).astype(np.float32)


def softmax(x, axis):
    return np.exp(log_softmax(x, axis))


def statistics(x, centred=True):
    mean = x.mean(-1, keepdims=True) if centred else 0
    deviation = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    return (mean if centred else None), (1 / deviation).astype(np.float32)


def evaluate(nodes, feed, result):
    """One value of a graph, or a list of values of those that `result` names."""
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in feed.items()
    ]
    several = isinstance(result, list)
    outputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in (result if several else [result])
    ]
    graph = helper.make_graph(nodes, "forward", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = session.run(None, feed)
    return values if several else values[0]


def adjoint(op, inputs, wanted, dy, attributes):
    """The gradient of the linear operator's input `wanted`."""
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    node = helper.make_node(op, names, ["y"], **attributes)
    feed = {f"x{i}": v for i, v in enumerate(inputs) if v is not None}
    gradient = np.zeros(inputs[wanted].size)
    for i in range(gradient.size):
        unit = np.zeros(gradient.size, np.float32)
        unit[i] = 1
        y = evaluate([node], {**feed, f"x{wanted}": unit.reshape(inputs[wanted].shape)}, "y")
        gradient[i] = (y.astype(np.float64) * dy).sum()
    return gradient.reshape(inputs[wanted].shape).astype(np.float32)


def without_kernel():
    """The same as `cases`, and the results; None is an input that is left out."""
    x, dy = floats(2, 3, 5, 4), floats(2, 2, 10, 8)
    off = (np.float32(0.3).reshape(()),), (np.bool_(False).reshape(()),)
    none = (np.float32(0).reshape(()),), (np.bool_(True).reshape(()),)
    bias, residual = floats(4), floats(2, 3, 5, 4)
    yield "bias-dropout", "BiasDropout", [x, bias, residual, *off], 1, {}, [x + bias + residual]
    yield "bias-dropout-ratio", "BiasDropout", [x, bias, None, *none], 1, {}, [x + bias]
    yield "bitmask-dropout", "BitmaskDropout", [x, *off], 1, {}, [x]
    yield "bitmask-dropout-ratio", "BitmaskDropout", [x, *none], 1, {}, [x]
    yield "bitmask-bias-dropout", "BitmaskBiasDropout", [x, bias, residual, *off], 1, {}, [x + bias + residual]
    yield "scaled-sum", "ScaledSum", [x, residual, 2 * x], 1, {"scale_0": 0.5, "scale_1": -2.0, "scale_2": 3.0}, [
        np.float32(6.5) * x - 2 * residual
    ]
    scores, outer, inner = floats(2, 3, 4, 5), floats(2, 1, 1, 5), floats(1, 3, 4, 5)
    flat = softmax((scores + outer).reshape(6, 20), 1).reshape(2, 3, 4, 5)
    yield "bias-softmax", "BiasSoftmax", [scores, outer], 1, {"axis": 2, "is_inner_broadcast": 0}, [flat]
    rows = softmax(scores + inner, 3)
    yield "bias-softmax-inner", "BiasSoftmax", [scores, inner], 1, {"axis": 3, "is_inner_broadcast": 1}, [rows]
    kernel = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "output_padding": [1, 1], "group": 1}
    weight, image = floats(3, 2, 3, 2), floats(2, 3, 5, 4)
    dy = floats(*evaluate([helper.make_node("ConvTranspose", ["x", "w"], ["y"], **kernel)],
                          {"x": image, "w": weight}, "y").shape)
    yield "conv-transpose", "ConvTransposeGrad", [dy, image, weight], 3, kernel, [
        adjoint("ConvTranspose", [image, weight], 0, dy, kernel),
        adjoint("ConvTranspose", [image, weight], 1, dy, kernel), dy.sum((0, 2, 3)),
    ]
    scales = np.array([1, 1, 2, 1.5], np.float32)
    small, dy = floats(1, 2, 4, 4), floats(1, 2, 8, 6)
    for mode, place in (("linear", "half_pixel"), ("nearest", "asymmetric")):
        how = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": "floor"}
        yield f"resize-{mode}", "ResizeGrad", [dy, small, None, (scales,)], 1, how, [
            adjoint("Resize", [small, None, scales], 0, dy, how)
        ]
    for name, more in (("whole", {}), ("inside", {"pads": [1, 1, 1, 1]}),
                       ("padded", {"pads": [1, 0, 1, 1], "count_include_pad": 1})):
        pool = {"kernel_shape": [3, 2], "strides": [2, 2], **more}
        image = floats(2, 2, 7, 6)
        dy = floats(*evaluate([helper.make_node("AveragePool", ["x"], ["y"], **pool)], {"x": image}, "y").shape)
        yield f"average-pool-{name}", "AveragePoolGrad", [dy], 1, pool, [adjoint("AveragePool", [image], 0, dy, pool)]


def cases():
    """(name, operator, inputs, number of outputs, attributes); constant inputs are tuples."""
    x, dy = floats(3, 4, 5), floats(3, 4, 5)
    yield "relu", "ReluGrad", [dy, x], 1, {}
    yield "gelu", "GeluGrad", [dy, x], 1, {}
    yield "fast-gelu", "FastGeluGrad", [dy, x], 1, {}
    yield "bias-gelu", "BiasGeluGrad_dX", [dy, x, floats(5)], 1, {}
    yield "bias-fast-gelu", "BiasFastGeluGrad_dX", [dy, x, floats(5)], 1, {}
    yield "quick-gelu", "QuickGeluGrad", [dy, x], 1, {"alpha": 1.3}
    yield "sigmoid", "SigmoidGrad", [dy, softmax(x, 0)], 1, {}
    yield "tanh", "TanhGrad", [dy, np.tanh(x)], 1, {}
    yield "leaky-relu", "LeakyReluGrad", [dy, x], 1, {"alpha": 0.2}
    yield "gelu-forward", "BiasGelu", [x, floats(5)], 1, {}
    yield "fast-gelu-forward", "FastGelu", [x, floats(5)], 1, {}
    yield "quick-gelu-forward", "QuickGelu", [x], 1, {"alpha": 1.3}
    yield "softmax", "SoftmaxGrad_13", [dy, softmax(x, 1)], 1, {"axis": 1}
    flat = softmax(x.reshape(3, 20), 1).reshape(3, 4, 5)
    yield "softmax-flat", "SoftmaxGrad", [dy, flat], 1, {"axis": 1}
    yield "log-softmax", "LogSoftmaxGrad_13", [dy, log_softmax(x, 2)], 1, {}
    flat = log_softmax(x.reshape(12, 5), 1).reshape(3, 4, 5)
    yield "log-softmax-flat", "LogSoftmaxGrad", [dy, flat], 1, {"axis": 2}
    labels = np.array([[2, 0, 3, 1, 1], [0, 0, 2, 3, 1], [3, 2, 1, 0, 2]], np.int64)
    scalar, weights = np.float32(0.7).reshape(()), np.abs(floats(4))
    log = log_softmax(x, 1)
    loss = "SoftmaxCrossEntropyLossGrad"
    yield "loss-mean", loss, [scalar, log, labels], 1, {"reduction": "mean"}
    yield "loss-sum", loss, [scalar, log, labels], 1, {"reduction": "sum"}
    yield "loss-none", loss, [floats(3, 5), log, labels], 1, {"reduction": "none"}
    yield "loss-ignore", loss, [scalar, log, labels], 1, {"reduction": "mean", "ignore_index": 2}
    yield "loss-weights", loss, [scalar, log, labels, weights], 1, {"reduction": "mean"}
    both = {"reduction": "mean", "ignore_index": 1}
    yield "loss-both", loss, [scalar, log, labels, weights], 1, both
    internal = [scalar, log, labels, weights, (np.int64(1).reshape(()),), floats(3, 4, 5)]
    yield "loss-internal", "SoftmaxCrossEntropyLossInternalGrad", internal, 1, {"reduction": "mean"}
    forward = [x, labels, weights, (np.int64(1).reshape(()),)]
    yield "loss-forward", "SoftmaxCrossEntropyLossInternal", forward, 2, {"reduction": "mean"}
    mean, rstd = statistics(x)
    yield "layer-norm", "LayerNormalizationGrad", [dy, x, floats(5), mean, rstd], 3, {}
    _, rstd = statistics(x, centred=False)
    yield "rms-norm", "SimplifiedLayerNormalizationGrad", [dy, x, floats(5), rstd], 2, {}
    image, image_dy = floats(2, 3, 4, 4), floats(2, 3, 4, 4)
    saved = image.mean((0, 2, 3)), 1 / np.sqrt(image.var((0, 2, 3)) + 1e-5)
    batch = [image_dy, image, floats(3), *saved]
    yield "batch-norm", "BatchNormalizationGrad", batch, 3, {"epsilon": 1e-5}
    mask = RNG.random((3, 4, 5)) < 0.7
    drop = [dy, mask, (np.float32(0.3).reshape(()),), (np.bool_(True).reshape(()),)]
    yield "dropout", "DropoutGrad", drop, 1, {}
    shape = (np.array([6, 5], np.int64),)
    indices = RNG.integers(0, 6, (3, 4))
    yield "gather", "GatherGrad", [shape, indices, dy], 1, {"axis": 0}
    shape = (np.array([3, 7, 5], np.int64),)
    yield "gather-axis", "GatherGrad", [shape, RNG.integers(0, 7, 4), dy], 1, {"axis": 1}
    elements = RNG.integers(0, 6, (3, 4, 5))
    shape = (np.array([3, 6, 5], np.int64),)
    yield "gather-elements", "GatherElementsGrad", [dy, shape, elements], 1, {"axis": 1}
    shape = (np.array([3, 6, 5], np.int64),)
    pairs = np.stack([RNG.integers(0, 3, 7), RNG.integers(0, 6, 7)], 1)
    yield "gather-nd", "GatherNDGrad", [shape, pairs, floats(7, 5)], 1, {"batch_dims": 0}
    limits = [(np.array(v, np.int64),) for v in ([1, 1], [4, 8], [1, 2], [1, 2])]
    whole = (np.array([3, 6, 9], np.int64),)
    yield "slice", "SliceGrad", [floats(3, 3, 4), whole, *limits], 1, {}
    yield "div", "DivGrad", [dy, x, floats(4, 1) + 3], 2, {}
    yield "scale", "Scale", [x, (np.int64(7).reshape(()),)], 1, {"scale_down": 1}
    yield "matmul", "FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4)], 1, {"transA": 1, "transB": 1, "alpha": 0.3}
    batches = {"transBatchA": 1, "transBatchB": 1, "transB": 1}
    yield "matmul-batch", "FusedMatMul", [floats(3, 2, 4), floats(5, 2, 4)], 1, batches
    kernel = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "dilations": [1, 1], "group": 1}
    yield "conv", "ConvGrad", [floats(2, 4, 3, 3), floats(2, 3, 5, 5), floats(4, 3, 3, 3)], 3, kernel
    yield "concat", "ConcatTraining", [floats(2, 3), floats(2, 4)], 2, {"axis": 1}
    parts = (np.array([1, 4], np.int64),)
    yield "split", "SplitTraining", [floats(2, 5), parts], 2, {"axis": 1}
    axes = (np.array([0, 2], np.int64),)
    yield "reduce", "ReduceSumTraining", [x, axes], 1, {"keepdims": 0}
    for name, more in (("plain", {}), ("padded", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
                       ("dilated", {"dilations": [2, 1], "strides": [1, 2], "pads": [2, 0, 2, 0]})):
        pool = {"kernel_shape": [3, 2], **more}
        image = floats(2, 3, 9, 8)
        y = evaluate([helper.make_node("MaxPool", ["x"], ["y"], **pool)], {"x": image}, "y")
        yield f"max-pool-{name}", "MaxPoolGrad", [floats(*y.shape), image], 1, pool


def recurrent():
    """The same: layers for training, and their gradients, which read what those leave."""
    for kind, gates, states, kept in (("LSTM", 4, 2, 2), ("GRU", 3, 1, 1)):
        for name, length, bias, more in (
            ("", 5, True, {}), ("-short", 1, True, {}), ("-plain", 4, False, {}),
            ("-linear", 5, True, {"linear_before_reset": 1}), ("-linear-plain", 4, False, {"linear_before_reset": 1}),
        ):
            if kind == "LSTM" and more:
                continue
            how, batch, features, hidden = {"hidden_size": 4, **more}, 2, 3, 4
            weights = [floats(1, gates * hidden, features), floats(1, gates * hidden, hidden)]
            biases = floats(1, 2 * gates * hidden) if bias else None
            first = [floats(1, batch, hidden) if name else None for _ in range(states)]
            if not name:  # ONNX Runtime's gradient wants the first states
                first = [np.zeros((1, batch, hidden), np.float32) for _ in range(states)]
            layer = [floats(length, batch, features), *weights, biases, None, *first]
            label = kind.lower() + name
            yield label, f"{kind}Training", layer, 1 + states + kept, how
            names = [f"x{i}" if v is not None else "" for i, v in enumerate(layer)]
            wanted = [f"y{i}" for i in range(1 + states + kept)]
            node = helper.make_node(f"{kind}Training", names, wanted, domain=MICROSOFT, **how)
            feed = {f"x{i}": v for i, v in enumerate(layer) if v is not None}
            left = evaluate([node], feed, wanted)
            gradients = [floats(*value.shape) for value in left[: 1 + states]]
            if name == "-short":
                gradients[0] = None
            inputs = layer if kind == "GRU" else [*layer[:3], *layer[4:]]
            yield f"{label}-grad", f"{kind}Grad", [*inputs, left[0], *left[1 + states :], *gradients], 4 + states, how


def quantized():
    """The same: what simulates quantization."""
    x = floats(4, 6) * 3
    for name, zero, low, high in (("", 3, 0, 255), ("-signed", 0, -128, 127)):
        scalars = (np.float32(0.02).reshape(()),), (np.float32(zero).reshape(()),)
        yield f"fake-quant{name}", "FakeQuant", [x, *scalars], 2, {"quant_min": low, "quant_max": high}
    for name, kind in (("", 1), ("-fp4", 0)):
        # 7 times 9 elements: blocks go across rows, and the last byte and the last block are not full.
        codes, factors = RNG.integers(0, 256, 32).astype(np.uint8), np.abs(floats(4))
        how = {"N": 7, "K": 9, "block_size": 16, "quant_type": kind, "training_mode": 1}
        yield f"bnb4{name}", "MatMulBnb4", [floats(2, 3, 9), (codes,), (factors,)], 1, how
        # The kernel for the CPU knows transposed weights only: the weight itself is got from it.
        unit = [np.eye(9, dtype=np.float32), codes, factors]
        node = helper.make_node("MatMulBnb4", ["x0", "x1", "x2"], ["y"], domain=MICROSOFT, **how)
        weight = evaluate([node], {f"x{i}": v for i, v in enumerate(unit)}, "y").T
        dy = floats(2, 3, 7)
        back = {**how, "transB": 0}
        yield f"bnb4{name}-grad", "MatMulBnb4", [dy, (codes,), (factors,)], 1, back, [dy @ weight]
    yield "fake-quant-grad", "FakeQuantGrad", [floats(4, 6), RNG.random((4, 6)) < 0.6], 1, {}


def others():
    """Like `cases` and, with results, like `without_kernel`."""
    x = floats(3, 5, 5)
    yield "trilu", "Trilu", [x, (np.array(1, np.int64),)], 1, {"upper": 1}
    yield "norm", "ReduceAllL2", [x, floats(7)], 1, {}
    scales = {"scale_0": 0.5, "scale_1": -2.0, "scale_2": 3.0}
    yield "batch-scale", "BatchScale", [x], 3, scales, [np.float32(v) * x for v in scales.values()]
    bad = x.copy()
    bad[1, 2, 3] = np.inf
    yield "finite", "IsAllFinite", [x, floats(7)], 1, {}, [np.bool_(True).reshape(())]
    yield "infinite", "IsAllFinite", [floats(7), bad], 1, {}, [np.bool_(False).reshape(())]
    yield "only-nan", "IsAllFinite", [floats(7), bad], 1, {"isnan_only": 1}, [np.bool_(True).reshape(())]
    labels = RNG.integers(0, 6, (4, 3))
    keys = {"keys_int64s": [5, 0, 3]}
    yield "labels", "LabelEncoder", [labels], 1, {**keys, "values_int64s": [7, -2, 9], "default_int64": -100}
    values = {"values_floats": [0.5, 2.0, 3.25], "default_float": 1.5}
    yield "labels-to-reals", "LabelEncoder", [labels], 1, {**keys, **values}
    reals = {"keys_floats": [0.0, 2.0], "values_int64s": [4, 1]}
    yield "reals-to-labels", "LabelEncoder", [labels.astype(np.float32)], 1, reals


#: Operators of other domains than Microsoft's; some are hidden in the default one.
DOMAINS = {"MaxPoolGrad": "", "AveragePoolGrad": "", "LabelEncoder": "ai.onnx.ml"}
#: Results that are no floats.
KINDS = {
    "concat:1": onnx.TensorProto.INT64, "fake-quant:1": onnx.TensorProto.BOOL,
    "fake-quant-signed:1": onnx.TensorProto.BOOL, "finite:0": onnx.TensorProto.BOOL,
    "infinite:0": onnx.TensorProto.BOOL, "only-nan:0": onnx.TensorProto.BOOL,
    "labels:0": onnx.TensorProto.INT64, "reals-to-labels:0": onnx.TensorProto.INT64,
}


def main():
    arrays = {}
    everything = [*cases(), *without_kernel(), *recurrent(), *quantized(), *others()]
    for name, op, given, outputs, attributes, *known in everything:
        inputs, tensors, feed = [], [], {}
        for i, value in enumerate(given):
            label = f"i{i}"
            if value is None:
                continue
            if isinstance(value, tuple):
                tensors.append(numpy_helper.from_array(value[0], label))
                continue
            value = np.ascontiguousarray(value)
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            inputs.append(helper.make_tensor_value_info(label, kind, value.shape))
            feed[label] = value
        labels = ["" if value is None else f"i{i}" for i, value in enumerate(given)]
        nodes = []
        if op == "MaxPoolGrad":  # of dY, and of the indices that the pool has left
            nodes.append(helper.make_node("MaxPool", ["i1"], ["pooled", "indices"], name="pool", **attributes))
            labels[1] = "indices"
        nodes.append(
            helper.make_node(
                op, labels, [f"o{i}" for i in range(outputs)], name=name,
                domain=DOMAINS.get(op, MICROSOFT), **attributes,
            )
        )
        kinds = [KINDS.get(f"{name}:{i}", onnx.TensorProto.FLOAT) for i in range(outputs)]
        shapes = [None] * outputs
        if op in ("MaxPoolGrad", "AveragePoolGrad"):
            shapes[0] = known[0][0].shape if known else given[1].shape
        results = [
            helper.make_tensor_value_info(f"o{i}", kind, shape)
            for i, (kind, shape) in enumerate(zip(kinds, shapes))
        ]
        graph = helper.make_graph(nodes, name, inputs, results, tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        if op == "LabelEncoder":
            opsets.append(helper.make_opsetid("ai.onnx.ml", 2))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        if known:
            values = known[0]
        else:
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            values = session.run(None, feed)
        arrays[f"{name}:model"] = np.frombuffer(model, np.uint8)
        arrays.update({f"{name}:in:{k}": v for k, v in feed.items()})
        arrays.update({f"{name}:out:o{i}": v for i, v in enumerate(values)})
    path = pathlib.Path(__file__).resolve().parent / "models" / "ort" / "ops.npz"
    np.savez_compressed(path, **arrays)
    print(f"{sum(k.endswith(':model') for k in arrays)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
