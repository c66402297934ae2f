# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that train one package together, each with a session of its own."""

import ctypes
import os
from ctypes import byref, c_char_p, c_void_p

from . import _library as capi
from . import errors


class Ranks(capi.Owner):
    """The ranks of a run, of which this process is one: `Session(package, ranks=ranks)`.

    rank, world, coordinator ("HOST:PORT", where rank 0 listens): this process's; without them as torchrun, mpirun of
    Open MPI or srun of Slurm have said, and without any of these the process is alone. All ranks make the same calls of
    `step`, `gather` and `trainc.evaluate`, in the same order. join_timeout, silence_timeout, exchange_timeout: seconds until
    ranks that do not come, say nothing, or do not come to an exchange are lost. Raises RankLost, or NotFound where the
    plugin that connects processes (libtrainrt-gloo.so) is not installed. local_rank: which of its machine's the process is, as
    the launcher says, else 0: `Session(package, ranks=ranks, device=ranks.local_rank)` has a GPU of its own.
    """

    _instead = "each process has its own"
    __slots__ = ("rank", "world", "local_rank", "launcher", "_handle", "_library", "_process")

    def __init__(self, *, rank=None, world=None, coordinator=None, join_timeout=60, silence_timeout=5, exchange_timeout=120):
        self._library, self._handle, self._process = capi.library(), None, capi.process
        options = capi.RanksOptions(
            size=ctypes.sizeof(capi.RanksOptions), world=1, listening=-1, local_rank=-1, join_seconds=join_timeout,
            silence_seconds=silence_timeout, exchange_seconds=exchange_timeout,
        )  # fmt: skip
        if coordinator is not None:
            options.coordinator = os.fsencode(coordinator)
        self.launcher = None
        if (rank is None) != (world is None):
            raise errors.InvalidArgument("rank and world are given together, or left to the launcher")
        if rank is None:
            name = c_char_p()
            self._library.call("ranks_find", byref(options), byref(name))
            self.launcher = name.value.decode() if name.value else None
        else:
            options.rank, options.world = rank, world
        self.rank, self.world = options.rank, options.world
        self.local_rank = max(0, options.local_rank)
        if self.world > 1 or rank is not None:
            handle = c_void_p()
            self._library.call("ranks_join", byref(options), byref(handle))
            self._handle = handle

    def gather(self, data):
        """The bytes of all ranks, by rank."""
        if self._handle is None:
            return [bytes(data)]
        views = ctypes.POINTER(capi.Bytes)()
        self._library.call("ranks_gather", self._handle, bytes(data), len(data), byref(views))
        return [ctypes.string_at(views[i].data, views[i].size) for i in range(self.world)]

    def refuse(self, why):
        """This rank cannot make its next step, which it calls nevertheless, with `[]`: BadData on all ranks, as "rank R: why"."""
        self._library.ranks_refuse(self._handle, str(why).encode())

    def abort(self, why):
        """Ends the run of all other ranks, with RankLost and `why`. From any thread."""
        self._library.ranks_abort(self._handle, str(why).encode())

    def close(self):
        """Leaves in order; behind the last session of these ranks."""
        if self._handle is not None and self._process is capi.process:
            self._library.ranks_free(self._handle)
        self._handle = None

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # The others would wait for a rank that has failed by itself.
        if error is not None:
            self.abort(str(error) if isinstance(error, Exception) and str(error) else f"it has ended by {error!r}")
        self.close()

    def __repr__(self):
        return f"<trainrt.Ranks: {self.rank} of {self.world}{', by ' + self.launcher if self.launcher else ''}>"
