"""Temporary directories that do not outlive their processes, however those end.

A process locks each of its directories (`flock`, which dies with the process). A process that was killed cannot remove
its directories: the next one that needs a directory, or makes data, removes all of them that nobody has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "deltamark-run-"
"""No other directories begin so: earlier versions locked none of theirs, which began with `deltamark-`."""

_LOCKS: dict[Path, int] = {}
"""The open handles of this process's directories."""


def make(parent: Path | None = None, prefix: str = PREFIX) -> Path:
    """Make a directory, by default among the temporary files, after removing those of dead processes there."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(parent, prefix)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            handle = _locked(directory)
        except OSError:  # a file system without locks, where nothing is swept either
            return directory
        if handle is not None:
            _LOCKS[directory] = handle
            return directory


def remove(directory: Path) -> None:
    """Remove a directory that `make` has made, also where it has another name by now."""
    shutil.rmtree(directory, ignore_errors=True)
    handle = _LOCKS.pop(directory, None)
    if handle is not None:
        os.close(handle)


def empty(directory: Path) -> None:
    """Remove what lies in a directory. It stays, and locked: somebody may write into it once more."""
    for each in directory.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory for the length of a block."""
    directory = make()
    try:
        yield directory
    finally:
        remove(directory)


def sweep(parent: Path | None = None, prefix: str = PREFIX) -> None:
    """Remove the directories of dead processes."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    for each in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            handle = _locked(each)
            if handle is not None:
                if not _in_use(each):
                    shutil.rmtree(each, ignore_errors=True)
                os.close(handle)


def _in_use(directory: Path) -> bool:
    """Has a live process a directory below this one, whose own process is dead?"""
    for each in directory.rglob(f"{PREFIX}*"):
        handle = _locked(each)
        if handle is None:
            return True
        os.close(handle)
    return False


def _locked(directory: Path) -> int | None:
    """Open and lock a directory; None if another process has it, or has swept it before it was locked."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if directory.exists():
            return handle
    except BlockingIOError:
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
