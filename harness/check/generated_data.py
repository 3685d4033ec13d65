"""A check of the stored data: every row equals the generator's. DuckDB compares them, without our storage code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Column, Relation
from deltamark.datagen.scratch import scratch
from deltamark.datagen.tpch import find_generator
from deltamark.errors import DeltamarkError

SQL_TEXTS = {
    "int": "{0}::VARCHAR",
    "decimal": "printf('%s%d.%02d', CASE WHEN {0} < 0 THEN '-' ELSE '' END, abs({0}) // 100, abs({0}) % 100)",
    "date": "(DATE '1970-01-01' + {0})::VARCHAR",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}
"""The SQL that writes a stored column as the generator's text, for each kind of column."""


def check_source(dataset: Dataset, report: Callable[[str, int, int], None]) -> None:
    """Generate all rows again, as one part and without Spark; raise a DeltamarkError for the first difference."""
    with scratch() as directory:
        report("generating the rows again", 0, 0)
        command = [find_generator(), "parquet", "-s", dataset.manifest.sf, "-o", str(directory), "--quiet"]
        subprocess.run(command, check=True)
        total = sum(files.rows for files in dataset.manifest.relations.values())
        done = 0
        for relation in dataset.relations.values():
            _compare(dataset, relation, directory / f"{relation.name}.parquet")
            report("comparing rows", done := done + dataset.rows(relation.name), total)


def _compare(dataset: Dataset, relation: Relation, parquet: Path) -> None:
    theirs = [f"{relation.prefix}{column.name}::VARCHAR" for column in relation.columns]
    ours = [_as_text(column) for column in relation.columns]
    with duckdb.connect() as connection:
        connection.register("stored", dataset.table(relation.name))
        made = _digests(connection, theirs, f"read_parquet('{parquet}')")
        stored = _digests(connection, ours, "stored")
        rows = min(len(made), len(stored))
        differs = np.flatnonzero(made[:rows] != stored[:rows])
        if len(made) == len(stored) and not len(differs):
            return
        row = int(differs[0]) if len(differs) else rows
        actual = f"row {row} is {_row(connection, ours, 'stored', row)}"
        made_row = _row(connection, theirs, f"read_parquet('{parquet}')", row)
        raise DeltamarkError(f"{relation.name} differs from the generator", actual, f"it makes {made_row}")


def _as_text(column: Column) -> str:
    return SQL_TEXTS[column.kind].format(f'"{column.name}"')


def _digests(connection: duckdb.DuckDBPyConnection, columns: list[str], source: str) -> np.ndarray:
    sql = f"SELECT md5_number_lower(concat_ws('|', {', '.join(columns)})) AS digest FROM {source}"  # noqa: S608
    digests: np.ndarray = connection.execute(sql).fetchnumpy()["digest"]
    return digests


def _row(connection: duckdb.DuckDBPyConnection, columns: list[str], source: str, row: int) -> str:
    sql = f"SELECT concat_ws('|', {', '.join(columns)}) FROM {source} LIMIT 1 OFFSET {row}"  # noqa: S608
    found = connection.execute(sql).fetchone()
    return found[0] if found else "absent"
