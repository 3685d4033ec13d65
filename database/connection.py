"""A database to connect to: SQL over tables that change, and views that are maintained."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from deltamark.database.cursor import Cursor
from deltamark.database.declarations import Declarations
from deltamark.database.files import MEMORY, closing_after_errors, damaged
from deltamark.database.frames import Frame, arrow_rows
from deltamark.database.result import Result, counted, html_table, nothing
from deltamark.database.statements import (
    CHANGING,
    KNOWN_CHARACTERS,
    KNOWN_TEXTS,
    Change,
    Parameters,
    Statement,
    copied_rows,
    statements,
)
from deltamark.database.store import COPIED, Changed, Store
from deltamark.database.subscriptions import DIFF, HELD_ROWS, TIME, Changes, Held, Subscription, Subscriptions
from deltamark.database.views import Views
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import ROWS
from deltamark.dataflow.sql.planner import quoted
from deltamark.errors import (
    DatabaseError,
    DataError,
    DeltamarkError,
    IntegrityError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

READS = ("SELECT", "EXPLAIN", "SET", "PRAGMA", "COPY", "MULTI")
"""The kinds of DuckDB's statements that change neither rows nor tables."""

KINDS = (IntegrityError, DataError, OperationalError, NotSupportedError, ProgrammingError, InternalError)
"""The kinds of errors that DuckDB has, too, by the same names."""

CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE_INTO")
DECLARES = ("CREATE", "DROP", "ALTER")


def connect(
    path: str | os.PathLike[str] = MEMORY, *, durable: bool = False, rows: int = ROWS, workers: int = 1
) -> Connection:
    """Open a database in memory or in a file, which is made if there is none.

    durable: whether a transaction is in the file when its commit has returned. Without, the file has the state of the
    last checkpoint: see `Connection.checkpoint`. rows: the most live rows of a table that a view reads. workers: the
    threads that maintain views.

    >>> con = connect()
    >>> con.execute("CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2))")
    no rows
    >>> con.execute("CREATE VIEW revenue AS SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop")
    no rows
    >>> con.insert("sales", [{"shop": 7, "price": 9.5}, {"shop": 7, "price": 6.5}])
    2
    >>> con.execute("SELECT * FROM revenue")
    shop     revenue
    INTEGER  DECIMAL(38,2)
    -------  -------------
          7          16.00
    1 row
    """
    place = MEMORY if path == MEMORY else str(Path(path).absolute())
    if durable and place == MEMORY:
        raise ProgrammingError("a database in memory that is durable", place, "give the path of a file")
    return Connection(place, durable=durable, rows=rows, workers=workers)


class Connection:
    """A connection to a database. Threads may share it: its calls run one after another.

    Each statement is a transaction, unless BEGIN or `begin` has begun one. Views change when a transaction commits.
    """

    def __init__(self, path: str, *, durable: bool, rows: int, workers: int) -> None:
        self._store = Store(rows, path, durable=durable)
        with closing_after_errors(self._store, path):
            self._views = Views(self._store, workers)
            self._views.restore()
        self._declarations = Declarations(self._store, self._views)
        self._subscriptions = Subscriptions()
        self._lock = threading.RLock()
        self._is_open = False
        """Whether a transaction was begun by the user."""
        self._ended_by = ""
        """The error that has ended the user's transaction."""
        self._is_closed = False
        self._kinds: dict[str, str] = {}
        """The kinds of statements that were run before, by their texts."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._is_closed:
            return "Connection, closed"
        with self._lock:
            tables = self._store.catalog.names()
            views = [each.name for each in self._views]
        return f"Connection; tables: {', '.join(tables) or 'none'}; views: {', '.join(views) or 'none'}"

    def _repr_html_(self) -> str:
        """Return a table of the tables and views with their columns, which notebooks show."""
        if self._is_closed:
            return "<p>Connection, closed</p>"
        with self._lock:
            catalog = self._store.catalog
            tables = [(name, "table", _listed(catalog[name].types)) for name in catalog.names()]
            views = [(each.name, "view", _listed(each.query.types)) for each in self._views]
            return html_table([("name", "kind", "columns")], [*tables, *views], repr(self).partition(";")[0])

    def execute(self, text: str, parameters: Parameters = None) -> Result:
        """Run the statements of a text; return the rows of the last one.

        parameters: the values of `?` and `$1` in order, or of `$name` by name, for a text of one statement.

        >>> con.execute("SELECT shop FROM sales WHERE price > ?", [5]).fetchall()
        [(7,)]
        """
        with self._lock:
            self._refuse_closed()
            found = statements(text)
            if len(found) != 1 and (parameters or not found):
                actual = f"{len(found)} statements"
                raise ProgrammingError("not one statement", actual, "give one statement of SQL with its parameters")
            result = nothing()
            for each in found:
                result = self._execute(each, parameters)
            return result

    def executemany(self, text: str, rows: Iterable[Parameters]) -> Result:
        """Run a statement once for each of several rows of parameters, in one transaction.

        The result is that of the last row, or the number of all changed rows.
        """
        with self._lock, self.transaction():
            result, changed = nothing(), 0
            for each in rows:
                result = self.execute(text, each)
                changed += result.rowcount
            return result if result.has_rows or not result.columns else counted(changed)

    def cursor(self) -> Cursor:
        """Return a cursor, for tools that read by the database interface of Python: see `deltamark.dbapi`."""
        self._refuse_closed()
        return Cursor(self)

    def insert(self, table: str, rows: Frame) -> int:
        """Insert rows, by the names of their columns; return their number.

        rows: a table, a batch or a reader of Arrow, a frame of pandas or Polars, a relation of DuckDB, any other object
        with `__arrow_c_stream__`, or a list of dictionaries. Values are cast as DuckDB casts them.

        >>> con.insert("sales", [{"shop": 7, "price": 9}])
        1
        """
        with self._changing(f"insert into {table}"):
            found = self._store.catalog[table]
            return self._store.insert(found, arrow_rows(rows), watched=self._views.watches(found.name))

    def delete(self, table: str, rows: Frame) -> int:
        """Delete one row for each of some rows; return their number. If one is not there, nothing changes.

        rows: as for `insert`, with all columns of the table, or some that contain its PRIMARY KEY.

        >>> con.delete("sales", [{"shop": 7, "price": 9}])
        1
        """
        with self._changing(f"delete from {table}"):
            found = self._store.catalog[table]
            return self._store.delete(found, arrow_rows(rows), watched=self._views.watches(found.name))

    def upsert(self, table: str, rows: Frame, *, key: str | Sequence[str] = ()) -> int:
        """Update the rows that have the keys of some rows, and insert the others; return the number of changed rows.

        rows: as for `insert`. Columns that they lack keep their values, or get the DEFAULT. key: the columns of the
        key; by default, those of the PRIMARY KEY.
        """
        with self._changing(f"upsert into {table}"):
            found = self._store.catalog[table]
            names = (key,) if isinstance(key, str) else tuple(key) or found.key
            return self._store.upsert(found, arrow_rows(rows), names, watched=self._views.watches(found.name))

    def register(self, name: str, rows: Frame) -> None:
        """Let statements read rows by a name, without a table. Views cannot read them, and files do not have them.

        rows: as for `insert`.

        >>> con.register("cities", [{"shop": 7, "city": "Bonn"}])
        >>> con.execute("SELECT DISTINCT shop, city FROM sales JOIN cities USING (shop)").fetchall()
        [(7, 'Bonn')]
        >>> con.unregister("cities")
        """
        with self._lock:
            self._refuse_closed()
            if self._store.catalog.find(name) or self._views.find(name):
                raise ProgrammingError("a table or a view has the name of registered rows", name, "give another name")
            self._store.registered[name.lower()] = arrow_rows(rows)

    def unregister(self, name: str) -> None:
        """Forget the rows of a name; do nothing if there are none."""
        with self._lock:
            self._store.registered.pop(name.lower(), None)

    def subscribe(
        self, view: str, callback: Callable[[Changes], object] | None = None, *, snapshot: bool = False,
        max_rows: int = HELD_ROWS,
    ) -> Subscription:  # fmt: skip
        """Follow a view: return an iterator over the changes of each commit from now on.

        callback: a function that is called with each batch of changes, in a thread of its own. snapshot: whether the
        first batch has the present answer. max_rows: the changes that wait for a slow reader; if there are more, and
        they are not those of one commit, the reader gets an error.

        >>> con.execute("CREATE VIEW largest AS SELECT max(price) AS price FROM sales")
        no rows
        >>> largest = con.subscribe("largest", snapshot=True)
        >>> next(largest).fetchall()
        [(0, 1, Decimal('9.00'))]
        >>> con.insert("sales", [{"shop": 7, "price": 40}])
        1
        >>> next(largest)
        time    diff           price
        BIGINT  BIGINT  DECIMAL(9,2)
        ------  ------  ------------
             1      -1          9.00
             1       1         40.00
        2 rows
        >>> largest.close()
        """
        with self._lock:
            self._refuse_closed()
            with self._stating(f"subscribe to {view}"):
                found = self._views[view]
                typed = self._views.typed(found)
                for name in (TIME, DIFF):
                    if name in typed.columns:
                        remedy = "subscribe to a view that names it otherwise"
                        raise ProgrammingError("a column that changes have themselves", f"{view}.{name}", remedy)
                subscription = Subscription(found, typed.arrow().schema, typed.types, max_rows)
                if snapshot:
                    subscription.add(Held(self._views.time, self._views.answer(found.name)))
                self._subscriptions.add(subscription)
        if callback is not None:
            subscription.call(callback)
        return subscription

    def begin(self) -> None:
        """Begin a transaction, which `commit` or `rollback` ends."""
        with self._lock:
            self._refuse_closed()
            if self._is_open:
                raise ProgrammingError(
                    "a transaction within another one", "BEGIN", "commit the first one, or roll it back"
                )
            self._store.begin()
            self._is_open = True

    def commit(self) -> None:
        """Commit the transaction: views change, at one logical time. After an error, nothing has changed.

        Without an open transaction it does nothing, because each statement was committed.
        """
        with self._lock:
            self._refuse_closed()
            if not self._is_open:
                return
            if self._ended_by:
                ended = self._ended_by
                self.rollback()
                raise OperationalError(
                    "a transaction that an error has ended", ended, "it was rolled back; begin again"
                )
            self._is_open = False
            with self._stating("COMMIT"):
                self._commit()

    def rollback(self) -> None:
        """Undo the changes of the transaction; do nothing if none is open."""
        with self._lock:
            self._refuse_closed()
            if not self._is_open:
                return
            self._is_open, self._ended_by = False, ""
            self._store.roll_back()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the changes of a block together, or undo them if it raises an error.

        >>> with con.transaction():
        ...     con.insert("sales", [{"shop": 8, "price": 3}])
        ...     con.execute("UPDATE sales SET price = 2 WHERE shop = 8").rowcount
        1
        1
        """
        if self._is_open:  # the block is a part of the transaction that is open
            yield
            return
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def checkpoint(self) -> None:
        """Write the committed rows and the declarations to the file of the database.

        A process that is killed later finds this state again, or that of a later checkpoint.
        """
        with self._lock:
            self._refuse_closed()
            if self._store.path == MEMORY:
                raise ProgrammingError(
                    "a checkpoint of a database in memory", MEMORY, "give connect the path of a file"
                )
            if self._is_open:
                raise ProgrammingError("a checkpoint within a transaction", "CHECKPOINT", "commit first, or roll back")
            with self._stating("CHECKPOINT"):
                self._views.checkpoint()

    def close(self) -> None:
        """Close the database, and release its memory. Closing again does nothing.

        A transaction that is open is rolled back. A database in a file makes a checkpoint.
        """
        with self._lock:
            if self._is_closed:
                return
            try:
                if self._is_open:
                    self.rollback()
                if self._store.path != MEMORY:
                    self.checkpoint()
            finally:
                self._is_closed = True
                self._subscriptions.end()
                self._views.close()
                self._store.close()

    def _execute(self, statement: Statement, parameters: Parameters) -> Result:
        match statement.words(1)[0]:
            case "BEGIN" | "START":
                self.begin()
            case "COMMIT" | "END":
                self._refuse_none("COMMIT")
                self.commit()
            case "ROLLBACK" | "ABORT":
                self._refuse_none("ROLLBACK")
                self.rollback()
            case "CHECKPOINT" if len(statement.tokens) == 1:
                self.checkpoint()
            case _:
                return self._run(statement, parameters)
        return nothing()

    def _run(self, statement: Statement, parameters: Parameters) -> Result:
        """Run a statement that neither begins nor ends a transaction."""
        with self._stating(str(statement)):
            if (found := self._declarations.run(statement, in_transaction=self._is_open)) is not None:
                self._subscriptions.keep(self._views)
                return found
            kind = self._kind(statement)
            if kind in CHANGES:
                return self._change(statement, parameters)
            if kind == "COPY" and (copied := copied_rows(statement, quoted(COPIED))) is not None:
                return self._copy(*copied)
            if kind in DECLARES:
                with self._committing():
                    found = self._declarations.declare(statement, parameters, in_transaction=self._is_open)
                self._subscriptions.keep(self._views)
                return found
            self._store.prepare(statement.text)
            with self._views.readable(statement):
                return self._store.run(statement.text, parameters)

    def _kind(self, statement: Statement) -> str:
        """Return the kind of a statement in DuckDB; refuse one that could change tables unseen."""
        if statement.text in self._kinds:
            return self._kinds[statement.text]
        (found,) = self._store.duckdb.extract_statements(statement.text)
        kind = found.type.name
        words = {each.word for each in statement.tokens}
        hidden = statement.hidden_change
        if kind == "EXPLAIN" and "ANALYZE" in words and words.intersection(CHANGING):
            hidden = "EXPLAIN ANALYZE"
        if hidden or kind not in (*READS, *CHANGES, *DECLARES):
            actual = hidden or statement.words(1)[0] or kind
            raise NotSupportedError(
                "not supported in a database", f"{actual} in: {statement}", "docs/database.md lists what is"
            )
        if len(self._kinds) == KNOWN_TEXTS:
            self._kinds.clear()
        if len(statement.text) <= KNOWN_CHARACTERS:
            self._kinds[statement.text] = kind
        return kind

    def _change(self, statement: Statement, parameters: Parameters) -> Result:
        change = statement.change
        if change is None:
            raise NotSupportedError("not supported in a database", f"{statement}", "docs/database.md lists what is")
        with self._committing(), self._views.readable(statement):
            return self._store.change(change, parameters, watched=self._views.watches(change.table))

    def _copy(self, name: str, columns: str, copy: str) -> Result:
        """Copy the rows of a file into a table: DuckDB reads them by the types of its columns."""
        table = self._store.catalog[name]
        with self._committing(), self._store.read_file(table, columns, copy) as body:
            change = Change("INSERT", table.name, body, "")
            return self._store.change(change, None, watched=self._views.watches(table.name))

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """Make a change by a method, in the transaction that is open, or in one of its own."""
        with self._lock:
            self._refuse_closed()
            with self._stating(what), self._committing():
                yield

    @contextmanager
    def _stating(self, what: str) -> Iterator[None]:
        """Let an error in a statement end the transaction that is open, and name the statement."""
        if self._ended_by:
            raise OperationalError("a transaction that an error has ended", self._ended_by, "roll it back")
        try:
            yield
        except BaseException as error:
            if self._is_open:
                self._ended_by = f"{type(error).__name__}: {error}".partition("\n")[0]
            if isinstance(error, duckdb.Error | pa.ArrowException):
                if isinstance(error, duckdb.Error) and (unreadable := damaged(self._store.path, error)):
                    raise unreadable from error
                reason = _reason(str(error))
                kind = next(
                    (each for each in KINDS if isinstance(error, getattr(duckdb, each.__name__))), DatabaseError
                )
                raise kind("DuckDB refuses a statement", f"{reason} in: {what}", "nothing was changed") from error
            raise
        self._views.mark()

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Commit a statement, unless a transaction is open."""
        if self._is_open:
            yield
            return
        self._store.begin()
        try:
            yield
        except BaseException:
            self._store.roll_back()
            raise
        self._commit()

    def _commit(self) -> None:
        """Let the views follow the changes of a transaction, and commit it; or else undo it."""
        try:
            changes = self._store.net_changes()
            found = self._follow(changes)
        except BaseException:
            self._store.roll_back()
            raise
        try:
            with self._views.logged(changes):
                self._store.commit()
        except BaseException:
            self._views.invalidate()
            self._store.roll_back()
            raise
        try:
            self._subscriptions.publish(self._views.time, found)
        except BaseException:  # Ctrl-C: some may lack the changes
            remedy = "subscribe again with snapshot=True"
            self._subscriptions.end(OperationalError("subscriptions that may lack a commit", "an interrupt", remedy))
            raise

    def _follow(self, changes: Mapping[str, Sequence[Changed]]) -> dict[str, Batch]:
        try:
            return self._views.feed(changes)
        except DeltamarkError:
            raise  # the views are as before
        except BaseException:  # Ctrl-C: they may have followed already
            self._views.invalidate()
            raise

    def _refuse_none(self, word: str) -> None:
        if not self._is_open:
            raise ProgrammingError("no transaction is open", word, "write BEGIN first")

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise ProgrammingError("the database is closed", "its memory was released", "connect again")


def _reason(text: str) -> str:
    """Return the first line of an error of DuckDB, with the names that it proposes in another line."""
    lines = text.splitlines()
    more = [each.strip() for each in lines[1:] if each.startswith(("Did you mean", "Candidate bindings"))]
    return " ".join([*lines[:1], *more[:1]])


def _listed(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())
