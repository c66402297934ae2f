# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages whose manifest, program or tables are changed and sealed again, described and run."""

import json
import pathlib
import re
import shutil

import base_models
import odd_json
import sealed_package
from damaged_models import batch

SGD = ["--optimizer", "sgd", "--lr", "0.1"]
# Models, by the names of base_models, and what they are compiled with.
BASES = [
    ("tokens", ["--clip-norm", "1", "--accumulate", "2"]),
    ("conv", SGD),
    ("dropout", ["--optimizer-state", "int8"]),
    ("gru", ["--inference"]),
    ("shapes", ["--lora", "r=2,alpha=4,targets=w", "--embed-weights"]),
    ("quantizable", ["--lora", "r=2,alpha=4,dropout=0.1,targets=all-linear", "--quantize", "nf4:double:block=16", *SGD]),
]
# Attention over segments is a command of its own, which no small text makes.
EXPORTED = ("gpt2-cls", ["--token-bucket", "4", *SGD])
QUANTIZABLE = "input x f32[batch,32]\ninput i i64[batch]\ninit w f32[32,32] = 0.5\ninit v f32[32,4] = 0.25\noutput loss f32[]\nnode MatMul(x, w) -> h name=a\nnode MatMul(h, v) -> z name=b\nnode SoftmaxCrossEntropyLoss(z, i) -> loss\n"


class Base:
    def __init__(self, name, place):
        folder = place.folder / name
        self.name, self.folder = name, folder
        self.contents = sealed_package.entries(folder / "m.tpk")
        self.manifest = json.loads(self.contents["manifest.json"])
        (folder / "flat").mkdir()
        self.program = json.dumps(sealed_package.program_to_json(self.contents["program.fb"], folder / "flat"))
        kernels = [k["name"] for k in json.loads(self.program)["kernels"]]
        self.idle = sealed_package.idle_kernels(kernels, folder)
        self.words = sorted(set(re.findall(r'"([^"\\]+)"', json.dumps(self.manifest))))
        self.seed = 0


def make(place, name, model, options):
    (place.folder / name).mkdir()
    place.write(f"{name}/m.onnx", model)
    outcome = place.run("trainc", f"{name}/m.onnx", "-o", f"{name}/m.tpk", "--target", "cpu:x86-64-v3", *options, writes=[f"{name}/m.tpk"])
    if outcome.code:
        raise SystemExit(f"base {name}: {outcome.err}")
    return Base(name, place)


class Kind:
    def __init__(self, place):
        models = dict(base_models.load([("quantizable", QUANTIZABLE)], [EXPORTED[0]]))
        self.bases = [make(place, name, models[name], options) for name, options in [*BASES, EXPORTED]]
        self.scratch = place.folder

    def run(self, place, rng):
        base = rng.choice(self.bases)
        manifest, contents = json.loads(json.dumps(base.manifest)), dict(base.contents)
        shutil.copy(base.folder / "m.onnx", place.folder / "m.onnx")
        kind = rng.random()
        if kind < 0.4:
            self.damage_manifest(manifest, base, rng)
        elif kind < 0.85:
            self.damage_program(manifest, contents, base, rng, place.folder.with_suffix(".flat"))
        elif kind < 0.93:
            self.damage_bytes(contents, base, rng)
        else:
            self.damage_entries(contents, base, rng)
        text = odd_json.text(manifest, rng, indent=2) if kind < 0.4 else json.dumps(manifest, indent=2).encode()
        others = {name: data for name, data in contents.items() if name != "manifest.json"}
        sealed = {name: sealed_package.seal(text, others) if name == "manifest.json" else data for name, data in contents.items()}
        sealed_package.write(place.folder / "m.tpk", sealed)
        arrays = batch(base.manifest, rng)
        self.use(place, place.arrays("data.npz", arrays), rng)

    def damage_manifest(self, manifest, base, rng):
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            odd_json.damage({k: v for k, v in manifest.items() if k != "checksums"} if rng.random() < 0.9 else manifest, rng, base.words)
            if rng.random() < 0.15:
                manifest[rng.choice(list(manifest))] = odd_json.another(rng.choice(list(manifest.values())), rng, base.words)
        if rng.random() < 0.05:
            del manifest[rng.choice(list(manifest))]

    def damage_program(self, manifest, contents, base, rng, folder):
        (folder).mkdir(exist_ok=True)
        for _ in range(8):
            program = json.loads(base.program)
            before = json.dumps(manifest)
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                damage_table(program, rng, base.words)
            data = sealed_package.program_from_json(program, folder)
            if data is not None:
                break
        else:
            return
        contents["program.fb"] = data
        for name in contents:
            if name.startswith("kernels/"):
                contents[name] = base.idle
        if rng.random() < 0.7:
            agree(manifest, json.loads(base.program), program)

    def damage_bytes(self, contents, base, rng):
        """In the program as it is stored, also in the tables' own offsets."""
        data = bytearray(contents["program.fb"])
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data)) & ~3 if rng.random() < 0.6 else rng.randrange(len(data))
            size = min(rng.choice([1, 1, 4]), len(data) - at)
            data[at : at + size] = rng.choice([0, 1, 4, 0x7F, 0xFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, rng.randrange(2**32)]).to_bytes(8, "little")[:size]
        if rng.random() < 0.05:
            data = data[: rng.randrange(len(data))]
        contents["program.fb"] = bytes(data)
        for name in contents:
            if name.startswith("kernels/"):
                contents[name] = base.idle

    def damage_entries(self, contents, base, rng):
        name = rng.choice(list(contents))
        kind = rng.randrange(5)
        if kind == 0:
            del contents[name]
        elif kind == 1:
            contents[rng.choice(["extra", "tuning.txt", "ir.mlir", "signature.ed25519", "kernels/cpu-x86-64-v9.so", "../x", "\x1b[2J"])] = rng.randbytes(rng.choice([0, 8, 64, 300]))
        elif kind == 2 and "weights.bin" in contents:
            data = bytearray(contents["weights.bin"])
            for _ in range(rng.choice([1, 10])):
                at = rng.randrange(len(data)) & ~3
                data[at : at + 4] = rng.choice([b"\0\0\x80\x7f", b"\0\0\xc0\x7f", b"\xff\xff\x7f\x7f", rng.randbytes(4)])[: len(data) - at]
            contents["weights.bin"] = bytes(data)
        elif kind == 3 and "weights.bin" in contents:
            contents["weights.bin"] = contents["weights.bin"][: rng.randrange(len(contents["weights.bin"]))]
        else:
            contents["tuning.txt"] = rng.choice([b"", b"products, NVIDIA H200\nbf16 = 0042\n", b"\x1b[2J = 1\n", b"=" * 5000, b"\0" * 64, b"x\n" * 3000])

    def use(self, place, data, rng):
        run = ["trainc-run", "m.tpk", "--threads", "1", "--init", "normal:0.02", "--batch-size", "2", "--data", data]
        uses = [
            (["trainc-run", "m.tpk", "--info"], []),
            (["trainc-run", "m.tpk", "--info", "--log-format", "json"], []),
            (["trainc-translate", "--dump-package", "m.tpk"], []),
            ([*run, "--steps", "1"], []),
            ([*run, "--steps", "2", "--log-format", "json", "--memory-stats"], []),
            ([*run, "--steps", "1", "--save", "saved"], ["saved/"]),
            ([*run, "--steps", "1", "--accumulate", "2", "--eval", data], []),
            ([*run, "--steps", "1", "--variant", "base", "--check-numerics"], []),
            ([*run, "--steps", "1", "--density", "--trim"], []),
            ([*run, "--dump-gradients", "gradients.safetensors"], ["gradients.safetensors"]),
            (["trainc-run", "m.tpk", "--threads", "1", "--predict", data, "-o", "out.safetensors"], ["out.safetensors"]),
            (["trainc-run", "m.tpk", "--export", "weights.safetensors"], ["weights.safetensors"]),
            (["trainc-run", "m.tpk", "--merge-adapter", "merged.safetensors"], ["merged.safetensors"]),
            (["trainc-run", "m.tpk", "--export", "adapter"], ["adapter/"]),
        ]
        place.run(*uses[rng.randrange(3)][0])
        command, writes = rng.choice(uses[3:])
        # What is looked for is in the runtime: a batch that a small package cannot hold is refused.
        place.run(*command, writes=writes)


def damage_table(program, rng, words):
    """One field of the program; numbers stay in reach of their types, mostly."""
    value, parents = program, []
    while isinstance(value, (dict, list)) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if parents and rng.random() < 0.08:
            break
        key = rng.choice(list(keys))
        parents.append((value, key))
        value = value[key]
    if not parents:
        return
    owner, key = parents[-1]
    old = owner[key]
    kind = rng.random()
    if isinstance(owner, list) and kind < 0.15:
        if rng.random() < 0.5:
            del owner[key]
        else:
            owner.insert(rng.randrange(len(owner) + 1), json.loads(json.dumps(owner[rng.randrange(len(owner))])))
    elif isinstance(owner, dict) and kind < 0.05:
        del owner[key]
    elif isinstance(old, bool):
        owner[key] = not old
    elif isinstance(old, int):
        owner[key] = rng.choice([old + 1, max(old - 1, 0), 0, 1, rng.randrange(12), rng.randrange(60), 255, 2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, -1, -(2**63)])
    elif isinstance(old, float):
        owner[key] = rng.choice([0.0, -1.0, 1e38, 0.5])
    elif isinstance(old, str):
        owner[key] = rng.choice(ENUMERATORS) if old in ENUMERATORS and rng.random() < 0.9 else rng.choice([*words, *odd_json.TEXTS])
    elif isinstance(old, list):
        owner[key] = rng.choice([[], old[1:], old * 2, old[::-1], old[:1]])


ENUMERATORS = [
    name for names in re.findall(r"enum \w+ : \w+ \{([^}]*)\}", sealed_package.SCHEMA.read_text()) for name in re.findall(r"\w+", names)
]


def agree(manifest, before, program):
    """Makes the manifest say what a changed program says of tensors, symbols and functions."""
    exprs, symbols = program.get("exprs", []), program.get("symbols", [])
    try:
        names = {old["name"]: new["name"] for old, new in zip(before["symbols"], symbols)}
        for entry, new in zip(manifest["symbols"], symbols):
            entry["name"] = new["name"]
            for key in ("min", "divisor"):
                entry[key] = new[key]
            entry["max"] = None if new["max"] == 2**63 - 1 else new["max"]
        for table in ("parameters", "state", "inputs", "outputs"):
            said = {entry["name"]: entry for entry in manifest[table]}
            for old, new in zip(before[table], program[table]):
                entry = said[old["name"]]
                entry["name"], entry["dtype"] = new["name"], "bool" if new["dtype"] == "bool8" else new["dtype"]
                shape = []
                for i, index in enumerate(new.get("shape", [])):
                    kind = exprs[index]["kind"]
                    left = entry["shape"][i] if i < len(entry["shape"]) else 1
                    shape.append(exprs[index]["value"] if kind == "constant" else symbols[exprs[index]["a"]]["name"] if kind == "symbol" else names.get(left, left))
                entry["shape"] = shape
        for entry, new in zip(manifest["functions"], program["functions"]):
            entry["name"] = new["name"]
    except (KeyError, IndexError, TypeError):  # they no longer fit together; as far as it went
        pass
