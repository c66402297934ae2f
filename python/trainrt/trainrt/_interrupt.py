# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C while the library works.

The interpreter runs handlers of signals between its own instructions, of which there are none within a call. Its
C handler writes to the "wakeup" file at once, though: a thread waits for that, and cancels the session of the main
thread, whose call then returns where nothing is lost; the interpreter raises KeyboardInterrupt behind it.
"""

import os
import signal
import threading

_running = None  # the session whose call the main thread is in
_write = None


def _watch(read):
    while True:
        numbers = os.read(read, 64)
        session = _running
        if session is not None and signal.SIGINT in numbers:
            session.cancel()


def _start():
    global _write
    read, _write = os.pipe()
    os.set_blocking(_write, False)
    threading.Thread(target=_watch, args=(read,), name="trainrt-interrupt", daemon=True).start()


class interruptible:
    """Within, SIGINT cancels the session's call, where the main thread made it and nobody else waits for signals."""

    __slots__ = ("session", "before")

    def __init__(self, session):
        self.session = session

    def __enter__(self):
        global _running
        self.before = None
        if threading.get_ident() != threading.main_thread().ident:
            return
        if _write is None:
            _start()
        before = signal.set_wakeup_fd(_write, warn_on_full_buffer=False)
        if before not in (-1, _write):  # of an event loop, which is to have it
            signal.set_wakeup_fd(before)
            return
        self.before = before
        _running = self.session

    def __exit__(self, *exception):
        global _running
        if self.before is not None:
            _running = None
            signal.set_wakeup_fd(self.before)
