# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can go wrong, as exceptions: one for each status of the C API, and those of this binding.

Every message says what, where (file, input, axis, row) and what to do.
"""


class Error(Exception):
    """Of the runtime; also raised itself where its library cannot be loaded."""


class InvalidArgument(Error, ValueError):
    """A call that breaks the rules: fix the caller."""


class BadPackage(Error):
    """Damaged, newer, or made for another machine: compile it again."""


class BadData(Error, ValueError):
    """An array, a data file, a weights file or a checkpoint that does not fit."""


class ArrayError(BadData, TypeError):
    """An array of a batch that cannot be read as it is: its name, what was expected and what came."""


class MissingInput(BadData, KeyError):
    """A batch without an input that the package needs."""

    __str__ = Exception.__str__


class MissingWeights(Error):
    """The file of the weights is absent or has changed: give `weights`."""


class NotFound(Error, LookupError):
    """No such name or file, or no valid checkpoint."""


class OutOfMemory(Error, MemoryError):
    """The session is as it was before: use a smaller batch."""


class FileError(Error, OSError):
    """The system refused to read or write."""

    __str__ = Exception.__str__


class Nonfinite(Error, ArithmeticError):
    """The loss or gradients were not finite: parameters and state are those before the step."""


class Cancelled(Error):
    """`Session.cancel` stopped it; nothing has changed."""


class Unsupported(Error):
    """The package lacks what was asked for."""


class InternalError(Error):
    """A bug: please report it with the message."""


class DeviceError(Error):
    """There is no GPU or driver for the package, or the GPU failed."""


class RankLost(Error):
    """Another rank has ended, or does not come."""


class Closed(Error):
    """The session or package has been closed."""


#: By trainrt_status.
BY_STATUS = {
    1: InvalidArgument,
    2: BadPackage,
    3: BadData,
    4: MissingWeights,
    5: NotFound,
    6: OutOfMemory,
    7: FileError,
    8: Nonfinite,
    9: Cancelled,
    10: Unsupported,
    11: InternalError,
    12: DeviceError,
    13: RankLost,
}
