"""The surface of SQL, by files of statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.database.statement_files import check, records

from deltamark import connect

FILES = sorted((Path(__file__).parent / "statements").glob("*.test"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_statements_have_their_rows_and_errors(file):
    with connect() as connection:
        for record in records(file):
            try:
                check(connection, record)
            except BaseException as error:
                error.add_note(f"{file.name}, line {record.line}: {record.text}")
                raise
