# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ranks.py FOLDER MODELS`: FOLDER has mlp.tpk (--distribute data), MODELS what it was made of.

`ranks.py FOLDER MODELS rank NAME`: as one of the ranks, which the environment tells."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest

import numpy as np
import trainc
import trainrt
from record import Record

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools/trainc-run/Inputs"))
import wide_model  # noqa: E402

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
DATA = dict(np.load(MODELS / "mlp.npz"))
BATCHES = [{name: array[i : i + 3] for name, array in DATA.items()} for i in range(0, 24, 3)]


ROWS = wide_model.rows(24)
WIDE = [{name: array[i : i + 3] for name, array in ROWS.items()} for i in range(0, 24, 3)]


def trained(session, callbacks=(), all=BATCHES, **options):
    """The losses of steps and evaluations of two epochs, the second one of seven batches."""
    record = Record()
    for batches in all, all[:7]:
        trainc.train(session, batches, eval=all[:5], callbacks=[record, *callbacks], **options)
    return record.losses, record.evals


def wide(how, **options):
    """A session of the model whose weights are large enough to be shared out."""
    return trainc.compile(
        FOLDER / "wide.onnx", optimizer="adamw", lr=0.01, distribute=how, seed=3, threads=1, target="cpu:x86-64-v3", **options
    )


def refusal(run):
    try:
        run()
    except trainrt.Error as error:
        return f"{type(error).__name__}: {error}"


class Rank:
    def __init__(self):
        self.ranks = trainrt.Ranks(join_timeout=30)
        self.session = trainrt.Session(FOLDER / "mlp.tpk", ranks=self.ranks, seed=3, threads=1)

    def trains(self):
        found = trained(self.session, [trainc.Checkpoints(FOLDER / "ranks")])
        return [[repr(self.ranks), self.ranks.local_rank], self.ranks.gather(b"%d" % self.ranks.rank)[1].decode(), *found]

    def fails(self):
        """One in the data of a step, one in a batch, one in an evaluation; then all go on."""
        told = []
        if self.ranks.rank == 1:
            self.ranks.refuse("the file is gone")
        for run in (
            lambda: self.session.step([] if self.ranks.rank else BATCHES[0]),
            lambda: self.session.step({} if self.ranks.rank else BATCHES[0]),
            lambda: trainc.evaluate(self.session, [BATCHES[0], {}]),
        ):
            try:
                run()
            except trainrt.errors.BadData as error:
                told.append(str(error))
        return told, self.session.steps, float(self.session.step([] if self.ranks.rank else BATCHES[0]))

    def leaves(self):
        """One by an exception without a text."""
        self.session.close()
        if self.ranks.rank == 0:
            return refusal(lambda: self.ranks.gather(b""))
        self.ranks.__exit__(SystemExit, SystemExit(), None)


class Sharing:
    """Ranks that hold parts of a model, each compiled by itself."""

    def __init__(self):
        self.ranks = trainrt.Ranks(join_timeout=30)

    def shares(self):
        told = {}
        for how in ("zero1", "zero2", "zero3"):
            with wide(how, ranks=self.ranks) as session:
                told[how] = trained(session, [trainc.Checkpoints(FOLDER / how)], WIDE)
                loaded = session.load(FOLDER / how)
                told[how] += loaded["epoch"], trainc.evaluate(session, WIDE[:3])
        return told

    def refuses(self):
        with wide("zero3", ranks=self.ranks) as session:
            session.parameters["w1"] = np.ones(session.package.parameters["w1"].shape, np.float32)
            loss = float(session.step(WIDE[self.ranks.rank]))
            return loss, [
                refusal(run) for run in (
                    lambda: session.parameters["w1"].numpy(), session.state_dict, lambda: session.optimizer_state["w1/exp_avg"].numpy(),
                    lambda: session.save_parameters(FOLDER / "never.safetensors"), lambda: session.export_onnx(FOLDER / "never.onnx"),
                    lambda: session.gradients(WIDE[0]), lambda: session.grads["w1"].numpy(),
                )
            ]  # fmt: skip

    def adapts(self):
        with wide("zero3", ranks=self.ranks, lora={"r": 4, "alpha": 8}) as session:
            losses = trained(session, [trainc.Checkpoints(FOLDER / "adapted")], WIDE)
            if self.ranks.rank == 0:  # adapters are small, and whole
                session.save_adapter(FOLDER / "adapter", base_name="wide")
            return losses, refusal(lambda: session.save_merged(FOLDER / "never.safetensors"))


class Ranks(unittest.TestCase):
    def start(self, what):
        """What the two processes print."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, __file__, FOLDER, MODELS, "rank", what]
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in (0, 1)]
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0])
        return [json.loads(text) for text in said]

    def test_the_bits_of_one_process_and_of_trainc_run(self):
        first, second = self.start("trains")
        self.assertEqual((first[0], second[0][1]), (["<trainrt.Ranks: 0 of 2, by torchrun>", 0], 1))
        self.assertEqual(first[1:], second[1:])
        self.assertEqual(first[1], "1")
        one = trainrt.Session(FOLDER / "mlp.tpk", seed=3)
        self.assertEqual(list(trained(one, accumulate=2)), first[2:])
        other = trainrt.Session(FOLDER / "mlp.tpk", weights="none")
        other.load(FOLDER / "ranks")
        for name in one.parameters:
            self.assertEqual(one.parameters[name].numpy().tobytes(), other.parameters[name].numpy().tobytes(), name)
        # The first epoch, as trainc-run makes it.
        out = subprocess.run(
            ["trainc-run", FOLDER / "mlp.tpk", "--data", MODELS / "mlp.npz", "--batch-size", "3", "--seed", "3", "--ranks", "2",
             "--log-format", "json"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        steps = [json.loads(line) for line in out.stdout.splitlines()]
        self.assertEqual([np.float32(s["loss"]) for s in steps if "event" not in s], [np.float32(x) for x in first[2][:4]])

    def test_what_one_cannot_do(self):
        first, second = self.start("fails")
        self.assertEqual(first, second)
        self.assertEqual(first[0][0], "rank 1: the file is gone")
        self.assertEqual(len(first[0]), 3)
        for told in first[0][1:]:
            self.assertIn("rank 1: input '", told)
        self.assertEqual(first[1], 0)

    def test_one_that_leaves(self):
        self.assertIn("it has ended by SystemExit()", self.start("leaves")[0])

    def same(self, one, other):
        """All values of two sessions."""
        for name in one.parameters:
            self.assertEqual(one.parameters[name].numpy().tobytes(), other.parameters[name].numpy().tobytes(), name)
        for name in one.optimizer_state:
            self.assertEqual(one.optimizer_state[name].numpy().tobytes(), other.optimizer_state[name].numpy().tobytes(), name)

    def test_parts_of_a_model(self):
        wide_model.write(FOLDER / "wide.onnx")
        first, second = self.start("shares")
        self.assertEqual(first, second)
        for how in ("zero1", "zero2", "zero3"):
            one = wide(how)
            self.assertEqual(list(trained(one, all=WIDE, accumulate=2)), first[how][:2], how)
            # One process has all of what each rank had a part of.
            loaded = wide(how, weights="none")
            self.assertEqual(loaded.load(FOLDER / how)["epoch"], first[how][2])
            self.same(one, loaded)
            self.assertEqual(trainc.evaluate(loaded, WIDE[:3]), first[how][3])
        loaded.export_onnx(FOLDER / "trained.onnx")
        loaded.save_parameters(FOLDER / "trained.safetensors")
        again = wide("zero3", weights=FOLDER / "trained.safetensors")
        self.assertEqual(again.parameters["w1"].numpy().tobytes(), one.parameters["w1"].numpy().tobytes())

    def test_what_a_part_cannot_give(self):
        wide_model.write(FOLDER / "wide.onnx")
        first, second = self.start("refuses")
        self.assertEqual(first, second)
        one = wide("zero3")
        one.parameters["w1"] = np.ones(one.package.parameters["w1"].shape, np.float32)
        loss, (parameter, values, state, saved, exported, gradients, gradient) = first
        self.assertEqual(loss, float(one.step(WIDE[:2])))
        for error, name in (parameter, "w1"), (values, "w0"), (saved, "w0"), (exported, "w0"):
            self.assertEqual(error, f"Unsupported: parameter '{name}': each rank holds a part of it; a checkpoint has all, which one process reads")
        self.assertEqual(state, "Unsupported: state 'w1/exp_avg': each rank holds a part of it; a checkpoint has all")
        self.assertEqual(gradients, "Unsupported: gradients without an update are for one rank: ranks exchange theirs within the update")
        self.assertEqual(gradient, "NotFound: no gradients have been computed yet")  # of a step of one micro-batch of each

    def test_adapters_of_a_model_in_parts(self):
        wide_model.write(FOLDER / "wide.onnx")
        first, second = self.start("adapts")
        self.assertEqual(first, second)
        one = wide("zero3", lora={"r": 4, "alpha": 8})
        self.assertEqual(list(trained(one, all=WIDE, accumulate=2)), first[0])
        self.assertIn("each rank holds a part of it; a checkpoint has all, which one process reads", first[1])
        loaded = wide("zero3", lora={"r": 4, "alpha": 8})
        loaded.load(FOLDER / "adapted")
        self.same(one, loaded)
        other = wide("zero3", lora={"r": 4, "alpha": 8})
        other.load_adapter(FOLDER / "adapter")
        merged = [FOLDER / f"merged-{name}.safetensors" for name in ("one", "loaded", "adapter")]
        for session, path in zip((one, loaded, other), merged):
            session.save_merged(path)
        self.assertEqual(len({path.read_bytes() for path in merged}), 1)

    def test_beforehand(self):
        wide_model.write(FOLDER / "wide.onnx")
        session = wide("zero3")
        two, four = (session.report(batch=4, world=world) for world in (2, 4))
        self.assertEqual([r["sizes"] for r in (two, four)], [{"batch": 4, "world": 2}, {"batch": 4, "world": 4}])
        self.assertGreater(two["parameters_bytes"], four["parameters_bytes"])
        self.assertRegex(repr(four), r"\nby the model a step of 4 ranks takes [0-9.e+]+ ms, [0-9.e+]+ ms of exchanges with [0-9.e+]+ ms of them hidden: [0-9.]+x one rank$")
        self.assertNotIn("ranks", repr(session.report(batch=4)))

    def test_one_alone(self):
        with trainrt.Ranks() as ranks:
            self.assertEqual((ranks.rank, ranks.world, ranks.local_rank, ranks.launcher), (0, 1, 0, None))
            self.assertEqual(ranks.gather(b"x"), [b"x"])
            alone = trainrt.Session(FOLDER / "mlp.tpk", ranks=ranks, seed=3)
            self.assertEqual(trained(alone), trained(trainrt.Session(FOLDER / "mlp.tpk", seed=3)))
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "rank and world are given together"):
            trainrt.Ranks(rank=1)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "rank 2 is none of 2"):
            trainrt.Ranks(rank=2, world=2, coordinator="127.0.0.1:1")
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "ranks: expected None or trainrt.Ranks, got 2"):
            trainrt.Session(FOLDER / "mlp.tpk", ranks=2)
        with self.assertRaisesRegex(TypeError, "Ranks objects cannot be copied"):
            __import__("copy").copy(trainrt.Ranks())


if __name__ == "__main__":
    if len(sys.argv) > 3:
        rank = Sharing if hasattr(Sharing, sys.argv[4]) else Rank
        print(json.dumps(getattr(rank(), sys.argv[4])()))
    else:
        unittest.main(argv=sys.argv[:1])
