# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data whose rows are copied one by one (docs/data.md): folders of `trainc data` and streams of tokens, against the same
rows as arrays; what is refused.

  rows.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import json
import pathlib
import shutil
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "Inputs"))
from cases import expect, program_parser, run_cases  # noqa: E402
from make_data_folder import random_columns, write, write_safetensors  # noqa: E402
from trained import Trained  # noqa: E402


class Cases(Trained):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.columns = random_columns(23, 30, 101, 1)
        self.lengths = [len(row) for row in self.columns["input_ids"][0]]

    def padded(self, columns, width=None):
        """The rows as arrays of a .npz."""
        arrays = {}
        lengths = [len(row) for row in columns["input_ids"][0]]
        for name, (values, said) in columns.items():
            if isinstance(values, np.ndarray):
                arrays[name] = values
                continue
            rows = values or [np.full(n, said["constant"]) for n in lengths]
            longest = width or max(map(len, rows))
            arrays[name] = np.array([np.r_[row, np.full(longest - len(row), said["pad"])] for row in rows], np.int64)
        return self.data(**arrays)

    def folder(self, columns=None, shards=3):
        path = self.path("")
        write(path, columns or self.columns, shards)
        return path

    # Folders.

    def case_folder_is_as_its_rows(self):
        """Bit for bit what the same rows make as arrays, cut to the longest of a batch."""
        package, folder, arrays = self.trainc("gpt2"), self.folder(), self.padded(self.columns, 32)
        for flags in (["--batch-size", "4", "--epochs", "2"], ["--batch-size", "5", "--steps", "9", "--shuffle"],
                      ["--batch-size", "4", "--shuffle", "--seed", "9", "--group-by-length"],
                      ["--tokens-per-batch", "70", "--shuffle", "--epochs", "2"],
                      ["--tokens-per-batch", "70", "--trim=8", "--world", "2", "--rank", "1"],
                      ["--batch-size", "3", "--accumulate", "2"], ["--batch-size", "4", "--trim=4"]):  # fmt: skip
            plain = flags if "--trim" in " ".join(flags) else [*flags, "--trim"]
            if "--tokens-per-batch" in flags:
                plain = flags
            ours, theirs = self.log(package, folder, *flags, "--density"), self.log(package, arrays, *plain, "--density")
            strip = lambda log: [(e.get("loss"), e.get("valid"), e.get("total"), e.get("valid_per_row")) for e in log]  # noqa: E731
            expect(strip(ours) == strip(theirs), flags, strip(ours), "is not", strip(theirs))

    def case_folder_rounds_to_what_the_model_takes(self):
        package = self.trainc("gpt2", "--dim", "seq=32")
        folder, arrays = self.folder(), self.padded(self.columns, 32)
        flags = "--batch-size", "4", "--epochs", "1"
        expect(self.losses(package, folder, *flags) == self.losses(package, arrays, *flags))
        for flag in ("--trim", "--tokens-per-batch=64"):
            self.refused([flag.split("=")[0] + " cuts batches to their longest row, but the model's rows are of one length"],
                         package, folder, flag)  # fmt: skip
        short = self.trainc("gpt2", "--dim", "seq=20")
        row = next(r for r, n in enumerate(self.lengths) if n > 20)
        self.refused([f"row {row} (row ", f"has {self.lengths[row]} places, the model takes 20 at most", "--max-length"],
                     short, folder)  # fmt: skip

    def case_folder_with_two_lengths(self):
        """Source and target have offsets of their own."""
        arrays = dict(np.load(self.arguments.models / "t5.npz"))
        source, target = arrays["attention_mask"].sum(1), (arrays["labels"] != -100).sum(1)
        rows = {n: [row[:length] for row, length in zip(arrays[n], lengths)]
                for n, lengths in (("input_ids", source), ("labels", target))}  # fmt: skip
        pad = int(arrays["input_ids"][0, -1]) if source[0] < arrays["input_ids"].shape[1] else 0
        columns = {"input_ids": (rows["input_ids"], {"pad": pad}),
                   "attention_mask": (None, {"dtype": "I8", "constant": 1, "pad": 0}),
                   "labels": (rows["labels"], {"pad": -100, "offsets": "offsets.decoder"})}  # fmt: skip
        for name, values in arrays.items():
            if name not in columns:
                columns[name] = ([row[:n] for row, n in zip(values, target)], {"pad": 0, "offsets": "offsets.decoder"})
        flags = "--batch-size", "2", "--epochs", "1"
        ours = self.losses(self.trainc("t5"), self.folder(columns, 2), *flags)
        self.close(ours, self.losses(self.trainc("t5"), self.data(**arrays), *flags))

    def case_folder_resume(self):
        package, folder = self.trainc("gpt2"), self.folder()
        for flags in (["--batch-size", "3", "--shuffle"], ["--tokens-per-batch", "60", "--shuffle", "--accumulate", "2"]):
            saved = self.path("")
            whole = self.losses(package, folder, *flags, "--epochs", "2", "--save", saved, "--save-every", "1")
            for step in range(1, len(whole), 2):
                rest = self.losses(package, folder, "--resume", saved / f"step-{step}")
                expect(rest == whole[step:], f"from step {step}: {rest}, not {whole[step:]}")
        other = self.folder(random_columns(23, 30, 101, 2))
        self.refused(["the data's values have changed", "written in the middle of epoch"], package, other,
                     "--resume", saved / "step-1")  # fmt: skip

    def case_folder_evaluates_and_predicts(self):
        package, folder, arrays = self.trainc("gpt2"), self.folder(), self.padded(self.columns)
        found = {}
        for data in (folder, arrays):
            for size in ("1", "4", "23"):
                out = self.path(".safetensors")
                log = self.without_data(package, "--eval", data, "--predict", data, "--outputs", "logits", "-o", out,
                                        "--batch-size", size)  # fmt: skip
                found[data, size] = log[-1]["loss"], out.read_bytes()
        losses = [loss for loss, _ in found.values()]
        expect(max(losses) - min(losses) < 1e-6 * losses[0], losses)
        for size in ("1", "4", "23"):
            expect(found[folder, size][1] == found[arrays, size][1], "outputs differ with --batch-size", size)

    def case_folder_of_rows_without_lengths(self):
        arrays = dict(np.load(self.arguments.models / "mlp-regression.npz"))
        columns = {name: (values, {}) for name, values in arrays.items()}
        flags = "--shuffle", "--steps", "7"
        package = self.trainc("mlp-regression")
        expect(self.losses(package, self.folder(columns), *flags) == self.losses(package, self.data(**arrays), *flags))

    def case_folder_complexity_and_ignored_columns(self):
        cost = np.arange(23, dtype=np.float32)[::-1] ** 2
        folder = self.folder(self.columns | {"cost": (cost, {}), "spare": (cost, {})})
        flags = "--batch-size", "6", "--group-by-length", "--complexity", "cost", "--density"
        out, err = self.run(self.trainc("gpt2"), folder, *flags, "--log-format", "json")
        expect("'spare' is no input of the model and is ignored" in err and "'cost'" not in err, err)
        first = next(json.loads(line) for line in out.splitlines() if '"input":"input_ids"' in line)
        expect(first["valid_per_row"] == self.lengths[:6], first)
        self.refused(["must be one number"], self.trainc("gpt2"), folder, "--group-by-length", "--complexity", "input_ids")

    def case_folder_lacks_an_input(self):
        columns = {n: c for n, c in self.columns.items() if n != "labels"}
        self.refused(["input 'labels' is missing", "it has attention_mask, input_ids"],
                     self.trainc("gpt2"), self.folder(columns))  # fmt: skip

    def case_folder_with_a_bad_token(self):
        """The message names the row, in the folder and in its shard."""
        columns = dict(self.columns)
        ids = [row.copy() for row in columns["input_ids"][0]]
        ids[17][1] = 101
        columns["input_ids"] = (ids, {"pad": 0})
        self.refused(["value 101 at [1, 1] is out of range", "that is row 17 (row 2 of shard-00002.safetensors) of",
                      "the first of them row 16"], self.trainc("gpt2"), self.folder(columns), "--batch-size", "4")  # fmt: skip

    def case_damaged_folders(self):
        package = self.trainc("gpt2")
        good = self.folder()
        index = json.loads((good / "index.json").read_text())

        def changed(change=None, text=None):
            copy = self.path("")
            shutil.copytree(good, copy)
            said = json.loads(json.dumps(index))
            if change:
                change(said, copy)
            (copy / "index.json").write_text(text if text is not None else json.dumps(said))
            return copy

        def cut(said, folder):
            path = folder / "shard-00001.safetensors"
            path.write_bytes(path.read_bytes()[:-5])

        def shard(edit):
            def change(said, folder):
                path = folder / "shard-00001.safetensors"
                ids = self.columns["input_ids"][0][7:15]
                arrays = {"offsets": np.cumsum([0, *map(len, ids)]).astype(np.int64), "input_ids": np.concatenate(ids),
                          "labels": np.concatenate(self.columns["labels"][0][7:15])}  # fmt: skip
                edit(arrays)
                write_safetensors(path, arrays)
                said["shards"][1]["size"] = path.stat().st_size

            return change

        def column(name, **fields):
            return lambda said, folder: said["columns"][name].update(fields)

        def offsets(row, by):
            return shard(lambda a: a["offsets"].__setitem__(row, a["offsets"][row] + by))

        for change, words in (
            (cut, ["shard-00001.safetensors: the file has", "index.json says", "damaged, or another run's"]),
            (lambda s, f: (f / "shard-00002.safetensors").unlink(), ["cannot open", "it has rows 15 to 22"]),
            (lambda s, f: s.update(version=2), ["version 2 is of another trainc, this one reads version 1"]),
            (lambda s, f: s.update(format="arrow"), ['does not say "format": "trainc-data"']),
            (lambda s, f: s.update(rows=24), ["it says 24 rows, its shards have 23"]),
            (lambda s, f: s.update(rows=-1), ["'rows' must be a count"]),
            (lambda s, f: s.update(columns=[]), ["'columns' is no object of columns"]),
            (lambda s, f: s.update(shards={}), ["'shards' is no list"]),
            (lambda s, f: s["shards"][0].pop("file"), ["shard 0: 'file' is no name"]),
            (lambda s, f: s["shards"][0].update(file="../x"), ["'../x' is no file of the folder"]),
            (lambda s, f: s["shards"][0].pop("size"), ["shard 0: 'size' must be a count"]),
            (lambda s, f: s["shards"][1].update(rows=7) or s["shards"][2].update(rows=9),
             ["shard-00001.safetensors: tensor 'offsets' is i64 [9], and must be i64 [8]"]),
            (lambda s, f: s.update(rows=0, shards=[]), ["it has no rows"]),
            (column("labels", dtype="I128"), ["column 'labels': 'dtype' is none of safetensors' types"]),
            (column("labels", ragged=1), ["column 'labels': 'ragged' is neither true nor false"]),
            (column("labels", pad="x"), ["column 'labels': 'pad' is no number"]),
            (column("attention_mask", pad=999), ["'pad' or 'constant' is no value of its type"]),
            (column("labels", offsets=3), ["'offsets' is no name of a tensor"]),
            (column("labels", offsets="gone"), ["there is no tensor 'gone' in it"]),
            (column("labels", ragged=False, shape=7), ["'shape' is no list of sizes"]),
            (column("labels", ragged=False, shape=[1 << 40, 1 << 40]), ["'shape' is impossible"]),
            (column("labels", ragged=False, shape=[1]), ["'labels' is i32", "and must be i32 [7, 1]"]),
            (lambda s, f: s["columns"].update(labels=3), ["column 'labels': it is no object"]),
            (column("labels", dtype="I16"), ["tensor 'labels' is i32", "and must be i16"]),
            (offsets(3, 1000), ["row 3 (10 of the folder) ends before it begins"]),
            (offsets(0, 1), ["tensor 'offsets' does not begin with 0"]),
            (offsets(8, -1), ["tensor 'input_ids' is i32", "and must be i32"]),
            (shard(lambda a: a.pop("labels")), ["there is no tensor 'labels' in it"]),
            (shard(lambda a: a.update(labels=a["labels"][:-1])), ["tensor 'labels' is i32"]),
        ):  # fmt: skip
            self.refused(words, package, changed(change))
        self.refused(["index.json: is no JSON object; write the folder again"], package, changed(text="{"))
        self.losses(package, changed())

    def case_foreign_folders(self):
        package = self.trainc("gpt2")
        for file, words in (("dataset_info.json", "Hugging Face's datasets: `trainc data` tokenizes it"),
                            ("config.json", "it is a model: data comes behind --data, weights behind --weights"),
                            ("shard-00000.safetensors", "has not come to its end"), ("x", "`trainc data` writes it last")):  # fmt: skip
            folder = self.path("")
            folder.mkdir()
            (folder / file).write_text("{}")
            self.refused([f"{folder}: this folder is no data: it has no index.json; ", words], package, folder)

    def case_columns_that_do_not_fit(self):
        package = self.trainc("gpt2")

        def with_column(name, values, said):
            return self.folder(self.columns | {name: (values, said)})

        real = [np.ones(n, np.float32) for n in self.lengths]
        self.refused(["input 'input_ids' must be i64, but the column is f32, and the conversion could lose values"],
                     package, with_column("input_ids", real, {"pad": 0}))  # fmt: skip
        fixed = np.ones((23, 30), np.int32)
        self.refused(["it has to have the lengths of its rows"], package, with_column("attention_mask", fixed, {}))
        self.refused(["input 'labels' must have rank 2"], package, with_column("labels", fixed[:, 0], {}))
        half = [np.ones(n, np.float32) for n in self.lengths]
        self.refused(["input 'attention_mask' must be i64, but its padding is no value of that type"],
                     package, with_column("attention_mask", half, {"pad": 0.5}))  # fmt: skip

    def case_output_in_the_data(self):
        folder = self.folder()
        self.refused(["is --data, which this run reads"], self.trainc("gpt2"), folder, "--export",
                     folder / "shard-00000.safetensors")  # fmt: skip

    # Streams of tokens.

    def stream(self, tokens, kind="nanogpt"):
        path = self.path(".bin")
        tokens = np.asarray(tokens)
        header = np.zeros(256, np.int32)
        header[:3] = {"llmc": 20240520, "llmc-wide": 20240801}.get(kind, 0), 1, len(tokens)
        kinds = {"nanogpt": (b"", np.uint16), "llmc": (header.tobytes(), np.uint16), "llmc-wide": (header.tobytes(), np.uint32)}
        path.write_bytes(kinds[kind][0] + tokens.astype(kinds[kind][1]).tobytes())
        return path

    def windows(self, tokens, width, shift=0):
        rows = (len(tokens) - shift) // width
        return self.data(input_ids=tokens[: rows * width].reshape(rows, width).astype(np.int64),
                         labels=tokens[shift : shift + rows * width].reshape(rows, width).astype(np.int64),
                         attention_mask=np.ones((rows, width), np.int64))  # fmt: skip

    def case_streams_are_windows_in_order(self):
        tokens = np.random.default_rng(3).integers(0, 101, 333)
        package = self.trainc("gpt2")
        flags = "--batch-size", "4", "--epochs", "2"
        expected = self.losses(package, self.windows(tokens, 16), *flags)
        for kind in ("nanogpt", "llmc", "llmc-wide"):
            stream = self.stream(tokens, kind)
            _, err = self.run(package, stream, "--window", "16", *flags)
            expect("'attention_mask' is 1 everywhere" in err, err)
            losses = self.losses(package, stream, "--window", "16", *flags)
            expect(losses == expected, kind, losses, expected)
        shifted = self.losses(package, stream, "--window", "16", "--bin-shift", *flags)
        expect(shifted == self.losses(package, self.windows(tokens, 16, 1), *flags), shifted)
        fixed = self.trainc("gpt2", "--dim", "seq=16")
        expect(self.losses(fixed, stream, *flags) == self.losses(fixed, self.windows(tokens, 16), *flags))
        log = self.without_data(package, "--eval", stream, "--window", "16")
        expect(log[-1]["samples"] == 20, log)

    def case_streams_at_random(self):
        """Windows begin elsewhere in every epoch; the seed decides; a run goes on bit for bit."""
        tokens = np.arange(1000) % 101
        package, stream = self.trainc("gpt2"), self.stream(tokens)
        run = package, stream, "--window", "10", "--shuffle", "--batch-size", "7"
        first = self.losses(*run, "--seed", "1", "--epochs", "2")
        expect(first == self.losses(*run, "--seed", "1", "--epochs", "2"))
        expect(first != self.losses(*run, "--seed", "2", "--epochs", "2"))
        expect(len(first) == 2 * 15, len(first))  # 99 windows, wherever the first one begins
        for flags in (["--epochs", "3"], ["--steps", "40"]):
            saved = self.path("")
            whole = self.losses(*run, *flags, "--save", saved, "--save-every", "1")
            for step in (1, 14, 15, 16, 31):
                rest = self.losses(package, stream, "--resume", saved / f"step-{step}")
                expect(rest == whole[step:], flags, f"from step {step}: {rest}, not {whole[step:]}")
        inside = saved / "step-16"
        self.refused(["the data's values have changed"], package, self.stream(tokens[::-1]), "--resume", inside)
        self.refused(["--window was 10 and is 20", "the number of rows was"], package, stream, "--window", "20",
                     "--resume", inside)  # fmt: skip
        for flags in (["--world", "2", "--rank", "0"], ["--group-by-length"], ["--tokens-per-batch", "70"]):
            expect(len(self.losses(package, stream, "--window", "10", "--shuffle", *flags, "--batch-size", "7")) > 5, flags)

    def case_short_streams(self):
        package = self.trainc("gpt2")
        one = self.stream(np.arange(16))
        expect(len(self.losses(package, one, "--window", "16", "--shuffle")) == 1)
        expect(len(self.losses(package, one, "--window", "15", "--shuffle", "--bin-shift", "--epochs", "3")) == 3)
        self.refused(["it has 16 tokens, too few for a window of 17"], package, one, "--window", "17")
        self.refused(["too few for a window of 16 and the token behind it"], package, one, "--window", "16", "--bin-shift")

    def case_damaged_streams(self):
        package = self.trainc("gpt2")
        good = self.stream(np.arange(64), "llmc")

        def changed(at, value, cut=None):
            path = self.path(".bin")
            data = bytearray(good.read_bytes())
            data[4 * at : 4 * at + 4] = int(value).to_bytes(4, "little")
            path.write_bytes(data[:cut])
            return path

        for path, words in (
            (changed(1, 7), ["version 7 of llm.c's header is not known, 1 is"]),
            (changed(2, 65), ["its header says 65 tokens, the file has 64: it is damaged"]),
            (changed(1, 1, -1), ["its 127 bytes are no tokens of 2 bytes each: it is cut short"]),
            (changed(0, 20240801), ["its header says 64 tokens, the file has 32"]),
        ):
            self.refused(words, package, path, "--window", "16")
        wide = self.stream(np.full(64, 7), "llmc-wide")
        self.refused(["--window N must say how many tokens a row has"], package, good)
        self.refused(["--bin-inputs: the model has no input 'tokens'"], package, good, "--window", "8", "--bin-inputs", "tokens")
        self.refused(["--bin-inputs names 'labels' twice"], package, good, "--window", "8", "--bin-inputs", "labels,labels")
        self.refused(["--bin-shift gives every input but the first the next tokens"], package, good, "--window", "8",
                     "--bin-inputs", "input_ids", "--bin-shift")  # fmt: skip
        self.refused(["tokens need an integer of at least 32 bits"], self.trainc("mlp-regression"), good, "--window", "8",
                     "--bin-inputs", "x,target")  # fmt: skip
        self.refused(["input 'labels' is missing"], package, wide, "--window", "8", "--bin-inputs", "input_ids")
        self.refused(["the model has no input 'input_ids'"], self.trainc("mlp-regression"), good, "--window", "8")
        # A file without a header, one token of which is no word of the model.
        self.refused(["value 101 at [0, 4] is out of range", "the window from token 32 on"], package,
                     self.stream(np.r_[np.zeros(36), 101, np.zeros(27)]), "--window", "8", "--batch-size", "4")  # fmt: skip
        for flag in ("--window=8", "--bin-inputs=input_ids", "--bin-shift"):
            self.refused([flag.split("=")[0] + " is for tokens in a .bin"], package, self.folder(), flag, code=2)


if __name__ == "__main__":
    run_cases(program_parser(), Cases)
