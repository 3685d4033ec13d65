"""A backend of ibis: its expressions are compiled to SQL of DuckDB, which a connection of ours reads and maintains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

import duckdb
import ibis
import ibis.backends.sql.compilers as sc
import ibis.common.exceptions as exc
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa
import sqlglot as sg
import sqlglot.expressions as sge
from ibis import util
from ibis.backends import UrlFromPath
from ibis.backends.duckdb.converter import DuckDBPandasData, DuckDBPyArrowData
from ibis.backends.sql import SQLBackend
from ibis.backends.sql.compilers.base import AlterTable, RenameTable

import deltamark
from deltamark.database.connection import Connection, connect
from deltamark.database.files import MEMORY
from deltamark.database.result import Result
from deltamark.dataflow.language.collection import ROWS
from deltamark.dataflow.sql.planner import quoted
from deltamark.errors import DeltamarkError


class Backend(SQLBackend, UrlFromPath):  # type: ignore[misc]  # ibis has no types
    """A connection for ibis. Its views are maintained, and its other expressions are computed when they are executed.

    `con` is the connection of deltamark, with `transaction`, `subscribe` and `checkpoint`.
    """

    name = "deltamark"
    compiler = sc.duckdb.compiler
    supports_temporary_tables = False
    con: Connection

    def do_connect(
        self,
        database: str | PathLike[str] = MEMORY,
        *,
        durable: bool = False,
        rows: int = ROWS,
        workers: int = 1,
    ) -> None:
        """Open a database in memory or in a file, which is made if there is none: see `deltamark.connect`."""
        self.con = connect(database, durable=durable, rows=rows, workers=workers)
        self.con.execute("SET TimeZone = 'UTC'")

    @util.experimental  # type: ignore[untyped-decorator]
    @classmethod
    def from_connection(cls, con: Connection, /) -> Backend:
        """Return a backend over a connection that is open."""
        backend: Backend = cls()
        backend._can_reconnect = False
        backend.con = con
        return backend

    @property
    def version(self) -> str:
        return deltamark.__version__

    def raw_sql(self, query: str | sge.Expression) -> Result:
        """Run the statements of a text; return the rows of the last one."""
        return self.con.execute(query if isinstance(query, str) else query.sql(dialect=self.dialect))

    @contextmanager
    def _safe_raw_sql(self, query: str | sge.Expression) -> Iterator[Result]:
        yield self.raw_sql(query)

    def list_tables(self, *, like: str | None = None, database: tuple[str, str] | str | None = None) -> list[str]:
        """Return the names of the tables and views. like: a regular expression that the names match."""
        _refuse_other(database)
        found: list[str] = self._filter_with_like([name for (name,) in self.raw_sql("SHOW TABLES")], like)
        return found

    def get_schema(self, table_name: str, *, catalog: str | None = None, database: str | None = None) -> sch.Schema:
        """Return the columns of a table or a view, with their types."""
        _refuse_other(database or catalog)
        try:
            return self._get_schema_using_query(self._name(table_name).sql(self.dialect))
        except DeltamarkError as error:
            if isinstance(error.__cause__, duckdb.CatalogException):
                raise exc.TableNotFound(table_name) from error
            raise

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        type_of = self.compiler.type_mapper.from_string
        columns = self.raw_sql(f"DESCRIBE {query}").fetchall()
        return sch.Schema({name: type_of(type_, nullable=null == "YES") for name, type_, null, *_ in columns})

    def create_table(  # noqa: PLR0913 (the arguments of ibis)
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: Any = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Create a table.

        obj: its rows, as a frame or an expression. schema: its columns; by default, those of the rows. overwrite:
        whether it replaces a table of this name, which no view reads.
        """
        _refuse_other(database)
        if temp:
            raise exc.UnsupportedOperationError("deltamark has no temporary tables; create a table, and drop it later")
        rows = None if obj is None else _expression(obj)
        if schema is not None:
            columns = ibis.schema(schema)
        elif rows is not None:
            columns = rows.schema()
        else:
            raise ValueError("neither rows nor a schema; give one of them")
        if columns.null_fields:
            raise exc.IbisTypeError(f"columns without a type: {', '.join(columns.null_fields)}; cast them")
        declared = util.gen_name("deltamark_table") if overwrite else name
        declarations = columns.to_sqlglot_column_defs(self.dialect)
        with self.con.transaction():
            self.raw_sql(sge.Create(kind="TABLE", this=sge.Schema(this=self._name(declared), expressions=declarations)))
            if rows is not None:
                self.insert(declared, rows)
            if overwrite:
                self.drop_table(name, force=True)
                self.rename_table(declared, name)
        return self.table(name)

    def _create_cached_table(self, name: str, expr: ir.Table) -> ir.Table:
        return self.create_table(name, expr, schema=expr.schema())

    def rename_table(self, old_name: str, new_name: str) -> None:
        """Give a table, which no view reads, another name."""
        self.raw_sql(AlterTable(this=self._name(old_name), actions=[RenameTable(this=self._name(new_name))]))

    def drop_table(self, name: str, /, *, database: tuple[str, str] | str | None = None, force: bool = False) -> None:
        """Drop a table, which no view reads. force: whether a table that does not exist is no error."""
        _refuse_other(database)
        self.raw_sql(f"DROP TABLE {'IF EXISTS ' * force}{quoted(name)}")

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Drop a view, which no other view reads. force: whether a view that does not exist is no error."""
        _refuse_other(database)
        self.raw_sql(f"DROP VIEW {'IF EXISTS ' * force}{quoted(name)}")

    def create_view(self, name: str, /, obj: ir.Table, *, database: str | None = None, overwrite: bool = False) -> Any:
        """Create a view that is maintained. obj: its query, over tables and views."""
        _refuse_other(database)
        if frames := obj.op().find(ops.InMemoryTable):
            names = ", ".join(each.name for each in frames)
            raise exc.UnsupportedOperationError(f"a view cannot read rows in memory: {names}; create a table of them")
        return super().create_view(name, obj, overwrite=overwrite)

    def insert(self, name: str, /, obj: Any, *, database: str | None = None, overwrite: bool = False) -> None:
        """Insert rows, a frame or an expression: by the names of their columns, or by place if these are others.

        overwrite: whether the rows before are deleted, in the same transaction.
        """
        _refuse_other(database)
        with self.con.transaction():
            rows = self._rows_for(name, obj)
            if overwrite:
                self.truncate_table(name)
            self.con.insert(name, rows)

    def upsert(self, name: str, /, obj: Any, on: str, *, database: str | None = None) -> None:
        """Update the rows that have the keys of some rows, and insert the others. on: the column of the key."""
        _refuse_other(database)
        self.con.upsert(name, self._rows_for(name, obj), key=on)

    def _rows_for(self, name: str, obj: Any) -> pa.Table:
        """Return rows with the names of a table's columns."""
        source = _expression(obj)
        names = tuple(self._get_columns_to_insert(target=name, source=source))
        op = source.op()
        rows = _in_memory(op) if isinstance(op, ops.InMemoryTable) else self._result(source).arrow()
        return rows.rename_columns(names) if len(names) == rows.num_columns else rows

    def read_parquet(self, path: Any, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Create a table with the rows of Parquet files. kwargs: options of DuckDB's `read_parquet`."""
        return self._read("read_parquet", path, table_name, kwargs)

    def read_csv(self, path: Any, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Create a table with the rows of CSV files. kwargs: options of DuckDB's `read_csv`."""
        return self._read("read_csv", path, table_name, kwargs)

    def read_json(self, path: Any, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Create a table with the rows of JSON files. kwargs: options of DuckDB's `read_json`."""
        return self._read("read_json", path, table_name, kwargs)

    def _read(self, function: str, path: Any, name: str | None, options: Mapping[str, Any]) -> ir.Table:
        given = [sg.to_identifier(key).eq(sge.convert(value)) for key, value in options.items()]
        rows = sg.select("*").from_(self.compiler.f[function](util.normalize_filenames(path), *given))
        declared = name or util.gen_name(function)
        self.raw_sql(sge.Create(kind="TABLE", this=self._name(declared), expression=rows, replace=True))
        return self.table(declared)

    @util.experimental  # type: ignore[untyped-decorator]
    def to_parquet(
        self, expr: ir.Table, /, path: Any, *, params: Mapping[ir.Scalar, Any] | None = None, **kwargs: Any
    ) -> None:
        """Write the rows of an expression to a file of Parquet. kwargs: options of DuckDB's COPY."""
        self._copy(expr, path, params, {"format": "parquet", **kwargs})

    @util.experimental  # type: ignore[untyped-decorator]
    def to_json(self, expr: ir.Table, /, path: Any, **kwargs: Any) -> None:
        """Write the rows of an expression to a file with an array of JSON. kwargs: options of DuckDB's COPY."""
        self._copy(expr, path, None, {"format": "json", "array": True, **kwargs})

    def _copy(self, expr: ir.Table, path: Any, params: Any, options: Mapping[str, Any]) -> None:
        self._run_pre_execute_hooks(expr)
        listed = ", ".join(f"{key} {_literal(value)}" for key, value in options.items())
        self.raw_sql(f"COPY ({self.compile(expr, params=params)}) TO {_literal(str(path))} ({listed})")

    def to_pyarrow(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the rows of an expression as a table of Arrow, a column as an array, and a value as a scalar."""
        table = self._result(expr, params=params, limit=limit, **kwargs).arrow()
        return expr.__pyarrow_result__(table, data_mapper=DuckDBPyArrowData)

    @util.experimental  # type: ignore[untyped-decorator]
    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **_: Any,
    ) -> pa.RecordBatchReader:
        """Return the rows of an expression as batches of Arrow. All are computed before the first one is read."""
        schema = expr.as_table().schema()
        table = DuckDBPyArrowData.convert_table(self._result(expr, params=params, limit=limit).arrow(), schema)
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=chunk_size))

    def execute(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the rows of an expression as a frame of pandas, a column as a series, and a value as a scalar."""
        table = self._result(expr, params=params, limit=limit, **kwargs).arrow()
        columns = {name: _pandas(column) for name, column in zip(table.column_names, table.columns, strict=True)}
        frame = DuckDBPandasData.convert_table(pd.DataFrame(columns), expr.as_table().schema())
        return expr.__pandas_result__(frame)

    def _result(self, expr: ir.Expr, **options: Any) -> Result:
        """Compute an expression."""
        self._run_pre_execute_hooks(expr)
        return self.raw_sql(self.compile(expr.as_table(), **options))

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self.con.register(op.name, _in_memory(op))

    def _make_memtable_finalizer(self, name: str) -> Callable[[], None]:
        con = self.con
        return lambda: con.unregister(name)

    def _load_example(self, *, path: Any, table_name: str) -> ir.Table:
        read = self.read_parquet if str(path).endswith(".parquet") else self.read_csv
        return read(path, table_name=table_name)

    def _name(self, name: str) -> sge.Table:
        return sge.Table(this=sg.to_identifier(name, quoted=self.compiler.quoted))


def _refuse_other(database: object) -> None:
    if database not in (None, (None, None)):
        raise exc.UnsupportedOperationError(f"deltamark has one database; omit database={database!r}")


def _in_memory(op: ops.InMemoryTable) -> pa.Table:
    try:
        dataset = op.data.to_pyarrow_dataset(op.schema)
    except AttributeError:
        return op.data.to_pyarrow(op.schema)
    return dataset.to_table()


def _expression(obj: Any) -> ir.Table:
    return obj.as_table() if isinstance(obj, ir.Expr) else ibis.memtable(obj)


def _literal(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(quoted(each) for each in value)})"
    text: str = sge.convert(value).sql(dialect="duckdb")
    return text


def _pandas(column: pa.ChunkedArray) -> Any:
    """Return values as ibis converts them: those that NumPy cannot have are objects of Python."""
    kind = column.type
    is_plain = not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or column.null_count)
    return column.to_pandas() if is_plain else column.to_pylist()
