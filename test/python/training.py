# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`training.py FOLDER MODELS`: FOLDER has mlp.tpk, MODELS what it was made of."""

import csv
import io
import math
import pathlib
import struct
import subprocess
import sys
import unittest

import numpy as np
import trainc
import trainrt
from record import Record
from trainc import training

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
DATA = dict(np.load(MODELS / "mlp.npz"))
ROWS = len(next(iter(DATA.values())))
BATCHES = [{name: array[i : i + 6] for name, array in DATA.items()} for i in range(0, ROWS, 6)]


def session(**options):
    return trainrt.Session(FOLDER / "mlp.tpk", **options)


class Stop(trainc.Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, state):
        state.stop = state.step == self.step


class Training(unittest.TestCase):
    def test_epochs_and_evaluation(self):
        record = Record()
        state = trainc.train(session(), BATCHES, epochs=3, eval=BATCHES, callbacks=[record])
        self.assertEqual((state.epoch, state.step, len(record.losses), len(record.evals)), (3, 12, 12, 3))
        one = session()
        self.assertEqual(record.losses, [float(one.step(batch)) for _ in range(3) for batch in BATCHES])
        whole = one.eval(DATA)
        self.assertAlmostEqual(record.evals[-1], whole, 6)
        # Batches weigh by their rows.
        uneven = [{n: a[:5] for n, a in DATA.items()}, {n: a[5:] for n, a in DATA.items()}]
        self.assertAlmostEqual(trainc.evaluate(one, uneven), whole, 6)

    def test_accumulation_and_rates(self):
        record, rates = Record(), []

        def rate(step):
            rates.append(step)
            return 0.01 / (step + 1)

        state = trainc.train(session(), BATCHES[:3], epochs=2, accumulate=2, lr=rate, callbacks=[record])
        self.assertEqual((state.step, rates), (4, [0, 1, 2, 3]))
        one = session()
        expected = []
        for epoch in range(2):
            expected.append(float(one.step(BATCHES[:2], lr=0.01 / (2 * epoch + 1))))
            expected.append(float(one.step(BATCHES[2:3], lr=0.01 / (2 * epoch + 2))))
        self.assertEqual(record.losses, expected)
        uneven = [{n: a[:1] for n, a in DATA.items()}, {n: a[1:] for n, a in DATA.items()}]
        for by in ("rows", "mean"):
            state = trainc.train(session(), uneven, accumulate=2, accumulate_by=by)
            self.assertEqual(state.loss, float(session().step(uneven, accumulate_by=by)))

    def test_early_stopping(self):
        losses = iter([3.0, 2.0, 2.5, 2.1, 1.0])
        stopping = trainc.EarlyStopping(patience=2)

        class State:
            stop, eval_loss = False, None

        for count, loss in enumerate(losses, 1):
            State.eval_loss = loss
            stopping.on_eval(State)
            if State.stop:
                break
        self.assertEqual((count, stopping.best), (4, 2.0))

    def test_an_interrupted_run_goes_on_bit_for_bit(self):
        whole = session()
        trainc.train(whole, BATCHES, epochs=3)
        folder = FOLDER / "interrupted"
        trainc.train(session(), BATCHES, epochs=3, callbacks=[Stop(6), trainc.Checkpoints(folder)])
        resumed = session(weights="none")
        record = Record()
        state = trainc.train(resumed, BATCHES, epochs=3, callbacks=[record], resume=folder)
        self.assertEqual((state.step, len(record.losses)), (12, 6))
        for name in whole.parameters:
            np.testing.assert_array_equal(np.asarray(whole.parameters[name]), np.asarray(resumed.parameters[name]))

    def test_checkpoints(self):
        folder = FOLDER / "kept"
        trainc.train(session(), BATCHES, epochs=3, eval=BATCHES, callbacks=[trainc.Checkpoints(folder, every=2, keep=2)])
        self.assertEqual(sorted(path.name for path in folder.glob("step-*")), ["step-10", "step-12"])
        self.assertEqual([path.name for path in (folder / "best").glob("step-*")], ["step-12"])

    def test_csv(self):
        """The tables of trainc-run, and the same numbers in them."""
        folder, theirs = FOLDER / "tables", FOLDER / "its"
        trainc.train(session(), BATCHES[:3], epochs=2, eval=BATCHES, callbacks=[trainc.CSVLog(folder), trainc.Checkpoints(folder / "saved")])
        subprocess.run(
            ["trainc-run", FOLDER / "mlp.tpk", "--data", MODELS / "mlp.npz", "--batch-size", "6", "--steps", "3", "--eval",
             MODELS / "mlp.npz", "--log-dir", theirs],
            check=True, capture_output=True,
        )  # fmt: skip
        for name, count in (("steps.csv", 6), ("evaluations.csv", 2)):
            ours, its = ([*csv.DictReader((each / name).open())] for each in (folder, theirs))
            self.assertEqual(list(ours[0]), list(its[0]))
            self.assertEqual(len(ours), count)
            if name == "steps.csv":
                for one, other in zip(ours, its):
                    self.assertAlmostEqual(float(one["loss"]), float(other["loss"]), 6)
                    self.assertEqual([bool(one[key]) for key in ("lr", "grad_norm", "step_ms", "peak_bytes", "mfu")], [True, False, True, True, False])
            else:
                self.assertEqual((ours[0]["step"], ours[0]["samples"]), ("3", str(ROWS)))
        # What is made again replaces what was written of it.
        resumed = session(weights="none")
        log = trainc.CSVLog(folder)
        with (folder / "steps.csv").open("a") as file:
            file.write("7,1.0\n")
        trainc.train(resumed, BATCHES[:3], epochs=3, eval=BATCHES, callbacks=[log], resume=folder / "saved")
        rows = list(csv.DictReader((folder / "steps.csv").open()))
        self.assertEqual([row["step"] for row in rows], [str(i) for i in range(1, 10)])
        self.assertTrue(rows[6]["lr"])

    def test_tensorboard(self):
        crc = 0xFFFFFFFF
        for byte in b"123456789":
            crc = (crc >> 8) ^ training._CRC[(crc ^ byte) & 0xFF]
        self.assertEqual(crc ^ 0xFFFFFFFF, 0xE3069283)  # RFC 3720, appendix B.4's check value
        folder, record = FOLDER / "events", Record()
        trainc.train(session(), BATCHES, epochs=1, eval=BATCHES, callbacks=[trainc.TensorBoard(folder), record])
        (file,) = folder.iterdir()
        self.assertTrue(file.name.startswith("events.out.tfevents."))
        data, events = io.BytesIO(file.read_bytes()), []
        while header := data.read(8):
            (length,) = struct.unpack("<Q", header)
            self.assertEqual(struct.unpack("<I", data.read(4))[0], training._masked_crc(header))
            events.append(data.read(length))
            self.assertEqual(struct.unpack("<I", data.read(4))[0], training._masked_crc(events[-1]))
        self.assertTrue(events[0].endswith(b"brain.Event:2"))
        self.assertEqual(len(events), 1 + 4 + 1)
        self.assertIn(b"\x0a\x0atrain/loss\x15" + struct.pack("<f", record.losses[0]), events[1])
        self.assertIn(b"train/step_ms", events[1])
        self.assertNotIn(b"mfu", events[1])
        self.assertIn(b"\x0a\x09eval/loss\x15" + struct.pack("<f", record.evals[0]), events[-1])

    def test_progress_and_errors(self):
        line = io.StringIO()
        trainc.train(session(), BATCHES, epochs=1, progress=line)
        self.assertRegex(line.getvalue(), r"epoch 1  step 1  loss \d\.\d{4}")
        with self.assertRaisesRegex(ValueError, "the loader gave no batch"):
            trainc.train(session(), [], epochs=1)
        once = iter(BATCHES)
        with self.assertRaisesRegex(ValueError, "can be used once"):
            trainc.train(session(), once, epochs=2)
        with self.assertRaisesRegex(ValueError, "there is no batch"):
            trainc.evaluate(session(), [])
        for wrong in (3, trainc.EarlyStopping):
            with self.assertRaisesRegex(TypeError, "train: expected callbacks, as trainc.Callback is one, got "):
                trainc.train(session(), BATCHES, callbacks=[wrong])
        closed = []

        class Closes(trainc.Callback):
            def on_end(self, state):
                closed.append(state.step)

        with self.assertRaises(trainrt.errors.MissingInput):
            trainc.train(session(), [BATCHES[0], {}], callbacks=[Closes()])
        self.assertEqual(closed, [1])
        self.assertTrue(math.isnan(training.State(session()).loss))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
