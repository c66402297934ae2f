# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays, weights, checkpoints, adapters and settings that nest or lie, into the programs that read them."""

import io
import json
import re
import struct
import zipfile
import zlib

import base_models
import numpy as np
import odd_json
from damaged_packages import QUANTIZABLE
from place import spread

ROWS = 6
CLASSIFIER = base_models.X + "init v f32[4,3] = 0.25\nnode MatMul(x, w) -> h name=a.q_proj\nnode Relu(h) -> g\nnode MatMul(g, v) -> logits name=b\noutput logits f32[batch,3]\nnode SoftmaxCrossEntropyLoss(logits, i) -> loss\n"
ARTIFACTS = base_models.HERE.parent.parent / "e2e/models/ort/mlp"
DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
WORDS = ["F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "data_offsets", "shape", "dtype", "__metadata__", "x", "i", "w", "v"]
DESCRIPTIONS = ["<f4", ">f4", "<f8", "<f2", "<i8", "|u1", "|b1", "|O", "<U4", "<c8", "|V4", "<f3", "<f99999999999999999999", "f4", "", "[('a', '<f4')]", "\x1b[2J"]
SHAPES = ["(6, 4)", "(6,)", "()", "(4, 6)", "(-6, 4)", "(6, 4", "(0, 4)", "(6, 1099511627776)", "(4294967296, 4294967296)", "(9223372036854775807, 2)", "(6L, 4L)", "(6.0, 4)", "(True, 4)", "6, 4", "None", "(" * 5000,
          "(" + "1, " * 40 + ")", "(" + "1, " * 4000 + ")", "(0, 9223372036854775807, 9223372036854775807)", "((6, 4),)", "[6, 4]"]  # fmt: skip


def npy(array, rng):
    """A file of numpy's; its header may lie."""
    description, shape, order = f"'{array.dtype.str}'", str(array.shape), "False"
    kind = rng.random()
    if kind < 0.25:
        description = repr(rng.choice(DESCRIPTIONS)) if rng.random() < 0.8 else "[('a', '<f4'), ('b', '<i8')]"
    elif kind < 0.55:
        shape = rng.choice(SHAPES)
    elif kind < 0.65:
        order = rng.choice(["True", "true", "1", "None"])
    header = f"{{'descr': {description}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if 0.65 <= kind < 0.75:
        header = rng.choice([header[: rng.randrange(len(header))], header + header, "{" * 3000, "", "{}", header.replace("'shape'", "'shape': (), 'shape'"), header.replace("'", '"')])
    text = header.encode("utf-8", "replace")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    major, length = rng.choice([1, 1, 1, 2, 3, 0, 9]) if kind > 0.75 else 1, len(text)
    if 0.85 < kind < 0.92:
        length = rng.choice([0, 1, length - 1, length + 1, 65535])
    data = b"\x93NUMPY" + bytes([major, 0]) + struct.pack("<I" if major in (2, 3) else "<H", length) + text + array.tobytes()
    if kind > 0.92:
        data = data[: rng.randrange(len(data))]
    return data


def npz(arrays, rng):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        lying = rng.choice(list(arrays)) if arrays else ""
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(name + rng.choice([".npy"] * 9 + [".np", "", ".npy.npy"]), npy(array, rng) if name == lying and rng.random() < 0.7 else content.getvalue())
        if rng.random() < 0.1:
            archive.writestr(rng.choice(["x.npy", "\x1b[2J.npy", "../x.npy", "/", "n" * 3000 + ".npy"]), rng.randbytes(20))
    return flip(out.getvalue(), rng) if rng.random() < 0.3 else out.getvalue()


def flip(data, rng):
    """Some bytes changed, most of them near the ends, where headers and directories are."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data)) if rng.random() < 0.4 else rng.choice([rng.randrange(min(64, len(data))), len(data) - 1 - rng.randrange(min(200, len(data)))])
        size = min(rng.choice([1, 1, 4, 8]), len(data) - at)
        data[at : at + size] = rng.choice([0, 1, 0xFF, 0xFFFFFFFF, 2**63, 2**64 - 1, rng.randrange(2**64)]).to_bytes(8, "little")[:size]
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)


def safetensors(arrays, rng, lies=True):
    header, data = {"__metadata__": {"format": "pt"}} if rng.random() < 0.3 else {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": DTYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    for _ in range(rng.choice([0, 1, 1, 2, 4]) if lies and header else 0):
        odd_json.damage(header, rng, WORDS)
    text = odd_json.text(header, rng) if lies else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    length = rng.choice([0, 1, len(text) - 1, len(text) + 8, len(text) + len(data), 2**32, 2**62, 2**63, 2**64 - 1]) if lies and rng.random() < 0.1 else len(text)
    result = struct.pack("<Q", max(length, 0)) + text + data
    return flip(result, rng) if lies and rng.random() < 0.15 else result


def read_safetensors(data):
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    types = {v: np.dtype(k) for k, v in DTYPES.items()}
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + o for o in entry["data_offsets"])
            found[name] = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return found


def other_arrays(arrays, rng):
    """Arrays of other shapes, types, names and values, stored as they should be."""
    arrays = dict(arrays)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(arrays))
        old, kind = arrays[name], rng.randrange(9)
        if kind == 0:
            del arrays[name]
            if not arrays:
                arrays["x"] = old
        elif kind == 1:
            arrays[rng.choice([t for t in odd_json.TEXTS if "\0" not in t and "SURROGATE" not in t])] = old
        elif kind == 2:
            arrays[name] = old.astype(rng.choice(["float64", "float16", "int32", "int64", "uint8", "bool"]))
        elif kind == 3:
            arrays[name] = old[:0]
        elif kind == 4:
            arrays[name] = np.repeat(old, rng.choice([2, 3, 7]), axis=rng.randrange(old.ndim)) if old.ndim else old.reshape(1, 1)
        elif kind == 5:
            arrays[name] = old.T if old.ndim > 1 else old[..., None]
        elif kind == 6:
            arrays[name] = old.reshape(-1)
        elif kind == 7:
            arrays[name] = np.full_like(old, rng.choice([0, 1, 100, -1, -100, 2**30]) if old.dtype != bool else 1)
        elif old.dtype.kind == "f":
            arrays[name] = np.full_like(old, rng.choice([np.nan, np.inf, -np.inf, 1e30, 1e-40]))
    return arrays


class Kind:
    def __init__(self, place):
        models = dict(base_models.load([("classifier", CLASSIFIER), ("quantizable", QUANTIZABLE)], []))
        compile_ = lambda name, *options: place.run("trainc", f"{name}.onnx", "-o", f"{name}.tpk", "--target", "cpu:x86-64-v3", *options, writes=[f"{name}.tpk"])
        place.write("m.onnx", models["classifier"])
        place.write("l.onnx", models["quantizable"])
        rng = np.random.default_rng(1)
        self.data = {"x": rng.standard_normal((ROWS, 4)).astype(np.float32), "i": np.arange(ROWS) % 3}
        self.wide = {"x": rng.standard_normal((ROWS, 32)).astype(np.float32), "i": np.arange(ROWS) % 4}
        place.arrays("data.npz", self.data)
        place.arrays("wide.npz", self.wide)
        compile_("m")
        compile_("l", "--lora", "r=2,alpha=4")
        place.run("trainc-run", "m.tpk", "--data", "data.npz", "--steps", "3", "--batch-size", "2", "--save", "ck", "--save-every", "2", "--export", "weights.safetensors", writes=["ck/", "weights"])
        place.run("trainc-run", "l.tpk", "--data", "wide.npz", "--steps", "1", "--export", "adapter", writes=["adapter/"])
        if place.problems:
            raise SystemExit("\n".join(place.problems))
        self.files = {name: content for name, content in spread(place.folder).items() if not name.startswith("tmp/")}
        self.readers = [self.as_data] * 4 + [self.as_weights] * 3 + [self.as_checkpoint] * 3 + [self.as_adapter] * 2 + [self.as_index, self.as_recompute, self.as_artifacts, self.as_key]

    def run(self, place, rng):
        rng.choice(self.readers)(place, rng)

    def take(self, place, *prefixes):
        for name, content in self.files.items():
            if name.startswith(prefixes):
                place.write(name, content)

    def file_of(self, arrays, rng, name):
        """(name with an ending, bytes) of arrays in a file that may lie."""
        kind = rng.random()
        if kind < 0.2:
            arrays, plain = other_arrays(arrays, rng), rng.random() < 0.5
            if plain:
                out = io.BytesIO()
                np.savez(out, **{k.replace("/", "_") or "e": v for k, v in arrays.items() if k != "file"})
                return name + ".npz", out.getvalue()
            return name + ".safetensors", safetensors(arrays, rng, lies=False)
        if kind < 0.55:
            return name + ".npz", npz(arrays, rng)
        return name + ".safetensors", safetensors(arrays, rng)

    def as_data(self, place, rng):
        self.take(place, "m.", "data.npz")
        name, content = self.file_of(self.data, rng, "damaged")
        place.write(name, content)
        place.write("out.safetensors", b"before")
        steps = ["--threads", "1", "--steps", "2"]
        use = rng.randrange(5)
        if use == 0:
            place.run("trainc-run", "m.tpk", "--predict", name, "--threads", "1", "-o", "out.safetensors", writes=["out.safetensors"])
        elif use == 1:
            place.run("trainc-run", "m.tpk", "--data", "data.npz", "--eval", name, *steps)
        elif use == 2:
            place.run("trainc-run", "m.tpk", "--data", name, "--dump-gradients", "out.safetensors", "--threads", "1", writes=["out.safetensors"])
        else:
            more = rng.choice([[], ["--shuffle"], ["--trim"], ["--tokens-per-batch", "8"], ["--whole", "x"], ["--cut", "x"], ["--complexity", "x"], ["--density"], ["--world", "2", "--rank", "1"], ["--batch-size", "4"]])
            place.run("trainc-run", "m.tpk", "--data", name, *steps, *more)

    def as_weights(self, place, rng):
        self.take(place, "m.", "data.npz", "weights")
        name, content = self.file_of(read_safetensors(self.files["weights.safetensors"]), rng, "damaged")
        place.write(name, content)
        place.write("out.safetensors", b"before")
        run = ["trainc-run", "m.tpk", "--weights", name, "--threads", "1"]
        if rng.random() < 0.5:
            place.run(*run, "--data", "data.npz", "--steps", "1", "--save", "ck", writes=["ck/"])
        else:
            place.run(*run, "--export", "out.safetensors", writes=["out.safetensors"])

    def as_index(self, place, rng):
        self.take(place, "m.", "data.npz", "weights")
        index = {"metadata": {"total_size": 112}, "weight_map": {"w": "weights.safetensors", "v": "weights.safetensors"}}
        for _ in range(rng.choice([1, 1, 2])):
            odd_json.damage(index, rng, ["w", "v", "weights.safetensors", "m.onnx", "index.safetensors.index.json", "tmp"])
        place.write("index.safetensors.index.json", odd_json.text(index, rng))
        place.run("trainc-run", "m.tpk", "--weights", "index.safetensors.index.json", "--data", "data.npz", "--threads", "1", "--steps", "1")

    def as_checkpoint(self, place, rng):
        """The newest of two is damaged, with right checksums; the other one stays as it is."""
        self.take(place, "m.", "data.npz", "ck/")
        newest = "ck/step-3/"
        names = {part: newest + part for part in ("parameters.safetensors", "optimizer.safetensors", "state.json")}
        state = json.loads(self.files[names["state.json"]])
        part = rng.choice(list(names))
        if part == "state.json":
            for _ in range(rng.choice([1, 1, 2, 3])):
                odd_json.damage({k: v for k, v in state.items() if k != "checksums"}, rng, ["w", "v", "epoch", "row", "shuffle"])
                if rng.random() < 0.3:
                    key = rng.choice(list(state))
                    state[key] = odd_json.another(state[key], rng)
        else:
            content = safetensors(read_safetensors(self.files[names[part]]), rng)
            place.write(names[part], content)
            if isinstance(state.get("checksums"), dict):
                state["checksums"][part] = f"{zlib.crc32(content):08x}"
        text = odd_json.text(state, rng, indent=rng.choice([None, 2])) if part == "state.json" else json.dumps(state, indent=2, sort_keys=True).encode()
        if rng.random() < 0.9:
            text = re.sub(rb'("state.json": ")[0-9a-f]{8}', rb"\g<1>00000000", text, count=1)
            text = re.sub(rb'("state.json": ")[0-9a-f]{8}', b"\\g<1>%08x" % zlib.crc32(text), text, count=1)
        place.write(names["state.json"], text)
        run = ["trainc-run", "m.tpk", "--resume", "ck", "--threads", "1"]
        kept = [name for name in self.files if name.startswith("ck/step-2/")]
        uses = [["--predict", "data.npz", "-o", "out.safetensors"], ["--export", "out.safetensors"], ["--data", "data.npz", "--steps", "4", "--batch-size", "2"],
                ["--data", "data.npz", "--steps", "5", "--batch-size", "2", "--save", "ck"], ["--data", "data.npz", "--steps", "4", "--save", "ck", "--keep", "2"]]  # fmt: skip
        use = rng.choice(uses)
        place.run(*run, *use, writes=["out.safetensors", *(["ck/"] if "--save" in use else [])])
        if "--keep" not in use:
            for name in kept:
                if (place.folder / name).read_bytes() != self.files[name]:
                    place.problems.append(f"lost or changed: {name}")

    def as_adapter(self, place, rng):
        self.take(place, "l.", "wide.npz", "adapter/")
        if rng.random() < 0.6:
            config = json.loads(self.files["adapter/adapter_config.json"])
            for _ in range(rng.choice([1, 1, 2, 3])):
                odd_json.damage(config, rng, ["a", "b", "w", "v", "LORA", "CAUSAL_LM", "target_modules", "rank_pattern", "modules_to_save"])
                key = rng.choice(list(config) or ["r"])
                if rng.random() < 0.5:
                    config[key] = odd_json.another(config.get(key), rng)
                if rng.random() < 0.3:
                    config[rng.choice(["rank_pattern", "alpha_pattern"])] = {rng.choice(odd_json.TEXTS): rng.choice(odd_json.NUMBERS)}
            place.write("adapter/adapter_config.json", odd_json.text(config, rng))
        else:
            place.write("adapter/adapter_model.safetensors", safetensors(read_safetensors(self.files["adapter/adapter_model.safetensors"]), rng))
        run = ["trainc-run", "l.tpk", "--adapter", "adapter", "--threads", "1"]
        place.run(*run, *rng.choice([["--data", "wide.npz", "--steps", "1"], ["--merge-adapter", "out.safetensors"], ["--export", "out"], ["--export", "adapter", "--overwrite"]]), writes=["out", "adapter/"])

    def as_recompute(self, place, rng):
        self.take(place, "m.onnx")
        config = ["matmul+relu+:1:-1", "relu+:1:1", "softmax+:2:1"]
        for _ in range(rng.choice([1, 1, 2])):
            odd_json.damage(config, rng, ["matmul+:1:99999999999999999999", ":1:1", "+:1:1", "relu+:9:1", "relu+:1:-2", "@relu+:1:1", "+" * 5000 + ":1:1", "relu", ",", "relu+:1:1,relu+:1:1"])
            if not config:
                config = [""]
        place.write("r.json", odd_json.text(config, rng))
        place.run("trainc", "m.onnx", "-o", "new.tpk", "--target", "cpu:x86-64-v3", "--recompute", "r.json", "--stop-after", "graph")

    def as_artifacts(self, place, rng):
        for file in ARTIFACTS.iterdir():
            if file.suffix == ".onnx" or "checkpoint" in file.name:
                place.write(f"ort/{file.name}", file.read_bytes())
        name = rng.choice(["checkpoint", "checkpoint", "checkpoint", "nominal_checkpoint", "optimizer_model.onnx"])
        content = bytearray((ARTIFACTS / name).read_bytes())
        if rng.random() < 0.8:
            for _ in range(rng.choice([1, 2, 4, 12])):
                at = rng.randrange(len(content) // 4) * 4
                content[at : at + 4] = rng.choice([0, 1, 4, 8, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, len(content), rng.randrange(2**32)]).to_bytes(4, "little")
        else:
            content = flip(content, rng)
        place.write(f"ort/{name}", bytes(content))
        checkpoint = ["ort/training_model.onnx", "--optimizer-model", "ort/optimizer_model.onnx", "--checkpoint", f"ort/{name}"] if "nominal" in name else ["ort"]
        stop = ["--stop-after", "schedule"] if rng.random() < 0.8 else []
        place.run("trainc", *checkpoint, "-o", "m.tpk", "--target", "cpu:x86-64-v3", *stop, writes=["m.tpk"])

    def as_key(self, place, rng):
        self.take(place, "m.")
        body = rng.choice(["MC4CAQAwBQYDK2VwBCIEIHIxl1hTTnUv0nbK7WVYWpwyB4FBqgtBjEMFOvAZ0gXq", "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=", "A" * 100_000, "", "!!!!", "\x1b[2J"])
        kind = rng.choice(["PRIVATE KEY", "PUBLIC KEY", "RSA PRIVATE KEY", "CERTIFICATE", "", "\x1b[31m"])
        content = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n".encode()
        place.write("key.pem", flip(content, rng) if rng.random() < 0.5 else content)
        if rng.random() < 0.5:
            place.run("trainc", "m.onnx", "-o", "signed.tpk", "--target", "cpu:x86-64-v3", "--sign", "key.pem", writes=["signed.tpk"])
        else:
            place.run("trainc-run", "m.tpk", "--info", "--verify-key", "key.pem")
