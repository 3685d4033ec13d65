"""Temporary directories that are removed even if their process is killed.

A process locks each of its directories by `flock`, which ends with the process. A killed process cannot remove its
directories: the next process that needs a directory, or makes data, removes all unlocked ones.
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
"""The prefix of locked directories. Earlier versions did not lock theirs, which have the prefix `deltamark-`."""

_LOCKS: dict[Path, int] = {}
"""The locks of this process's directories."""


def make(parent: Path | None = None, prefix: str = PREFIX) -> Path:
    """Make a directory, by default among the temporary files; first remove those of dead processes."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(parent, prefix)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            handle = try_lock(directory)
        except OSError:  # a file system without locks, on which directories are not swept
            return directory
        if handle is not None:
            _LOCKS[directory] = handle
            return directory


def remove(directory: Path) -> None:
    """Remove a directory that `make` has made, even if it was renamed."""
    shutil.rmtree(directory, ignore_errors=True)
    handle = _LOCKS.pop(directory, None)
    if handle is not None:
        os.close(handle)


def empty(directory: Path) -> None:
    """Remove the content of a directory, which stays locked: another process may still write into it."""
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory, and remove it at the end of the block."""
    directory = make()
    try:
        yield directory
    finally:
        remove(directory)


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """Make a directory beside `target`, and rename it to `target` at the end of the block.

    If another process has made `target` meanwhile, that one stays.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    making = make(target.parent, f".making-{target.name}-")
    making.chmod(0o755)  # executors may run as another user
    try:
        directory = making / target.name
        directory.mkdir()
        yield directory
        try:
            directory.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        remove(making)


def sweep(parent: Path | None = None, prefix: str = PREFIX) -> None:
    """Remove the directories of dead processes."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    for directory in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            handle = try_lock(directory)
            if handle is not None:
                if not _in_use(directory):
                    shutil.rmtree(directory, ignore_errors=True)
                os.close(handle)


def _is_locked(directory: Path) -> bool:
    """Return whether a live process has a directory."""
    handle = try_lock(directory)
    if handle is not None:
        os.close(handle)
    return handle is None


def _in_use(directory: Path) -> bool:
    """Return whether a live process has a directory below that of a dead process."""
    return any(map(_is_locked, directory.rglob(f"{PREFIX}*")))


def try_lock(directory: Path) -> int | None:
    """Open and lock a directory; return None if another process has locked or already removed it."""
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
