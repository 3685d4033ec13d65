"""Files as a source: the rows of a benchmark in Parquet files, in an order of arrival, or as a stream of changes.

DuckDB puts the rows of a relation into the order of their arrival and gives columns the types in which they are
stored; the rest is the pre-batching that every source goes through. A text column without NULL and with few distinct
values becomes a column of codes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.schema import MAX_DIGITS, Column, ColumnKind, Relation, Relations
from deltamark.datagen.source import Parts, Source
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

MOST_CODES = 4096
"""The largest number of distinct values of a column of codes. Not tuned."""

INSERTS = ("insert", "update_postimage", "+i", "+u", "c", "r")
DELETES = ("delete", "update_preimage", "-d", "-u", "d")
UPDATES = ("update", "u")
"""The words of a column with the type of a change, in lower case. An update replaces the row with its key."""


FOOTER_BYTES = 1 << 16
"""The end of a file that tells it from another one of the same name, size and time. Not tuned."""

KINDS: Mapping[str, ColumnKind] = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"], "int"),
    **dict.fromkeys(["DOUBLE", "FLOAT"], "double"), "DATE": "date",
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"], "timestamp"),
    **dict.fromkeys(["VARCHAR", "ENUM"], "text"),
}  # fmt: skip
"""The kinds of columns by the types of DuckDB."""

MOST_EQUAL = 1_000_000
"""The largest number of equal rows that arrive or leave by one change."""

RESERVED = (
    "_place_",
    "_diff_",
    "_arrival_",
    "_round_",
    "_sign_",
    "_turn_",
    "_row_",
    "_comes_",
    "_came_",
    "_goes_",
    "_went_",
)
"""Names of columns that the ordering of rows gives, and that a relation must not have."""


@dataclass(frozen=True)
class RelationSource:
    """The files of a relation.

    arrives: the column by whose values rows arrive: rows with equal values arrive in one round; without it, row i
    arrives in round i. change: the column with the type of each change. weight: the column with 1 or -1, or with other
    numbers of equal rows. Neither column of changes is a column of the relation.
    """

    relation: Relation
    files: tuple[Path, ...]
    arrives: str = ""
    change: str = ""
    weight: str = ""

    @property
    def comes_with_changes(self) -> bool:
        return bool(self.arrives or self.change or self.weight)


@cache
def _end(path: Path, size: int, mtime_ns: int) -> bytes:  # noqa: ARG001 (a newer file is read again)
    """Return a digest of the end of a file, whose footer has bounds of the columns. Files may have a fixed time."""
    with path.open("rb") as file:
        file.seek(max(size - FOOTER_BYTES, 0))
        return hashlib.blake2b(file.read()).digest()


def column_of(name: str, type_: str, *, nullable: bool) -> Column | str:
    """Return the column that stores values of a type of DuckDB, or the reason why none does."""
    word, _, arguments = type_.partition("(")
    if word == "DECIMAL":
        digits, scale = (int(number) for number in arguments.rstrip(")").split(","))
        if digits > MAX_DIGITS:
            return f"a decimal of {digits} digits; write it with at most {MAX_DIGITS}"
        return Column(name, "decimal", digits, scale, nullable)
    if word in KINDS:
        return Column(name, KINDS[word], nullable=nullable)
    return f"{type_}; write it as a number, a date, a timestamp of microseconds or a text"


class FileSource(Source):
    """Parquet files below a folder."""

    scaled = False

    def __init__(self, name: str, sources: Sequence[RelationSource]) -> None:
        self.name = name
        self._sources = {each.relation.name: each for each in sources}
        self.relations = Relations(each.relation for each in sources)
        self.has_changes = any(each.change or each.weight for each in sources)

    def version(self) -> str:
        """Return a digest of the description and of the names, sizes, times and footers of the files."""
        digest = hashlib.blake2b(digest_size=8)
        for each in self._sources.values():
            digest.update(repr((each.relation, each.arrives, each.change, each.weight)).encode())
            for path in each.files:
                stat = path.stat()
                digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns} ".encode())
                digest.update(_end(path, stat.st_size, stat.st_mtime_ns))
        return f"files-{digest.hexdigest()}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        del spark, sf  # the files have one scale
        import duckdb  # noqa: PLC0415 (it takes a while to load)

        folder = making / "parquet-files"
        folder.mkdir(exist_ok=True)
        with closing(duckdb.connect(str(folder / f"{os.getpid()}.duckdb"))) as connection:
            return _Ordering(connection, self._sources, folder).parts(report)


class _Ordering:
    """Writes the rows of relations in the order of their arrival, and their changes by rounds."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, sources: Mapping[str, RelationSource], folder: Path
    ) -> None:
        self._connection, self._sources, self._folder = connection, sources, folder

    def parts(self, report: Callable[[int, int], None]) -> Parts:
        relations, files, changes = [], {}, {}
        has_changes = any(each.comes_with_changes for each in self._sources.values())
        for done, each in enumerate(self._sources.values()):
            report(done, len(self._sources))
            self._read(each)
        if has_changes:
            self._number_rounds()
        for each in self._sources.values():
            self._match(each)
        owned = {name: self._owned(self._sources[name].relation) for name in sorted(self._sources, key=self._depth)}
        for name, each in self._sources.items():
            relations.append(self._with_codes(owned[name]))
            files[each.relation.name] = [self._write(relations[-1])]
            if has_changes:
                changes[each.relation.name] = self._write_changes(each)
        report(len(self._sources), len(self._sources))
        return Parts(Relations(relations), files, changes)

    def _read(self, source: RelationSource) -> None:
        """Create the table of the changes of a relation, in the order of the files."""
        name = source.relation.name
        arrival = _quoted(source.arrives) if source.arrives else "NULL"
        columns = f"row_number() OVER () - 1 AS _place_, {_diff(source)} AS _diff_, {arrival} AS _arrival_"
        self._connection.execute(f"""
            CREATE TABLE {_quoted("read " + name)} AS SELECT {columns}, {_columns(source.relation)}
            FROM {read(source.files)}
        """)
        if row := self._first(
            name, f"_diff_ IS NULL OR _diff_ NOT BETWEEN -{MOST_EQUAL} AND {MOST_EQUAL} OR _diff_ = 0"
        ):
            words = f"one of {', '.join((*INSERTS, *DELETES, *UPDATES))}"
            remedy = f"write {words if source.change else f'a number up to {MOST_EQUAL:,} other than 0'}"
            raise DeltamarkError(f"not a change in {name}.{source.change or source.weight}", row, remedy)
        for column in [*source.relation.key, *filter(None, [source.arrives])]:
            stored = "_arrival_" if column == source.arrives else _quoted(column)
            if row := self._first(name, f"{stored} IS NULL"):
                use = "key" if column in source.relation.key else "arrives"
                raise DeltamarkError(f"NULL in {name}.{column}", row, f"correct the rows, or {use} in the description")

    def _first(self, name: str, condition: str) -> str:
        """Name the first row of a relation for which a condition holds; return nothing if there is none."""
        found = self._connection.execute(
            f"SELECT _place_ FROM {_quoted('read ' + name)} WHERE {condition} ORDER BY _place_ LIMIT 1"
        ).fetchone()
        return f"row {found[0]} of its files" if found else ""

    def _depth(self, name: str) -> int:
        """Return the number of relations to whose rows the rows of a relation belong, directly or not."""
        owner = self._sources[name].relation.member_of
        return 1 + self._depth(owner) if owner else 0

    def _number_rounds(self) -> None:
        """Create the table of the rounds of arrivals, which all relations share."""
        arriving = {each.relation.name: each.arrives for each in self._sources.values() if each.arrives}
        types = {name: self._arrival_type(name) for name in arriving}
        if len({*types.values()}) > 1:
            listed = ", ".join(f"{name}.{arriving[name]} {type_}" for name, type_ in types.items())
            raise DeltamarkError("columns of arrival with different types", listed, "convert them to one type")
        union = " UNION ".join(f"SELECT DISTINCT _arrival_ FROM {_quoted('read ' + name)}" for name in arriving)
        self._connection.execute(
            "CREATE TABLE rounds AS SELECT _arrival_, row_number() OVER (ORDER BY _arrival_) - 1 AS _round_ "
            f"FROM ({union or 'SELECT NULL AS _arrival_ WHERE FALSE'})"
        )

    def _arrival_type(self, name: str) -> str:
        """Return the type of the arrival of a relation. Numbers of all sizes have one type."""
        ((type_,),) = self._connection.execute(
            f"SELECT column_type FROM (DESCRIBE {_quoted('read ' + name)}) WHERE column_name = '_arrival_'"
        ).fetchall()
        column = column_of(name, type_, nullable=False)
        return type_ if isinstance(column, str) else column.kind

    def _match(self, source: RelationSource) -> None:
        """Create the table of the rows of a relation: when each arrives and leaves, and its columns.

        A deletion ends the row with its key, or without a key the oldest row that is equal but for its arrival.
        """
        relation, read = source.relation, _quoted("read " + source.relation.name)
        names = [column.name for column in relation.columns]
        same = ", ".join(map(_quoted, relation.key or [name for name in names if name != source.arrives] or names))
        round_ = "rounds._round_" if source.arrives else "read._place_"
        joined = "JOIN rounds USING (_arrival_)" if source.arrives else ""
        each = f"""
            SELECT read.* EXCLUDE (_diff_), {round_} AS _round_, sign(_sign_) AS _sign_
            FROM {read} AS read {joined}, LATERAL (SELECT unnest({_signs(source)}) AS _sign_)"""
        self._connection.execute(f"""
            CREATE TABLE {_quoted("all " + relation.name)} AS
            SELECT *, row_number() OVER (PARTITION BY {same}, _sign_ ORDER BY _round_, _place_) AS _turn_ FROM ({each})
        """)
        equal = " AND ".join(f"i.{name} IS NOT DISTINCT FROM d.{name}" for name in [*same.split(", "), "_turn_"])
        every = _quoted("all " + relation.name)
        wrong = self._connection.execute(f"""
            SELECT d._place_ FROM (SELECT * FROM {every} WHERE _sign_ < 0) AS d
            LEFT JOIN (SELECT * FROM {every} WHERE _sign_ > 0) AS i ON {equal}
            WHERE i._place_ IS NULL OR (i._round_, i._place_) >= (d._round_, d._place_) ORDER BY d._place_ LIMIT 1
        """).fetchone()
        remedy = "correct the changes, or the key in the description"
        if wrong:
            raise DeltamarkError(f"a deletion of no row of {relation.name}", f"row {wrong[0]} of its files", remedy)
        twice = (
            relation.key
            and self._connection.execute(f"""
            SELECT i._place_ FROM (SELECT * FROM {every} WHERE _sign_ > 0 AND _turn_ > 1) AS i
            LEFT JOIN (SELECT * REPLACE (_turn_ + 1 AS _turn_) FROM {every} WHERE _sign_ < 0) AS d ON {equal}
            WHERE d._place_ IS NULL OR (d._round_, d._place_) > (i._round_, i._place_) ORDER BY i._place_ LIMIT 1
        """).fetchone()
        )
        if twice:
            raise DeltamarkError(f"a key of {relation.name} is live twice", f"row {twice[0]} of its files", remedy)
        columns = ", ".join(f"i.{_quoted(column.name)}" for column in relation.columns)
        self._connection.execute(f"""
            CREATE TABLE {_quoted(relation.name)} AS
            SELECT row_number() OVER (ORDER BY i._round_, i._place_) - 1 AS _row_,
                   i._round_ AS _comes_, i._place_ AS _came_, d._round_ AS _goes_, d._place_ AS _went_, {columns}
            FROM (SELECT * FROM {every} WHERE _sign_ > 0) AS i
            LEFT JOIN (SELECT * FROM {every} WHERE _sign_ < 0) AS d ON {equal}
        """)

    def _owned(self, relation: Relation) -> Relation:
        """Put members into the order of the rows to which they belong, if these have one version each."""
        if not relation.member_of:
            return relation
        owner, columns = relation.member_of, relation.reference_to(relation.member_of).split()
        key = [_quoted(name) for name in self._sources[owner].relation.key]
        rows, keys = self._connection.execute(
            f"SELECT count(*), count(DISTINCT ({', '.join(key)})) FROM {_quoted(owner)}"
        ).fetchone() or (0, 0)
        if rows != keys:
            return replace(relation, member_of="")
        equal = " AND ".join(f"m.{_quoted(column)} = o.{name}" for column, name in zip(columns, key, strict=True))
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE {_quoted(relation.name)} AS
            SELECT m.* REPLACE (row_number() OVER (ORDER BY o._row_, m._row_) - 1 AS _row_)
            FROM {_quoted(relation.name)} AS m LEFT JOIN {_quoted(owner)} AS o ON {equal}
        """)
        return relation

    def _with_codes(self, relation: Relation) -> Relation:
        """Make codes of texts with few distinct values."""

        def stored(column: Column) -> Column:
            if column.kind != "text" or column.nullable:
                return column
            name = _quoted(column.name)
            (count,) = self._connection.execute(
                f"SELECT count(DISTINCT {name}) FROM {_quoted(relation.name)}"
            ).fetchone() or (0,)
            return replace(column, kind="code") if 1 <= count <= MOST_CODES else column

        return replace(relation, columns=tuple(map(stored, relation.columns)))

    def _write(self, relation: Relation) -> Path:
        path = self._folder / f"{relation.name}.parquet"
        names = ", ".join(f"{_quoted(c.name)} AS {_quoted(relation.prefix + c.name)}" for c in relation.columns)
        self._copy(f"SELECT {names} FROM {_quoted(relation.name)} ORDER BY _row_", path)
        return path

    def _write_changes(self, source: RelationSource) -> Path:
        name = _quoted(source.relation.name)
        path = self._folder / f"changes of {source.relation.name}.parquet"
        self._copy(
            f"SELECT _row_ AS row, 1::BIGINT AS diff, _comes_ AS round, _came_ AS place FROM {name} "
            f"UNION ALL SELECT _row_, -1::BIGINT, _goes_, _went_ FROM {name} WHERE _goes_ IS NOT NULL "
            "ORDER BY round, place, diff, row",
            path,
        )
        return path

    def _copy(self, query: str, path: Path) -> None:
        self._connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet)")


def _columns(relation: Relation) -> str:
    """Return the columns of a relation in the types that pre-batching expects, without the prefix."""
    types = {
        "int": "BIGINT", "double": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP", "code": "VARCHAR",
        "text": "VARCHAR",
    }  # fmt: skip

    def converted(column: Column) -> str:
        type_ = f"DECIMAL({column.digits}, {column.scale})" if column.kind == "decimal" else types[column.kind]
        return f"{_quoted(relation.prefix + column.name)}::{type_} AS {_quoted(column.name)}"

    return ", ".join(map(converted, relation.columns))


def _diff(source: RelationSource) -> str:
    """Return the SQL of a change's weight; an update has 2."""
    if source.change:
        words = ((INSERTS, 1), (DELETES, -1), (UPDATES, 2))
        cases = " ".join(f"WHEN lower({_quoted(source.change)}) IN {each} THEN {diff}" for each, diff in words)
        return f"CASE {cases} END"
    return f"{_quoted(source.weight)}::BIGINT" if source.weight else "1"


def _signs(source: RelationSource) -> str:
    """Return the SQL of the list of the deletions and insertions of which a change consists."""
    if source.change:
        return "CASE _diff_ WHEN 2 THEN [-1, 1] ELSE [_diff_] END"
    return "[sign(_diff_) FOR each IN range(abs(_diff_))]"


def read(files: Sequence[Path]) -> str:
    """Return the SQL of the rows of Parquet files, with the columns of all of them in their widest types."""
    listed = ", ".join(literal(str(path)) for path in files)
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
