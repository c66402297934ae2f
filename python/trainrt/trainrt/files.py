# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A session's parameters in files that other programs read."""

import ctypes
import os
from ctypes import byref, c_char_p, c_int32

from . import _arrays, errors
from . import _library as capi


def write_tensors(path, tensors):
    """Writes {name: array} as .safetensors (or .npz); arrays on the host, as they are."""
    named = (capi.NamedTensor * len(tensors))()
    slots = []  # what the tensors point to
    for entry, (name, array) in zip(named, tensors.items()):
        entry.name = name.encode()
        slots.append((_arrays.Slot(name, entry.tensor), array))
        if _arrays.read(array, slots[-1][0]) is not None:
            raise errors.ArrayError(f"'{name}': expected an array on the CPU, got one on a GPU")
    capi.library().call("file_write", os.fsencode(path), named, len(tensors))


def _text(value):
    return None if value is None else os.fsencode(value)


class Files(capi.Owner):
    """Of `Session`: what it writes for others, and reads of them."""

    @property
    def adapters(self):
        """Paths of the modules that have low-rank adapters."""
        return [module["path"] for module in self.package.manifest.get("lora", {}).get("modules", ())]

    def save_adapter(self, folder, base_name=None, task_type=None):
        """The adapter in PEFT's layout: adapter_config.json and adapter_model.safetensors in `folder`.

        base_name, task_type: of the base model, as PEFT wants them ("CAUSAL_LM"); else as in the adapter that was
        loaded.
        """
        options = capi.AdapterOptions(ctypes.sizeof(capi.AdapterOptions), _text(base_name), _text(task_type))
        self._call("adapter_save", os.fsencode(folder), byref(options))

    def load_adapter(self, folder):
        """Values of all adapters from such a folder, which has to be of the same modules, ranks and strengths."""
        self._call("adapter_load", os.fsencode(folder))

    def save_merged(self, path):
        """The model without adapters, these added to its weights, as .safetensors."""
        self._call("adapter_merge", os.fsencode(path))

    def save_parameters(self, path):
        """All parameters under their names, as .safetensors (or .npz)."""
        self._finish()
        tensors = {}
        for name in self.package.parameters:
            tensor = capi.Tensor()
            self._call("session_parameter", name.encode(), byref(tensor))
            tensors[name] = tensor
        named = (capi.NamedTensor * len(tensors))(*((name.encode(), tensor) for name, tensor in tensors.items()))
        self._library.call("file_write", os.fsencode(path), named, len(tensors))

    def export_onnx(self, path, outputs=None, model=None):
        """The ONNX model that the package was compiled from, in evaluation mode, with the parameters as they are now.

        outputs: names of those that stay; what only others need goes (labels, with the loss). model: that ONNX file,
        where it is no longer where the package says. Returns the paths that were written: a large model has a second
        file.
        """
        names = [outputs] if isinstance(outputs, str) else list(outputs or ())
        texts = (c_char_p * len(names))(*(name.encode() for name in names))
        options = capi.OnnxOptions(ctypes.sizeof(capi.OnnxOptions), _text(model), texts, len(names))
        has_data = c_int32()
        try:
            self._call("onnx_save", os.fsencode(path), byref(options), byref(has_data))
        except errors.NotFound as error:
            raise errors.NotFound(
                f"{error}\nexport_onnx writes the parameters into the model that the package was compiled from: say where "
                "that is with model="
            ) from None
        return [os.fspath(path), f"{os.fspath(path)}.data"][: 1 + has_data.value]

    def merged_state_dict(self):
        """Parameters of the model without adapters, with these added, and quantized ones decoded: copies on the host."""
        self._finish()
        owned = {name for parameter in self.package.manifest["parameters"] if "part_of" in parameter
                 for name in (parameter["name"],)}  # fmt: skip
        for module in self.package.manifest.get("lora", {}).get("modules", ()):
            owned.update(module.get(part, "") for part in ("a", "b", "magnitude"))
        return {name: self._merged(name) for name in self.package.parameters if name not in owned}

    def _merged(self, name):
        tensor = capi.Tensor()
        self._call("session_merged_parameter", name.encode(), byref(tensor))
        return _arrays.copy(tensor)
