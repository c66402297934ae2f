# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`gpu.py FOLDER DRIVER`: sessions of FOLDER/m.tpk, the tiny package, on the fake GPU of the unit tests: arrays that lie
there, by DLPack."""

import ctypes
import gc
import sys
import unittest

import numpy as np
import trainrt
from trainrt import _library as capi

FOLDER, DRIVER = sys.argv[1:3]
driver = ctypes.CDLL(DRIVER)
HOST = {
    "x": np.arange(24, dtype=np.float32).reshape(8, 3) % 5 - 2,
    "id": np.arange(8, dtype=np.int64) % 4,
    "y": np.arange(8, dtype=np.float32) % 3,
}
_DTYPES = {"float32": (2, 32), "int64": (0, 64), "float16": (2, 16)}
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class GpuArray:
    """Memory of the GPU, as another library would have it; freed when nobody refers to it."""

    alive = 0

    def __init__(self, values, device=0, offset=0):
        self.address = ctypes.c_ulonglong()
        assert driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(offset + values.nbytes)) == 0
        self.device, self.offset = device, offset
        GpuArray.alive += 1
        self.write(values)

    def write(self, values):
        self.values = np.ascontiguousarray(values)
        ctypes.memmove(self.address.value + self.offset, self.values.ctypes.data, values.nbytes)

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, stream=None):
        shape = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        code, bits = _DTYPES[str(self.values.dtype)]
        tensor = capi.DLTensor(
            self.address.value, capi.DLDevice(2, self.device), self.values.ndim, capi.DLDataType(code, bits, 1), shape, None, self.offset
        )
        self.managed = capi.DLManagedTensor(tensor, None, None)
        self.shape = shape
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __del__(self):
        GpuArray.alive -= 1
        driver.cuMemFree_v2(self.address)


def session(**options):
    return trainrt.Session(f"{FOLDER}/m.tpk", threads=1, **options)


def on_gpu(batch, **more):
    return {name: GpuArray(array, **more) for name, array in batch.items()}


class Resident(unittest.TestCase):
    def test_batches_are_read_where_they_lie(self):
        one, other = session(), session()
        batch = on_gpu(HOST)
        for i in range(10):
            self.assertEqual(float(one.step(batch)), float(other.step(HOST)))
        self.assertEqual(one.copies, (3, "no batch of late had its address"))
        self.assertEqual(other.copies, (0, ""))
        changed = {**HOST, "x": HOST["x"] + 1}
        batch["x"].write(changed["x"])
        self.assertEqual(float(one.step(batch)), float(other.step(changed)))
        self.assertEqual(one.copies.arrays, 3)
        np.testing.assert_array_equal(one.parameters["w"].numpy(), other.parameters["w"].numpy())

    def test_arrays_live_until_they_have_been_read(self):
        """A loop that keeps none of its batches."""
        one, other = session(), session()
        for i in range(6):
            one.step(on_gpu({**HOST, "y": HOST["y"] + i}))
            other.step({**HOST, "y": HOST["y"] + i})
            gc.collect()
            # Those of this step, which may be under way; the one before has ended.
            self.assertEqual(GpuArray.alive, 3)
        self.assertEqual(float(one.finish()), float(other.finish()))
        np.testing.assert_array_equal(one.parameters["w"].numpy(), other.parameters["w"].numpy())
        gc.collect()
        self.assertEqual(GpuArray.alive, 0)

    def test_what_is_copied(self):
        one, other = session(), session()
        batch = on_gpu(HOST, offset=16)
        for _ in range(4):
            self.assertEqual(float(one.step(batch)), float(other.step(HOST)))
        self.assertEqual(one.copies, (12, "its address is not a multiple of 256"))
        # The session's own values as a batch: what they were when the step began.
        y = one.predict(HOST)["pred"]
        seen = y.numpy()
        self.assertEqual(float(one.step({**HOST, "y": y})), float(other.step({**HOST, "y": seen})))
        self.assertEqual(one.copies, (13, "it is the session's own memory"))

    def test_values_come_to_the_host(self):
        one = session()
        one.step(HOST).item()
        loss = one.gradients(HOST)
        with self.assertRaisesRegex(TypeError, r"'w' is on cuda:0: .numpy\(\) copies it to the host"):
            np.asarray(one.parameters["w"])
        state = one.state_dict()
        state["w"][:] = 1
        self.assertFalse((one.parameters["w"].numpy() == 1).any())
        one.load_state_dict(state)
        np.testing.assert_array_equal(one.parameters["w"].numpy(), np.ones(3))
        self.assertTrue(np.isfinite(one.optimizer_state["w/exp_avg"].numpy()).all() and one.grads["w"].numpy().any())
        early = one.predict(HOST)["pred"]
        self.assertEqual(early.numpy().shape, (8,))
        one.predict({name: np.concatenate([array] * 50) for name, array in HOST.items()})
        with self.assertRaisesRegex(BufferError, "'pred' lies elsewhere by now"):
            early.numpy()
        self.assertTrue(np.isfinite(float(loss)))

    def test_losses_outlive_the_session(self):
        one = session()
        expected = float(session().step(HOST))
        loss = one.step(HOST)
        one.close()
        self.assertEqual((float(loss), loss.step), (expected, 1))
        one = session()
        loss = one.step({**HOST, "x": HOST["x"] * np.nan})
        one.close()
        with self.assertRaisesRegex(trainrt.errors.Nonfinite, "step 1: the loss is not finite"):
            float(loss)

    def test_bad_input(self):
        one = session()
        with self.assertRaisesRegex(trainrt.errors.ArrayError, "input 'x': expected an array on GPU 0 or the CPU, got one on GPU 1"):
            one.step({**HOST, "x": GpuArray(HOST["x"], device=1)})
        with self.assertRaisesRegex(trainrt.errors.BadData, "input 'x': an array in GPU memory must be float32, got float16"):
            one.step({**HOST, "x": GpuArray(HOST["x"].astype(np.float16))})
        one.close()
        with self.assertRaises(trainrt.errors.Closed):
            one.copies


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
