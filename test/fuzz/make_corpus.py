#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seeds for the fuzz targets, a folder each: make_corpus.py BUILD FOLDER (BUILD has make-tiny-package).

What is committed under corpus/ is these, some of what fuzzing found from there (found-*), and the inputs of
former faults (fault-*)."""

import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MAKE_ONNX = HERE.parent / "Import/Inputs/make_onnx.py"
MARK = b"\n--part--\n"

X = "input x f32[batch,4]\ninput i i64[batch]\ninit w f32[4,4] = 0.5\noutput loss f32[]\n"
END = "\nnode ReduceMean(r) -> loss keepdims=0\n"
IMAGE = "input x f32[batch,2,6,6]\ninit k f32[3,2,3,3] = 0.1\ninit s f32[3] = 1.0\ninit b f32[3] = 0.0\noutput loss f32[]\n"
SEQUENCE = "input x f32[5,batch,3]\ninit w f32[1,{n},3] = 0.1\ninit r f32[1,{n},4] = 0.1\ninit b f32[1,{m}] = 0.1\noutput loss f32[]\n"

MODELS = {
    "mlp": "opset 20\n" + X + "init b f32[4] = 0.1\nnode Gemm(x, w, b) -> h transB=1\nnode Gelu(h) -> g\nnode MatMul(g, w) -> z\nnode SoftmaxCrossEntropyLoss(z, i) -> loss ignore_index=-100",
    "norm": X + "init b f32[4] = 0.1\nnode LayerNormalization(x, b, b) -> h axis=-1 epsilon=0.00001\nnode MatMul(h, w) -> m\nnode Softmax(m) -> r axis=-1" + END,
    "shapes": X + "node MatMul(x, w) -> h\nnode Shape(h) -> s\nnode Constant() -> z value=i64[1]:0\nnode Gather(s, z) -> n\nnode Constant() -> t value=i64[2]:2,2\nnode Concat(n, t) -> c axis=0\nnode Reshape(h, c) -> q\nnode Transpose(q) -> r perm=[0,2,1]" + END,
    "dropout": X + "init p f32[] = 0.25\ninit on bool[] = 1\nnode MatMul(x, w) -> h\nnode Dropout(h, p, on) -> r, m name=drop" + END,
    "embedding": X + "node Gather(w, i) -> e\nnode Mul(e, x) -> m\nnode Pow(m, two) -> r\ninit two f32[] = 2.0" + END,
    "mask": X + "init low f32[] = -1000.0\nnode MatMul(x, w) -> h\nnode Greater(h, zero) -> c\ninit zero f32[] = 0.0\nnode Where(c, h, low) -> g\nnode Softmax(g) -> a\nnode IsNaN(a) -> n\nnode Where(n, zero, a) -> r" + END,
    "conv": IMAGE + "node Conv(x, k, b) -> c pads=[1,1,1,1] strides=[2,2]\nnode BatchNormalization(c, s, b, b, s) -> n, m, v training_mode=1\nnode Relu(n) -> a\nnode MaxPool(a) -> q kernel_shape=[2,2]\nnode GlobalAveragePool(q) -> r" + END,
    "resize": IMAGE + "init z f32[4] = 1.0 1.0 2.0 2.0\nnode Conv(x, k) -> c\nnode Resize(c, _, z) -> r mode=\"nearest\"" + END,
    "lstm": SEQUENCE.format(n=16, m=32) + "node LSTM(x, w, r, b) -> y, h, c hidden_size=4\nnode ReduceMean(y) -> loss keepdims=0\n",
    "gru": SEQUENCE.format(n=12, m=24) + "node GRU(x, w, r, b) -> y, h hidden_size=4 linear_before_reset=1\nnode ReduceMean(h) -> loss keepdims=0\n",
    "if": X + "init c bool[] = 1\ngraph yes\n  node MatMul(x, w) -> a\n  output a f32\ngraph no\n  node Neg(x) -> n\n  output n f32\nnode If(c) -> r then_branch=graph:yes else_branch=graph:no" + END,
    "loop": X + "init n i64[] = 3\ninit c bool[] = 1\ngraph body\n  input k i64[]\n  input ci bool[]\n  input a f32[batch,4]\n  node MatMul(a, w) -> b\n  node Identity(ci) -> co\n  output co bool[]\n  output b f32[batch,4]\nnode Loop(n, c, x) -> r body=graph:body" + END,
    "split": X + "node MatMul(x, w) -> h\nnode SplitToSequence(h, two) -> q axis=1\ninit two i64[] = 2\ninit one i64[] = 1\nnode SequenceAt(q, one) -> r" + END,
    "einsum": X + "node Einsum(x, w) -> r equation=\"bi,ij->bj\"" + END,
    "slice": X + "init a i64[1] = 1\ninit b i64[1] = 9223372036854775807\ninit p i64[4] = 0 1 0 2\nnode MatMul(x, w) -> h\nnode Slice(h, a, b, a) -> s\nnode Pad(s, p) -> t\nnode Expand(t, e) -> r\ninit e i64[3] = 2 1 1" + END,
    "scatter": X + "init at i64[1,1] = 2\ninit u f32[1,4] = 1.0\nnode MatMul(w, w) -> h\nnode ScatterND(h, at, u) -> s\nnode MatMul(x, s) -> g\nnode TopK(g, k) -> r, j\ninit k i64[1] = 2" + END,
    "integers": X + "node Range(zero, four, one) -> q\ninit zero i64[] = 0\ninit one i64[] = 1\ninit four i64[] = 4\nnode Cast(q) -> f to=1\nnode CumSum(f, zero) -> g\nnode Mul(x, g) -> h\nnode MatMul(h, w) -> m\nnode Trilu(m) -> r upper=0" + END,
    "types": X + "node Cast(x) -> d to=11\nnode Cast(w) -> e to=11\nnode MatMul(d, e) -> h\nnode Cast(h) -> b to=16\nnode CastLike(b, x) -> r" + END,
    "function": "opset 18\nopset my 1\n" + X + "function my F(a, b) -> c alpha\n  node MatMul(a, b) -> d\n  node Elu(d) -> c alpha=@alpha\nnode my::F(x, w) -> r alpha=0.5" + END,
    "external": "input x f32[batch,4]\ninit w f32[4,4] external w.bin 0 64\noutput loss f32[]\nnode MatMul(x, w) -> r" + END,
    "typed": "meta trainable = w\nvalue r f32[batch,4]\ninput x f32[batch,4]\ninit w f32[4] typed = 1.0 2.0 3.0 4.0\noutput loss f32[]\nnode Mul(x, w) -> r" + END,
    "attention": "opset 23\ninput x f32[batch,2,3,4]\ninit w f32[4,4] = 0.5\noutput loss f32[]\nnode MatMul(x, w) -> q\nnode Attention(q, x, x) -> r is_causal=1" + END,
}

# Whole models around the parameters of the tiny package, w [3] and table [4].
TINY = "input x f32[batch,3]\ninput id i64[batch]\ninit w f32[3] = 1.0\ninit table f32[4] = 1.0\noutput loss f32[]\noutput pred f32[batch]\n"
EXPORTS = {
    "plain": TINY + "node MatMul(x, w) -> a\nnode Gather(table, id) -> t\nnode Add(a, t) -> pred\nnode ReduceMean(pred) -> loss keepdims=0",
    "modes": TINY + "init on bool[] = 1\ninit p f32[] = 0.5\ninit s f32[3] external w.bin 0 12\nnode BatchNormalization(x, w, s, s, s) -> n, m, v training_mode=1\nnode Dropout(n, p, on) -> d\nnode MatMul(d, w) -> a\nnode Gather(table, id) -> t\nnode Add(a, t) -> pred\nnode ReduceMean(pred) -> loss",
    "if": TINY + "init c bool[] = 1\ngraph yes\n  node Dropout(x, p, c) -> a\n  output a f32\ngraph no\n  node Neg(x) -> n\n  output n f32\ninit p f32[] = 0.5\nnode If(c) -> d then_branch=graph:yes else_branch=graph:no\nnode MatMul(d, w) -> a\nnode Gather(table, id) -> t\nnode Add(a, t) -> pred\nnode ReduceMean(pred) -> loss",
    "function": "opset 18\nopset my 1\n" + TINY + "function my F(a, b) -> c\n  node Dropout(a, b, b) -> c\nnode my::F(x, w) -> d\nnode MatMul(d, w) -> pred\nnode Mul(table, table) -> unused\nnode ReduceMean(pred) -> loss",
}


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def onnx(folder, models):
    for name, text in models.items():
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / (name + ".txt")
        source.write_text(text)
        subprocess.run([sys.executable, MAKE_ONNX, source, folder / name], check=True)
        source.unlink()


def safetensors(arrays, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, kind, shape, content in arrays:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


# Too deep for anything that calls itself for each level, on the stack that runtime.test gives.
DEPTH = 24_000
TOWER = b"[" * DEPTH + b"]" * DEPTH


def arrays(folder):
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        out = io.BytesIO()
        save(out, x=np.arange(6, dtype=np.float32).reshape(2, 3), i=np.array([1, 2]), s=np.float64(3), b=np.zeros((0, 4), bool))
        write(folder, name + ".npz", out.getvalue())
    out = io.BytesIO()
    np.savez(out, f=np.asfortranarray(np.ones((2, 3), np.float16)), t=np.array(["a"]), c=np.ones(1, np.complex64), e=np.ones(2, ">i4"))
    write(folder, "refused.npz", out.getvalue())
    floats = struct.pack("<3f", 1, 2, 3)
    write(folder, "plain.safetensors", safetensors([("a", "F32", [3], floats), ("b", "BF16", [2], b"abcd"), ("e", "I64", [0], b"")], {"format": "pt"}))
    header = b'{"a": {"dtype": "F32", "shape": ' + TOWER + b', "data_offsets": [0, 0]}}'
    write(folder, "fault-nested", struct.pack("<Q", len(header)) + header)


def package(folder, build):
    """The tiny package as manifest and program; without the kernels' checksum, since these stay out."""
    path = folder / "tiny.tpk"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("cuda", "cuda-gemm", "cuda-offload", "cuda-quantized"):
        subprocess.run([build / "test/capi/make-tiny-package", path, kind], check=True)
        with zipfile.ZipFile(path) as archive:
            manifest = re.sub(rb'"kernels/[^"]*": "[0-9a-f]{16}",\s*', b"", archive.read("manifest.json"))
            write(folder, kind, manifest + MARK + archive.read("program.fb"))
            if kind == "cuda":
                write(folder, "fault-nested", manifest.replace(b'"shape": [4]', b'"shape": [' + TOWER + b"]") + MARK + archive.read("program.fb"))
            write(folder, kind + "-tuned", manifest + MARK + archive.read("program.fb") + MARK + b"products, NVIDIA H200\nbf16 = 0042\n")
    path.unlink()
    (folder / "weights.raw").unlink()
    write(folder, "empty-zip", b"PK\x05\x06" + bytes(18))


def checkpoint(folder):
    parameters = safetensors([("w", "F32", [3], bytes(12)), ("table", "F32", [4], bytes(16))])
    optimizer = safetensors([("w/exp_avg", "F32", [3], bytes(12)), ("nonfinite", "I32", [], bytes(4))])
    state = {"format": {"major": 1, "minor": 1}, "model": "tiny.onnx", "step": 3, "seed": 5, "data_position": {"row": 4},
             "checksums": {"parameters.safetensors": "0" * 8, "optimizer.safetensors": "0" * 8, "state.json": "0" * 8}}
    write(folder, "good", MARK.join([parameters, optimizer, json.dumps(state).encode()]))
    write(folder, "damaged", b"!" + MARK.join([parameters, optimizer, json.dumps(state).encode()]))
    write(folder, "fault-nested", MARK.join([parameters, optimizer, json.dumps(state).encode().replace(b'{"row": 4}', TOWER)]))
    other = safetensors([("w", "F32", [4], bytes(16)), ("table", "F16", [4], bytes(8))])
    write(folder, "other", MARK.join([other, optimizer, json.dumps(state).encode()]))


def json_files(folder):
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "rank_pattern": {"q_proj": 4}, "use_rslora": False}
    write(folder, "adapter", json.dumps(config).encode())
    write(folder, "index", json.dumps({"metadata": {}, "weight_map": {"w": "model-00001-of-00002.safetensors"}}).encode())
    write(folder, "position", b'{"epoch": 0, "row": 4, "rows": 8, "batch_size": 2, "accumulate": 1, "shuffle": true}')
    write(folder, "fault-nested", TOWER)
    write(folder, "fault-nested-type", b'{"peft_type": ' + TOWER + b"}")
    pattern = b"(" * DEPTH + b")" * DEPTH
    write(folder, "fault-nested-pattern", json.dumps({**config, "rank_pattern": {pattern.decode(): 4}}).encode())


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    onnx(out / "onnx", MODELS)
    onnx(out / "onnx-export", EXPORTS)
    arrays(out / "arrays")
    package(out / "package", build)
    checkpoint(out / "checkpoint")
    json_files(out / "json")


if __name__ == "__main__":
    main()
