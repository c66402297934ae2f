# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime of trainc: trains and evaluates compiled packages.

    session = trainrt.Session("model.tpk")
    for batch in loader:                        # {"input_ids": array, "labels": array}: torch, NumPy or DLPack
        loss = session.step(batch)
    session.save("checkpoints")
"""

from . import errors
from .errors import Error
from .files import write_tensors
from .package import Memory, Package, Symbol, TensorInfo
from .ranks import Ranks
from .session import Loss, Session
from .values import Array

__all__ = ["Array", "Error", "Loss", "Memory", "Package", "Ranks", "Session", "Symbol", "TensorInfo", "errors", "write_tensors"]
