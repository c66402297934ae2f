# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes linear.tpk, a training package written by hand, and data for it: trainc-run is tested with
them without the compiler. Needs flatc and a C compiler; no numpy.

  make_package.py DIR --cc CC --schema program.fbs [--static-batch N]

DIR gets linear.tpk and, each for the inputs x f32 [batch, 3], ids i64 [batch] (0..4), y f32 [batch]:
good.npz (20 rows), short.npz (7 rows), extra.npz, noy.npz, badtype.npz, ragged.npz, badid.npz (row 9),
nan.npz (row 12 of y), int32.npz (ids as i32).
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import zipfile
import zlib


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def write_zip(path, entries):
    """Stored, 64-byte aligned, in the one form that the runtime accepts for packages."""
    body, directory = b"", b""
    for name, data in entries.items():
        name, crc, start = name.encode(), zlib.crc32(data), len(body)
        padding = -(start + 30 + len(name)) % 64
        padding += 64 if 0 < padding < 4 else 0
        extra = struct.pack("<HH", 0xD935, padding - 4) + bytes(padding - 4) if padding else b""
        fields = struct.pack("<HHHHIII", 0x0800, 0, 0, 0x21, crc, len(data), len(data))
        body += struct.pack("<IH", 0x04034B50, 20) + fields
        body += struct.pack("<HH", len(name), len(extra)) + name + extra + data
        directory += struct.pack("<IHH", 0x02014B50, 20, 20) + fields
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, start) + name
    end = struct.pack(
        "<IHHHHIIH", 0x06054B50, 0, 0, len(entries), len(entries), len(directory), len(body), 0
    )
    path.write_bytes(body + directory + end)


def program(folder, schema, static_batch):
    exprs = [{"kind": "symbol", "a": 0, "b": 0, "value": 0}]
    if static_batch:
        exprs = [{"kind": "constant", "a": 0, "b": 0, "value": static_batch}]

    def const(value):
        exprs.append({"kind": "constant", "a": 0, "b": 0, "value": value})
        return len(exprs) - 1

    batch, zero, one, three, five, four = 0, const(0), const(1), const(3), const(5), const(4)

    def product(a, b):
        exprs.append({"kind": "mul", "a": a, "b": b, "value": 0})
        return len(exprs) - 1

    batch4 = product(batch, four)
    spaces = {
        "x": ("input", 0, product(batch4, three)),
        "ids": ("input", 1, product(batch, const(8))),
        "y": ("input", 2, batch4),
        "w": ("parameter", 0, const(12)),
        "b": ("parameter", 1, const(20)),
        "mw": ("state", 0, const(12)),
        "mb": ("state", 1, const(20)),
        "nonfinite": ("state", 2, four),
        "gw": ("gradient", 0, const(12)),
        "gb": ("gradient", 1, const(20)),
        "lr": ("hyper", 0, four),
        "grad_scale": ("hyper", 1, four),
        "loss": ("output", 0, four),
        "pred": ("output", 1, batch4),
    }
    functions, kernels = [], []

    def function(name, kernel, args, outputs, dims):
        buffers = [
            {"space": s, "index": i, "bytes": n, "first": 0, "last": 0}
            for s, i, n in (spaces[a] for a in args)
        ]
        # Weights and their momentum change in steps and updates, gradients in all that have them.
        changed = {"nonfinite", "gw", "gb"} | ({"w", "b", "mw", "mb"} if "lr" in args else set())
        access = ["write" if a in ("loss", "pred") else "update" if a in changed else "read" for a in args]
        operands = [{"buffer": i, "offset": zero, "access": how} for i, how in enumerate(access)]
        kernels.append({"name": kernel, "args": len(args), "dims": len(dims)})
        command = {"op_type": "Launch", "op": {}, "operands": operands, "sizes": [one, one, zero, *dims], "nodes": [0]}
        command["kernels"] = [len(functions)]
        functions.append(
            {"name": name, "buffers": buffers, "commands": [command], "outputs": outputs}
        )

    data, weights = ["x", "ids", "y"], ["w", "b"]
    trained = data + weights
    function(
        "step", "linear_step", trained + ["mw", "mb", "lr", "nonfinite", "loss"], [0], [batch]
    )
    micro = trained + ["gw", "gb", "grad_scale", "nonfinite", "loss"]
    function("micro", "linear_micro", micro, [0], [batch])
    function(
        "update", "linear_update", weights + ["mw", "mb", "gw", "gb", "lr", "nonfinite"], [], []
    )
    function("eval", "linear_eval", trained + ["loss", "pred"], [0, 1], [batch])

    def tensor(name, dtype, *shape):
        return {"name": name, "dtype": dtype, "shape": list(shape)}

    symbol = {"name": "batch", "min": 1, "max": 1 << 40, "source_input": 0, "source_axis": 0}
    text = {
        "version_major": 3,
        "version_minor": 0,
        "symbols": [] if static_batch else [symbol],
        "exprs": exprs,
        "parameters": [tensor("w", "f32", three), tensor("b", "f32", five)],
        "state": [
            tensor("w/momentum_buffer", "f32", three),
            tensor("b/momentum_buffer", "f32", five),
            tensor("nonfinite", "i32"),
        ],
        "inputs": [
            tensor("x", "f32", batch, three),
            tensor("ids", "i64", batch),
            tensor("y", "f32", batch),
        ],
        "hypers": [tensor("lr", "f32"), tensor("grad_scale", "f32")],
        "outputs": [tensor("loss", "f32"), tensor("pred", "f32", batch)],
        "constants": [],
        "kernels": kernels,
        "nodes": ["node_linear"],
        "functions": functions,
        "value_rules": [{"input": 1, "min": 0, "max": five, "node": 0}],
        "size_rules": [],
    }
    (folder / "program.json").write_text(json.dumps(text))
    subprocess.check_call(
        ["flatc", "-b", "-o", str(folder), str(schema), str(folder / "program.json")]
    )
    for name in ("program.fb", "program.bin"):
        if (folder / name).exists():
            return (folder / name).read_bytes()
    raise SystemExit("flatc wrote nothing")


def manifest(entries, static_batch):
    batch = static_batch or "batch"

    def tensor(name, dtype, shape, **more):
        return {"name": name, "dtype": dtype, "shape": shape, **more}

    def weights(offset, length):
        return {"file": "weights.bin", "offset": offset, "length": length, "embedded": True}

    symbol = {"name": "batch", "min": 1, "max": 1 << 40, "divisor": 1, "input": "x", "axis": 0}
    result = {
        "format": {"major": 1, "minor": 0},
        "producer": "make_package.py",
        "model": "linear",
        "kind": "training",
        "targets": ["cpu:x86-64"],
        "loss": "loss",
        "batch_symbol": None if static_batch else "batch",
        "symbols": [] if static_batch else [symbol],
        "inputs": [
            tensor("x", "f32", [batch, 3]),
            tensor("ids", "i64", [batch]),
            tensor("y", "f32", [batch]),
        ],
        "outputs": [
            tensor("loss", "f32", [], role="loss"),
            tensor("pred", "f32", [batch], role="output"),
        ],
        "parameters": [
            tensor("w", "f32", [3], trainable=True, weights=weights(0, 12)),
            tensor("b", "f32", [5], trainable=True, weights=weights(12, 20)),
        ],
        "state": [
            tensor("w/momentum_buffer", "f32", [3]),
            tensor("b/momentum_buffer", "f32", [5]),
            tensor("nonfinite", "i32", []),
        ],
        "files": [],
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        "options": {},
        "checksums": {n: fnv1a64(d) for n, d in entries.items()} | {"manifest": "0" * 16},
    }
    text = json.dumps(result)
    return text.replace("0" * 16, fnv1a64(text.encode())).encode()


def save_npz(path, **arrays):
    """`arrays`: name -> (numpy's type code, shape, values)."""
    codes = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, (code, shape, values) in arrays.items():
            header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            data = struct.pack(f"<{len(values)}{codes[code]}", *values)
            magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            archive.writestr(f"{name}.npy", magic + header.encode() + data)


def make_data(folder):
    source = random.Random(1)

    def rows(count):
        x = [source.gauss(0, 1) for _ in range(count * 3)]
        ids = [source.randrange(5) for _ in range(count)]
        y = [
            0.5 * x[3 * i] - x[3 * i + 1] + 2 * x[3 * i + 2] + ids[i] + source.gauss(0, 0.1)
            for i in range(count)
        ]
        return {
            "x": ("<f4", (count, 3), x),
            "ids": ("<i8", (count,), ids),
            "y": ("<f4", (count,), y),
        }

    good = rows(20)
    _, _, ids = good["ids"]
    _, _, y = good["y"]
    save_npz(folder / "good.npz", **good)
    save_npz(folder / "short.npz", **rows(7))
    save_npz(folder / "extra.npz", **good, weight=("<f4", (2,), [1, 2]))
    save_npz(folder / "noy.npz", x=good["x"], ids=good["ids"])
    save_npz(folder / "badtype.npz", **{**good, "y": ("<f8", (20,), y)})
    save_npz(folder / "ragged.npz", **{**good, "y": ("<f4", (19,), y[:19])})
    save_npz(folder / "badid.npz", **{**good, "ids": ("<i8", (20,), ids[:9] + [7] + ids[10:])})
    save_npz(
        folder / "nan.npz", **{**good, "y": ("<f4", (20,), y[:12] + [float("nan")] + y[13:])}
    )
    save_npz(folder / "int32.npz", **{**good, "ids": ("<i4", (20,), ids)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--schema", type=pathlib.Path, required=True)
    parser.add_argument("--static-batch", type=int, default=0)
    arguments = parser.parse_args()
    folder, static_batch = arguments.folder, arguments.static_batch
    folder.mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(__file__).with_name("linear_kernels.c")
    library = folder / "linear.so"
    command = [arguments.cc, "-shared", "-fPIC", "-O1", "-ffp-contract=off", str(source)]
    subprocess.check_call([*command, "-o", str(library)])
    entries = {
        "program.fb": program(folder, arguments.schema, static_batch),
        "kernels/cpu-x86-64.so": library.read_bytes(),
        "weights.bin": struct.pack("<8f", 0.1, 0.2, 0.3, 0, 0, 0, 0, 0),
    }
    whole = {"manifest.json": manifest(entries, static_batch), **entries}
    write_zip(folder / "linear.tpk", whole)
    make_data(folder)


if __name__ == "__main__":
    main()
