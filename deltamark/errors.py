"""DeltamarkError, the class of all errors that users can act on, and helpers that make them."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType


class DeltamarkError(Exception):
    """An error that the user can act on, in one line: the cause, the actual value, the next step.

    time: the logical time of the rows that are wrong, if the error is about rows. `plans` has the names of the plans
    that cannot follow them, if an operator of a dataflow raises it.

    >>> print(DeltamarkError("no such number of workers", 0, "give from 1 to 64"))
    no such number of workers: 0; give from 1 to 64
    """

    def __init__(self, cause: str, actual: object, remedy: str, *, time: int | None = None) -> None:
        super().__init__(cause, actual, remedy)
        self.cause, self.actual, self.remedy, self.time = cause, actual, remedy, time
        self.plans: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(f"{self.cause}: {self.actual}; {self.remedy}".split())


class DatabaseError(DeltamarkError):
    """An error of a database. The classes below are those of PEP 249, in which `Error` is DeltamarkError."""


class DataError(DatabaseError):
    """A value that a column or a view cannot have."""


class OperationalError(DatabaseError):
    """A file that cannot be read, or a transaction that has ended."""


class IntegrityError(DatabaseError):
    """A change that a constraint refuses."""


class InternalError(DatabaseError):
    """A fault of the database."""


class ProgrammingError(DatabaseError):
    """A statement that is wrong, or names a table or a view that does not exist."""


class NotSupportedError(DatabaseError):
    """A statement that a database does not have, or a view that the engine cannot maintain."""


class UnknownAttributeError(DeltamarkError, AttributeError):
    """An attribute that an object does not have; `hasattr` and `copy` rely on its being an AttributeError."""


MAX_QUOTED = 60
"""Characters of a word that an error quotes."""


def shortened(text: str) -> str:
    """Quote a word of user input, and cut it off if it is long."""
    return repr(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")


def whole_number(text: str, low: int, high: int, cause: str = "not a whole number") -> int:
    """Read a whole number between `low`, which is at least 0, and `high`."""
    value = int(text) if text.isdecimal() and len(text) <= MAX_QUOTED else -1
    if not low <= value <= high:
        raise DeltamarkError(cause, shortened(text), f"write one from {low} to {high}")
    return value


def unknown(kind: str, name: str, known: Iterable[str]) -> DeltamarkError:
    """Return the error for a name that is not among `known`, with the nearest matches.

    >>> print(unknown("query", "q5", ["q05", "q15", "q21"]))
    unknown query: q5; did you mean q05, q15
    """
    return DeltamarkError(f"unknown {kind}", name, _near(name, known))


def unknown_attribute(
    of: str, name: str, known: Iterable[str], synonyms: Mapping[str, str] = MappingProxyType({})
) -> UnknownAttributeError:
    """Return the error for an attribute that is not among `known`. synonyms: replacements for names in other systems.

    >>> print(unknown_attribute("Collection", "filter", ["where"], {"filter": "where(condition)"}))
    Collection has no attribute: filter; write where(condition)
    """
    remedy = f"write {synonyms[name]}" if name in synonyms else _near(name, known)
    return UnknownAttributeError(f"{of} has no attribute", name, remedy)


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    near.sort(key=lambda each: (-difflib.SequenceMatcher(None, each, name).ratio(), each))
    listed = ", ".join(near or names) or "none"
    return f"{'did you mean' if near else 'there are'} {listed}"


_REMEDIES = {
    "make room on the disk, or give another place": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "give this user the right to it, or give another place": (errno.EACCES, errno.EPERM, errno.EROFS),
    "give another path, or move away the file that is there": (
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
    """Convert an error of the operating system to ours, and add the name of the file, which errors of writes lack."""
    try:
        yield
    except OSError as error:
        raise refused(error, path) or error from error


def is_memory(error: OSError) -> bool:
    """Return whether the cause is a lack of memory, an error that Arrow raises without a code."""
    return error.errno in (errno.ENOMEM, errno.EAGAIN) or "Cannot allocate memory" in str(error)


def refused(error: OSError, path: object = None) -> DeltamarkError | None:
    """Return our error for one of the operating system; None if its cause is a fault of this project."""
    code = errno.ENOMEM if is_memory(error) else error.errno
    remedy = next((remedy for remedy, codes in _REMEDIES.items() if code in codes), None)
    if remedy is None:
        return None
    names = [str(each) for each in (path or error.filename, error.filename2) if each is not None]
    reason = os.strerror(code) if code else str(error)
    cause = "out of memory" if code == errno.ENOMEM else "cannot read or write"
    return DeltamarkError(cause, f"{' -> '.join(names)}: {reason}" if names else reason, remedy)
