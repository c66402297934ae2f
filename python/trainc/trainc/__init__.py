# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains models that are compiled ahead of time.

    step = trainc.compile(model, example=batch, optimizer="adamw", lr=3e-4)
    for batch in loader:
        loss = step(batch)
    model.load_state_dict(step.state_dict())
"""

from trainrt import Loss, Package, Session

from .compiling import compile
from .errors import CompileError, Error, ExportError, OptionError
from .training import Callback, Checkpoints, CSVLog, EarlyStopping, TensorBoard, evaluate, train

__all__ = [
    "CSVLog", "Callback", "Checkpoints", "CompileError", "EarlyStopping", "Error", "ExportError", "Loss", "OptionError",
    "Package", "Session", "TensorBoard", "compile", "evaluate", "export", "train",
]  # fmt: skip


def export(module, example, path, **options):
    """Writes a PyTorch module with its loss as ONNX; see trainc.exporting.export, which this is."""
    from .exporting import export

    return export(module, example, path, **options)
