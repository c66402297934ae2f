# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A training loop over a session, and what may be told of it: early stopping, checkpoints, logs."""

import csv
import inspect
import itertools
import json
import math
import os
import pathlib
import shutil
import socket
import struct
import time

import trainrt


class State:
    """What callbacks are told: the session, where training is, and the numbers of the last step and evaluation."""

    def __init__(self, session):
        self.session = session
        self.epoch, self.step, self.steps_in_epoch = 0, session.steps, 0
        self.loss, self.lr, self.step_seconds = math.nan, math.nan, math.nan
        self.grad_norm, self.rows, self.peak_bytes = math.nan, 0, 0
        self.eval_loss, self.eval_rows, self.eval_seconds = None, 0, math.nan
        self.stop = False

    #: What `trainc-run --log-dir` tells of steps and evaluations, by its names; NaN: not known here.
    STEP = ("loss", "lr", "grad_norm", "step_ms", "samples_per_s", "valid_tokens", "tokens_per_s", "mfu", "peak_bytes")
    EVAL = ("loss", "perplexity", "accuracy", "samples", "eval_ms")

    def step_values(self):
        known = {
            "loss": self.loss, "lr": self.lr, "grad_norm": self.grad_norm, "step_ms": self.step_seconds * 1e3,
            "samples_per_s": self.rows / self.step_seconds if self.step_seconds else math.nan, "peak_bytes": self.peak_bytes,
        }  # fmt: skip
        return {name: known.get(name, math.nan) for name in self.STEP}

    def eval_values(self):
        known = {"loss": self.eval_loss, "samples": self.eval_rows, "eval_ms": self.eval_seconds * 1e3}
        return {name: known.get(name, math.nan) for name in self.EVAL}


class Callback:
    """Told of training; any of these may set `state.stop`, of several ranks on all of them alike."""

    #: Of several ranks only on rank 0: what writes and shows.
    first_rank_only = False

    def on_begin(self, state):
        pass

    def on_step(self, state):
        pass

    def on_eval(self, state):
        pass

    def on_end(self, state):
        pass


class EarlyStopping(Callback):
    """Stops once `patience` evaluations in a row were not better than the best by more than `min_delta`."""

    def __init__(self, patience=3, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.without = math.inf, 0

    def on_eval(self, state):
        if state.eval_loss < self.best - self.min_delta:
            self.best, self.without = state.eval_loss, 0
        else:
            self.without += 1
            state.stop = state.stop or self.without >= self.patience


class Checkpoints(Callback):
    """Saves into `folder` every `every` steps and at the end, keeps the newest `keep`; and the one of the best
    evaluation in `folder`/best. Several ranks write them together."""

    def __init__(self, folder, every=None, keep=1, best=True):
        self.folder, self.every, self.keep = pathlib.Path(folder), every, keep
        self.best = math.inf if best else -math.inf
        self.saved = None

    def _save(self, state):
        if self.saved != state.step:
            position = {"epoch": state.epoch, "steps_in_epoch": state.steps_in_epoch}
            state.session.save(self.folder, keep=self.keep, position=position)
            self.saved = state.step

    def on_step(self, state):
        if self.every and state.step % self.every == 0:
            self._save(state)

    def on_eval(self, state):
        if state.eval_loss < self.best:
            self.best = state.eval_loss
            state.session.save(self.folder / "best", keep=1)

    def on_end(self, state):
        self._save(state)


class CSVLog(Callback):
    """`folder`/steps.csv, a line a step or every `every` steps, and evaluations.csv, as `trainc-run --log-dir` writes them.

    A run that goes on goes on in them: lines of steps that are made again are left out.
    """

    first_rank_only = True

    def __init__(self, folder, every=1):
        self.folder, self.every, self._files = pathlib.Path(folder), every, []

    def _open(self, name, columns, done):
        path, kept = self.folder / name, []
        if done and path.exists():
            with path.open(newline="") as file:
                kept = [row for row in csv.reader(file) if row and row[0].isdigit() and int(row[0]) <= done]
        file = path.open("w", newline="")
        self._files.append(file)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([["step", *columns], *kept])
        return lambda step, values: writer.writerow([step, *("" if value != value else value for value in values.values())])

    def on_begin(self, state):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._step = self._open("steps.csv", state.STEP, state.step)
        self._eval = self._open("evaluations.csv", state.EVAL, state.step)

    def on_step(self, state):
        if state.step % self.every == 0:
            self._step(state.step, state.step_values())

    def on_eval(self, state):
        self._eval(state.step, state.eval_values())
        for file in self._files:
            file.flush()

    def on_end(self, state):
        for file in self._files:
            file.close()


def _crc32c_table():
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


_CRC = tuple(_crc32c_table())


def _masked_crc(data):
    """CRC-32C, masked as TFRecord has it (tensorflow/core/lib/hash/crc32c.h)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


class TensorBoard(Callback):
    """Scalars by the names of `trainc-run --log-dir`, train/loss and eval/loss for two, as a file of events in `folder`, every `every` steps.

    The format is TensorFlow's TFRecord of Event messages (tensorboard/compat/proto/event.proto).
    """

    first_rank_only = True

    def __init__(self, folder, every=1):
        self.folder, self.every, self.file = pathlib.Path(folder), every, None

    def _record(self, event):
        length = struct.pack("<Q", len(event))
        self.file.write(length + struct.pack("<I", _masked_crc(length)) + event + struct.pack("<I", _masked_crc(event)))

    def _scalars(self, step, group, values):
        summary = b"".join(
            _bytes(1, _bytes(1, f"{group}/{name}".encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in values.items()
            if value == value or name == "loss"
        )
        self._record(b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + _bytes(5, summary))

    def on_begin(self, state):
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self.file = open(self.folder / name, "ab")
        self._record(b"\x09" + struct.pack("<d", time.time()) + _bytes(3, b"brain.Event:2"))

    def on_step(self, state):
        if state.step % self.every == 0:
            self._scalars(state.step, "train", state.step_values())

    def on_eval(self, state):
        self._scalars(state.step, "eval", state.eval_values())
        self.file.flush()

    def on_end(self, state):
        self.file.close()


class _Progress(Callback):
    """A line on a terminal or in a notebook, written anew."""

    first_rank_only = True

    def __init__(self, file):
        self.file, self.shown = file, 0.0

    def on_step(self, state):
        now = time.monotonic()
        if now - self.shown > 0.2:
            self.shown = now
            width = shutil.get_terminal_size().columns - 1
            self.file.write("\r" + self._line(state)[:width].ljust(width))
            self.file.flush()

    def _line(self, state):
        line = f"epoch {state.epoch + 1}  step {state.step}  loss {state.loss:.4f}  {state.step_seconds * 1e3:.1f} ms a step"
        return line if state.eval_loss is None else f"{line}  eval {state.eval_loss:.4f}"

    def on_end(self, state):
        self.file.write("\r" + self._line(state) + "\n")


def _rows(batch):
    """Of a batch: the length of the first array, as the first axis is the batch's as a rule."""
    first = next(iter(batch.values())) if hasattr(batch, "values") else batch[0]
    while isinstance(first, (list, tuple, dict)) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    return len(first) if getattr(first, "ndim", 0) else 1


def evaluate(session, batches):
    """The loss of all rows: batches weigh as the loss does (rows, or what its denominator counts).

    Several ranks share the batches out, of which all are given the same, and get the loss of one process.
    """
    return _evaluate(session, batches)[0]


def _scores(session, batches, rank, world):
    """(loss, weight, rows) of each batch of this rank's share: every `world`th.

    With "zero3" all ranks evaluate at once: one without a further batch does the first one again.
    """
    name = session.package.loss_weight if session.package.loss_is_mean else None
    number, first = 0, None
    for batch in batches:
        first = batch if first is None else first
        if number % world == rank:
            loss = session.eval(batch)
            yield loss, float(_rows(batch) if name is None else session.outputs[name].numpy()), _rows(batch)
        number += 1
    if session.package.distribute == "zero3" and 0 < number % world <= rank:
        session.eval(first)


def _shared_scores(session, batches, ranks):
    """Of all batches, in their order. What fails on one rank fails on all."""
    try:
        mine = ["", [s for score in _scores(session, batches, ranks.rank, ranks.world) for s in score]]
    except Exception as error:
        failure, mine = error, [f"{error}", []]
    # JSON has all digits of a double, and NaN.
    parts = [json.loads(text) for text in ranks.gather(json.dumps(mine).encode())]
    for rank, (why, _) in enumerate(parts):
        if why:
            raise trainrt.errors.BadData(f"rank {rank}: {why}") from (failure if rank == ranks.rank else None)
    scores = [[tuple(part[i : i + 3]) for i in range(0, len(part), 3)] for _, part in parts]
    return [score for turn in itertools.zip_longest(*scores) for score in turn if score is not None]


def _evaluate(session, batches):
    """The loss, and the number of rows."""
    ranks, total, weight, rows = session.ranks, 0.0, 0.0, 0
    shared = ranks is not None and ranks.world > 1
    for loss, count, number in _shared_scores(session, batches, ranks) if shared else _scores(session, batches, 0, 1):
        rows += number
        if count:
            total += loss * count
            weight += count
    if not weight:
        raise ValueError("evaluate: there is no batch, or nothing in one that counts")
    return total / weight, rows


def _share(batches, ranks):
    """This rank's of the micro-batches of a step: neighbours, the first ones rank 0's, as `trainc-run` deals them."""
    share, more = divmod(len(batches), ranks.world)
    begin = ranks.rank * share + min(ranks.rank, more)
    return batches[begin : begin + share + (ranks.rank < more)]


def train(session, loader, epochs=1, *, eval=None, eval_every=None, lr=None, accumulate=1, accumulate_by=None, callbacks=(),
          progress=None, resume=None):  # fmt: skip
    """Trains for `epochs` over `loader`, which gives the batches of one each time it is iterated; returns the State.

    eval: batches that are evaluated at the end of each epoch, or every `eval_every` steps. lr: a number, or a function
    of the step's number from 0. accumulate: batches a step; accumulate_by: what each counts for, as `Session.step` has it. progress: a line on this file (default: standard error, if
    that is a terminal). resume: a folder of checkpoints; batches that were seen in its epoch are passed over.

    Of several ranks (`session.ranks`) all are given the same loader: a step takes the next `accumulate` batches for each, and
    evaluations are shared out. Logs and progress are rank 0's; checkpoints are written by all together.
    """
    import sys

    ranks = session.ranks
    taken = accumulate * (1 if ranks is None else ranks.world)
    if progress is None and sys.stderr.isatty():
        progress = sys.stderr
    callbacks = [*callbacks, *([_Progress(progress)] if progress else [])]
    for callback in callbacks:
        if inspect.isclass(callback) or not hasattr(callback, "on_step"):
            raise TypeError(f"train: expected callbacks, as trainc.Callback is one, got {callback!r}")
    if ranks is not None and ranks.rank:
        callbacks = [callback for callback in callbacks if not getattr(callback, "first_rank_only", False)]
    state = State(session)
    skip = 0
    if resume is not None:
        position = session.load(resume) or {}
        state.epoch, skip = position.get("epoch", 0), position.get("steps_in_epoch", 0)
        state.step = session.steps
    for callback in callbacks:
        callback.on_begin(state)

    def step(batches):
        rate = lr(state.step) if callable(lr) else lr
        own = batches if ranks is None else _share(batches, ranks)
        loss = session.step(own if taken > 1 else own[0], lr=rate, accumulate_by=accumulate_by)
        state.step += 1
        state.loss, state.lr, state.step_seconds = float(loss), loss.lr, loss.milliseconds / 1e3
        state.grad_norm, state.peak_bytes, state.rows = loss.grad_norm, loss.peak_bytes, sum(map(_rows, batches))
        for callback in callbacks:
            callback.on_step(state)

    def run_eval():
        begin = time.perf_counter()
        state.eval_loss, state.eval_rows = _evaluate(session, eval)
        state.eval_seconds = time.perf_counter() - begin
        for callback in callbacks:
            callback.on_eval(state)

    try:
        while state.epoch < epochs and not state.stop:
            micro = []
            state.steps_in_epoch = 0
            for batch in loader:
                micro.append(batch)
                if len(micro) < taken:
                    continue
                state.steps_in_epoch += 1
                if state.steps_in_epoch <= skip:
                    micro = []
                    continue
                step(micro)
                micro = []
                if eval is not None and eval_every and state.step % eval_every == 0:
                    run_eval()
                if state.stop:
                    break
            else:
                if micro and state.steps_in_epoch >= skip:
                    state.steps_in_epoch += 1
                    step(micro)
                if not state.steps_in_epoch:
                    raise ValueError("train: the loader gave no batch (an iterator can be used once; give a list or a DataLoader)")
                state.epoch, state.steps_in_epoch, skip = state.epoch + 1, 0, 0
                if eval is not None and not eval_every:
                    run_eval()
    finally:
        for callback in callbacks:
            callback.on_end(state)
    return state


