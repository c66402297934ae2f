# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What has been exported and compiled before, in folders named by a hash of all that it was made of.

A folder appears whole or not at all (it is renamed), is shared by processes, and the oldest go when all are larger
than `TRAINC_CACHE_SIZE` bytes (default 8 GiB).
"""

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import tempfile
import time
import warnings

from .errors import CompileError, Error

_LIMIT = 8 << 30


def folder():
    """`TRAINC_CACHE`, else `$XDG_CACHE_HOME/trainc` or `~/.cache/trainc`."""
    named = os.environ.get("TRAINC_CACHE")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "trainc"


def key(*parts):
    """A name for what these decide: texts, bytes, and whatever JSON can say."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, default=str).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def versions(*names):
    """Of packages, None where one is absent."""

    def version(name):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    return [version(name) for name in names]


def hash_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _size(directory):
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def _limit():
    given = os.environ.get("TRAINC_CACHE_SIZE") or _LIMIT
    try:
        return int(given)
    except ValueError:
        raise Error(f"TRAINC_CACHE_SIZE: expected a number of bytes, got '{given}'") from None


def _discard(entry):
    """Renamed first, so that nobody finds half of it; whether it was there."""
    gone = entry.with_name(f"new-{entry.name}-{os.getpid()}")
    try:
        entry.rename(gone)
    except OSError:
        return False
    if gone.is_dir():
        shutil.rmtree(gone, ignore_errors=True)
    else:
        gone.unlink()
    return True


def _unwritable(root, reason):
    return Error(f"the cache '{root}' cannot be written ({reason}): set TRAINC_CACHE to another folder, or give cache=False")


def _trim(root, keep, limit):
    entries = []
    for entry in root.iterdir():
        try:
            if entry.name.startswith("new-"):
                if time.time() - entry.stat().st_mtime > 86400:  # of a process that was ended
                    shutil.rmtree(entry, ignore_errors=True)
            elif entry.is_dir() and len(entry.name) == 32:
                entries.append((entry.stat().st_mtime, _size(entry), entry))
        except OSError:  # another process has removed it
            continue
    total = sum(size for _, size, _ in entries)
    for _, size, entry in sorted(entries, key=lambda each: each[0]):
        if total <= limit:
            break
        if entry != keep and _discard(entry):
            total -= size


def share(entry, folder):
    """The files of an entry in another folder, without another copy of them where both are on one file system."""
    for file in entry.iterdir():
        try:
            os.link(file, folder / file.name)
        except OSError:
            shutil.copyfile(file, folder / file.name)


def get(name, make, check=lambda folder: None):
    """The folder of this key; where there is none, `make(path)` fills one. Returns it and whether it was there.

    check: raises where a folder that was there is damaged; it is made again then.
    """
    root, limit = folder(), _limit()
    entry = root / name
    if entry.is_dir():
        try:
            check(entry)
        except Exception as error:
            warnings.warn(f"the cache's '{entry}' is damaged and made again: {error}", stacklevel=2)
            _discard(entry)
        else:
            with contextlib.suppress(OSError):  # of another user
                os.utime(entry)
            return entry, True
    elif os.path.lexists(entry):
        _discard(entry)
    try:
        root.mkdir(parents=True, exist_ok=True)
        fresh = pathlib.Path(tempfile.mkdtemp(prefix="new-", dir=root))
    except OSError as error:
        raise _unwritable(root, error.strerror) from None
    try:
        make(fresh)
        fresh.chmod(0o755)
        try:
            fresh.rename(entry)
        except OSError:  # another process was quicker
            if not entry.is_dir():
                raise
    except (OSError, CompileError) as error:
        full = os.strerror(errno.ENOSPC)
        if getattr(error, "errno", None) == errno.ENOSPC or full in str(error):
            raise _unwritable(root, full) from error
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    _trim(root, entry, limit)
    return entry, False


def get_told(name, make, tell):
    """As `get`, the folder alone: what `make(path, tell)` tells is told each time, also where the folder was there."""

    def fill(fresh):
        told = []
        make(fresh, lambda line: (told.append(line), tell(line)))
        (fresh / "told.json").write_text(json.dumps(told))

    entry, known = get(name, fill)
    if known:
        for line in json.loads((entry / "told.json").read_text()):
            tell(line)
    return entry
