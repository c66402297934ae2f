# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The session of a PyTorch module, with its names and its optimizer's."""

import collections.abc
import pathlib
import tempfile

import trainrt

from .errors import Error
from .insight import CompiledSession

BadState = trainrt.errors.BadData


def _as_real(value):
    import torch

    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


class ModuleSession(CompiledSession):
    """A session of a module: begins with the module's values, and has its state dict."""

    def __init__(self, package, module, example, model, options, **session):
        from . import inputs

        package = trainrt.package.open_package(package)
        values = dict(module.named_parameters(remove_duplicate=False))
        values.update(module.named_buffers(remove_duplicate=False))
        self._constants = inputs.as_constants(module, example)
        nested = any(map(inputs.is_nested, inputs.by_name(module, example).values()))
        self._flatten = inputs.flatten if nested else None
        #: As the graph has complex ones: pairs of numbers.
        self._complex = {name for name, value in values.items() if value.is_complex()}
        values = {name: _as_real(value.detach()) if name in self._complex else value for name, value in values.items()}
        if meta := [name for name in package.parameters if name in values and values[name].is_meta]:
            raise Error(f"parameter '{meta[0]}' is on the meta device, without values: give weights=, where they are from")
        manifest = package.manifest
        quantized = [p["name"] for p in manifest["parameters"] if "quantized" in p]
        if "lora" in manifest or quantized:
            # What the package adds begins as it says, and what it stores otherwise is made from the module's: as from
            # a file.
            with tempfile.TemporaryDirectory(prefix="trainc-") as folder:
                names = [name for name in package.parameters if name in values]
                path = pathlib.Path(folder) / "weights.safetensors"
                trainrt.write_tensors(path, {name: values[name].detach().cpu().contiguous() for name in names})
                super().__init__(package, model, options, weights=path, **session)
        else:
            super().__init__(package, model, options, weights="none", **session)
            for name in package.parameters:
                if name not in values:
                    raise Error(f"the package has a parameter '{name}', which {type(module).__name__} does not")
                self.parameters[name] = values[name].detach().contiguous()
        #: {name in the state dict: name in the package}; of what is in no package, the value.
        self._names, self._others = {}, {}
        self._quantized = quantized
        #: As an optimizer over the module's trained parameters counts them.
        self._optimized = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        first = {}
        for name, value in values.items():
            if name in package.parameters:
                first.setdefault(id(value), name)
        for name in module.state_dict():
            if (known := first.get(id(values.get(name)))) is not None:
                self._names[name] = known
            elif name in package.state:
                self._names[name] = name
            elif name in values:
                self._others[name] = values[name].detach().cpu().clone()

    def _flat(self, part):
        """A batch with lists and dicts of arrays as the graph has them."""
        if isinstance(part, collections.abc.Mapping):
            return self._flatten(part)
        if isinstance(part, tuple):
            return tuple(self._flatten({str(i): value for i, value in enumerate(part)}).values())
        return part

    def _bind(self, batch, names, purpose, **more):
        if self._flatten is not None:
            batch = [self._flat(part) for part in batch] if type(batch) is list else self._flat(batch)
        for name, value in self._constants.items():
            for part in batch if isinstance(batch, list) else (batch,):
                if isinstance(part, dict) and part.get(name, value) != value:
                    raise trainrt.errors.InvalidArgument(
                        f"input '{name}' is {value!r} in the graph, as it was in the example; got {part[name]!r}"
                    )
        return super()._bind(batch, names, purpose, **more)

    def state_dict(self):
        """The module's state dict, with what training has made of it: `module.load_state_dict` takes it. Adapters are
        added to the weights that they are of."""
        trained = self.merged_state_dict() if self.adapters or self._quantized else super().state_dict()
        for name in self._names.values():
            if name not in trained:
                trained[name] = self._copy(self.optimizer_state[name])
        named = {name: trained[known] for name, known in self._names.items()}
        for name in self._complex & named.keys():
            import torch

            named[name] = torch.view_as_complex(named[name])
        return {**named, **self._others}

    def load_state_dict(self, state, strict=True):
        """As the module's: takes all of its names, those of tied parameters and of fixed buffers, too."""
        known = {known: state[name] for name, known in self._names.items() if name in state}
        if stored := [name for name in self._quantized if name in known]:
            raise trainrt.errors.Unsupported(
                f"load_state_dict: '{stored[0]}' is quantized in the package: compile the module with these values"
            )
        missing = [name for name in (*self._names, *self._others) if name not in state]
        extra = [name for name in state if name not in self._names and name not in self._others]
        if strict and (missing or extra):
            raise BadState(
                f"load_state_dict: {len(missing)} names are missing"
                + (f" ('{missing[0]}' first)" if missing else "")
                + f", {len(extra)} are not the model's"
                + (f" ('{extra[0]}' first)" if extra else "")
            )
        for name, value in self._others.items():
            if name in state and not (state[name].shape == value.shape and bool((state[name].cpu() == value).all())):
                raise BadState(f"load_state_dict: buffer '{name}' is a constant of the package: compile the module anew")
        for name, value in known.items():
            value = _as_real(value)
            (self.parameters if name in self.package.parameters else self.optimizer_state)[name] = value.contiguous()
        return missing

    def optimizer_state_dict(self):
        """The state of torch.optim's optimizer of the same name over `[p for p in module.parameters() if
        p.requires_grad]`: its `load_state_dict` takes it."""
        import torch

        settings = self.package.manifest["optimizer"]
        kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
        if settings["name"] not in kinds:
            raise trainrt.errors.Unsupported(
                f"optimizer_state_dict: PyTorch has no optimizer '{settings['name']}'; `optimizer_state` has its values"
            )
        given = {"lr": settings["lr"], "weight_decay": settings["weight_decay"]}
        if settings["name"] == "sgd":
            given.update(momentum=settings["momentum"], nesterov=settings["nesterov"])
        else:
            given.update(betas=tuple(settings["betas"]), eps=settings["eps"])
        like = [torch.nn.Parameter(torch.empty(0)) for _ in self._optimized]
        state, steps = {}, self.steps
        for index, name in enumerate(self._optimized):
            values = self._state_of(name)
            if values and steps:
                state[index] = {part: self._copy(self.optimizer_state[key]) for part, key in values.items()}
                if settings["name"] != "sgd":
                    state[index]["step"] = torch.tensor(float(steps))
        return {"state": state, "param_groups": kinds[settings["name"]](like, **given).state_dict()["param_groups"]}

    def load_optimizer_state_dict(self, state):
        """The state of such an optimizer; training goes on at its step. Call `load_state_dict` before."""
        steps = set()
        for index, name in enumerate(self._optimized):
            found, wanted = state["state"].get(index, {}), self._state_of(name)
            if missing := [part for part in wanted if found.get(part) is None]:
                if found:
                    raise BadState(f"load_optimizer_state_dict: '{name}' has no {missing[0]}; it has {', '.join(found)}")
                continue
            for part, key in wanted.items():
                self.optimizer_state[key] = found[part].detach().contiguous()
            if "step" in found:
                steps.add(int(found["step"]))
        if len(steps) > 1:
            raise BadState(f"load_optimizer_state_dict: parameters have seen different numbers of steps, {sorted(steps)}")
        if state["state"]:
            # SGD's has no number of steps; its momentum would not count in a first one.
            self._call("session_set_step", steps.pop() if steps else max(1, self.steps))

    def _state_of(self, name):
        """{PyTorch's name of a part: the package's}."""
        parts = {}
        for key, tensor in self.package.state.items():
            owner, _, part = key.rpartition("/")
            if owner == self._names.get(name, name):
                if tensor.shape != self.package.parameters[owner].shape:
                    raise trainrt.errors.Unsupported(
                        f"the state of '{name}' is stored in blocks of {tensor.dtype}: `save` and `load` keep it"
                    )
                parts[part] = key
        return parts
