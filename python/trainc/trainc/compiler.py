# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler as a process of its own: options from keywords, messages as exceptions."""

import collections.abc
import os
import pathlib
import re
import subprocess
import sys

from . import errors, plugins
from ._programs import compiler, environment

#: Options that are on by themselves and have a `--no-` form.
NEGATABLE = frozenset(
    [
        "hoist_slices", "move_transposes", "exploit_label_sparsity", "eliminate_padding", "chunk_loss", "schedule_updates",
        "library_convolutions", "fuse_lora", "merge_projections", "keep_rounded_weights",
    ]
)  # fmt: skip
#: Those that may be given several times, with NAME=VALUE.
NAMED = frozenset(["dim"])


def _text(value):
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if isinstance(value, range):
        return f"{value.start}..{value.stop - 1}"
    if isinstance(value, collections.abc.Mapping):
        return ",".join(key if setting is True else f"{key}={_text(setting)}" for key, setting in value.items())
    return str(value)


def _size(value):
    if isinstance(value, tuple) and len(value) == 2:
        return f"{value[0]}..{value[1]}"
    return _text(value)


def _groups(value):
    """`--group` of a text, a list of texts, or {REGEX: "lr=16x"} and {REGEX: {"lr": "16x", "freeze": True}}."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, collections.abc.Mapping):
        return list(value)
    texts = []
    for pattern, settings in value.items():
        if isinstance(settings, collections.abc.Mapping):
            settings = ",".join(key if setting is True else f"{key}={setting}" for key, setting in settings.items())
        texts.append(f"{pattern}: {settings}")
    return texts


def command_line(options):
    """`lr=3e-4, clip_norm=1.0, nesterov=True` as `--lr=3e-4 --clip-norm=1.0 --nesterov`.

    A mapping becomes NAME=VALUE,..., a list A,B,...; None leaves an option out; `dim={"batch": 8, "seq": (1, 512)}`
    fixes sizes and bounds them; `group={"lora_B": "lr=16x"}` and `group=["lora_B: lr=16x"]` are --group; `O=0` is -O0.
    Plug-ins that are loaded come behind these.
    """
    arguments = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or (value is False and name not in NEGATABLE):
            continue
        if name == "O":
            arguments.append(f"-O{value}")
        elif value is False:
            arguments.append("--no-" + flag[2:])
        elif value is True:
            arguments.append(flag)
        elif name == "plugin":
            arguments += [f"{flag}={path}" for path in ([value] if isinstance(value, (str, os.PathLike)) else value)]
        elif name == "group":
            arguments += [f"{flag}={text}" for text in _groups(value)]
        elif name in NAMED and isinstance(value, collections.abc.Mapping):
            arguments += [f"{flag}={size}={_size(bounds)}" for size, bounds in value.items()]
        else:
            # Joined: what is behind a space is no value of an option that may be without one.
            arguments.append(f"{flag}={_text(value)}")
    return arguments + [f"--plugin={path}" for path in plugins.files()]


def run(arguments, *, cwd=None, tell=None):
    """Runs trainc; returns what it wrote to standard output and standard error.

    tell: called with each line of standard error as it comes. Raises what `errors` has for its exit code.
    """
    program = compiler()
    try:
        process = subprocess.Popen(
            ["trainc", *map(os.fspath, arguments)], executable=program, cwd=cwd, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        raise errors.Error(f"the compiler '{program}' cannot be run: {error}; reinstall trainc") from None
    log = []
    try:
        if tell is None:
            output, text = process.communicate()
            log = text.splitlines()
        else:
            for line in process.stderr:
                log.append(line.rstrip("\n"))
                tell(log[-1])
            output, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode:
        raise failure(process.returncode, log)
    return output, log


def failure(code, log):
    """The exception for an exit code: its message is what the compiler said of the error."""
    begin = next((i for i, line in enumerate(log) if re.search(r"(^|[^\w])error: ", line)), 0)
    message = "\n".join(log[begin:]).strip() or f"trainc ended with exit code {code}"
    message = re.sub(r"^trainc: error: ", "", message)
    if code < 0:
        message = f"trainc was ended by signal {-code}. {message}"
    return errors.BY_CODE.get(code, errors.CompilerCrash)(message, "\n".join(log))


def version(plugin=None):
    """What the compiler calls itself, the file that it is, and the plug-ins that are loaded or given: others compile anew."""
    program = os.path.realpath(compiler())
    status = os.stat(program)
    return f"{program} {status.st_size} {status.st_mtime_ns} {plugins.identity(plugin)}".rstrip()


def machine():
    """What `--target auto` depends on."""
    found = [os.environ.get("CUDA_VISIBLE_DEVICES", "")]
    found += sorted(str(path) for path in pathlib.Path("/dev").glob("nvidia[0-9]*"))
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        found.append(next((line for line in text.splitlines() if line.startswith("flags")), ""))
    except OSError:
        pass
    return found


def warn(line):
    """A line of the compiler on standard error, as warnings and worse deserve."""
    if re.search(r"(warning|error): ", line):
        print(line, file=sys.stderr)
