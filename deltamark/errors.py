"""DeltamarkError, the one class of errors that users can act on, and helpers that raise it."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class DeltamarkError(Exception):
    """Something the user can act on, said in one line: the cause, the actual value, the next step."""

    def __init__(self, cause: str, actual: object, remedy: str) -> None:
        super().__init__(cause, actual, remedy)
        self.cause, self.actual, self.remedy = cause, actual, remedy

    def __str__(self) -> str:
        return " ".join(f"{self.cause}: {self.actual}; {self.remedy}".split())


LONGEST = 60
"""Characters of a word that an error quotes."""


def shortened(text: str) -> str:
    """Quote a word of the user's, cut off if it is long."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")


def whole_number(text: str, low: int, high: int, cause: str = "not a whole number") -> int:
    """Read a whole number from `low`, which is at least 0, to `high`."""
    value = int(text) if text.isdecimal() and len(text) <= LONGEST else -1
    if not low <= value <= high:
        raise DeltamarkError(cause, shortened(text), f"write one from {low} to {high}")
    return value


def unknown(kind: str, name: str, known: Iterable[str]) -> DeltamarkError:
    """Return the error for a name that is none of `known`, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(near or names)
    return DeltamarkError(f"unknown {kind}", name, f"{'did you mean' if near else 'there are'} {listed}")


_REMEDIES = {
    "make room on the disk, or give another place": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "give this user the right to it, or give another place": (errno.EACCES, errno.EPERM, errno.EROFS),
    "give another path, or move away what lies there": (
        errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG,
        errno.ENXIO, errno.EBUSY, errno.ETXTBSY,
    ),
    "check the disk, and read its logs": (errno.EIO, errno.ESTALE, errno.ENODEV),
    "use a disk whose files can be locked and mapped": (errno.ENOLCK, errno.ENOTSUP),
    "raise the limit of open files: ulimit -n": (errno.EMFILE, errno.ENFILE),
    "free memory or raise its limits (ulimit -v, ulimit -u), or ask for less": (errno.ENOMEM, errno.EAGAIN),
    "a process that takes part has ended: run the command again, with --debug to see more": (
        errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE,
    ),
}  # fmt: skip


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Name a file in the error of the operating system for what is done to it: a write that fails does not."""
    try:
        yield
    except OSError as error:
        raise refused(error, path) or error from error


def is_memory(error: OSError) -> bool:
    """Is it for want of memory? Arrow gives no code for that."""
    return error.errno in (errno.ENOMEM, errno.EAGAIN) or "Cannot allocate memory" in str(error)


def refused(error: OSError, path: object = None) -> DeltamarkError | None:
    """Return the error for what the operating system has refused; None if it tells of a mistake of this project."""
    code = errno.ENOMEM if is_memory(error) else error.errno
    remedy = next((remedy for remedy, codes in _REMEDIES.items() if code in codes), None)
    if remedy is None:
        return None
    names = [str(each) for each in (path or error.filename, error.filename2) if each is not None]
    said = os.strerror(code) if code else str(error)
    cause = "out of memory" if code == errno.ENOMEM else "cannot read or write"
    return DeltamarkError(cause, f"{' -> '.join(names)}: {said}" if names else said, remedy)
