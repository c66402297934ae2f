# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the graph for the memory at hand: how many rows at once, how long, and what is computed again or waits on the host."""

import dataclasses
import json
import re
import shlex
import shutil

from .. import cache, compiler
from ..errors import CompileError, Error
from ..settings import as_bytes
from .estimate import gpu_speed

_CHOSEN = re.compile(r"memory: batch (\d+) has the best predicted rate")
_RECOMPUTE = re.compile(r"memory: (.+?) without recompute, .* with (\d+) values rematerialized; by the model ([0-9.]+) % more time")
_CONFIG = re.compile(r"memory: the same as --recompute '(.*)'")
_LEAST = re.compile(r"the least that a step can do with is .*")
#: Percent of a step's time that activations have to save, to wait on the host.
_WORTH = 3.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was chosen, and the options of the compiler that say it."""

    micro_batch: int
    accumulate: int
    length: int
    memory: int
    #: Whether the backward pass computes values again, and what that costs of a step's time, in percent.
    recomputes: bool
    slower: float
    #: A line for each choice that says why.
    why: tuple
    options: tuple


class NoRoom(Error):
    """No choice needs as little memory as there is. `short`: the message without what the least consists of. `fitting`: what would do."""

    def __init__(self, settings, lengths, rows, least):
        sizes = " and ".join(f"{length} tokens" for length in lengths.values()) or "fixed length"
        how = "one row" if rows == 1 else f"{rows} rows"
        begin = f"--memory {settings.memory} is too little for {how} of {sizes} at once: "
        self.short = begin + least.partition(":")[0]
        self.fitting = ""
        super().__init__(begin + least)

    def __str__(self):
        return super().__str__() + self.fitting


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
    if settings.ranks > 1:
        found += ["--distribute", settings.distribute, "--dim", f"world={settings.ranks}"]
    for text in settings.compiler_options or ():
        found += shlex.split(text)
    return found


def rows_of_rank(settings):
    """Of a step."""
    return settings.batch_size // settings.ranks


def learning_rate(settings):
    if settings.lr is not None:
        return settings.lr
    return 2e-4 if settings.lora or settings.adapter else 2e-5


def divisor(number, most):
    """The largest divisor of `number` that is at most `most`."""
    return max(d for d in range(1, number + 1) if number % d == 0 and d <= most)


def make(run, settings, fresh, lengths, tell):
    """The run's package, compiled or from the cache; returns the Plan. NoRoom: nothing fits into --memory."""
    if settings.graph:  # whose weights may be anywhere
        return _make(run, settings, fresh, lengths, tell)
    said = [getattr(settings, name) for name in ("batch_size", "micro_batch", "memory", "recompute", "offload", "threads", "ranks")]
    key = cache.key(
        "plan", cache.hash_file(run.graph), options_of(settings, fresh, lengths), lengths, said, target_of(settings),
        compiler.version(), compiler.machine(), cache.hash_file(__file__),
    )  # fmt: skip

    def compile_into(entry, tell):
        plan = _make(run, settings, fresh, lengths, tell)
        for file in (run.package, run.report):
            shutil.copyfile(file, entry / file.name)
        (entry / "plan.json").write_text(json.dumps(dataclasses.asdict(plan)))

    entry = cache.get_told(key, compile_into, tell)
    for file in (run.package, run.report):
        shutil.copyfile(entry / file.name, file)
    stored = json.loads((entry / "plan.json").read_text())
    return Plan(**{name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()})


def _make(run, settings, fresh, lengths, tell):
    rows = rows_of_rank(settings)
    if settings.micro_batch and rows % settings.micro_batch:
        whole = f"batch-size {rows}" if settings.ranks == 1 else f"the {rows} rows of a rank"
        raise Error(f"micro-batch {settings.micro_batch} does not divide {whole}")
    if settings.memory and settings.recompute:
        raise Error("--memory chooses what is computed again: --recompute says nothing beside it")
    trial = _Trial(run, settings, options_of(settings, fresh, lengths), lengths, tell)
    if not settings.memory:
        return trial.compiled(settings.micro_batch or rows, ["--recompute", settings.recompute] if settings.recompute else [])
    try:
        plan = trial.fitted()
    except NoRoom as error:
        plan, refused = None, error
    if settings.offload is None and (plan is None or plan.slower > _WORTH) and trial.has_host():
        waiting = _Trial(run, settings, [*trial.common, "--offload"], lengths, tell, "offload")
        try:
            other = waiting.within(plan.micro_batch) if plan else waiting.fitted()
        except NoRoom as error:
            other, refused = None, error
        if other and (plan is None or other.slower + _WORTH <= plan.slower):
            reason = f"without it {plan.slower:g} % more time would go into computing again" if plan else "nothing else fits"
            kept = plan.why[:-1] if plan else ()  # all but what is computed again
            waiting.package.replace(trial.package)
            waiting.report.replace(trial.report)
            plan = dataclasses.replace(other, why=(*kept, *other.why, f"activations wait on the host where copying hides (--offload): {reason}"))
        waiting.package.unlink(missing_ok=True)
        waiting.report.unlink(missing_ok=True)
    if plan is None:
        raise refused
    return plan


def longest(run, settings, fresh, lengths, least, tell):
    """The most tokens of a row with which the fewest rows at once fit into --memory, to an eighth of what there is to choose; not
    less than `least`. NoRoom: there is none."""
    unit = 64 if least > 256 else 8
    good, bad = -(-least // unit) * unit, max(lengths.values())
    unit *= max(1, (bad - good) // 8 // unit)

    def fits(length):
        sizes = {name: min(most, length) for name, most in lengths.items()}
        trial = _Trial(run, settings, options_of(settings, fresh, sizes), sizes, tell)
        if settings.offload is None and trial.has_host():
            trial.common.append("--offload")
        trial.within(settings.micro_batch or 1)

    fits(min(good, bad))
    while bad - good > unit:
        middle = good + max(1, (bad - good) // 2 // unit) * unit
        try:
            fits(middle)
            good = middle
        except NoRoom:
            bad = middle
    return good


class _Trial:
    """The run's graph with some options, compiled for one memory after the other."""

    def __init__(self, run, settings, common, lengths, tell, name=None):
        self.run, self.settings, self.common, self.lengths, self.tell = run, settings, common, lengths, tell
        self.package = run.path / f"{name}.tpk" if name else run.package
        self.report = run.path / f"{name}.json" if name else run.report
        self.budget = as_bytes(settings.memory) if settings.memory else None

    def has_host(self):
        """Whether activations could wait there."""
        return target_of(self.settings).startswith("cuda")

    def fitted(self):
        """Of --memory: rows at once, and what is computed again."""
        rows = rows_of_rank(self.settings)
        if self.settings.micro_batch or rows == 1:
            return self.within(self.settings.micro_batch or rows)
        # With accumulators, as several micro-batches need them.
        fit = [*self.common, *self._rows(rows), "--accumulate", 2, "--memory-budget", f"fit:{self.budget}", "--stop-after", "schedule"]
        try:
            log = self._compile(fit, 1)
        except NoRoom:
            # A package of one row alone has no room for more, which counts where little is left.
            return dataclasses.replace(found := self.within(1), why=(f"1 row at once: no more fit into {self.settings.memory}", *found.why))
        best = next((int(found[1]) for line in log if (found := _CHOSEN.search(line))), rows)
        micro = divisor(rows, best)
        plan = None
        if micro == best:  # what is computed again is known, too
            config = next((found[1] for line in log if (found := _CONFIG.search(line))), None)
            plan = self.compiled(micro, ["--recompute", config] if config else [], log)
        if plan is None or plan.memory > self.budget:
            plan = self.within(micro)
        at_once = "1 row" if micro == 1 else f"{micro} rows"
        return dataclasses.replace(plan, why=(f"{at_once} at once: the best predicted rate in {self.settings.memory}", *plan.why))

    def within(self, micro):
        """The package of `micro` rows at once that keeps --memory."""
        plan, budget = self.compiled(micro, ["--memory-budget", self.budget]), self.budget
        # The runtime's threads have workspaces, which the compiler's budget, for one thread, knows nothing of.
        while plan.memory > self.budget:
            budget -= plan.memory - self.budget
            plan = self.compiled(micro, ["--memory-budget", max(budget, 1)])
        return plan

    def compiled(self, micro, memory, log=None):
        """The package of `micro` rows at once; `memory`: options of the compiler. `log`: of the compiler that chose them."""
        accumulate = rows_of_rank(self.settings) // micro
        options = [*self.common, *self._rows(micro), *memory]
        if accumulate > 1:
            options += ["--accumulate", accumulate]
        found = next(filter(None, map(_RECOMPUTE.search, (log or []) + self._compile(options, micro))), None)
        count, slower = (int(found[2]), float(found[3])) if found else (0, 0.0)
        values = "1 value is" if count == 1 else f"{count} values are"
        why = (f"{values} computed again, in {slower:g} % more time: without it a step takes {found[1]}",) if count else ()
        total = predict(self.package, self.lengths, micro, accumulate, self.settings)
        return Plan(micro, accumulate, max(self.lengths.values(), default=0), total, count > 0 or "--recompute" in memory, slower, why,
                    tuple(map(str, options)))  # fmt: skip

    def _rows(self, most):
        return ["--dim", f"batch=1..{most}"]

    def _compile(self, options, rows):
        def told(line):
            if "warning: " in line and "' does not exist; training will need" not in line:
                self.tell(line)

        output = [] if "--stop-after" in options else ["-o", self.package, f"--report={self.report}"]
        try:
            _, log = compiler.run(list(map(str, [self.run.graph.resolve(), *output, *options, "--cache", cache.folder() / "kernels"])), tell=told)
        except CompileError as error:
            least = _LEAST.search(str(error))
            if self.budget and least:
                raise NoRoom(self.settings, self.lengths, rows, least[0]) from None
            raise
        return log


def target_of(settings):
    """The target that the compiler takes: what is said, else what the machine has."""
    if settings.target not in (None, "auto"):
        return settings.target
    return "cuda" if gpu_speed() else "cpu"


def predict(package, lengths, micro, accumulate, settings):
    """Bytes of a step of the largest batch on one rank, as the runtime plans it."""
    import trainrt

    opened = trainrt.Package(package)
    known = {symbol.name for symbol in opened.symbols}
    sizes = {name: size for name, size in {**lengths, "batch": micro, "world": settings.ranks}.items() if name in known}
    for symbol in opened.symbols:
        if symbol.name not in sizes and symbol.input is not None and symbol.max is not None:
            sizes[symbol.name] = symbol.max
    return opened.memory(sizes, micro_batches=accumulate, threads=settings.threads or 0).total


def target(package):
    import trainrt

    return trainrt.Package(package).target
