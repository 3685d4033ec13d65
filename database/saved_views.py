"""The state of views in a file beside that of the tables, PATH.state, which belongs to one state of the tables.

A checkpoint writes the state under another name, then the tables with a new token, and then seals the state with the
token and with the fingerprint of the tables' file. At last the state gets its name. So a state is used only with the
tables of its own checkpoint, and in a durable database with later ones if the log of changes leads to them: see
`change_log`. It is ignored if a process was killed between the two files, if one of them was replaced, or if another
program has changed the tables. Views are loaded from the tables then.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.database.change_log import ChangeLog, Contents, State, read_log
from deltamark.database.definitions import Definition
from deltamark.database.files import FINGERPRINT_BYTES, MEMORY, Files, log_bytes
from deltamark.database.store import Changed, Store
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from deltamark.database.views import Plans

TOKEN_BYTES = 16

SEAL_BYTES = TOKEN_BYTES + FINGERPRINT_BYTES

log = logging.getLogger("deltamark.database")


class SavedViews:
    """The file with the state of the views of a database, if this has a file, and the log of later changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path, self._new = Path(f"{store.path}.state"), Path(f"{store.path}.state.new")
        self._log_path = Path(f"{store.path}.state.log")
        self._seal = b""
        self._files = store.found
        self._log: ChangeLog | None = None
        self.later: Contents | None = None
        """The log of the changes after the state that a database was opened with."""
        self.fits = store.path != MEMORY and self._is_of_these_tables()
        """Whether the file has the state that belongs to the tables as they were opened, or saved last."""

    def _is_of_these_tables(self) -> bool:
        """Return whether there is a state of the tables that were opened just now, or one that a log leads to them."""
        for left in (self._new, Path(f"{self._new}.new"), Path(f"{self._log_path}.new")):  # by a killed process
            _remove(left)
        if not self._path.exists():
            return False
        self._seal = _seal_in(self._path)
        token, found = self._store.token(), self._store.found
        if token and self._seal[:TOKEN_BYTES] == token:
            logged = read_log(self._log_path, self._store.last_number())
            if logged is not None and logged.token == token:
                if logged.is_of(found):
                    self.later = logged
                    return True
            elif found == Files(0, self._seal[TOKEN_BYTES:]):
                return True
        log.info("%s is not the state of the views of these tables: views are loaded from them", self._path)
        return False

    def begin(self, views: Mapping[str, str]) -> None:
        """Log later changes if the database is durable. views: the texts of those whose state was saved."""
        if not self.fits:
            return
        self._files = self._store.files()
        most_bytes = Path(self._store.path).stat().st_size  # from there on, reading the tables is faster
        try:
            if self.later is not None:
                self._log = ChangeLog.continued(self._log_path, self.later.end, most_bytes)
                self._log.mark(self._files)
            elif self._store.durable and (number := self._store.last_number()) >= 0:
                state = State(self._seal[:TOKEN_BYTES], number, views)
                self._log = ChangeLog.begun(self._log_path, state, self._files, most_bytes)
        except OSError as error:
            log.info("changes of views are not logged: %s", error)

    def _end_log(self) -> None:
        self.later = None
        self.close()
        _remove(self._log_path)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    @contextmanager
    def logged(self, changes: Mapping[str, Sequence[Changed]]) -> Iterator[None]:
        """Log the changes of a transaction that commits in the block."""
        has_rows = any(rows.num_rows for each in changes.values() for rows, _ in each)
        if self._log is None or self._log.has_ended or not self._store.durable or not has_rows:
            yield
            return
        try:
            self._log.add(self._store.number(), changes)
            yield
        except BaseException:
            self._end_log()
            raise

    def drop(self, name: str) -> None:
        """Log that a view is dropped: its state is of no use, even if another view gets its name."""
        if self._log is not None:
            self._log.drop(name)

    def mark(self) -> None:
        """Log that the files of the tables have changed, if they have."""
        if self._log is None or self._log.has_ended:
            return
        size = log_bytes(Path(self._store.path))
        if size > self._files.log_bytes:
            self._note(Files(size, self._files.fingerprint))
        elif size < self._files.log_bytes:  # DuckDB has moved its log into the file
            self._note(self._store.files())

    def _note(self, files: Files) -> None:
        self._files = files
        if self._log is not None:
            self._log.mark(files)

    def restored(self, plans: Mapping[str, Collection], retired: Iterable[Collection], workers: int) -> Plans | None:
        """Return the dataflow that continues from the state; None if the file cannot be used.

        retired: the plans of the views that were dropped before the state was saved.
        """
        if not self.fits:
            return None
        try:
            return Dataflow.restore(self._path, plans, workers=workers, retired=retired)
        except (DeltamarkError, OSError) as error:
            self.refuse(error)
            return None

    def refuse(self, error: Exception) -> None:
        """Use the state no more, because of an error."""
        log.warning("views are loaded from the tables, and not from %s: %s", self._path, error)
        self.fits = False
        self._end_log()

    def checkpoint(
        self, dataflow: Plans | None, views: Mapping[str, str], retired: Iterable[Definition], *, is_saved: bool
    ) -> None:
        """Write the tables, and the state of the views that belongs to them; then `fits` says whether the file has it.

        dataflow: maintains the views, if these were needed; views: their texts; retired: the views that it has
        maintained before; is_saved: whether no view has changed since the state was written or read.
        """
        if is_saved and self.fits:
            self._store.checkpoint()
            self._seal_anew()
            return
        self.fits = False
        if dataflow is None or not self._stage(dataflow):
            self._store.checkpoint()
            self._end_log()
            _remove(self._path)
            return
        token = secrets.token_bytes(TOKEN_BYTES)
        self._store.mark(token, [each.written() for each in retired])
        self._store.checkpoint()
        self._files = self._store.files()
        self._seal = token + self._files.fingerprint
        self._end_log()
        with suppress(OSError):
            with self._new.open("ab") as file:
                file.write(self._seal)
            self._new.replace(self._path)
            self.fits = True
        self.begin(views)

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
        files = self._store.files()
        seal = self._seal[:TOKEN_BYTES] + files.fingerprint
        if seal == self._seal:
            return
        self.fits = False
        with suppress(OSError), self._path.open("r+b") as file:
            file.seek(-SEAL_BYTES, os.SEEK_END)
            file.write(seal)
            self._seal, self.fits = seal, True
        self._note(files)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _seal_in(path: Path) -> bytes:
    """Return the last bytes of a file."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(-SEAL_BYTES, os.SEEK_END)
        return file.read()
    return b""
