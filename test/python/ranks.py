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

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
DATA = dict(np.load(MODELS / "mlp.npz"))
BATCHES = [{name: array[i : i + 3] for name, array in DATA.items()} for i in range(0, 24, 3)]


def trained(session, callbacks=(), **options):
    """The losses of steps and evaluations of two epochs, the second one of seven batches."""
    record = Record()
    for batches in BATCHES, BATCHES[:7]:
        trainc.train(session, batches, eval=BATCHES[:5], callbacks=[record, *callbacks], **options)
    return record.losses, record.evals


class Rank:
    def __init__(self):
        self.ranks = trainrt.Ranks(join_timeout=30)
        self.session = trainrt.Session(FOLDER / "mlp.tpk", ranks=self.ranks, seed=3, threads=1)

    def trains(self):
        found = trained(self.session, [trainc.Checkpoints(FOLDER / "ranks")])
        return [[repr(self.ranks), self.ranks.local_rank], self.ranks.gather(b"%d" % self.ranks.rank)[1].decode(), *found]

    def fails(self):
        """One in the data of a step, one in an evaluation; then all go on."""
        told = []
        if self.ranks.rank == 1:
            self.ranks.refuse("the file is gone")
        for run in (
            lambda: self.session.step([] if self.ranks.rank else BATCHES[0]),
            lambda: trainc.evaluate(self.session, [BATCHES[0], {}]),
        ):
            try:
                run()
            except trainrt.errors.BadData as error:
                told.append(str(error))
        return told, self.session.steps, float(self.session.step([] if self.ranks.rank else BATCHES[0]))


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
        self.assertIn("rank 1: input '", first[0][1])
        self.assertEqual(first[1], 0)

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
        print(json.dumps(getattr(Rank(), sys.argv[4])()))
    else:
        unittest.main(argv=sys.argv[:1])
