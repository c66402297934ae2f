# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the graph for the memory at hand: how many rows at once, how long, and what is computed again or waits on the host."""

import dataclasses
import re
import shlex

from .. import cache, compiler
from ..errors import Error
from ..settings import as_bytes

_CHOSEN = re.compile(r"memory: batch (\d+) has the best predicted rate")
_RECOMPUTE = re.compile(r"memory: .* with (\d+) values computed again(?:; by the model ([0-9.]+ % more time))?")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was chosen, and the options of the compiler that say it."""

    micro_batch: int
    accumulate: int
    length: int
    memory: int
    #: What the compiler said of recompute, "" if there is none.
    recompute: str
    options: tuple


def options_of(settings, fresh, lengths):
    """The compiler's options but for those of memory. lengths: {size: longest}."""
    found = []
    for name in ("target", "precision", "lora", "quantize", "optimizer", "optimizer-state", "layer-decay"):
        value = getattr(settings, name.replace("-", "_"))
        if value is not None:
            found += [f"--{name}", value]
    if settings.lora and fresh:
        # The head of a new task is trained with the branches.
        where = found.index("--lora") + 1
        names = "|".join(re.escape(name) for name in fresh)
        if "save=" in found[where]:
            found[where] = found[where].replace("save=", f"save={names}|", 1)
        else:
            found[where] += f",save={names}"
    found += ["--lr", repr(learning_rate(settings)), "--weight-decay", repr(settings.weight_decay)]
    if settings.weight_decay and settings.no_decay:
        found += ["--no-decay", settings.no_decay]
    if settings.clip_norm:
        found += ["--clip-norm", repr(settings.clip_norm)]
    for group in settings.group or ():
        found += ["--group", group]
    for name, most in lengths.items():
        found += ["--dim", f"{name}=1..{most}"]
    if settings.offload:
        found.append("--offload" if settings.offload == "all" else f"--offload={settings.offload}")
    for text in settings.compiler_options or ():
        found += shlex.split(text)
    return found


def learning_rate(settings):
    if settings.lr is not None:
        return settings.lr
    return 2e-4 if settings.lora or settings.adapter else 2e-5


def divisor(number, most):
    """The largest divisor of `number` that is at most `most`."""
    return max(d for d in range(1, number + 1) if number % d == 0 and d <= most)


def make(run, settings, fresh, lengths, tell):
    """Compiles the run's package; returns the Plan."""
    rows = settings.batch_size
    common = options_of(settings, fresh, lengths)
    if settings.micro_batch and rows % settings.micro_batch:
        raise Error(f"micro-batch {settings.micro_batch} does not divide batch-size {rows}")
    budget = as_bytes(settings.memory) if settings.memory else None
    if budget and settings.recompute:
        raise Error("--memory chooses what is computed again: --recompute says nothing beside it")
    if budget and settings.micro_batch is None:
        # With accumulators, as several micro-batches need them; the most rows without any are tried first.
        log = _compile(run, [*common, "--dim", f"batch=1..{rows}", "--accumulate", "2", "--memory-budget", f"fit:{budget}"], tell)
        chosen = next((int(found[1]) for line in log if (found := _CHOSEN.search(line))), rows)
        micro = divisor(rows, chosen)
    else:
        micro = settings.micro_batch or rows
    accumulate = rows // micro
    options = [*common, "--dim", f"batch=1..{micro}"]
    if accumulate > 1:
        options += ["--accumulate", accumulate]
    if budget:
        options += ["--memory-budget", budget]
    elif settings.recompute:
        options += ["--recompute", settings.recompute]
    log = _compile(run, options, tell)
    recompute = next((_told(found) for line in log if (found := _RECOMPUTE.search(line))), settings.recompute or "")
    memory = predict(run.package, lengths, micro, accumulate, settings.threads)
    return Plan(micro, accumulate, max(lengths.values(), default=0), memory, recompute, tuple(map(str, options)))


def _told(found):
    if found[1] == "0":
        return ""
    return f"{found[1]} values are computed again" + (f" ({found[2]})" if found[2] else "")


def _compile(run, options, tell):
    kernels = cache.folder() / "kernels"

    def told(line):
        if "warning: " in line and "' does not exist; training will need" not in line:
            tell(line)

    report = [f"--report={run.report}"]
    _, log = compiler.run([*map(str, [run.graph.resolve(), "-o", run.package, *options, *report, "--cache", kernels])], tell=told)
    return log


def predict(package, lengths, micro, accumulate, threads):
    """Bytes of a step of the largest batch, as the runtime plans it."""
    import trainrt

    opened = trainrt.Package(package)
    known = {symbol.name for symbol in opened.symbols}
    sizes = {name: size for name, size in {**lengths, "batch": micro}.items() if name in known}
    for symbol in opened.symbols:
        if symbol.name not in sizes and symbol.input is not None and symbol.max is not None:
            sizes[symbol.name] = symbol.max
    return opened.memory(sizes, micro_batches=accumulate, threads=threads or 0).total


def target(package):
    import trainrt

    return trainrt.Package(package).target
