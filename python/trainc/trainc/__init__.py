# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains models that are compiled ahead of time.

    step = trainc.compile(model, example=batch, optimizer="adamw", lr=3e-4)
    for batch in loader:
        loss = step(batch)
    model.load_state_dict(step.state_dict())
"""

import os

from trainrt import Loss, Package, Session

from .compiling import compile
from .errors import CompileError, Error, ExportError, OptionError
from .plugins import load_plugin
from .training import Callback, Checkpoints, CSVLog, EarlyStopping, TensorBoard, evaluate, train

__all__ = [
    "CSVLog", "Callback", "Checkpoints", "CompileError", "EarlyStopping", "Error", "ExportError", "Loss", "OptionError",
    "Package", "Session", "TensorBoard", "autograd", "compile", "evaluate", "export", "load_plugin", "train",
]  # fmt: skip


def export(module, example, path, **options):
    """Writes a PyTorch module with its loss as ONNX; see trainc.exporting.export, which this is."""
    from .exporting import export

    return export(module, example, path, **options)


def autograd(module, example, *, dynamic=None, other=None, cache=True, verbose=False, **options):
    """`module` with compiled forward and backward passes, as a torch.nn.Module within a program of PyTorch.

    Parameters stay the module's own: gradients come to their `.grad`, and a torch optimizer steps. Gradients come to
    inputs that require them, too. dynamic, other: free sizes, as `export` has them. threads, device, stream: of the
    sessions. All other keywords are options of the compiler.
    """
    from .compiling import SESSION_OPTIONS, teller
    from .differentiable import Autograd

    if isinstance(cache, (str, os.PathLike)):
        options["cache"], cache = cache, True
    session = {name: options.pop(name) for name in SESSION_OPTIONS if name in options}
    return Autograd(module, example, dynamic, other, cache, session, options, teller(verbose))
