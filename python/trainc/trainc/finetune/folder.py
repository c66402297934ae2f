# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a run: what is where in it, and what it was made of."""

import fcntl
import json
import pathlib
import shutil

from ..errors import Error
from ..files import write_whole
from ..settings import command_parser


_LOCK = ".trainc.lock"


def command_of_run(command, text):
    """The command line of what is done with a run's checkpoint."""
    made = command_parser(command, text)
    made.add_argument("run", metavar="RUN")
    made.add_argument("--checkpoint", metavar="DIR", help="a folder of checkpoints, or one of them (default: the newest of the run)")
    return made


class Run:
    """`config.yaml`, `export/`, `model.tpk`, `data/`, `checkpoints/`, `logs/`, `summary.html`."""

    def __init__(self, path):
        self.path = pathlib.Path(path).absolute()
        self.config = self.path / "config.yaml"
        self.export = self.path / "export"
        self.graph = self.export / "model.onnx"
        self.package = self.path / "model.tpk"
        self.data = self.path / "data"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self.summary = self.path / "summary.html"
        self.report = self.path / "memory.json"
        self._facts = self.path / "run.json"

    def claim(self):
        """Keeps other processes from training here, as long as this one lives."""
        self._lock = open(self.path / _LOCK, "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Error(f"{self.path}: another process trains in this folder") from None

    def _files(self):
        return [path for path in self.path.iterdir() if path.name != _LOCK]

    def begin(self, overwrite):
        """Makes the folder this process's, without what an earlier run left that never trained, or with `overwrite`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            how = "is no folder" if self.path.exists() else f"cannot be created: {error.strerror}"
            raise Error(f"{self.path}: {how}") from None
        if self._files() and not self.config.exists() and not (self.path / _LOCK).exists():
            raise Error(f"{self.path}: the folder holds other files; choose a new one")
        self.claim()
        if self.checkpoints.exists() and not overwrite:
            raise Error(f"{self.path}: a run is there: --resume {self.path} goes on with it, --overwrite begins anew")
        for path in self._files():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def checkpoint(self, said):
        """The one that --checkpoint names, or the folder of them all."""
        found = pathlib.Path(said) if said else self.checkpoints
        if not found.exists():
            raise Error(
                f"{found}: there is no such folder" if said else
                f"{found}: there is no checkpoint yet; `trainc finetune --resume {self.path}` trains"
            )  # fmt: skip
        return found

    @property
    def facts(self):
        """What was chosen when the run was made: trainc-run's options, the base's files, what is saved and how."""
        try:
            facts = json.loads(self._facts.read_text())
        except OSError:
            raise Error(
                f"{self.path}: no run of `trainc finetune` (there is no {self._facts.name}); -o begins one"
                if not self.config.exists() else
                f"{self.path}: the run was ended before training began: start it again, without --resume"
            ) from None  # fmt: skip
        except ValueError as error:
            raise Error(f"{self._facts}: damaged: no JSON: {error}; trainc finetune --config {self.config} -o NEW repeats the run") from None
        if facts["run"] == str(self.path):
            return facts
        # The folder was moved.
        moved = lambda value: str(self.path) + value.removeprefix(facts["run"]) if _within(value, facts["run"]) else value
        return {
            name: [moved(each) for each in value] if isinstance(value, list) else moved(value) for name, value in facts.items()
        }

    @facts.setter
    def facts(self, values):
        write_whole(self._facts, [(json.dumps({**values, "run": str(self.path)}, indent=1) + "\n").encode()])


def _within(value, folder):
    return isinstance(value, str) and (value == folder or value.startswith(f"{folder}/"))
