# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model in a session that trains it: exported, compiled and opened, or found in the cache."""

import collections.abc
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import sysconfig
import tempfile
import warnings
import weakref

import trainrt

from . import cache, compiler
from .errors import CompileError, Error, OptionError
from .insight import CompiledSession
from .module_session import ModuleSession
from .progress import Progress

#: Of the session; every other keyword is the compiler's.
SESSION_OPTIONS = ("seed", "threads", "device", "stream", "init_std", "variants", "any_model", "ranks")
_HERE = str(pathlib.Path(__file__).resolve().parent)
_ROOTS = tuple(filter(None, {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}))


#: Options that end before there is a package.
_PARTIAL = ("help", "version", "stop_after", "print_pipeline", "write_plugin_stub", "replay")
#: Options that write files or tell something: what was compiled before would not.
_TOLD = ("report", "explain", "remarks", "save_ir", "save_kernels", "timing", "log_level")


def compile(model, example=None, *, loss=None, dynamic=None, other=None, output=None, cache=True, weights=None,
            verbose=False, progress=None, **options):  # fmt: skip
    """A session that trains `model`: a torch.nn.Module with an example batch, an ONNX file, or a package.

    loss, dynamic, other: as `export` has them; of an ONNX file, `loss` is the name of the output. output: where the
    package is written (default: in the cache). cache: whether what was exported and compiled before is taken from
    there; a folder: of kernels, --cache. weights: where the session has them from, as `Session` has it; of a module,
    they are the module's own. verbose: all that the compiler says. progress: a file that gets a line while this takes
    its time (default: a terminal's or a notebook's standard error), or False.
    seed, threads, device, stream, init_std, variants, any_model, ranks: the session's. All other keywords are options of the
    compiler: `lr=3e-4` is --lr 3e-4 (`trainc --help`), and its messages are exceptions.
    """
    session = {name: options.pop(name) for name in SESSION_OPTIONS if name in options}
    if isinstance(model, trainrt.Package) or (_is_path(model) and str(model).endswith(".tpk")):
        if options or example is not None:
            raise OptionError(f"a package is compiled already: {next(iter(options), 'example')}= says nothing to it")
        return trainrt.Session(model, weights=weights, **session)
    for name in _PARTIAL:
        if options.get(name):
            raise OptionError(f"{name}= makes no package: run `trainc` for that")
    if isinstance(cache, (str, os.PathLike)):
        options["cache"], cache = cache, True
    with Progress(progress) as shown:
        made = _Making(options, output, cache, teller(verbose, shown), shown)
        if _is_path(model):
            if loss is not None:
                options["loss"] = loss
            package = made.of_file(pathlib.Path(model))
        else:
            package = made.of_module(model, example, loss, dynamic, other)
            if weights is None:
                shown(f"starting a session of {type(model).__name__}")
                result = ModuleSession(package, model, example, made.model, made.options, **session)
                return made.owned_by(result)
        return made.owned_by(CompiledSession(package, made.model, made.options, weights=weights, **session))


def _is_path(model):
    return isinstance(model, (str, os.PathLike))


def teller(verbose, shown=None):
    seen = set()

    def tell(line):
        if verbose:
            if shown is not None:
                shown.clear()
            print(line, file=sys.stderr)
        elif "warning: " in line and ".absent' does not exist" not in line and line not in seen:
            seen.add(line)
            warnings.warn(line.partition("warning: ")[2], stacklevel=4)

    return tell


def build_package(model, package, options, tell, kernels):
    arguments = [model, "-o", package, *compiler.command_line(options)]
    if kernels is not None and not options.get("cache"):
        arguments += ["--cache", kernels]
    said, log = compiler.run(arguments, tell=tell)
    if said:  # of --report and --explain
        print(said, end="")
    return log


class _Making:
    """A package on its way: where it comes from, and what the compiler is told."""

    def __init__(self, options, output, use_cache, tell, shown):
        self.options, self.model = options, None
        self._output = None if output is None else pathlib.Path(output)
        self._told = [name for name in _TOLD if options.get(name)]
        self._use_cache, self._tell, self._shown = use_cache, tell, shown
        self._kernels = cache.folder() / "kernels" if use_cache else None
        self._temporary = None
        self._opened = None

    def owned_by(self, session):
        """Without a cache, what was made goes with the session."""
        if self._temporary is not None:
            weakref.finalize(session, shutil.rmtree, self._temporary, ignore_errors=True)
        return session

    def _folder(self, make, key, files=()):
        """What `make` fills, or has filled before. `key` says what it depends on, when it is called; `files`: what there
        is beside a package."""
        if self._use_cache and not self._told:
            name = cache.key(*key())
            folder, known = cache.get(name, make, functools.partial(self._check, files=files))
            # Models that note something when they run first are the same one then.
            if not known and (after := cache.key(*key())) != name:
                cache.get(after, lambda fresh: cache.share(folder, fresh))
            return folder
        self._temporary = pathlib.Path(tempfile.mkdtemp(prefix="trainc-"))
        make(self._temporary)
        return self._temporary

    def _check(self, folder, files):
        """Opens the package of an entry, which has to be whole."""
        for file in files:
            if not (folder / file).stat().st_size:
                raise Error(f"'{file}' is empty")
        self._opened = trainrt.Package(folder / "model.tpk")

    def of_file(self, model):
        """The package of an ONNX file, whose weights stay where they are."""
        if not model.exists():
            raise FileNotFoundError(f"there is no model '{model}'")
        self.model = model
        self._shown(f"compiling {model.name}")
        if self._output is not None:
            build_package(model, self._output, self.options, self._tell, self._kernels)
            return self._output

        def make(folder):
            log = build_package(model.resolve(), folder / "model.tpk", self.options, self._tell, self._kernels)
            (folder / "log.txt").write_text("\n".join(log))

        target = compiler.machine() if self.options.get("target", "auto") == "auto" else ""
        key = ("file", str(model.resolve()), _content(model), self.options, compiler.version(self.options.get("plugin")), target)
        package = self._folder(make, lambda: key) / "model.tpk"
        return self._opened or package

    def of_module(self, module, example, loss, dynamic, other):
        if "torch" not in sys.modules:
            raise OptionError(f"compile: expected a torch.nn.Module, an ONNX file or a package, got {type(module).__name__}")
        from .inputs import check, check_kind

        check_kind(module)
        if example is None:
            raise OptionError("compile: a module needs `example=`, a batch as forward takes it")
        check(module)

        def make(folder):
            from . import exporting

            self._shown(f"exporting {type(module).__name__}")
            exported = exporting.export(
                module, example, folder / "model.onnx", loss=loss, dynamic=dynamic, other=other, weights="absent"
            )
            self._shown(f"compiling {type(module).__name__}")
            options = {**exported.options, **self.options}
            try:
                log = build_package(folder / "model.onnx", folder / "model.tpk", options, self._tell, self._kernels)
            except CompileError as error:
                raise exporting.with_modules(error, folder / "model.onnx") from None
            (folder / "log.txt").write_text("\n".join(log))
            (folder / "exported.json").write_text(json.dumps(exported.options))

        options = dict(self.options)
        key = lambda: (  # noqa: E731
            "module", describe(module), describe_batch(module, example), _describe_code(loss), dynamic,
            None if other is None else describe_batch(module, other), options, compiler.version(self.options.get("plugin")), compiler.machine(),
        )  # fmt: skip
        entry = self._folder(make, key, ("exported.json", "model.onnx"))
        self.model = entry / "model.onnx"
        self.options = {**json.loads((entry / "exported.json").read_text()), **self.options}
        if self._output is None:
            return self._opened or entry / "model.tpk"
        shutil.copy(entry / "model.tpk", self._output)
        return self._output


def _content(model):
    """What the graph is: its bytes; of weights beside it, which files they are."""
    files = {model.name: cache.hash_file(model)}
    for file in sorted(model.parent.glob(model.name + ".*")):
        status = file.stat()
        files[file.name] = [status.st_size, status.st_mtime_ns]
    return files


def describe_batch(module, example):
    from .inputs import as_constants, as_inputs, by_name, nest

    tensors = as_inputs(module, example)
    described = {name: [str(t.dtype), list(t.shape)] for name, t in tensors.items()}
    # Of what is nested also how: a list is another graph than a dict.
    return [described, as_constants(module, example), repr(nest(by_name(module, example), {name: name for name in tensors}))]


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
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(v, depth + 1), default=str) for v in value)
    if isinstance(value, (list, tuple)):
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
        if (file := getattr(loaded, "__file__", None)) and not file.startswith(_ROOTS) and not file.startswith(_HERE)
    )
    parts.append(own)
    # Which of these are loaded depends on what was done before.
    parts.append(sorted((path.name, _source(str(path))) for path in pathlib.Path(_HERE).glob("*.py")))
    parts.append(cache.versions("torch", "onnx", "onnxscript", "onnx-ir", "transformers"))
    return json.loads(json.dumps(parts, default=str))
