# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`files.py FOLDER MODELS`: FOLDER has mlp.tpk, and lora.tpk with adapters and quantized weights."""

import json
import pathlib
import shutil
import sys
import unittest

import numpy as np
import onnx
import onnx.numpy_helper
import trainc
import trainrt

FOLDER, MODELS = map(pathlib.Path, sys.argv[1:3])
DATA = dict(np.load(MODELS / "mlp.npz"))


def trained(name, steps=3, **options):
    session = trainrt.Session(FOLDER / name, **options)
    for _ in range(steps):
        session.step(DATA)
    return session


def weights_of(path):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


class Adapters(unittest.TestCase):
    def setUp(self):
        self.session = trained("lora.tpk")
        self.folder = FOLDER / "adapter"

    def test_saved_and_loaded(self):
        self.assertEqual(self.session.adapters, ["fc1", "fc2"])
        self.session.save_adapter(self.folder, base_name="somebody/mlp", task_type="SEQ_CLS")
        config = json.loads((self.folder / "adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["use_dora"]), (2, 4, True))
        self.assertEqual((config["base_model_name_or_path"], config["task_type"]), ("somebody/mlp", "SEQ_CLS"))
        other = trainrt.Session(FOLDER / "lora.tpk")
        self.assertNotEqual(other.eval(DATA), self.session.eval(DATA))
        other.load_adapter(self.folder)
        self.assertEqual((other.eval(DATA), other.warnings), (self.session.eval(DATA), []))
        # What it says of the base model stays.
        other.save_adapter(FOLDER / "again")
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            self.assertEqual((FOLDER / "again" / name).read_bytes(), (self.folder / name).read_bytes())

    def test_refused(self):
        self.session.save_adapter(self.folder)
        errors = trainrt.errors
        for change, words in (
            ({"use_dora": False}, "the adapter is not DoRA, the package is"),
            ({"r": 3}, "the rank of 'fc1' is 3, expected 2"),
            ({"r": "two"}, "it has no number r"),
            ({"lora_alpha": 5}, "it scales 'fc1' by 2.5"),
        ):
            changed = FOLDER / "changed"
            shutil.rmtree(changed, ignore_errors=True)
            shutil.copytree(self.folder, changed)
            config = json.loads((changed / "adapter_config.json").read_text())
            (changed / "adapter_config.json").write_text(json.dumps({**config, **change}))
            with self.assertRaisesRegex(errors.BadData, words):
                self.session.load_adapter(changed)
        trainrt.write_tensors(changed / "adapter_model.safetensors", {"x": np.zeros(3, np.float32)})
        shutil.copy(self.folder / "adapter_config.json", changed)
        with self.assertRaisesRegex(errors.BadData, "is an adapter of another model, or of other modules:\n(.|\n)*'x' has no place"):
            self.session.load_adapter(changed)
        with self.assertRaisesRegex(errors.NotFound, "nowhere"):
            self.session.load_adapter(FOLDER / "nowhere")
        with self.assertRaisesRegex(errors.FileError, "cannot create"):
            self.session.save_adapter("/proc/adapter")
        with self.assertRaisesRegex(errors.InvalidArgument, "the base model's name or task is no UTF-8"):
            self.session.save_adapter(self.folder, base_name=b"\xff")
        for call in ("save_adapter", "load_adapter", "save_merged"):
            with self.assertRaisesRegex(errors.Unsupported, "needs a package with adapters, which trainc --lora makes"):
                getattr(trainrt.Session(FOLDER / "mlp.tpk"), call)(self.folder)

    def test_merged(self):
        merged = FOLDER / "merged.safetensors"
        self.session.save_merged(merged)
        state = self.session.merged_state_dict()
        plain = trainrt.Session(FOLDER / "mlp.tpk", weights=merged)
        self.assertEqual(list(state), list(plain.parameters))
        for name, value in state.items():
            np.testing.assert_array_equal(value, np.asarray(plain.parameters[name]))
        self.assertAlmostEqual(plain.eval(DATA), self.session.eval(DATA), 5)
        written = self.session.export_onnx(FOLDER / "merged.onnx", model=MODELS / "mlp.onnx")
        self.assertEqual(written, [str(FOLDER / "merged.onnx")])
        for name, value in weights_of(written[0]).items():
            np.testing.assert_array_equal(value, state[name])


class Models(unittest.TestCase):
    def setUp(self):
        self.session = trained("mlp.tpk")

    def test_onnx(self):
        path = FOLDER / "trained.onnx"
        self.assertEqual(self.session.export_onnx(path, outputs="logits"), [str(path)])
        model = onnx.load(path)
        onnx.checker.check_model(model)
        self.assertEqual([output.name for output in model.graph.output], ["logits"])
        for name, value in weights_of(path).items():
            np.testing.assert_array_equal(value, np.asarray(self.session.parameters[name]))
        with self.assertRaisesRegex(trainrt.errors.BadData, "it has no output 'nothing'; it has logits, loss"):
            self.session.export_onnx(path, outputs=["nothing"])
        with self.assertRaisesRegex(trainrt.errors.NotFound, "say where that is with model="):
            self.session.export_onnx(path, model="gone.onnx")
        with self.assertRaisesRegex(trainrt.errors.BadData, "is not f32 .* as in the package; the model must be the file that was compiled"):
            other = onnx.load(MODELS / "mlp.onnx")
            other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros(3, np.float32), other.graph.initializer[0].name))
            onnx.save(other, FOLDER / "other.onnx")
            self.session.export_onnx(path, model=FOLDER / "other.onnx")
        with self.assertRaisesRegex(trainrt.errors.BadData, "it would replace"):
            self.session.export_onnx(MODELS / "mlp.onnx")

    def test_parameters(self):
        path = FOLDER / "parameters.safetensors"
        self.session.save_parameters(path)
        other = trainrt.Session(FOLDER / "mlp.tpk", weights=path)
        self.assertEqual(other.eval(DATA), self.session.eval(DATA))
        # A model of its own is where those of a session begin.
        trainc.compile(MODELS / "mlp.onnx", weights=path, cache=False).step(DATA)
        with self.assertRaisesRegex(trainrt.errors.ArrayError, "contiguous"):
            trainrt.write_tensors(path, {"x": np.zeros((4, 4), np.float32).T[:, 1:]})


class MovedPackages(unittest.TestCase):
    """Away from the model that they were compiled from."""

    def setUp(self):
        self.away = FOLDER / "away" / "mlp.tpk"
        self.away.parent.mkdir(exist_ok=True)
        shutil.copy(FOLDER / "mlp.tpk", self.away)
        self.expected = trainrt.Session(FOLDER / "mlp.tpk").eval(DATA)

    def models(self):
        """The model with its weights stored in each of ONNX's ways."""
        model = onnx.load(MODELS / "mlp.onnx")
        yield MODELS / "mlp.onnx"
        for form in ("typed", "external"):
            copy, folder = onnx.ModelProto(), FOLDER / form
            copy.CopyFrom(model)
            folder.mkdir(exist_ok=True)
            if form == "typed":
                for tensor in copy.graph.initializer:
                    array = onnx.numpy_helper.to_array(tensor)
                    tensor.ClearField("raw_data")
                    (tensor.float_data if array.dtype == np.float32 else tensor.int64_data).extend(array.flatten().tolist())
            onnx.save(copy, folder / "mlp.onnx", save_as_external_data=form == "external", location="mlp.data", size_threshold=0)
            yield folder / "mlp.onnx"

    def test_the_one_flag(self):
        with self.assertRaisesRegex(trainrt.errors.MissingWeights, "--weights FILE: the .onnx, .safetensors or .npz.*(.|\n)*weights="):
            trainrt.Session(self.away)
        for model in self.models():
            self.assertEqual(trainrt.Session(self.away, weights=model).eval(DATA), self.expected, model)

    def test_small_constants_travel_inside(self):
        """Whatever the trained parameters begin with: frozen ones and running statistics are the model's."""
        for name in ("frozen", "resnet"):
            model = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(MODELS / f"{'mlp' if name == 'frozen' else name}.onnx").graph.initializer}
            away = FOLDER / "away" / f"{name}.tpk"
            (FOLDER / f"{name}.tpk").replace(away)
            trained = {n: model[n] for n, p in trainrt.Package(away).parameters.items() if p.trainable}
            trainrt.write_tensors(FOLDER / "trained.safetensors", trained)
            for weights in ("random", FOLDER / "trained.safetensors"):
                session = trainrt.Session(away, weights=weights)
                kept = [n for n, p in session.package.parameters.items() if not p.trainable]
                self.assertGreaterEqual(len(kept), 3)
                for parameter in kept:
                    np.testing.assert_array_equal(session.parameters[parameter].numpy(), model[parameter], parameter)

    def test_models_that_do_not_fit(self):
        model = onnx.load(MODELS / "mlp.onnx")
        first = model.graph.initializer[0]
        shape = list(first.dims)

        def refused(words, kind=trainrt.errors.BadData):
            onnx.save(model, FOLDER / "bad.onnx")
            with self.assertRaisesRegex(kind, words):
                trainrt.Session(self.away, weights=FOLDER / "bad.onnx")

        first.dims[0] += 1
        refused(f"'{first.name}' has [0-9]+ bytes of values, its shape needs")
        first.dims[0] = -3
        refused(f"'{first.name}' has an impossible shape")
        first.dims[0] = shape[0]
        raw = first.raw_data
        first.ClearField("raw_data")
        first.data_location = onnx.TensorProto.EXTERNAL
        for location, more, words in (
            ("../x", [], "its external data leaves the model's folder"),
            ("x", [("offset", "y")], "the offset of its external data is no number"),
            ("x", [("length", "3")], "has another number of bytes than its shape"),
            ("small.data", [("offset", "0")], f"initializer '{first.name}': bytes 0 to [0-9]+ are outside of '.*small.data', which has 4"),
        ):
            (FOLDER / "small.data").write_bytes(b"1234")
            first.ClearField("external_data")
            for key, value in [("location", location), *more]:
                entry = first.external_data.add()
                entry.key, entry.value = key, value
            refused(words)
        entry.key = first.external_data[0].value = "gone.data"
        refused("gone.data", trainrt.errors.NotFound)
        first.data_location = onnx.TensorProto.DEFAULT
        first.raw_data = raw
        first.name = "other"
        refused("fc1.weight|other")
        (FOLDER / "bad.onnx").write_bytes(b"\x3a\xff\x01abc")
        with self.assertRaisesRegex(trainrt.errors.BadData, "is no ONNX model with weights: it is truncated"):
            trainrt.Session(self.away, weights=FOLDER / "bad.onnx")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
