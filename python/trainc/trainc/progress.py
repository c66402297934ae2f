# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What takes a while, and for how long already: a line on a terminal or in a notebook."""

import shutil
import sys
import threading
import time


def wanted(progress):
    """The file that is written to, or None: `progress` itself, standard error where somebody looks (None), or no."""
    if progress is None:
        notebook = hasattr(sys.modules.get("IPython"), "get_ipython") and hasattr(sys.modules["IPython"].get_ipython(), "kernel")
        return sys.stderr if sys.stderr is not None and (sys.stderr.isatty() or notebook) else None
    if progress is True:
        return sys.stderr
    return progress or None


class Progress:
    """`with Progress(None) as progress: progress("exporting Net")` shows one line that goes when all is done."""

    def __init__(self, progress, delay=0.5):
        self._file, self._delay = wanted(progress), delay
        self._what, self._begin, self._done, self._shown = None, time.monotonic(), threading.Event(), False
        self._thread = None

    def __call__(self, what):
        self._what = what
        if self._file is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self):
        while not self._done.wait(self._delay):
            self._shown = True
            self._write(f"{self._what} ({time.monotonic() - self._begin:.1f} s)")

    def _write(self, line):
        width = shutil.get_terminal_size().columns - 1
        self._file.write("\r" + line[:width].ljust(width))
        self._file.flush()

    def clear(self):
        """Before something else is written."""
        if self._shown:
            self._write("")
            self._file.write("\r")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        self.clear()
