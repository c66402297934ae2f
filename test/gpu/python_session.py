# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sessions on a GPU from PyTorch: `python test/gpu/python_session.py FOLDER`, with trainrt installed.

FOLDER has mlp.npz, and mlp.tpk, made of test/e2e/models/mlp.onnx with --target cuda:sm_NN --embed-weights --lr 0.01.
"""

import sys
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

    def test_time(self):
        one = session()
        for what, batch in (("host", HOST), ("GPU", GPU)):
            for _ in range(300):
                one.step(batch)
            one.finish()
            begin = time.perf_counter()
            for _ in range(5000):
                one.step(batch)
            one.finish()
            print(f"{what}: {(time.perf_counter() - begin) / 5000 * 1e6:.1f} us a step", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
