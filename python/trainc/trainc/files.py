# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that are there whole or not at all."""

import errno
import hashlib
import os
import pathlib

from .errors import Error


def write_whole(path, parts, digest=False):
    """Writes buffers one after the other; returns (bytes, their SHA-256 if `digest`). Beside the file until it is whole."""
    path = pathlib.Path(path)
    fresh = path.with_name(path.name + ".tmp")
    size, hashed = 0, hashlib.sha256()
    try:
        with open(fresh, "wb") as file:
            for part in parts:
                if digest:
                    hashed.update(part)
                file.write(part)
                size += memoryview(part).nbytes
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise unwritten(path, error) from None
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return size, hashed.hexdigest() if digest else None


def unwritten(path, error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Error(f"{path}: no space is left for this file in {path.parent}: free some, or choose another folder")
    return Error(f"{path}: cannot be written: {error.strerror or error}")
