# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc` on the path: a few commands are Python, all else is the compiler's."""

import importlib
import sys

#: {command: (module with `main(arguments)`, what it does)}; nothing is imported before it is needed. The compiler's --help tells them as
#: lib/Driver/CMakeLists.txt reads them here: one a line, without semicolons.
COMMANDS = {
    "finetune": ("trainc.finetune.main", "a language model's folder and a file of rows to a trained model"),
    "data": ("trainc.data.main", "rows of text to shards of tokens that trainc-run reads"),
    "export": ("trainc.finetune.export", "what a run of finetune has trained: an adapter of PEFT or a merged model"),
    "inspect": ("trainc.inspection.main", "one page on what became of a model: layers, kernels, memory, decisions, IR"),
    "sample": ("trainc.finetune.sample", "some tokens of what a run has trained"),
}


def find(arguments):
    """`main` of the command that these arguments begin with, or None: they are the compiler's."""
    if not arguments or arguments[0] not in COMMANDS:
        return None
    try:
        return importlib.import_module(COMMANDS[arguments[0]][0]).main
    except ModuleNotFoundError as error:
        missing = error.name

    def refuse(_):
        from .errors import Error

        extra = "data" if arguments[0] == "data" else "hf"
        raise Error(f"trainc {arguments[0]} needs {missing}, which is not installed: pip install 'trainc[{extra}]'")

    return refuse


def run(main, arguments):
    """An exit code: 0, 1 for what the user can do something about, 2 for settings, 130 for Ctrl-C."""
    from .errors import Error, OptionError
    from .settings import SettingError

    try:
        return main(arguments) or 0
    except Error as error:
        print(f"trainc: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (SettingError, OptionError)) else getattr(error, "exit_code", 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except OSError as error:  # of a file
        if error.filename is None:
            raise
        print(f"trainc: error: {error.filename2 or error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except Exception as error:  # of trainrt, which not every command imports
        runtime = sys.modules.get("trainrt.errors")
        if runtime is None or not isinstance(error, runtime.Error):
            raise
        print(f"trainc: error: {error}", file=sys.stderr)
        return 1
