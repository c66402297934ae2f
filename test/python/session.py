# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`session.py FOLDER MODELS`: FOLDER has mlp.tpk, norm.tpk (--grad-norm) and clip.tpk (--clip-norm), MODELS what they
were made of; sgd.tpk and groups.tpk differ in groups of parameters."""

import copy
import gc
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
import weakref

import numpy as np
import trainrt

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
PACKAGE = FOLDER / "mlp.tpk"
DATA = dict(np.load(MODELS / "mlp.npz"))
NAMES = list(trainrt.Package(PACKAGE).inputs)
BATCH = {name: DATA[name] for name in NAMES}
FIRST = next(iter(NAMES))


class DLPack:
    """An array that speaks nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Steps(unittest.TestCase):
    def setUp(self):
        self.session = trainrt.Session(PACKAGE, seed=3)

    def test_the_bits_of_trainc_run(self):
        losses = [float(self.session.step(BATCH)) for _ in range(50)]
        self.assertLess(losses[-1], losses[0])
        self.session.save(FOLDER / "ours")
        rows = len(DATA[FIRST])
        subprocess.run(
            ["trainc-run", PACKAGE, "--data", MODELS / "mlp.npz", "--steps", "50", "--seed", "3", "--save", FOLDER / "its",
             "--batch-size", str(rows)],
            check=True, capture_output=True,
        )  # fmt: skip
        other = trainrt.Session(PACKAGE, weights="none")
        other.load(FOLDER / "its")
        self.assertEqual(other.steps, 50)
        for name in self.session.parameters:
            np.testing.assert_array_equal(np.asarray(self.session.parameters[name]), np.asarray(other.parameters[name]))
        for name in self.session.optimizer_state:
            np.testing.assert_array_equal(
                np.asarray(self.session.optimizer_state[name]), np.asarray(other.optimizer_state[name])
            )

    def test_forms_of_a_batch(self):
        forms = [
            BATCH,
            tuple(BATCH.values()),
            list(BATCH.values()),
            {name: DLPack(array) for name, array in BATCH.items()},
            {**BATCH, "of no use": None},
            {name: array.tolist() for name, array in BATCH.items()},
        ]
        for form in forms:
            self.assertEqual(trainrt.Session(PACKAGE).step(form), trainrt.Session(PACKAGE).step(BATCH))
        half = len(BATCH[FIRST]) // 2
        parts = [{n: a[:half] for n, a in BATCH.items()}, {n: a[half : 2 * half] for n, a in BATCH.items()}]
        whole = {n: a[: 2 * half] for n, a in BATCH.items()}
        self.assertAlmostEqual(float(trainrt.Session(PACKAGE).step(parts)), float(trainrt.Session(PACKAGE).step(whole)), 5)
        # Another number of micro-batches, and shapes, one after the other.
        for form in (parts, whole, parts[:1], BATCH, parts):
            self.session.step(form)
        self.session.step(parts, weights=[0.25, 0.75])
        self.assertEqual(self.session.steps, 6)
        # A part with more rows counts for more, if it is to.
        uneven = [{n: a[:1] for n, a in BATCH.items()}, {n: a[1 : 2 * half] for n, a in BATCH.items()}]
        by_rows = trainrt.Session(PACKAGE).step(uneven, accumulate_by="rows")
        self.assertAlmostEqual(float(by_rows), float(trainrt.Session(PACKAGE).step(whole)), 5)
        mean = float(trainrt.Session(PACKAGE).step(uneven, accumulate_by="mean"))
        self.assertNotAlmostEqual(mean, float(by_rows), 5)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "accumulate_by: expected None, 'tokens', 'rows' or 'mean'"):
            self.session.step(parts, accumulate_by="labels")

    def test_the_loss_is_a_float(self):
        loss = self.session.step(BATCH)
        self.assertEqual(f"{loss:.3f}", f"{float(loss):.3f}")
        self.assertEqual(loss + 1, 1 + float(loss))
        self.assertEqual([-loss, 2 / loss, loss**2, abs(loss), round(loss, 2)],
                         [-float(loss), 2 / float(loss), float(loss) ** 2, abs(float(loss)), round(float(loss), 2)])  # fmt: skip
        self.assertTrue(0 < loss < 1e9 and loss == float(loss) and loss == loss)
        self.assertEqual((loss.step, np.float64(loss), loss.item()), (1, float(loss), float(loss)))
        self.assertEqual(sum([loss, loss]), 2 * float(loss))
        self.assertEqual(divmod(loss, 1), divmod(float(loss), 1))
        self.assertEqual(np.array([loss, 1.0]).dtype, np.float64)
        for copied in (copy.copy(loss), copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            self.assertIs(type(copied), float)
            self.assertEqual(copied, float(loss))

    def test_hyper_parameters(self):
        before = self.session.state_dict()
        self.session.step(BATCH, lr=0.0)
        for name, value in self.session.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
        self.assertEqual(self.session.step(BATCH, lr=0.5).lr, 0.5)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "clip"):
            self.session.step(BATCH, clip_norm=1.0)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "lr, weight_decay and clip_norm are numbers: got '1e-3', None"):
            self.session.step(BATCH, lr="1e-3")
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "weights: expected a factor for each micro-batch, got 0.5"):
            self.session.step([BATCH, BATCH], weights=0.5)

    def test_gradients(self):
        loss = self.session.gradients(BATCH)
        self.assertEqual(self.session.steps, 0)
        name = next(iter(self.session.grads))
        gradient = np.asarray(self.session.grads[name]).copy()
        parameter = np.asarray(self.session.parameters[name])
        where = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        values = []
        for delta in (1e-2, -1e-2):
            moved = parameter.copy()
            moved[where] += delta
            other = trainrt.Session(PACKAGE)
            other.parameters[name] = moved
            values.append(float(other.gradients(BATCH)))
        self.assertAlmostEqual((values[0] - values[1]) / 2e-2, gradient[where], delta=0.05 * abs(gradient[where]))
        self.assertEqual(float(loss), float(self.session.step(BATCH)))

    def test_the_norm_of_the_gradients(self):
        half = len(BATCH[FIRST]) // 2
        parts = [{n: a[:half] for n, a in BATCH.items()}, {n: a[half : 2 * half] for n, a in BATCH.items()}]
        for name in ("norm.tpk", "clip.tpk"):
            for batch, weights in ((BATCH, None), (parts, None), (parts, [0.25, 0.75]), (BATCH, [0.5])):
                session = trainrt.Session(FOLDER / name)
                for _ in range(3):
                    told = session.gradients(batch, weights=weights)
                    self.assertTrue(np.isnan(told.grad_norm))
                    expected = np.sqrt(sum(np.sum(np.square(np.asarray(g), dtype=np.float64)) for g in session.grads.values()))
                    self.assertGreater(expected, 0.01)
                    # What is clipped does not count.
                    step = session.step(batch, weights=weights, **({"clip_norm": 0.01} if name == "clip.tpk" else {}))
                    self.assertAlmostEqual(step.grad_norm / expected, 1, 5)
            self.assertNotIn("grad_norm", session.predict({FIRST: BATCH[FIRST]}))
        # Telling it changes no bit; a package of before tells none.
        plain, norm = trainrt.Session(PACKAGE), trainrt.Session(FOLDER / "norm.tpk")
        for _ in range(3):
            loss = plain.step(BATCH)
            self.assertTrue(np.isnan(loss.grad_norm))
            self.assertEqual(loss, norm.step(BATCH))

    def test_evaluation(self):
        loss = self.session.eval(BATCH)
        self.assertTrue(np.isfinite(loss))
        outputs = self.session.predict({FIRST: BATCH[FIRST]})
        for name, array in outputs.items():
            np.testing.assert_array_equal(np.asarray(array), np.asarray(self.session.outputs[name]))
        self.assertTrue(outputs)


class Groups(unittest.TestCase):
    #: What session.test says of groups.tpk: factors of the rate, and of the decay or itself.
    RATES = {"fc1.weight": 3, "fc1.bias": 3, "fc2.weight": 0.2, "fc2.bias": 0.2}

    def decay(self, name, given):
        return 0.25 if name.startswith("fc1") else 0 if name.startswith("norm") else given * (2 if "fc2" in name else 1)

    def test_rates_and_decays(self):
        for options in ({}, {"lr": 0.3}, {"weight_decay": 0.125}, {"lr": 0.3, "weight_decay": 0.0}):
            lr, decay = options.get("lr", 0.1), options.get("weight_decay", 0.5)
            plain, session = trainrt.Session(FOLDER / "sgd.tpk"), trainrt.Session(FOLDER / "groups.tpk")
            before = session.state_dict()
            plain.gradients(BATCH)
            session.step(BATCH, **options)
            after = session.state_dict()
            np.testing.assert_array_equal(after["fc3.bias"], before["fc3.bias"])
            for name in session.grads:
                gradient, old = np.asarray(plain.grads[name], np.float64), before[name].astype(np.float64)
                expected = old - lr * self.RATES.get(name, 1) * (gradient + self.decay(name, decay) * old)
                np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-6, err_msg=f"{name}, {options}")
            self.assertEqual(set(plain.grads) - set(session.grads), {"fc3.bias"})


class Values(unittest.TestCase):
    def setUp(self):
        self.session = trainrt.Session(PACKAGE)
        self.name = next(iter(self.session.parameters))

    def test_views_are_of_the_session_and_outlive_it(self):
        view = self.session.parameters[self.name]
        array = np.asarray(view)
        before = array.copy()
        self.session.step(BATCH)
        self.assertTrue((array != before).any(), "a copy")
        after, capsule = array.copy(), np.from_dlpack(view)
        self.session.close()
        del self.session, view
        gc.collect()
        np.testing.assert_array_equal(array, after)
        np.testing.assert_array_equal(capsule, after)

    def test_outputs_stay_when_a_larger_batch_comes(self):
        name = next(n for n, o in self.session.package.outputs.items() if o.is_result and o.used_in_eval)
        small = np.asarray(self.session.predict({FIRST: BATCH[FIRST]})[name])
        kept = small.copy()
        large = np.asarray(self.session.predict({FIRST: np.repeat(BATCH[FIRST], 300, 0)})[name])
        np.testing.assert_array_equal(small, kept)
        self.assertEqual(len(large), 300 * len(small))

    def test_what_lies_elsewhere_by_now_is_not_given(self):
        name = next(n for n, o in self.session.package.outputs.items() if o.is_result and o.used_in_eval)
        small = self.session.predict({FIRST: BATCH[FIRST]})[name]
        self.session.predict({FIRST: np.repeat(BATCH[FIRST], 300, 0)})
        with self.assertRaisesRegex(BufferError, "lies elsewhere"):
            np.from_dlpack(small)

    def test_setting(self):
        shape = self.session.parameters[self.name].shape
        self.session.parameters[self.name] = np.ones(shape, np.float32)
        np.testing.assert_array_equal(np.asarray(self.session.parameters[self.name]), 1)
        self.assertTrue(self.name in self.session.parameters and "x" not in self.session.parameters)
        state = next(iter(self.session.optimizer_state))
        self.session.optimizer_state[state] = np.full(self.session.optimizer_state[state].shape, 2, np.float32)
        self.assertTrue((np.asarray(self.session.optimizer_state[state]) == 2).all())
        with self.assertRaisesRegex(trainrt.errors.BadData, f"'{self.name}'.*expected f32"):
            self.session.parameters[self.name] = np.ones(shape, np.float64)
        with self.assertRaisesRegex(trainrt.errors.NotFound, f"no parameter '{self.name}x'; is it '{self.name}'"):
            self.session.parameters[self.name + "x"] = np.ones(shape, np.float32)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "gradients cannot be set"):
            self.session.grads[self.name] = np.ones(shape, np.float32)

    def test_state_dicts(self):
        self.session.step(BATCH)
        state = self.session.state_dict()
        other = trainrt.Session(PACKAGE, weights="none")
        self.assertEqual(other.load_state_dict(state), [])
        self.assertEqual(other.eval(BATCH), self.session.eval(BATCH))
        del state[self.name]
        with self.assertRaisesRegex(trainrt.errors.BadData, f"1 of .* missing, '{self.name}'"):
            other.load_state_dict(state)
        self.assertEqual(other.load_state_dict(state, strict=False), [self.name])
        state = {**self.session.state_dict(), "more": np.ones(1)}
        with self.assertRaisesRegex(trainrt.errors.BadData, "0 of .* missing; 1 other names came, 'more' first"):
            other.load_state_dict(state)
        self.assertEqual(other.load_state_dict(state, strict=False), [])
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "expected a mapping of arrays by name, got NoneType"):
            other.load_state_dict(None)
        with self.assertRaisesRegex(trainrt.errors.NotFound, "there is no output 'nothing'; there are loss, "):
            other.outputs["nothing"]
        with self.assertRaisesRegex(trainrt.errors.ArrayError, f"parameter '{self.name}': expected an array .*NoneType"):
            other.parameters[self.name] = None

    def test_handles_are_not_copied(self):
        """What frees a handle twice would end the process."""
        for value, way in (
            (self.session, "`save` and `load`"), (self.session.package, "give its `path`"), (self.session.parameters[self.name], "copy"),
        ):  # fmt: skip
            for take in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, f"{type(value).__name__} objects cannot be copied or pickled: .*{way}"):
                    take(value)
        self.assertGreater(self.session.step(BATCH), 0)

    def test_a_forked_child(self):
        """It has the memory and not the threads: nothing there waits for these."""
        session = trainrt.Session(PACKAGE, threads=2)
        rows = {name: np.repeat(array, 400, 0) for name, array in BATCH.items()}
        session.step(rows)

        def child():
            try:
                session.step(rows)
            except trainrt.errors.InvalidArgument as error:
                assert "of the process that this one was forked from" in str(error), error
            else:
                raise AssertionError("a step without its threads")
            session.close()
            assert trainrt.Session(PACKAGE, threads=2).step(rows) > 0

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads and fork
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
        process.join(60)
        self.assertEqual(process.exitcode, 0)
        self.assertGreater(session.step(rows), 0)

    def test_checkpoints(self):
        self.session.step(BATCH)
        self.session.save(FOLDER / "kept", keep=2, position={"epoch": 3})
        other = trainrt.Session(PACKAGE, weights="none")
        self.assertEqual(other.load(FOLDER / "kept"), {"epoch": 3})
        self.assertEqual(float(other.step(BATCH)), float(self.session.step(BATCH)))
        with self.assertRaises(trainrt.errors.NotFound):
            other.load(FOLDER / "nowhere")

    def test_a_package_says_what_it_is(self):
        package = self.session.package
        self.assertTrue(package.can_train and package.can_eval)
        self.assertEqual((package.optimizer, package.lr), ("adamw", 0.01))
        symbol = package.batch_symbol
        self.assertGreater(package.memory({symbol: 512}).total, package.memory({symbol: 1}).total)
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, symbol):
            package.memory()
        self.assertEqual(package.manifest["optimizer"]["name"], "adamw")
        self.assertGreater(self.session.memory().total, 0)


    def test_a_session_is_freed_with_its_last_reference(self):
        gc.disable()
        try:
            gone = weakref.ref(self.session)
            self.session.step(BATCH)
            self.session.eval(BATCH)
            del self.session
            self.assertIsNone(gone())
        finally:
            gc.enable()


class BadInput(unittest.TestCase):
    def setUp(self):
        self.session = trainrt.Session(PACKAGE)

    def refused(self, kind, message, batch):
        with self.assertRaisesRegex(kind, message):
            self.session.step(batch)
        self.assertEqual(self.session.steps, 0)
        self.session.eval(BATCH)  # nothing is broken

    def test_arrays(self):
        array, rest = BATCH[FIRST], {n: a for n, a in BATCH.items() if n != FIRST}
        bad, error = trainrt.errors, f"input '{FIRST}'"
        self.refused(bad.MissingInput, f"{error} is missing: training with 'mlp.tpk' needs .*; got", rest)
        self.refused(bad.MissingInput, "expected 2 arrays .* got 1", (array,))
        self.refused(bad.ArrayError, f"{error}: expected a contiguous array, got one with strides", {**rest, FIRST: array[:, ::2]})
        self.refused(bad.BadData, f"{error}, axis 1: expected", {**rest, FIRST: array[:, :1].copy()})
        self.refused(bad.BadData, f"{error}: expected float32, got float64", {**rest, FIRST: array.astype(np.float64)})
        self.refused(bad.ArrayError, f"{error}: expected numbers .* got an array of complex128", {**rest, FIRST: array.astype(complex)})
        self.refused(bad.ArrayError, f"{error}: expected numbers .* got an array of >f4", {**rest, FIRST: array.astype(">f4")})
        self.refused(bad.ArrayError, f"{error}: expected an array .* got builtins.object", {**rest, FIRST: object()})
        self.refused(bad.ArrayError, f"{error}: expected an array .* a list that is not one", {**rest, FIRST: [[1], [2, 3]]})
        self.refused(bad.ArrayError, "expected a mapping of arrays by name, or a tuple .* got int", 3)
        read_only = array.copy()
        read_only.flags.writeable = False
        self.assertTrue(self.session.step({**rest, FIRST: read_only}) > 0)

    def test_life(self):
        self.session.close()
        for call in (lambda: self.session.step(BATCH), lambda: self.session.parameters[next(iter(self.session.parameters))],
                     lambda: self.session.memory(), lambda: self.session.save(FOLDER / "closed")):  # fmt: skip
            with self.assertRaisesRegex(trainrt.errors.Closed, "mlp.tpk' has been closed"):
                call()
        self.session.close()
        with self.assertRaisesRegex(trainrt.errors.NotFound, "nothing.tpk"):
            trainrt.Session(FOLDER / "nothing.tpk")
        with self.assertRaisesRegex(trainrt.errors.BadPackage, "is an ONNX model: compile it first"):
            trainrt.Session(MODELS / "mlp.onnx")
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "weights: expected"):
            trainrt.Session(PACKAGE, weights=3)
        with trainrt.Session(PACKAGE) as session:
            session.step(BATCH)
        with self.assertRaises(trainrt.errors.Closed):
            session.step(BATCH)

    def test_nonfinite(self):
        rest = {n: a for n, a in BATCH.items() if n != FIRST}
        broken = np.full_like(BATCH[FIRST], np.nan)
        with self.assertRaises(trainrt.errors.Nonfinite):
            self.session.step({**rest, FIRST: broken})
        self.assertEqual(self.session.steps, 0)

    def test_an_older_library_is_named(self):
        code = "from trainrt import _library as l; l.MINOR = 99; l.library()"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("of the interface; 1.99 or a newer 1.x is needed", ran.stderr)
        ran = subprocess.run([sys.executable, "-c", "import trainrt; trainrt.Package('m')"], capture_output=True, text=True,
                             env={**os.environ, "TRAINRT_LIBRARY": "/nothing/libtrainrt.so"})  # fmt: skip
        self.assertIn("the runtime's library cannot be loaded", ran.stderr)


class Threads(unittest.TestCase):
    def test_sessions_in_threads(self):
        alone = [float(loss) for session in [trainrt.Session(PACKAGE)] for loss in [session.step(BATCH) for _ in range(20)]]
        found = {}

        def train(number):
            session = trainrt.Session(PACKAGE)
            found[number] = [float(session.step(BATCH)) for _ in range(20)]

        threads = [threading.Thread(target=train, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(found.values()), [alone] * 4)

    def test_cancel(self):
        session = trainrt.Session(PACKAGE)
        session.cancel()
        with self.assertRaises(trainrt.errors.Cancelled):
            session.eval(BATCH)
        session.eval(BATCH)

    def test_interrupt(self):
        code = (
            "import sys, numpy as np, trainrt\n"
            f"data = np.load({str(MODELS / 'mlp.npz')!r})\n"
            f"session = trainrt.Session({str(PACKAGE)!r})\n"
            f"batch = {{name: np.repeat(data[name], 20000, 0) for name in {NAMES!r}}}\n"
            "print('ready', flush=True)\n"
            "while True:\n    session.eval(batch)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        self.assertIn("KeyboardInterrupt", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
