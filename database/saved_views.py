"""The state of views in a file beside that of the tables, PATH.state, which belongs to one state of the tables.

A checkpoint writes the state under another name, then the tables with a new token, and then seals the state with the
token and with a fingerprint of the tables' file: its headers, which change whenever anything writes the file. At last
the state gets its name. So a state is used only with the tables of its own checkpoint. It is ignored if a process was
killed between the two files, if one of them was replaced, if another program has changed the tables, or if these have
a log with later transactions. Views are loaded from the tables then.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.database.files import MEMORY
from deltamark.database.store import Store
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from deltamark.database.views import Plans

HEADER_BYTES = 3 * 4096
"""The bytes of the headers of a file of DuckDB: one of the file, and two that take turns at checkpoints."""

TOKEN_BYTES, FINGERPRINT_BYTES = 16, 32

SEAL_BYTES = TOKEN_BYTES + FINGERPRINT_BYTES

log = logging.getLogger("deltamark.database")


class SavedViews:
    """The file with the state of the views of a database, if this has a file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path, self._new = Path(f"{store.path}.state"), Path(f"{store.path}.state.new")
        self._seal = b""
        self.fits = store.path != MEMORY and self._is_of_these_tables()
        """Whether the file has the state that belongs to the tables as they were opened, or saved last."""

    def _is_of_these_tables(self) -> bool:
        """Return whether there is a state of the tables that were opened just now."""
        for left in (self._new, Path(f"{self._new}.new")):  # by a process that was killed
            _remove(left)
        if not self._path.exists():
            return False
        self._seal = _seal_in(self._path)
        if self._store.has_log() or self._seal != self._seal_of(self._store.token()):
            log.info("%s is not the state of the views of these tables: views are loaded from them", self._path)
            return False
        return True

    def _seal_of(self, token: bytes) -> bytes:
        return token + _fingerprint(Path(self._store.path))

    def restored(self, plans: Mapping[str, Collection], workers: int) -> Plans | None:
        """Return the dataflow that continues from the state; None if the file cannot be used."""
        if not self.fits:
            return None
        try:
            return Dataflow.restore(self._path, plans, workers=workers)
        except (DeltamarkError, OSError) as error:
            log.warning("views are loaded from the tables, and not from %s: %s", self._path, error)
            self.fits = False
            return None

    def checkpoint(self, dataflow: Plans | None, *, is_saved: bool) -> None:
        """Write the tables, and the state of the views that belongs to them; then `fits` says whether the file has it.

        dataflow: maintains the views, if these were needed; is_saved: whether no view has changed since the state was
        written or read.
        """
        if is_saved and self.fits:
            self._store.checkpoint()
            self._seal_anew()
            return
        self.fits = False
        if dataflow is None or not self._stage(dataflow):
            self._store.checkpoint()
            _remove(self._path)
            return
        token = secrets.token_bytes(TOKEN_BYTES)
        self._store.mark(token)
        self._store.checkpoint()
        self._seal = self._seal_of(token)
        with suppress(OSError):
            with self._new.open("ab") as file:
                file.write(self._seal)
            self._new.replace(self._path)
            self.fits = True

    def _stage(self, dataflow: Plans) -> bool:
        """Write the state under another name, if it can be saved."""
        try:
            dataflow.save(self._new)
        except (DeltamarkError, OSError) as error:
            log.info("the state of views is not saved: %s", error)
            return False
        return True

    def _seal_anew(self) -> None:
        """Let the state belong to the tables of a checkpoint that has not changed what views read."""
        seal = self._seal_of(self._store.token())
        if seal == self._seal:
            return
        self.fits = False
        with suppress(OSError), self._path.open("r+b") as file:
            file.seek(-SEAL_BYTES, os.SEEK_END)
            file.write(seal)
            self._seal, self.fits = seal, True


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _seal_in(path: Path) -> bytes:
    """Return the last bytes of a file."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(-SEAL_BYTES, os.SEEK_END)
        return file.read()
    return b""


def _fingerprint(path: Path) -> bytes:
    """Return a digest of the headers of a file that DuckDB has open, or a value that equals no other.

    They are read through the descriptor of DuckDB: a process that closes another one loses its lock of the file.
    """
    status = path.stat()
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino):
                return hashlib.blake2b(os.pread(number, HEADER_BYTES, 0), digest_size=FINGERPRINT_BYTES).digest()
    return secrets.token_bytes(FINGERPRINT_BYTES)
