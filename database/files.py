"""Files of databases: DuckDB has the tables in one file, and the declarations of views beside them.

The views of a database are in two tables of the schema `deltamark`: the version of the format, and the text of each
view. The state of views is not in the file: it follows from the tables, and a checkpoint writes it to another file.

With `durable`, DuckDB writes each transaction to a log, PATH.wal, before COMMIT returns. Without, it writes no log: the
file has the state of the last checkpoint, because changed blocks lie beside the old ones until the header is written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb

from deltamark.dataflow.sql.planner import quoted
from deltamark.errors import DeltamarkError, OperationalError, naming

MEMORY = ":memory:"
"""The path of a database without a file."""

CONFIG: dict[str, str | bool | int | float | list[str]] = {"python_enable_replacements": False}
"""Variables of Python are no tables."""

IN_MEMORY, IN_FILE = "memory", "file"
"""The names that DuckDB has for a database."""

VERSION = 1
"""The version of the tables of declarations."""

DECLARATIONS = f"""
BEGIN;
CREATE SCHEMA deltamark;
CREATE TABLE deltamark.format AS SELECT {VERSION} AS version;
CREATE TABLE deltamark.views (position INTEGER, name VARCHAR, definition VARCHAR);
COMMIT;
"""

NEVER = "1000TB"
"""The size of a log at which DuckDB would make a checkpoint by itself."""

HEADER_BYTES, FINGERPRINT_BYTES = 3 * 4096, 32
"""The bytes of the headers of a file of DuckDB: one of the file, and two that take turns at checkpoints."""

LOCKED = ("lock on file", "already attached", "file handle conflict")
"""The words of DuckDB's errors for a file that another connection has open."""


class Closing(Protocol):
    """An object that can be closed."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Files:
    """The files of the tables: the size of DuckDB's log, and the fingerprint of the file."""

    log_bytes: int
    fingerprint: bytes

    @classmethod
    def now(cls, path: Path) -> Files:
        """Return those of a database that DuckDB has open."""
        return cls(log_bytes(path), fingerprint(path))


def opened(path: str, *, durable: bool) -> tuple[duckdb.DuckDBPyConnection, Files]:
    """Return a connection of DuckDB whose main database is in memory or a file, and the files that it has found.

    The file is made if there is none.
    """
    connection, found = duckdb.connect(config=CONFIG), Files(0, b"")
    with closing_after_errors(connection, path):
        if path == MEMORY:
            connection.execute(DECLARATIONS)
        else:
            found = _open(connection, Path(path), durable=durable)
    return connection, found


@contextmanager
def closing_after_errors(connection: Closing, path: str) -> Iterator[None]:
    """Close a database that cannot be opened, and say so if its file is the reason."""
    try:
        yield
    except BaseException as error:
        connection.close()
        if isinstance(error, duckdb.Error):
            raise (damaged(path, error) or error) from error
        raise


def database_of(path: str) -> str:
    """Return the name that DuckDB has for the database of a path."""
    return IN_MEMORY if path == MEMORY else IN_FILE


def log_bytes(path: Path) -> int:
    """Return the size of the log of DuckDB; 0 if there is none."""
    with suppress(FileNotFoundError):
        return Path(f"{path}.wal").stat().st_size
    return 0


def fingerprint(path: Path) -> bytes:
    """Return a digest of the headers of a file that DuckDB has open, or a value that equals no other.

    They change whenever anything writes the file. They are read through the descriptor of DuckDB: a process that closes
    another one loses its lock of the file.
    """
    status = path.stat()
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino):
                return hashlib.blake2b(os.pread(number, HEADER_BYTES, 0), digest_size=FINGERPRINT_BYTES).digest()
    return secrets.token_bytes(FINGERPRINT_BYTES)


def _open(connection: duckdb.DuckDBPyConnection, path: Path, *, durable: bool) -> Files:
    log = Path(f"{path}.wal")
    with naming(path):
        exists, has_log = path.exists(), log.exists()
        if not exists:
            if has_log:
                raise OperationalError(
                    "a log without its database", log, "give the database back, or move the log away"
                )
            _make(path)
    logged, found = log_bytes(path), b""  # before DuckDB cuts off a transaction that was not written in full
    if has_log and not durable:  # its transactions move into the file, so that they are not replayed a second time
        _attach(connection, path, "TYPE duckdb")
        found = fingerprint(path)
        connection.execute(f"CHECKPOINT {IN_FILE}; DETACH {IN_FILE}")
    _attach(connection, path, "TYPE duckdb" if durable else "RECOVERY_MODE no_wal_writes")
    found = found or fingerprint(path)
    connection.execute(f"USE {IN_FILE}")
    connection.execute("SET GLOBAL temp_directory = $1", [f"{path}.tmp"])
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")  # the end of a process is as a kill
    if not durable:
        connection.execute(f"SET GLOBAL wal_autocheckpoint = '{NEVER}'")
    _refuse_foreign(connection, path)
    return Files(logged, found)


def _make(path: Path) -> None:
    """Make the file of a database without tables: it appears under its name when it is whole."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.new.") as folder:
        new = Path(folder) / "database"
        with duckdb.connect(new, config=CONFIG) as connection:
            connection.execute(DECLARATIONS)
        with suppress(FileExistsError):  # another connection was faster
            os.link(new, path)


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, options: str) -> None:
    try:
        connection.execute(f"ATTACH {_literal(path)} AS {IN_FILE} ({options})")
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        if any(each in reason for each in LOCKED):
            raise OperationalError(
                "a database that another connection has open", path, "close that one, or share it among threads"
            ) from error
        if "not a valid DuckDB database" in reason:
            raise _foreign(path) from error
        raise


def damaged(path: object, error: duckdb.Error) -> DeltamarkError | None:
    """Return our error for one of DuckDB's about a file that it cannot read; None if it has another cause."""
    reason = str(error).partition("\n")[0]
    if path == MEMORY or not (reason.startswith("Corrupt") or str(path) in reason):
        return None
    return OperationalError("a database that cannot be read", f"{path}: {reason}", "restore the file from a copy")


def _foreign(path: Path) -> DeltamarkError:
    return OperationalError(
        "not a database of deltamark", path, "give another path, or move away the file that is there"
    )


def _refuse_foreign(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse a file without declarations of ours."""
    try:
        versions = connection.execute("FROM deltamark.format").fetchall()
    except duckdb.CatalogException:
        raise _foreign(path) from None
    if versions != [(VERSION,)]:
        actual = f"{path}: {', '.join(str(each) for (each,) in versions)}"
        raise OperationalError("a database of another version", actual, "open it with the version that wrote it")


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def cursor_of(connection: duckdb.DuckDBPyConnection, database: str) -> duckdb.DuckDBPyConnection:
    """Return another connection to the same database, which sees committed rows."""
    cursor = connection.cursor()
    if database != IN_MEMORY:
        cursor.execute(f"USE {quoted(database)}")
    return cursor
