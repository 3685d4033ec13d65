"""Rows of tables, in DuckDB, and the changes of a transaction to them.

DuckDB has the tables: it casts, fills and checks the rows of a statement, evaluates its expressions, and takes back the
changes of a transaction. RETURNING gives the rows that a statement inserts and deletes. The old rows of an UPDATE are
read before it, by their rowid. Where a statement may change other rows than it returns, the table is compared with its
committed rows when the transaction ends: the rows with some keys, or all.

Rows that are inserted in bulk into a table without constraints wait as Arrow, beside the table, until a statement reads
it: views are maintained from them without DuckDB. In a durable database they wait until their transaction commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.database.files import MEMORY, Files, cursor_of, database_of, opened
from deltamark.database.frames import renamed
from deltamark.database.result import Result, counted
from deltamark.database.statements import Change, Parameters, given
from deltamark.database.tables import Catalog, Table
from deltamark.dataflow.sql.planner import quoted
from deltamark.errors import IntegrityError, ProgrammingError

GIVEN = "given rows"
"""The name under which DuckDB reads rows of Arrow during a statement."""

MOVED = "moved rows"
"""The name under which DuckDB reads rows that are moved into a table."""

COPIED = "copied rows"
"""The table of DuckDB into which COPY reads a file."""

MAX_PIECES = 1000
"""The pieces of rows that wait beside a table before they are moved into it. Not tuned."""

SMALL_ROWS = 2048
"""The rows of a piece below which pieces are joined before they are moved: DuckDB works on vectors of this size, and
takes 27 microseconds for a piece of one row otherwise, against 3."""

LOADED_ROWS = 1 << 17
"""The rows of a table that are read at once to load a view. Not tuned."""

MACROS = """
SELECT 1 FROM duckdb_functions()
WHERE database_name = current_database() AND NOT internal AND function_type LIKE '%macro' LIMIT 1
"""

NUMBER = """
SELECT last_value FROM duckdb_sequences()
WHERE database_name = current_database() AND schema_name = 'deltamark' AND sequence_name = 'commits'
"""

GENERATED = """
SELECT column_name FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = 'main'
AND table_name = ? AND is_generated
"""

Changed = tuple[pa.Table, int]
"""Rows of a table, and their weight: 1 for inserted rows, -1 for deleted ones."""


@dataclass
class Transaction:
    """The changes since BEGIN."""

    changes: dict[str, list[Changed]] = field(default_factory=lambda: defaultdict(list))
    """The rows that came and went, by the names of tables, where a view reads them."""
    compared: dict[str, list[pa.Table] | None] = field(default_factory=dict)
    """The tables whose changes are found by comparison: of the rows with some keys, or of all rows."""
    waiting: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    """Inserted rows that are not in DuckDB yet."""
    is_begun: bool = False
    """Whether DuckDB has begun the transaction."""


class Store:
    """The tables of a database. All changes belong to a transaction, and reads may.

    rows: the most rows of a table. path: the file of the tables. durable: whether each transaction is in the log of the
    file when its COMMIT has returned.
    """

    def __init__(self, rows: int, path: str = MEMORY, *, durable: bool = False) -> None:
        self.path, self.durable = path, durable
        self.duckdb, self.found = opened(path, durable=durable)
        self._database = database_of(path)
        self._committed = self._cursor()
        self.catalog = Catalog(self.duckdb, rows)
        self.transaction: Transaction | None = None
        self._is_declaring = False
        self.has_macros = bool(self.duckdb.execute(MACROS).fetchall())
        """Whether a statement may read tables and views that it does not name."""
        self.registered: dict[str, pa.Table] = {}
        """Rows that statements read by a name in lower case, which are no table."""
        self._waiting: dict[str, list[pa.Table]] = defaultdict(list)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        return cursor_of(self.duckdb, self._database)

    def close(self) -> None:
        self._committed.close()
        self.duckdb.close()

    def checkpoint(self) -> None:
        """Write all committed rows and declarations to the file."""
        self.prepare()
        self.duckdb.execute(f"CHECKPOINT {self._database}")

    def mark(self, token: bytes, retired: Sequence[str]) -> None:
        """Let the tables have a token, by which a file beside them names this state of theirs.

        retired: the written definitions of dropped views, which are needed to read that file.
        """
        with self.declaring():
            self.duckdb.execute("CREATE TABLE IF NOT EXISTS deltamark.state (token BLOB); DELETE FROM deltamark.state")
            self.duckdb.execute("INSERT INTO deltamark.state VALUES ($1)", [token])
            text = "CREATE OR REPLACE TABLE deltamark.retired AS SELECT unnest($1::VARCHAR[]) AS definition"
            self.duckdb.execute(text, [retired])
            self.duckdb.execute("CREATE SEQUENCE IF NOT EXISTS deltamark.commits")

    def token(self) -> bytes:
        """Return the token of the tables; nothing if they have none."""
        with suppress(duckdb.CatalogException):
            return b"".join(token for (token,) in self.duckdb.execute("FROM deltamark.state").fetchall())
        return b""

    def retired(self) -> list[str]:
        """Return the written definitions of the views that were dropped before the state of views was saved."""
        with suppress(duckdb.CatalogException):  # of a connection whose transaction it does not end
            return [each for (each,) in self._committed.execute("FROM deltamark.retired").fetchall()]
        return []

    def last_number(self) -> int:
        """Return the number of the last committed transaction that has one; 0 if none has, -1 if they get none."""
        found = self.duckdb.execute(NUMBER).fetchall()
        return int(found[0][0] or 0) if found else -1

    def number(self) -> int:
        """Give the transaction a number that DuckDB's log has if it commits."""
        self.prepare("")
        return int(self.duckdb.execute("SELECT nextval('deltamark.commits')").fetchall()[0][0])

    def files(self) -> Files:
        """Return the state of the files of the tables."""
        return Files.now(Path(self.path))

    def begin(self) -> None:
        """Begin a transaction; DuckDB begins it with the first statement that needs DuckDB."""
        self.transaction = Transaction()
        for name in [name for name, rows in self._waiting.items() if len(rows) > MAX_PIECES]:
            self._move(name, self._waiting)

    def commit(self) -> None:
        """Make the changes of the transaction permanent."""
        if self.transaction is None:
            return
        if self.durable and self.transaction.waiting:
            self.prepare()
        if self.transaction.is_begun:
            self.duckdb.execute("COMMIT")
        for name, rows in self.transaction.waiting.items():
            self._waiting[name] += rows
        self.transaction = None

    @contextmanager
    def declaring(self) -> Iterator[None]:
        """Make the declarations of a block together, or none of them if it raises an error."""
        if self._is_declaring or self.transaction is not None:  # which do the same
            yield
            return
        self.duckdb.execute("BEGIN")
        self._is_declaring = True
        try:
            yield
            self.duckdb.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.TransactionException):  # a COMMIT that has failed has ended it
                self.duckdb.execute("ROLLBACK")
            raise
        finally:
            self._is_declaring = False

    def roll_back(self) -> None:
        """Undo the changes of the transaction."""
        begun, self.transaction = self.transaction is not None and self.transaction.is_begun, None
        self.catalog.forget()
        if begun:
            with suppress(duckdb.TransactionException):  # a COMMIT that has failed has ended it
                self.duckdb.execute("ROLLBACK")

    def prepare(self, text: str | None = None) -> None:
        """Let DuckDB see the rows of the tables that a text names, or of all, as the transaction has them."""
        transaction = self.transaction
        if transaction is None:
            self._move_named(text, self._waiting)
            return
        if not transaction.is_begun:
            self._move_named(None, self._waiting)  # what a transaction moves would be undone with it
            self.duckdb.execute("BEGIN")
            transaction.is_begun = True
        self._move_named(text, transaction.waiting)

    def _move_named(self, text: str | None, waiting: dict[str, list[pa.Table]]) -> None:
        folded = None if text is None or self.has_macros else text.lower()
        for name in list(waiting):
            if folded is None or name.lower() in folded or quoted(name).lower() in folded:
                self._move(name, waiting)

    def _move(self, name: str, waiting: dict[str, list[pa.Table]]) -> None:
        """Move rows that wait beside a table into it."""
        rows = pa.concat_tables(waiting[name])
        if rows.num_rows < SMALL_ROWS * len(waiting[name]):
            rows = rows.combine_chunks()
        with given_rows(self.duckdb, rows, MOVED):
            self.duckdb.execute(f"INSERT INTO {quoted(name)} SELECT * FROM {quoted(MOVED)}")
        del waiting[name]

    def run(self, text: str, parameters: Parameters = None) -> Result:
        """Run a statement that changes no rows of tables, and return its rows."""
        relation = self.duckdb.sql(text, params=parameters or None)
        if relation is None:
            return Result(pa.table({}), [])
        return Result(relation.to_arrow_table(), [str(each) for each in relation.types])

    def change(self, change: Change, parameters: Parameters, *, watched: bool) -> Result:
        """Run a statement that changes rows. watched: whether a view reads them."""
        transaction = self._changing()
        self.prepare(f"{change.body} {change.returning}")
        table = self.catalog.find(change.table)
        if table is None or not watched:
            return self._unwatched(change, parameters)
        if change.kind == "UPDATE":
            return self._update(table, change, parameters)
        found, result = self._returned(table, change, change.body, parameters)
        if change.kind == "MERGE" or change.replaces:
            self._compare(table, change, found)
        else:
            transaction.changes[table.name].append((found, 1 if change.kind == "INSERT" else -1))
        return result

    @contextmanager
    def read_file(self, table: Table, columns: str, copy: str) -> Iterator[str]:
        """Read a file into a table beside others, for a block; yield the INSERT of its rows into one of them.

        columns: the list of those that the file has, or nothing; copy: the statement that fills the other table.
        """
        self._changing()
        self.prepare(table.name)
        # the file has no values of generated columns
        listed = columns or "(" + ", ".join(map(quoted, self._given_columns(table))) + ")"
        beside = quoted(COPIED)
        self.duckdb.execute(
            f"CREATE OR REPLACE TEMP TABLE {beside} AS SELECT {listed[1:-1]} FROM {table.quoted} LIMIT 0"
        )
        try:
            self.duckdb.execute(copy)
            yield f"INSERT INTO {table.quoted} {listed} SELECT * FROM {beside}"
        finally:
            with suppress(duckdb.Error):  # an error has ended the transaction, and the table with it
                self.duckdb.execute(f"DROP TABLE IF EXISTS temp.{beside}")

    def _given_columns(self, table: Table) -> list[str]:
        """Return the columns of a table that are not generated."""
        generated = self.run(GENERATED, [table.name]).fetchall()
        return [name for name in table.types if (name,) not in generated]

    def _changing(self) -> Transaction:
        assert self.transaction is not None, "changes belong to a transaction"
        return self.transaction

    def _unwatched(self, change: Change, parameters: Parameters) -> Result:
        text = f"{change.body} RETURNING {change.returning}" if change.returning else change.body
        result = self.run(text, given(parameters, text))
        if change.returning:
            return Result(result.arrow(), result.types, len(result))
        return counted(int(result.fetchall()[0][0]))

    def _returned(self, table: Table, change: Change, body: str, parameters: Parameters) -> tuple[pa.Table, Result]:
        """Run a change; return the whole rows that it returns, and the result that the statement asks for."""
        more = f", {change.returning}" if change.returning else ""
        text = f"{body} RETURNING *{more}"
        found = self.run(text, given(parameters, text))
        rows, width = found.arrow(), len(table.types)
        whole = rows.select(range(width)).rename_columns(list(table.types))
        if not change.returning:
            return whole, counted(rows.num_rows)
        asked = rows.select(range(width, rows.num_columns))
        names = self._names_of(table, change.returning, asked)
        return whole, Result(asked.rename_columns(names), found.types[width:], rows.num_rows)

    def _names_of(self, table: Table, returning: str, asked: pa.Table) -> Sequence[str]:
        """Return the names of the columns of a RETURNING list, which repeats columns of the table."""
        try:
            return self._committed.sql(f"SELECT {returning} FROM {table.quoted} LIMIT 0").columns
        except duckdb.Error:  # a parameter, or an alias
            return asked.column_names

    def _update(self, table: Table, change: Change, parameters: Parameters) -> Result:
        if change.old:
            old = self.run(change.old, given(parameters, change.old)).arrow()
            new, result = self._returned(table, change, change.body, parameters)
        else:
            old, new, result = self._update_by_rowid(table, change, parameters)
        if new.num_rows != old.num_rows or not change.by_rowid:
            self._compare(table, change, new)
        else:
            self._changing().changes[table.name] += [(old.rename_columns(new.column_names), -1), (new, 1)]
        return result

    def _update_by_rowid(
        self, table: Table, change: Change, parameters: Parameters
    ) -> tuple[pa.Table, pa.Table, Result]:
        """Run an UPDATE whose condition may find other rows another time: it is evaluated once if there is no FROM."""
        matches = f"SELECT rowid AS place, * FROM {table.quoted} WHERE rowid IN (FROM ({change.matches}))"
        old = self.run(matches, given(parameters, matches)).arrow()
        body = f"{change.by_rowid} IN (SELECT place FROM {quoted(GIVEN)})" if change.by_rowid else change.body
        with given_rows(self.duckdb, old.select(["place"])):
            return old.select(range(1, old.num_columns)), *self._returned(table, change, body, parameters)

    def insert(self, table: Table, frame: pa.Table, *, watched: bool) -> int:
        """Insert rows by the names of their columns. watched: whether a view reads the table."""
        transaction = self._changing()
        if not frame.num_rows:
            return 0
        rows = self._typed(table, frame)
        missing = [name for name in table.types if name not in rows.column_names]
        if table.is_checked or table.filled.intersection(missing):
            return self._insert_checked(table, rows, watched=watched)
        for name in table.required:
            if name in missing or rows[name].null_count:
                raise IntegrityError("a missing value of a NOT NULL column", f"{table.name}.{name}", "give it a value")
        if missing:
            rows = self._with_nulls(table, rows)
        transaction.waiting[table.name].append(rows)
        if watched:
            transaction.changes[table.name].append((rows, 1))
        return rows.num_rows

    def _insert_checked(self, table: Table, rows: pa.Table, *, watched: bool) -> int:
        names = ", ".join(map(quoted, rows.column_names))
        body = f"INSERT INTO {table.quoted} ({names}) SELECT * FROM {quoted(GIVEN)}"
        with given_rows(self.duckdb, rows):
            return self.change(Change("INSERT", table.name, body, ""), None, watched=watched).rowcount

    def delete(self, table: Table, frame: pa.Table, *, watched: bool) -> int:
        """Delete a row for each of some rows, which must be there. They have all columns, or the key at least."""
        if not frame.num_rows:
            return 0
        rows = self._typed(table, frame)
        if set(rows.column_names) != set(table.types) and not (table.key and set(table.key) <= set(rows.column_names)):
            key = f", or at least the key: {', '.join(table.key)}" if table.key else ""
            actual = f"{table.name}: {', '.join(rows.column_names) or 'no columns'}"
            raise ProgrammingError("rows to delete that are not whole", actual, f"give all columns{key}")
        self.prepare(table.name)
        with given_rows(self.duckdb, rows):
            found = self.run(_PLACES.format(**_comparison(table, rows.column_names))).arrow()
        if (count := found["place"].null_count) > 0:
            first = found.filter(pc.is_null(found["place"])).slice(0, 1).drop_columns(["place"]).to_pylist()[0]
            shown = ", ".join("NULL" if each is None else str(each) for each in first.values())
            actual = f"{table.name}: {shown}{f', and {count - 1} more' if count > 1 else ''}"
            raise ProgrammingError(
                "a row to delete that is not there", actual, "nothing was changed; delete rows that are"
            )
        with given_rows(self.duckdb, found.select(["place"])):
            body = f"DELETE FROM {table.quoted} WHERE rowid IN (SELECT place FROM {quoted(GIVEN)})"
            return self.change(Change("DELETE", table.name, body, ""), None, watched=watched).rowcount

    def upsert(self, table: Table, frame: pa.Table, key: Sequence[str], *, watched: bool) -> int:
        """Update the rows that have the keys of some rows, and insert the others of these."""
        transaction = self._changing()
        if not frame.num_rows:
            return 0
        rows = self._typed(table, frame)
        names = [next((each for each in table.types if each.lower() == name.lower()), name) for name in key]
        for name in names:
            if name not in rows.column_names:
                raise ProgrammingError(
                    "a key without values", f"{table.name}.{name}", "give rows with all columns of the key"
                )
        if not names:
            raise ProgrammingError("an upsert without a key", table.name, "give key=, or declare a PRIMARY KEY")
        if rows.select(names).group_by(names).aggregate([]).num_rows < rows.num_rows:
            raise ProgrammingError(
                "several rows with the same key", f"{table.name}: {', '.join(names)}", "give each key once"
            )
        self.prepare(table.name)
        others = [name for name in rows.column_names if name not in names]
        same = " AND ".join(f"t.{quoted(each)} IS NOT DISTINCT FROM g.{quoted(each)}" for each in names)
        listed = ", ".join(map(quoted, rows.column_names))
        values = ", ".join(f"g.{quoted(each)}" for each in rows.column_names)
        changed = ", ".join(f"{quoted(each)} = g.{quoted(each)}" for each in others)
        update = f"WHEN MATCHED THEN UPDATE SET {changed} " if others else ""
        text = (
            f"MERGE INTO {table.quoted} t USING {quoted(GIVEN)} g ON {same} {update}"
            f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({values}) RETURNING t.*"
        )
        old = f"SELECT t.* FROM {table.quoted} t SEMI JOIN {quoted(GIVEN)} g ON {same}"
        with given_rows(self.duckdb, rows):
            before = self.run(old).arrow() if watched and others else None
            after = self.run(text).arrow()
        if watched:
            after = after.rename_columns(list(table.types))
            transaction.changes[table.name] += [(after, 1)] if before is None else [(before, -1), (after, 1)]
        return after.num_rows

    def net_changes(self) -> dict[str, list[Changed]]:
        """Return the changes of the transaction to the tables that views read."""
        transaction = self._changing()
        changes = {name: each for name, each in transaction.changes.items() if name not in transaction.compared}
        for name, keys in transaction.compared.items():
            self.prepare(name)
            table = self.catalog[name]
            if keys is not None:
                keys += [rows.select(table.key) for rows, _ in transaction.changes[name]]
                changes[name] = self._compared_by_key(table, pa.concat_tables(keys))
            else:
                changes[name] = self._compared(table)
        return changes

    def _compare(self, table: Table, change: Change, returned: pa.Table) -> None:
        """Find the changes of a table by comparison: of rows with returned keys, if these rows keep their keys."""
        keys = self._changing().compared.setdefault(table.name, [])
        assigned = change.assigned
        if not table.has_one_key or assigned is None or assigned & {each.lower() for each in table.key}:
            self._changing().compared[table.name] = None
        elif keys is not None:
            keys.append(returned.select(table.key))

    def _compared_by_key(self, table: Table, keys: pa.Table) -> list[Changed]:
        names = ", ".join(map(quoted, table.key))
        text = f"FROM {table.quoted} SEMI JOIN {quoted(GIVEN)} USING ({names})"
        with given_rows(self._committed, keys):
            old = self._committed.sql(text).to_arrow_table()
        with given_rows(self.duckdb, keys):
            return [(old, -1), (self.run(text).arrow(), 1)]

    def _compared(self, table: Table) -> list[Changed]:
        with given_rows(self.duckdb, self._committed.sql(f"FROM {table.quoted}").to_arrow_table()):
            now, before = f"FROM {table.quoted}", f"FROM {quoted(GIVEN)}"
            old = self.run(f"{before} EXCEPT ALL {now}").arrow()
            return [(old, -1), (self.run(f"{now} EXCEPT ALL {before}").arrow(), 1)]

    def committed(self, name: str) -> Iterator[pa.Table]:
        """Yield the committed rows of a table, in pieces."""
        with self._cursor() as cursor:  # of its own, which has an open result if an error stops the reader
            for batch in cursor.sql(f"FROM {quoted(name)}").to_arrow_reader(LOADED_ROWS):
                yield pa.Table.from_batches([batch])
        yield from self._waiting.get(name, ())

    def _typed(self, table: Table, frame: pa.Table) -> pa.Table:
        """Return rows in the types of a table, cast as DuckDB casts, in the order of its columns."""
        if frame.schema.equals(table.schema):
            frame.validate()  # as DuckDB does, this trusts that texts are UTF-8
            return frame
        rows = renamed(frame, table.name, table.types)
        names = [name for name in table.types if name in rows.column_names]
        rows, fields = rows.select(names), [table.schema.field(name) for name in names]
        if rows.schema.types == [each.type for each in fields]:
            rows.validate()
            return pa.table(rows.columns, schema=pa.schema(fields))  # all pieces that wait have one schema
        casts = ", ".join(f"CAST({quoted(name)} AS {table.types[name]}) AS {quoted(name)}" for name in names)
        with given_rows(self._committed, rows):
            return self._committed.sql(f"SELECT {casts} FROM {quoted(GIVEN)}").to_arrow_table()

    def _with_nulls(self, table: Table, rows: pa.Table) -> pa.Table:
        columns = [
            rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
            for field in table.schema
        ]
        return pa.table(columns, schema=table.schema)


_PLACES = """
WITH g AS (SELECT *, row_number() OVER (PARTITION BY {columns}) AS "number of the row" FROM {given}),
t AS (
    SELECT rowid AS place, {columns}, row_number() OVER (PARTITION BY {columns} ORDER BY rowid) AS "number of the row"
    FROM {table} AS t SEMI JOIN {given} AS g ON {same}
)
SELECT place, g.* EXCLUDE ("number of the row")
FROM g LEFT JOIN t ON {same} AND t."number of the row" = g."number of the row"
"""
"""The rowid of a row for each of some rows; equal rows have different ones."""


def _comparison(table: Table, names: Iterable[str]) -> dict[str, str]:
    columns = [quoted(each) for each in names]
    same = " AND ".join(f"t.{each} IS NOT DISTINCT FROM g.{each}" for each in columns)
    return {"columns": ", ".join(columns), "given": quoted(GIVEN), "table": table.quoted, "same": same}


@contextmanager
def given_rows(connection: duckdb.DuckDBPyConnection, rows: pa.Table, name: str = GIVEN) -> Iterator[None]:
    """Let DuckDB read rows of Arrow by a name, until the end of the context."""
    connection.register(name, rows)
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # a transaction that an error has ended forgets the name when it is rolled back
            connection.unregister(name)
        raise
    connection.unregister(name)
