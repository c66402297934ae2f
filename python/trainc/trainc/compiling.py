# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model in a session that trains it: exported, compiled and opened, or found in the cache."""

import collections.abc
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys
import sysconfig
import warnings

import trainrt

from . import cache, compiler
from .errors import Error, OptionError

BadState = trainrt.errors.BadData

#: Of the session; every other keyword is the compiler's.
_SESSION = ("seed", "threads", "device", "stream", "init_std", "variants", "any_model")
_ROOTS = tuple(filter(None, {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}))


def compile(model, example=None, *, loss=None, dynamic=None, other=None, output=None, use_cache=True, weights=None,
            verbose=False, **options):  # fmt: skip
    """A session that trains `model`: a torch.nn.Module with an example batch, an ONNX file, or a package.

    loss, dynamic, other: as `export` has them; of an ONNX file, `loss` is the name of the output. output: where the
    package is written (default: in the cache). use_cache: whether what was exported and compiled before is taken from
    there. weights: where the session has them from, as `Session` has it; of a module, they are the module's own.
    seed, threads, device, stream, init_std, variants, any_model: the session's. All other keywords are options of the
    compiler: `lr=3e-4` is --lr 3e-4 (`trainc --help`), and its messages are exceptions.
    """
    session = {name: options.pop(name) for name in _SESSION if name in options}
    if isinstance(model, trainrt.Package) or (_is_path(model) and str(model).endswith(".tpk")):
        if options or example is not None:
            raise OptionError(f"a package is compiled already: {next(iter(options), 'example')}= says nothing to it")
        return trainrt.Session(model, weights=weights, **session)
    tell = _tell(verbose)
    if _is_path(model):
        if loss is not None:
            options["loss"] = loss
        package = _of_file(pathlib.Path(model), options, output, use_cache, tell)
        return trainrt.Session(package, weights=weights, **session)
    package = _of_module(model, example, loss, dynamic, other, options, output, use_cache, tell)
    if weights is not None:
        return trainrt.Session(package, weights=weights, **session)
    return ModuleSession(package, model, **session)


class ModuleSession(trainrt.Session):
    """A session of a module: begins with the module's values, and has its state dict."""

    def __init__(self, package, module, **options):
        super().__init__(package, weights="none", **options)
        values = dict(module.named_parameters(remove_duplicate=False))
        values.update(module.named_buffers(remove_duplicate=False))
        #: {name in the state dict: name in the package}; of what is in no package, the value.
        self._names, self._others = {}, {}
        #: As an optimizer over the module's trained parameters counts them.
        self._optimized = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        first = {}
        for name, value in values.items():
            if name in self.package.parameters:
                first.setdefault(id(value), name)
        for name in module.state_dict():
            if (known := first.get(id(values.get(name)))) is not None:
                self._names[name] = known
            elif name in self.package.state:
                self._names[name] = name
            elif name in values:
                self._others[name] = values[name].detach().cpu().clone()
        for name in self.package.parameters:
            if name not in values:
                raise Error(f"the package has a parameter '{name}', which {type(module).__name__} does not")
            self.parameters[name] = values[name].detach().contiguous()

    def state_dict(self):
        """The module's state dict, with what training has made of it: `module.load_state_dict` takes it."""
        trained = super().state_dict()
        for name in self._names.values():
            if name not in trained:
                trained[name] = self._copy(self.optimizer_state[name])
        return {**{name: trained[known] for name, known in self._names.items()}, **self._others}

    def load_state_dict(self, state, strict=True):
        """As the module's: takes all of its names, those of tied parameters and of fixed buffers, too."""
        known = {**{known: state[name] for name, known in self._names.items() if name in state}}
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


def _is_path(model):
    return isinstance(model, (str, os.PathLike))


def _tell(verbose):
    seen = set()

    def tell(line):
        if verbose:
            print(line, file=sys.stderr)
        elif "warning: " in line and ".absent' does not exist" not in line and line not in seen:
            seen.add(line)
            warnings.warn(line.partition("warning: ")[2], stacklevel=4)

    return tell


def _build(model, package, options, tell, kernels):
    arguments = [model, "-o", package, *compiler.command_line(options)]
    if kernels is not None and not options.get("cache"):
        arguments += ["--cache", kernels]
    _, log = compiler.run(arguments, tell=tell)
    return log


def _of_file(model, options, output, use_cache, tell):
    """The package of an ONNX file, whose weights stay where they are."""
    if not model.exists():
        raise FileNotFoundError(f"there is no model '{model}'")
    kernels = cache.folder() / "kernels" if use_cache else None
    if output is not None or not use_cache:
        package = pathlib.Path(output) if output is not None else model.with_suffix(".tpk")
        _build(model, package, options, tell, kernels)
        return package
    target = _machine() if options.get("target", "auto") == "auto" else ""
    name = cache.key("file", str(model.resolve()), _content(model), options, compiler.version(), target)

    def make(folder):
        log = _build(model.resolve(), folder / "model.tpk", options, tell, kernels)
        (folder / "log.txt").write_text("\n".join(log))

    return cache.get(name, make)[0] / "model.tpk"


def _content(model):
    """What the graph is: its bytes; of weights beside it, which files they are."""
    files = {model.name: cache.hash_file(model)}
    for file in sorted(model.parent.glob(model.name + ".*")):
        status = file.stat()
        files[file.name] = [status.st_size, status.st_mtime_ns]
    return files


def _machine():
    """What `--target auto` depends on."""
    found = [os.environ.get("CUDA_VISIBLE_DEVICES", "")]
    found += sorted(str(path) for path in pathlib.Path("/dev").glob("nvidia[0-9]*"))
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        found.append(next((line for line in text.splitlines() if line.startswith("flags")), ""))
    except OSError:
        pass
    return found


def _of_module(module, example, loss, dynamic, other, options, output, use_cache, tell):
    from . import exporting

    if example is None:
        raise OptionError("compile: a module needs `example=`, a batch as forward takes it")
    kernels = cache.folder() / "kernels" if use_cache else None

    def make(folder):
        exported = exporting.export(
            module, example, folder / "model.onnx", loss=loss, dynamic=dynamic, other=other, weights="absent"
        )
        log = _build(folder / "model.onnx", folder / "model.tpk", {**exported.options, **options}, tell, kernels)
        (folder / "log.txt").write_text("\n".join(log))

    if use_cache:
        name = cache.key(
            "module", describe(module), _describe_batch(module, example), _describe_code(loss), dynamic,
            None if other is None else _describe_batch(module, other), options, compiler.version(), _machine(),
        )  # fmt: skip
        entry, _ = cache.get(name, make)
    else:
        import tempfile

        entry = pathlib.Path(tempfile.mkdtemp(prefix="trainc-"))
        make(entry)
    package = entry / "model.tpk"
    if output is not None:
        import shutil

        shutil.copy(package, output)
        shutil.copy(entry / "model.onnx", pathlib.Path(output).with_name("model.onnx"))
        package = pathlib.Path(output)
    return package


def _describe_batch(module, example):
    from .exporting import as_inputs

    return {name: [str(t.dtype), list(t.shape)] for name, t in as_inputs(module, example).items()}


@functools.cache
def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


_sources = {}


def _source(path):
    """The content of a file of Python: of the interpreter's own packages, its size and time."""
    try:
        status = os.stat(path)
        known = (status.st_size, status.st_mtime_ns)
        if path.startswith(_ROOTS):
            return known
        if _sources.get(path, (None,))[0] != known:
            _sources[path] = (known, hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
        return _sources[path][1]
    except OSError:
        return None


def _describe_code(function):
    """What a function computes: its code, constants and closure."""
    if function is None or isinstance(function, str):
        return function
    code = getattr(function, "__code__", None)
    if code is None:
        return [repr(type(function)), _plain(getattr(function, "__dict__", {}))]
    cells = [_plain(cell.cell_contents) for cell in function.__closure__ or ()]
    return [code.co_code.hex(), repr(code.co_consts), code.co_names, cells, _plain(function.__defaults__)]


def _plain(value, depth=0):
    """A value as text that says what it is, and not where in memory."""
    import torch

    if isinstance(value, torch.nn.Module):
        return type(value).__qualname__
    if isinstance(value, torch.Tensor):
        if value.numel() <= 1 << 16 and not isinstance(value, torch.nn.Parameter):
            return [str(value.dtype), list(value.shape), hashlib.sha256(repr(value.tolist()).encode()).hexdigest()]
        return [str(value.dtype), list(value.shape)]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, collections.abc.Mapping):
        return {str(k): _plain(v, depth + 1) for k, v in value.items()} if depth < 6 else len(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v, depth + 1) for v in value] if depth < 6 else len(value)
    if callable(value) and hasattr(value, "__code__"):
        return _describe_code(value)
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict(), depth + 1)
    if hasattr(value, "__dict__") and depth < 6:
        return [type(value).__qualname__, _plain(vars(value), depth + 1)]
    return type(value).__qualname__


def describe(module):
    """All that decides which graph a module becomes, but for values of parameters: its modules with their classes,
    attributes and buffers, and the source of every file of Python that is not an installed package."""
    import torch

    parts = []
    hidden = ("_parameters", "_buffers", "_modules")
    for name, child in module.named_modules():
        attributes = {k: _plain(v) for k, v in vars(child).items() if k not in hidden}
        cls = type(child)
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        parts.append([name, cls.__module__, cls.__qualname__, attributes, _source(file) if file else None])
    for name, tensor in module.named_parameters(remove_duplicate=False):
        parts.append([name, str(tensor.dtype), list(tensor.shape), tensor.requires_grad])
    groups = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        groups.setdefault(id(tensor), []).append(name)
    parts.append(sorted(groups.values()))
    for name, tensor in module.named_buffers():
        parts.append([name, _plain(tensor)])
    own = sorted(
        (name, _source(file))
        for name, loaded in list(sys.modules.items())
        if (file := getattr(loaded, "__file__", None)) and not file.startswith(_ROOTS)
    )
    parts.append(own)
    parts.append([_version(name) for name in ("torch", "onnx", "onnxscript", "onnx-ir", "transformers")])
    return json.loads(json.dumps(parts, default=str))
