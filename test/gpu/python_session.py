# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sessions on a GPU from PyTorch: `python test/gpu/python_session.py FOLDER`, with trainrt and trainc-run on the path.

FOLDER has mlp.npz, and mlp.tpk, made of test/e2e/models/mlp.onnx with --target cuda:sm_NN --embed-weights --lr 0.01. Shown are the
bits and the time of trainc-run, that tensors on the GPU stay there, streams, and errors; with two GPUs also that arrays of another
one are refused, and with onnxscript and trainc that modules train and trainc.autograd differentiates.
"""

import copy
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import torch
import trainrt

FOLDER = sys.argv[1]
HOST = {name: torch.from_numpy(array) for name, array in np.load(f"{FOLDER}/mlp.npz").items()}
GPU = {name: tensor.cuda() for name, tensor in HOST.items()}


def session(**options):
    return trainrt.Session(f"{FOLDER}/mlp.tpk", seed=3, **options)


class GpuSessions(unittest.TestCase):
    def test_host_device_and_own_stream_give_the_same(self):
        runs = [(session(), HOST), (session(), GPU), (session(stream=torch.cuda.current_stream()), GPU)]
        losses = [[float(loss) for loss in [one.step(batch) for _ in range(50)]] for one, batch in runs]
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        for name in runs[0][0].parameters:
            self.assertTrue(torch.equal(*(one.parameters[name].torch() for one, _ in runs[:2])))

    def test_views_lie_on_the_gpu_and_outlive_the_session(self):
        one = session()
        name = next(iter(one.parameters))
        view = one.parameters[name].torch()
        self.assertEqual(view.device, torch.device("cuda:0"))
        before = view.clone()
        one.step(GPU).item()
        self.assertFalse(torch.equal(before, view))
        one.parameters[name] = torch.ones_like(view)
        self.assertTrue(bool((view == 1).all()))
        logits = one.predict({"x": GPU["x"]})["logits"].torch()
        kept = logits.clone()
        one.predict({"x": GPU["x"].repeat(1000, 1)})
        self.assertTrue(torch.equal(logits, kept))
        one.close()
        self.assertTrue(torch.equal(logits, kept) and bool((view == 1).all()))

    def test_the_callers_stream(self):
        """Batches are made on another stream just before, and overwritten just behind."""
        one, other = session(), session()
        stream = torch.cuda.Stream()
        large = torch.randn(4096, 4096, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                large = (large @ large).clamp(-1, 1)  # keeps the stream busy
                batch = {name: tensor + 0 * large[0, 0].to(tensor.dtype) for name, tensor in GPU.items()}
                loss = one.step(batch)
                for tensor in batch.values():
                    tensor.zero_()
                del batch
            value = one.parameters[next(iter(one.parameters))].torch().clone()
        for _ in range(20):
            expected = other.step(GPU)
        stream.synchronize()
        self.assertEqual(float(loss), float(expected))
        self.assertTrue(torch.equal(value, other.parameters[next(iter(one.parameters))].torch()))

    def test_batches_that_are_made_anew(self):
        """PyTorch gives the memory of freed batches to later ones; a loop that holds one while the next is made has two."""
        one, other = session(), session()
        for _ in range(20):
            batch = {name: tensor.clone() for name, tensor in GPU.items()}
            loss = one.step(batch)
            expected = other.step(HOST)
        self.assertEqual(float(loss), float(expected))
        early = one.copies.arrays
        self.assertLessEqual(early, 8 * len(GPU))
        for _ in range(200):
            batch = {name: tensor.clone() for name, tensor in GPU.items()}
            loss = one.step(batch)
            expected = other.step(HOST)
        self.assertEqual((float(loss), one.copies.arrays), (float(expected), early))

    def test_addresses_that_turn(self):
        """Three batches of different values in turn, in place; then slices of a data set, which are copied."""
        batches = [{name: (tensor * (1 + 0.01 * i)).to(tensor.dtype) for name, tensor in GPU.items()} for i in range(3)]
        one, other = session(), session()
        for i in range(60):
            if i == 12:
                early = one.copies.arrays
            mine, theirs = one.step(batches[i % 3]), other.step({n: t.cpu() for n, t in batches[i % 3].items()})
        self.assertEqual((float(mine), one.copies.arrays), (float(theirs), early))
        for name in one.parameters:
            self.assertTrue(torch.equal(one.parameters[name].torch(), other.parameters[name].torch()), name)
        rows = {name: torch.cat([tensor] * 40) for name, tensor in GPU.items()}
        size = len(GPU["x"])
        for i in range(120):
            begin = 1 + i % 38 * size
            mine = one.step({name: tensor[begin : begin + size] for name, tensor in rows.items()})
            theirs = other.step({name: tensor[begin : begin + size].cpu() for name, tensor in rows.items()})
        self.assertEqual(float(mine), float(theirs))
        self.assertGreater(one.copies.arrays, early)
        self.assertTrue(one.copies.why)

    def test_bad_input(self):
        one = session()
        for batch, kind, words in (
            ({**GPU, "x": GPU["x"].half()}, trainrt.errors.BadData, "input 'x'.* must be float32, got float16"),
            ({**GPU, "x": GPU["x"][:, ::2]}, trainrt.errors.ArrayError, "input 'x': expected a contiguous tensor"),
            ({**GPU, "x": GPU["x"].to("meta")}, trainrt.errors.ArrayError, "input 'x': .* on meta"),
        ):
            with self.assertRaisesRegex(kind, words):
                one.step(batch)
        lost = one.step({**GPU, "x": GPU["x"] * float("nan")})
        with self.assertRaisesRegex(trainrt.errors.Nonfinite, "step 1: the loss is not finite"):
            float(lost)
        self.assertEqual(one.steps, 0)
        self.assertEqual(float(one.step(GPU)), float(session().step(GPU)))

    @unittest.skipUnless(torch.cuda.device_count() > 1, "needs two GPUs")
    def test_another_gpu(self):
        one = session()
        other = {name: tensor.to("cuda:1") for name, tensor in HOST.items()}
        with self.assertRaisesRegex(trainrt.errors.ArrayError, "input 'x': expected an array on GPU 0 or the CPU, got one on GPU 1"):
            one.step(other)
        name = next(iter(one.parameters))
        with self.assertRaisesRegex(trainrt.errors.ArrayError, "expected an array on GPU 0 or the CPU, got one on GPU 1"):
            one.parameters[name] = one.parameters[name].torch().to("cuda:1")
        second = session(device=1)
        self.assertEqual([float(second.step(other)) for _ in range(5)], [float(one.step(GPU)) for _ in range(5)])
        self.assertEqual(second.parameters[name].torch().device, torch.device("cuda:1"))

    def run_trainc_run(self, *more):
        rows = str(len(HOST["x"]))
        return subprocess.run(
            ["trainc-run", f"{FOLDER}/mlp.tpk", "--data", f"{FOLDER}/mlp.npz", "--batch-size", rows, "--seed", "3", *more],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def test_the_bits_of_trainc_run(self):
        one = session()
        for _ in range(50):
            one.step(GPU)
        with tempfile.TemporaryDirectory() as folder:
            self.run_trainc_run("--steps", "50", "--save", folder)
            other = session(weights="none")
            other.load(folder)
        self.assertEqual((one.steps, other.steps), (50, 50))
        for name in one.parameters:
            self.assertTrue(torch.equal(one.parameters[name].torch(), other.parameters[name].torch()), name)
        for name in one.optimizer_state:
            self.assertTrue(torch.equal(one.optimizer_state[name].torch(), other.optimizer_state[name].torch()), name)

    def test_tensors_stay_on_the_gpu(self):
        """By PyTorch's profiler: tensors on the GPU do not leave it; a step's loss goes to the host."""
        from torch.profiler import ProfilerActivity, profile

        one, steps = session(), 20
        for _ in range(10):
            one.step(GPU)
        one.finish()
        before = one.copies.arrays
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(steps):
                one.step(GPU)
            one.finish()
            value = one.parameters[next(iter(one.parameters))].torch()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(trace))
            events = json.loads(trace.read_text())["traceEvents"]
        kernels = [e for e in events if e.get("cat") == "kernel"]
        copies = [e for e in events if e.get("cat") == "gpu_memcpy"]
        print(f"{len(kernels)} kernels, copies: {sorted({(e['name'], e['args'].get('bytes')) for e in copies})}", file=sys.stderr)
        self.assertGreaterEqual(len(kernels), steps, "the profiler saw nothing")
        # The step reads its inputs where they are. What the host is asked and told are scalars.
        self.assertEqual([e["args"]["bytes"] for e in copies if "DtoD" in e["name"]], [])
        self.assertEqual(one.copies.arrays, before)
        self.assertLessEqual(sum(e["args"]["bytes"] for e in copies if "DtoD" not in e["name"]), 2048 * steps)
        self.assertTrue(value.is_cuda)

    def test_time(self):
        """At most 30 us a step more than trainc-run."""
        told = [json.loads(line) for line in self.run_trainc_run("--steps", "5000", "--log-format", "json").splitlines()]
        base = float(np.mean([line["step_ms"] for line in told if "loss" in line][500:])) * 1e3
        print(f"trainc-run: {base:.1f} us a step", file=sys.stderr)
        one = session()
        for what, batch in (("host", HOST), ("GPU", GPU)):
            for _ in range(500):
                one.step(batch)
            one.finish()
            begin = time.perf_counter()
            for _ in range(5000):
                one.step(batch)
            one.finish()
            took = (time.perf_counter() - begin) / 5000 * 1e6
            print(f"{what}: {took:.1f} us a step, {took - base:+.1f}", file=sys.stderr)
            self.assertLessEqual(took - base, 30)


@unittest.skipUnless(importlib.util.find_spec("onnxscript") and importlib.util.find_spec("trainc"), "needs onnxscript and trainc")
class GpuModules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 5)).cuda()
        self.batch = {"input": torch.randn(16, 32).cuda(), "labels": torch.randint(0, 5, (16,)).cuda()}

    def loss(self, output, batch):
        return torch.nn.functional.cross_entropy(output, batch["labels"])

    def test_compile(self):
        import trainc

        theirs = copy.deepcopy(self.module)
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
        step = trainc.compile(self.module, example=self.batch, loss=self.loss, optimizer="sgd", lr=0.1, cache=False)
        for _ in range(5):
            optimizer.zero_grad()
            value = self.loss(theirs(self.batch["input"]), self.batch)
            value.backward()
            optimizer.step()
            self.assertAlmostEqual(float(step(self.batch)), value.item(), delta=1e-3)
        self.module.load_state_dict(step.state_dict())
        for one, two in zip(self.module.parameters(), theirs.parameters()):
            torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-3)

    def test_autograd(self):
        import trainc

        fast = trainc.autograd(self.module, {"input": self.batch["input"].clone().requires_grad_()}, cache=False)
        found = []
        for each in (fast, self.module):
            self.module.zero_grad()
            x = self.batch["input"].clone().requires_grad_()
            self.loss(each(x), self.batch).backward()
            found.append([x.grad.clone()] + [p.grad.clone() for p in self.module.parameters()])
        for one, two in zip(*found):
            self.assertTrue(one.is_cuda)
            torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
