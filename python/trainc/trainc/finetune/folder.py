# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a run: what is where in it, and what it was made of."""

import json
import pathlib

from ..errors import Error
from ..settings import Settings
from .keys import FINETUNE


class Run:
    """`config.yaml`, `export/`, `model.tpk`, `data/`, `checkpoints/`, `logs/`."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.config = self.path / "config.yaml"
        self.export = self.path / "export"
        self.graph = self.export / "model.onnx"
        self.package = self.path / "model.tpk"
        self.data = self.path / "data"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self.report = self.path / "memory.json"
        self._facts = self.path / "run.json"

    @property
    def facts(self):
        """What was chosen when the run was made: trainc-run's options, the base's files, what is saved and how."""
        try:
            return json.loads(self._facts.read_text())
        except OSError:
            raise Error(
                f"{self.path}: no run of `trainc finetune` (there is no {self._facts.name}); -o begins one"
                if not self.config.exists() else
                f"{self.path}: the run was ended before training began: start it again, without --resume"
            ) from None  # fmt: skip

    @facts.setter
    def facts(self, values):
        from ..data.shards import write_whole

        write_whole(self._facts, (json.dumps(values, indent=1) + "\n").encode())

    def settings(self):
        self.facts  # noqa: B018, an error where there is no run
        return Settings(FINETUNE, FINETUNE.read_file(self.config))
