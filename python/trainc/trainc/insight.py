# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler knows of a model that it has compiled: memory, and the decisions of its passes."""

import collections
import dataclasses
import html
import json
import pathlib
import re
import tempfile

import trainrt
from trainrt.package import bytes_text

from . import compiler
from .errors import CompileError, OptionError


@dataclasses.dataclass(frozen=True)
class Decision:
    """What a pass did ("passed"), did not do ("missed"), or has found ("analysis"), and with which nodes."""

    pass_name: str
    kind: str
    name: str
    message: str
    function: str
    nodes: tuple


class Explanation(collections.abc.Sequence):
    """The decisions of all passes, in order."""

    def __init__(self, decisions):
        self._decisions = tuple(decisions)

    def __len__(self):
        return len(self._decisions)

    def __getitem__(self, index):
        return self._decisions[index]

    def of(self, pass_name=None, kind=None, node=None):
        """Those of a pass, of a kind, about a node."""
        return Explanation(
            decision for decision in self
            if pass_name in (None, decision.pass_name) and kind in (None, decision.kind)
            and (node is None or node in decision.nodes)
        )  # fmt: skip

    def _counts(self):
        passes = {}
        for decision in self:
            passes.setdefault(decision.pass_name, collections.Counter())[decision.kind] += 1
        return passes

    def __repr__(self):
        lines = [f"{len(self)} decisions of {len(self._counts())} passes"]
        for name, kinds in self._counts().items():
            lines.append(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
            told = collections.Counter((d.kind, d.message) for d in self if d.pass_name == name)
            lines += [f"  {count} x {kind}: {message}" for (kind, message), count in told.most_common(5)]
        return "\n".join(lines)

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{html.escape(d.pass_name)}</td><td>{html.escape(d.kind)}</td><td>{html.escape(d.message)}</td>"
            f"<td>{html.escape(', '.join(d.nodes))}</td></tr>"
            for d in self
        )
        return f"<table><tr><th>pass</th><th></th><th>decision</th><th>nodes</th></tr>{rows}</table>"


class Report(collections.abc.Mapping):
    """How much memory a step needs, as `trainc --report=FILE.json` has it; a page in a notebook."""

    def __init__(self, values, page, given):
        # Sizes that were given are fixed in what the compiler tells of.
        self._values, self.html = {**values, "sizes": {**values["sizes"], **given}}, page

    def __getitem__(self, name):
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        sizes = ", ".join(f"{name} {size}" for name, size in self["sizes"].items()) or "fixed sizes"
        lines = [f"a step needs {bytes_text(self['peak_bytes'])} ({sizes}; {self['target']})"]
        for name in ("parameters", "optimizer_state", "gradients", "activations", "inputs", "outputs", "workspace"):
            lines.append(f"  {bytes_text(self[name + '_bytes']):>12}  {name.replace('_', ' ')}")
        if (time := self.get("time")) and time["world"] > 1:
            lines.append(f"by the model a step of {time['world']} ranks takes {1e3 * time['step_seconds']:.3g} ms, {1e3 * time['exchange_seconds']:.3g} ms of exchanges with "
                         f"{1e3 * time['hidden_seconds']:.3g} ms of them hidden: {time['world'] * time['scaling_efficiency']:.2f}x one rank")  # fmt: skip
        return "\n".join(lines)

    def _repr_html_(self):
        return f'<iframe style="width:100%;height:40em;border:0" srcdoc="{html.escape(self.html)}"></iframe>'


class CompiledSession(trainrt.Session):
    """A session of what was compiled here, which can be asked about."""

    def __init__(self, package, model, options, **session):
        super().__init__(package, **session)
        self._model, self._compiled = pathlib.Path(model), options

    def report(self, sizes=None, **more):
        """A step's memory for these sizes (`batch=8, seq=128`), before it runs: a mapping that prints as a table.

        A size that is not given is as the compiler takes it (`trainc --report`). With distribute=, world=4 is for one of four ranks.
        """
        sizes = {**(sizes or {}), **more}
        with tempfile.TemporaryDirectory(prefix="trainc-") as folder:
            texts = {}
            for form in ("json", "html"):
                file = pathlib.Path(folder) / f"report.{form}"
                try:
                    self._ask(f"--report={file}", *(part for name, size in sizes.items() for part in ("--dim", f"{name}={size}")))
                except CompileError as error:
                    if size := re.search(r"the curve needs a size for (\S+) ", str(error)):
                        raise OptionError(f"report: give a size for {size[1]}, as in report({size[1]}=32)") from None
                    raise
                texts[form] = file.read_text()
        return Report(json.loads(texts["json"]), texts["html"], sizes)

    def explain(self):
        """What the passes did and why not: a sequence of `Decision` that prints as a summary."""
        with tempfile.TemporaryDirectory(prefix="trainc-") as folder:
            file = pathlib.Path(folder) / "remarks.jsonl"
            self._ask("--remarks", file)
            remarks = [json.loads(line) for line in file.read_text().splitlines()]
        return Explanation(
            Decision(r["pass"], r["kind"], r["name"], r.get("message", ""), r.get("function", ""), tuple(r.get("nodes", ())))
            for r in remarks
        )

    def export_onnx(self, path, outputs=None, model=None):
        return super().export_onnx(path, outputs, model or self._model)

    export_onnx.__doc__ = trainrt.Session.export_onnx.__doc__

    def _ask(self, *more):
        """Runs the compiler again, as far as before there is a package."""
        if not self._model.exists():
            raise OptionError(f"'{self._model}', which was compiled, is gone: compile the model again")
        options = {name: value for name, value in self._compiled.items() if name not in ("report", "explain", "remarks")}
        compiler.run([self._model, *compiler.command_line(options), *more, "--stop-after", "codegen"])
