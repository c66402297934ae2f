# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can go wrong before training: of exporting, and of compiling, with the compiler's own messages."""


class Error(Exception):
    """Of this package."""


class ExportError(Error):
    """A module that cannot be exported as it trains; the message names what in it."""


class CompileError(Error):
    """The compiler refused the model: its message names file and node. `log`: all that it said."""

    def __init__(self, message, log=""):
        super().__init__(message)
        self.log = log


class OptionError(CompileError, ValueError):
    """An option that the compiler does not have, or not with this value."""


class CompilerOutOfMemory(CompileError, MemoryError):
    """The compiler had too little memory."""


class CompilerCrash(CompileError):
    """A bug of the compiler: the message says where what reproduces it is."""


#: By exit code.
BY_CODE = {1: CompileError, 2: OptionError, 3: CompilerOutOfMemory}
