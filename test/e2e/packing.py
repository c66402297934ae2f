#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of more than one sequence: `packing.py TRAINC TRAINC_RUN MAKE_ONNX`.

Several documents in a row, told apart by an input of their numbers (0: padding), and a decoder beside
an encoder, each with its mask. As in sparsity.py, the default package is held against that of -O0:
loss within 1e-6, gradients within 3e-6. Batches that cannot be packed exactly (a document in two
pieces, a row without a token, a label at padding) have to be run by the plain step, which says why.
"""

import collections
import pathlib
import sys
import tempfile

import numpy as np

import sparsity
from sparsity import check, compare, gradients, run

NOISE = collections.defaultdict(float)
VOCABULARY, WIDTH, HEADS = 41, 16, 2


class Graph:
    """Lines of text for make_onnx.py."""

    def __init__(self):
        self.lines, self.trained = ["opset 17"], []
        self.add("init split i64[4] = 0 0 2 -1", "init merge i64[3] = 0 0 -1", "init flat i64[1] = -1",
                 "init rows i64[2] = -1 41", "init zero i64[] = 0", "init least f32[] = -3.4028234663852886e+38",
                 "init none f32[] = 0", "output loss f32[]")

    def add(self, *lines):
        self.lines += lines

    def weight(self, name, shape):
        count = int(np.prod(shape))
        phase = 0.7 * len(self.trained)
        values = 0.3 * np.sin(1.7 * np.arange(count) ** 1.1 + phase)
        self.add(f"init {name} f32[{','.join(map(str, shape))}] = " + " ".join(f"{v:.5f}" for v in values))
        self.trained.append(name)

    def embed(self, ids, out):
        self.weight(f"{out}.table", [VOCABULARY, WIDTH])
        self.add(f"node Gather({out}.table, {ids}) -> {out}")

    def attention(self, x, memory, visible, out, depth=8, dropout=0.0, masked=None):
        """x + softmax(q k^T + mask) v; `visible` is a boolean of the scores' shape. Scores that are not
        become the number `masked` instead, if there is one."""
        for part, of in (("q", x), ("k", memory), ("v", memory)):
            self.weight(f"{out}.{part}", [WIDTH, HEADS * depth])
            self.add(f"node MatMul({of}, {out}.{part}) -> {out}.{part}1", f"node Reshape({out}.{part}1, split) -> {out}.{part}2",
                     f"node Transpose({out}.{part}2) -> {out}.{part}3 perm=[0,{'2,3,1' if part == 'k' else '2,1,3'}]")
        self.weight(f"{out}.o", [HEADS * depth, WIDTH])
        self.add(f"init {out}.scale f32[] = {depth ** -0.5}",
                 f"node MatMul({out}.q3, {out}.k3) -> {out}.s", f"node Mul({out}.s, {out}.scale) -> {out}.t",
                 *([f"node Where({visible}, none, least) -> {out}.m", f"node Add({out}.t, {out}.m) -> {out}.u"] if masked is None else
                   [f"init {out}.masked f32[] = {masked}", f"node Where({visible}, {out}.t, {out}.masked) -> {out}.u"]),
                 f"node Softmax({out}.u) -> {out}.w axis=-1")
        weights = f"{out}.w"
        if dropout:
            self.add(f"init {out}.ratio f32[] = {dropout}", f"init {out}.training bool[] = 1",
                     f"node Dropout({weights}, {out}.ratio, {out}.training) -> {out}.d")
            weights = f"{out}.d"
        self.add(f"node MatMul({weights}, {out}.v3) -> {out}.y", f"node Transpose({out}.y) -> {out}.z perm=[0,2,1,3]",
                 f"node Reshape({out}.z, merge) -> {out}.r", f"node MatMul({out}.r, {out}.o) -> {out}.p",
                 f"node Add({x}, {out}.p) -> {out}")

    def places(self, ids):
        """i and j: the places of rows and columns."""
        self.add(f"node Shape({ids}) -> sizes start=1 end=2", "init origin i64[] = 0", "init step i64[] = 1",
                 "node Squeeze(sizes) -> length", "node Range(origin, length, step) -> numbered", "init down i64[1] = 1",
                 "init across i64[1] = 0", "node Unsqueeze(numbered, down) -> i", "node Unsqueeze(numbered, across) -> j")

    def order(self, form):
        """What a row sees by its place."""
        if form == "window on both sides":
            self.add("init reach i64[] = 2", "node Sub(i, j) -> apart", "node Abs(apart) -> distance", "node LessOrEqual(distance, reach) -> near",
                     "node GreaterOrEqual(i, origin) -> always", "node And(near, always) -> within")
            return "within"
        self.add("node LessOrEqual(j, i) -> before")
        if form == "window":
            self.add("init window i64[] = 3", "node Sub(i, window) -> last.hidden", "node Greater(j, last.hidden) -> near",
                     "node And(near, before) -> within")
        return "within" if form == "window" else "before"

    def loss(self, x):
        self.weight("head", [WIDTH, VOCABULARY])
        self.add(f"node MatMul({x}, head) -> logits", "node Reshape(logits, rows) -> l", "node Reshape(labels, flat) -> y",
                 'node SoftmaxCrossEntropyLoss(l, y) -> loss reduction="mean" ignore_index=-100',
                 "meta trainable = " + "\\n".join(self.trained))

    def text(self):
        return "\n".join(self.lines) + "\n"


def documents(form, **options):
    graph = Graph()
    for name in ("input_ids", "segment_ids", "labels"):
        graph.add(f"input {name} i64[batch,seq]")
    graph.embed("input_ids", "x")
    graph.add("init row i64[2] = 1 3", "init column i64[2] = 1 2",
              "node Unsqueeze(segment_ids, row) -> of.row", "node Unsqueeze(segment_ids, column) -> of.column",
              "node Equal(of.row, of.column) -> same", "node Equal(of.column, zero) -> padding", "node Not(padding) -> token")
    if form == "equal only":
        graph.add("node Identity(same) -> visible")
    elif form in ("causal", "window", "window on both sides"):
        graph.places("segment_ids")
        graph.add("node And(same, token) -> together", f"node And(together, {graph.order(form)}) -> visible")
    elif form == "greater":
        graph.add("node Greater(of.column, zero) -> positive", "node And(same, positive) -> visible")
    elif form == "beside a mask":
        graph.add("input attention_mask i64[batch,seq]", "node Unsqueeze(attention_mask, column) -> mask.column",
                  "node Cast(mask.column) -> real to=9", "node And(same, real) -> visible")
    else:
        graph.add("node And(same, token) -> visible")
    graph.attention("x", "x", "visible", "a", **options)
    graph.attention("a", "a", "visible", "b", **options)
    graph.loss("b")
    return graph.text()


def sequences(order, masked=None, **options):
    """Documents that are told apart by positions which begin anew, as transformers writes it of position_ids without a mask."""
    graph = Graph()
    for name in ("input_ids", "position_ids", "labels"):
        graph.add(f"input {name} i64[batch,seq]")
    graph.embed("input_ids", "w")
    graph.weight("places", [64, WIDTH])
    graph.add("node Gather(places, position_ids) -> p", "node Add(w, p) -> x",
              "init one i64[] = 1", "init from i64[1] = 0", "init next i64[1] = 1", "init end i64[1] = 9223372036854775807",
              "init last i64[1] = -1", "init along i64[1] = 1", "init axis i64[] = 1",
              "node Slice(position_ids, from, next, along) -> first", "node Sub(first, one) -> dummy",
              "node Concat(dummy, position_ids) -> joined axis=1", "node Slice(joined, next, end, along) -> here",
              "node Slice(joined, from, last, along) -> before", "node Sub(here, before) -> difference",
              "node Equal(difference, one) -> goes.on", "node Not(goes.on) -> begins", "node Cast(begins) -> counted to=7",
              "node CumSum(counted, axis) -> number", "init row i64[2] = 1 3", "init column i64[2] = 1 2",
              "node Unsqueeze(number, row) -> of.row", "node Unsqueeze(number, column) -> of.column", "node Equal(of.row, of.column) -> same")
    if order == "of positions":
        graph.add("node Unsqueeze(position_ids, row) -> at.row", "node Unsqueeze(position_ids, column) -> at.column",
                  "node LessOrEqual(at.column, at.row) -> earlier", "node And(same, earlier) -> visible")
    elif order == "of positions, turned":
        graph.add("node Unsqueeze(position_ids, row) -> at.row", "node Unsqueeze(position_ids, column) -> at.column",
                  "node Less(at.row, at.column) -> later", "node Not(later) -> earlier", "node And(earlier, same) -> visible")
    elif order == "within a window":
        graph.add("init window i64[] = 5", "node Unsqueeze(position_ids, row) -> at.row", "node Unsqueeze(position_ids, column) -> at.column",
                  "node LessOrEqual(at.column, at.row) -> earlier", "node Sub(at.row, window) -> least.row",
                  "node Greater(at.column, least.row) -> near", "node And(same, earlier) -> older", "node And(older, near) -> visible")
    else:
        graph.add("node Identity(same) -> visible")
    graph.attention("x", "x", "visible", "a", masked=masked, **options)
    graph.attention("a", "a", "visible", "b", masked=masked, **options)
    graph.loss("b")
    return graph.text()


def make_positions(rng):
    """(kind, positions)"""
    def rows(count, columns, at):
        numbers = make_rows(rng, count, columns, 1)
        starts = np.zeros_like(numbers)
        for row, start in zip(numbers, starts):
            for number in set(row):
                start[row == number] = at(number)
                row[row == number] = np.arange((row == number).sum())
        return numbers + starts
    yield "from 0", rows(5, 40, lambda number: 0)
    yield "from anywhere", rows(5, 40, lambda number: int(rng.integers(0, 40)))
    padded = rows(4, 40, lambda number: 0)
    padded[:, 31:] = 0
    yield "zeros behind", padded
    yield "one document a row", np.tile(np.arange(40), (4, 1))
    yield "rows that go on", np.arange(60).reshape(3, 20)
    yield "each token a document", np.zeros((3, 40), np.int64)
    yield "one row", rows(1, 40, lambda number: 0)
    yield "one column", np.zeros((5, 1), np.int64)


def unpack(ids, numbers, labels, **others):
    """Each document in a row of its own, with padding behind it, which is no document."""
    documents = [(r, numbers[r] == n) for r in range(len(ids)) for n in dict.fromkeys(numbers[r]) if n]
    longest = max(int(where.sum()) for _, where in documents)
    def spread(array, pad):
        out = np.full((len(documents), longest), pad, array.dtype)
        for row, (r, where) in zip(out, documents):
            row[: where.sum()] = array[r][where]
        return out
    return {"input_ids": spread(ids, 0), "labels": spread(labels, -100), **{name: spread(a, 0) for name, a in others.items()}}


def windows(form, **options):
    """Nothing but places is masked."""
    graph = Graph()
    for name in ("input_ids", "labels"):
        graph.add(f"input {name} i64[batch,seq]")
    graph.embed("input_ids", "x")
    graph.places("input_ids")
    graph.add("init whole i64[2] = 0 1", f"node Unsqueeze({graph.order(form)}, whole) -> visible")
    graph.attention("x", "x", "visible", "a", **options)
    graph.attention("a", "a", "visible", "b", **options)
    graph.loss("b")
    return graph.text()


def positions(masked, form="causal"):
    """A causal model whose positions are counted by the mask, so that padding may lie on either side."""
    graph = Graph()
    for name in ("input_ids", "attention_mask", "labels"):
        graph.add(f"input {name} i64[batch,seq]")
    graph.embed("input_ids", "w")
    graph.weight("places", [64, WIDTH])
    graph.add("init one i64[] = 1", "init along i64[] = 1", "node CumSum(attention_mask, along) -> count", "node Sub(count, one) -> last",
              "node Equal(attention_mask, zero) -> padding", "node Where(padding, one, last) -> at", "node Gather(places, at) -> p",
              "node Add(w, p) -> x")
    graph.places("input_ids")
    graph.add("init row i64[2] = 1 2", "node Unsqueeze(attention_mask, row) -> m", "node Cast(m) -> real to=9",
              f"node And(real, {graph.order(form)}) -> visible")
    graph.attention("x", "x", "visible", "a", masked=masked)
    graph.attention("a", "a", "visible", "b", masked=masked)
    graph.loss("b")
    return graph.text()


def encoder_decoder():
    graph = Graph()
    graph.add("init column i64[2] = 1 2")
    for side, size in (("", "source"), ("decoder_", "target")):
        graph.add(f"input {side}input_ids i64[batch,{size}]", f"input {side}attention_mask i64[batch,{size}]",
                  f"node Unsqueeze({side}attention_mask, column) -> {side}mask", f"node Cast({side}mask) -> {side}visible to=9")
        graph.embed(f"{side}input_ids", f"{side}x")
    graph.add("input labels i64[batch,target]")
    graph.attention("x", "x", "visible", "encoded")
    graph.attention("decoder_x", "decoder_x", "decoder_visible", "decoded")
    graph.attention("decoded", "encoded", "visible", "crossed")
    graph.attention("crossed", "crossed", "decoder_visible", "last")
    graph.loss("last")
    return graph.text()


def recurrent(kind):
    """A recurrence over masked tokens, which may run in both directions, between layers of tokens alone."""
    graph = Graph()
    for name in ("input_ids", "attention_mask", "labels"):
        graph.add(f"input {name} i64[batch,seq]")
    graph.embed("input_ids", "w")

    def feed_forward(x, out):
        graph.weight(f"{out}.up", [WIDTH, 4 * WIDTH])
        graph.weight(f"{out}.down", [4 * WIDTH, WIDTH])
        graph.add(f"node MatMul({x}, {out}.up) -> {out}.wide", f"node Gelu({out}.wide) -> {out}.gelu", f"node MatMul({out}.gelu, {out}.down) -> {out}.y",
                  f"node Add({x}, {out}.y) -> {out}")

    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    graph.lines[0] = "opset 20"
    feed_forward("w", "x")
    graph.weight("input", [2, gates * WIDTH // 2, WIDTH])
    graph.weight("recurrence", [2, gates * WIDTH // 2, WIDTH // 2])
    graph.add("init last.axis i64[1] = 2", "init sizes i64[3] = 0 0 -1", "node Unsqueeze(attention_mask, last.axis) -> mask.column", "node Cast(mask.column) -> mask to=1",
              "node Mul(x, mask) -> masked", "node Transpose(masked) -> steps perm=[1,0,2]",
              f'node {kind}(steps, input, recurrence) -> both hidden_size={WIDTH // 2} direction="bidirectional"',
              "node Transpose(both) -> turned perm=[2,0,1,3]", "node Reshape(turned, sizes) -> states", "node Add(x, states) -> seen")
    feed_forward("seen", "z")
    graph.loss("z")
    return graph.text()


def make_rows(rng, rows, columns, fill, number=lambda document: document + 1):
    """Documents of 1 to 8 tokens."""
    numbers = np.zeros((rows, columns), np.int64)
    for row in numbers:
        at, document, end = 0, 0, int(fill * columns)
        while at < end:
            length = min(int(rng.integers(1, 9)), end - at)
            row[at : at + length] = number(document)
            at, document = at + length, document + 1
    return numbers


def make_documents(rng):
    """(name, numbers of the documents, the condition that keeps them from being packed)"""
    rows = lambda fill, *number: make_rows(rng, 5, 40, fill, *number)
    yield "60 %", rows(0.6), None
    yield "no padding", rows(1), None
    gaps = rows(1)
    gaps[rng.random(gaps.shape) < 0.5] = 0
    yield "padding in the middle", gaps, None
    yield "padding on the left", rows(0.6)[:, ::-1].copy(), None
    yield "negative numbers", rows(0.6, lambda document: -document - 1), None
    yield "numbers in no order", rows(0.6, lambda document: (document * 7919 + 5) % 10007), None
    yield "each token a document", np.tile(np.arange(1, 41), (3, 1)), None
    yield "one document a row", np.minimum(rows(0.6), 1), None
    split = rows(0.6)
    split[2, 20:22] = split[2, 0]
    yield "a document in two pieces", split, "'contiguous' (equal elements of 'segment_ids' lie next to each other, 0 left out) did not hold, first for row 2"
    empty = rows(0.6)
    empty[1] = 0
    yield "a row without a token", empty, "'real_at' ('segment_ids' is not 0 in some column) did not hold, first for row 1"
    yield "labels at padding", rows(0.6), "'fixed_where_padded' ('labels' is -100 where 'segment_ids' is 0) did not hold, first for row 0"


def fill(rng, real, kind):
    ids = rng.integers(1, VOCABULARY, real.shape)
    labels = np.where(real & (rng.random(real.shape) < 0.6), ids, -100)
    return np.where(real, ids, 0), ids if kind == "labels at padding" else labels


class Test:
    def __init__(self, tools, folder):
        self.trainc, self.trainc_run, self.make_onnx = tools
        self.folder = folder

    def compile(self, name, text):
        """What `--explain=all` says of the default package."""
        self.name = name
        (self.folder / "m.txt").write_text(text)
        run([sys.executable, self.make_onnx, self.folder / "m.txt", self.folder / "m.onnx"], name)
        run([self.trainc, self.folder / "m.onnx", "--target", "cpu:native", "-O0", "-o", self.folder / "plain.tpk"], name)
        done = run([self.trainc, self.folder / "m.onnx", "--target", "cpu:native", "--explain=all", "-o", self.folder / "packed.tpk"], name)
        return done.stdout + done.stderr

    def same_as_unpacked(self, kind, packed, unpacked):
        """The package's result of the first arrays against that of -O0 of the others."""
        results = []
        for variant, arrays in (("plain", unpacked), ("packed", packed)):
            np.savez(self.folder / "data.npz", **arrays)
            results.append(gradients(self.trainc_run, self.folder / f"{variant}.tpk", self.folder / "data.npz",
                                     self.folder / "gradients.safetensors", ["--batch-size", len(arrays["labels"])]))
        compare(f"{self.name}, {kind}, unpacked", *results, NOISE)

    def batch(self, kind, packs, reason=None, **arrays):
        np.savez(self.folder / "data.npz", **arrays)
        plain, packed = (gradients(self.trainc_run, self.folder / f"{variant}.tpk", self.folder / "data.npz",
                                   self.folder / "gradients.safetensors") for variant in ("plain", "packed"))
        what = f"{self.name}, {kind}"
        compare(what, plain, packed, NOISE)
        check(bool(packed[2]) == packs, f"{what}: {packed[2]} batches packed")
        check(reason is None or reason in packed[3], f"{what}: said\n{packed[3]}")


def main():
    rng = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        test = Test(map(pathlib.Path, sys.argv[1:4]), pathlib.Path(folder))
        # How attention is computed of the packed tokens.
        raised = "packed documents"
        below = "'above' ('segment_ids' is nowhere below 0) did not hold, first for row 0"
        for form, options, remark in (("", {}, raised), ("causal", {}, raised), ("equal only", {}, raised),
                                      ("greater", {}, raised), ("odd heads", {"depth": 6}, "its head size 6"),
                                      ("dropout", {"dropout": 0.3}, raised), ("window", {}, "causal, 2 before, packed documents"),
                                      ("window on both sides", {"dropout": 0.3}, "2 before and 2 after, dropout, packed documents")):
            explained = test.compile(f"documents{', ' * bool(form)}{form}", documents(form, **options))
            check("padding is where segment_ids is 0; it reaches no token" in explained, f"{form}: {explained}")
            check(explained.count(remark) == 2, f"{form}: {explained}")
            for kind, numbers, reason in make_documents(rng):
                if raised not in remark and kind in ("no padding", "each token a document"):
                    continue  # nothing is saved, or not enough
                # Tokens of a document have to be as far apart as they were.
                if form.startswith("window") and kind == "padding in the middle":
                    reason = "'unbroken' (no 0 stands between equal elements of 'segment_ids') did not hold, first for row 0"
                # A number below 0 is not padding's; but where tokens are told by numbers above 0, its column is masked.
                if form == "greater" and kind == "negative numbers":
                    reason = below
                ids, labels = fill(rng, numbers != 0, kind)
                test.batch(kind, reason is None, reason, input_ids=ids, segment_ids=numbers, labels=labels)
                if kind == "60 %" and raised in remark and not options:
                    unpacked = unpack(ids, numbers, labels, segment_ids=numbers)
                    test.same_as_unpacked(kind, {"input_ids": ids, "segment_ids": numbers, "labels": labels}, unpacked)

        # Documents that positions tell apart: no variant, but the step itself.
        for order, options, remark in (("of positions", {}, raised), ("of positions, turned", {}, raised), ("none", {}, raised),
                                       ("of positions", {"masked": "-1e9"}, raised), ("of positions", {"masked": "-inf"}, raised),
                                       ("within a window", {}, "causal, 4 before, packed documents"), ("within a window", {"masked": "-10000"}, raised),
                                       ("of positions", {"dropout": 0.3}, raised)):
            explained = test.compile(f"sequences, order {order}, {options}", sequences(order, **options))
            # In @forward and in @eval, where there is no dropout.
            found = explained.count(remark)
            check("documents are the sequences of position_ids that go up by one" in explained and found == 4, explained)
            for kind, places in make_positions(rng):
                ids, labels = fill(rng, np.ones_like(places, bool), kind)
                labels[:, 0] = 7
                numbers = np.cumsum(np.diff(places, prepend=places[:, :1] - 1) != 1, axis=1) + 1
                arrays = {"input_ids": ids, "position_ids": places, "labels": labels}
                test.batch(kind, False, **arrays)
                if not options:
                    test.same_as_unpacked(kind, arrays, unpack(ids, numbers, labels, position_ids=places))

        # Documents beside a mask, which is 0 in the same places; other numbers are masked with than the least.
        for masked in (None, "-1e9", "-10000"):
            form = f"documents beside a mask, {masked or 'the least number'}"
            explained = test.compile(form, documents("beside a mask", masked=masked))
            check("padding is where segment_ids is 0; it reaches no token" in explained and explained.count(raised) == 2, explained)
            for kind, numbers, reason in make_documents(rng):
                mask = (numbers != 0).astype(np.int64)
                ids, labels = fill(rng, mask != 0, kind)
                test.batch(kind, reason is None, reason, input_ids=ids, attention_mask=mask, segment_ids=numbers, labels=labels)
                if kind == "60 %":
                    numbers = np.where(mask, numbers, 9)
                    test.batch("numbers at padding", False, None, input_ids=ids, attention_mask=mask, segment_ids=numbers, labels=labels)
                    numbers, mask[0, 1] = np.where(mask, numbers, 0), 0
                    labels[0, 1] = -100
                    test.batch("a masked token", False, "'fixed_where_padded' ('segment_ids' is 0 where 'attention_mask' is 0) did not hold, first for row 0",
                               input_ids=ids, attention_mask=mask, segment_ids=numbers, labels=labels)

        for masked in (None, "-inf", "-1e9", "-10000"):
            explained = test.compile(f"positions by the mask, {masked or 'the least number'}", positions(masked))
            check("padding is where attention_mask is 0; it reaches no token" in explained, explained)
            check(explained.count("causal, packed tokens") == 2, explained)
            for side in ("left", "right"):
                lengths = rng.integers(1, 14, (6, 1))
                real = np.arange(24) >= 24 - lengths if side == "left" else np.arange(24) < lengths
                ids, labels = fill(rng, real, side)
                # With -inf, what a row of padding gets is no number: it has to reach nothing, the plain step's gradients neither.
                if masked != "-inf" or side == "right":
                    test.batch(f"padding on the {side}", True, input_ids=ids, attention_mask=real.astype(np.int64), labels=labels)

        # Windows of places: padding may lie on either side of tokens, but not between them.
        for form, remark in (("window", "causal, 2 before, packed tokens"), ("window on both sides", "all columns, 2 before and 2 after, packed tokens")):
            explained = test.compile(f"positions by the mask, {form}", positions(None, form))
            check(explained.count(remark) == 2, explained)
            for side in ("left", "right", "middle"):
                lengths = rng.integers(3, 14, (6, 1))
                real = np.arange(24) >= 24 - lengths if side == "left" else np.arange(24) < lengths
                if side == "middle":
                    real[4, 1] = False
                ids, labels = fill(rng, real, side)
                reason = "'unbroken' (no 0 stands between equal elements of 'attention_mask') did not hold, first for row 4" if side == "middle" else None
                test.batch(f"padding on the {side}", side != "middle", reason, input_ids=ids, attention_mask=real.astype(np.int64), labels=labels)

        # Whole rows, of which a window shows a part or all.
        for form, options, remark in (("window", {}, "causal, 2 before"), ("window on both sides", {}, "all columns, 2 before and 2 after"),
                                      ("window", {"masked": "-inf"}, "causal, 2 before"), ("window", {"dropout": 0.3}, "causal, 2 before"),
                                      ("window on both sides", {"masked": "-10000", "dropout": 0.3}, "all columns, 2 before and 2 after")):
            explained = test.compile(f"rows, {form}, {options}", windows(form, **options))
            check(explained.count(remark) == 4 and explained.count(", rows") == 4, explained)
            for rows, columns in ((5, 40), (3, 1), (1, 2), (4, 3), (2, 200)):
                ids, labels = fill(rng, np.ones((rows, columns), bool), form)
                labels[:, 0] = 7
                test.batch(f"{rows} x {columns}", False, None, input_ids=ids, labels=labels)

        # A recurrence gets its rectangle, with zeros at padding.
        for kind in ("LSTM", "GRU", "RNN"):
            explained = test.compile(kind, recurrent(kind))
            check("ops compute the count_attention_mask tokens that attention_mask counts" in explained, explained)
            for side in ("left", "right", "middle"):
                lengths = rng.integers(1, 14, (6, 1))
                real = np.arange(24) >= 24 - lengths if side == "left" else np.arange(24) < lengths
                real[3, ::2] &= side != "middle"
                real[3, 5] = True
                ids, labels = fill(rng, real, side)
                test.batch(f"padding on the {side}", True, input_ids=ids, attention_mask=real.astype(np.int64), labels=labels)

        explained = test.compile("encoder and decoder", encoder_decoder())
        for mask in ("attention_mask", "decoder_attention_mask"):
            check(f"padding is where {mask} is 0; it reaches no token" in explained, explained)
        check(explained.count("all columns, packed tokens") == 3, explained)
        check(explained.count("its rows are tokens of another sequence than its columns") == 1, explained)
        for kind, source, target in (("both", 0.4, 0.4), ("encoder", 0.3, 1), ("decoder", 1, 0.3), ("no padding", 1, 1),
                                     ("labels at padding", 0.4, 0.4), ("a decoder without a token", 0.4, 0.4),
                                     ("decoder's mask of twos", 0.4, 0.4), ("equally long", 0.5, 0.5)):
            arrays = {}
            columns = 24 if kind == "equally long" else 20
            real = {name: np.arange(size) < np.clip(share * size + rng.integers(-2, 3, (6, 1)), 1, size)
                    for name, size, share in (("", 24, source), ("decoder_", columns, target))}
            if kind == "a decoder without a token":
                real["decoder_"][1] = False
            for name, mask in real.items():
                arrays[f"{name}attention_mask"] = mask.astype(np.int64)
                arrays[f"{name}input_ids"], arrays["labels"] = fill(rng, mask, kind)
            if kind == "decoder's mask of twos":
                arrays["decoder_attention_mask"] *= 2
            test.batch(kind, kind in ("both", "encoder", "decoder", "equally long"), **arrays)
    return sparsity.failures != 0


if __name__ == "__main__":
    sys.exit(main())
