"""Each micro-batch is one MERGE of the rows that changed. `tests/examples/test_lakehouse.py` runs it on Delta."""

from __future__ import annotations

from decimal import Decimal

import pytest

from deltamark.dataflow.spark.answer_table import CHANGES, for_each_query, merge_into
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.spark_feed import SESSIONS

pytestmark = pytest.mark.waits(1)

SCHEMA = "time bigint, diff bigint, city string, revenue decimal(6, 2)"


@pytest.fixture
def spark():
    return SESSIONS.on("local[2]")


@pytest.fixture
def statements(spark, monkeypatch):
    """Return the statements that are run, each with the rows that it merges."""
    found = []

    def record(session, text):
        merged = session.table(CHANGES).collect() if "MERGE" in text else []
        found.append((" ".join(text.split()), {tuple(row) for row in merged}))

    monkeypatch.setattr(type(spark), "sql", record)
    return found


def changes(spark, *rows):
    listed = [(4, diff, city, Decimal(revenue)) for diff, city, revenue in rows]
    return spark.createDataFrame(listed, SCHEMA)


def test_a_key_has_its_newest_row_or_none(spark, statements):
    merge = merge_into("answers", key="city")
    merge(changes(spark, (-1, "Ulm", 5), (1, "Ulm", 7), (-1, "Bonn", 3), (1, None, 1), (1, "x", 2), (-1, "x", 2)), 3)
    ((text, rows),) = statements
    assert rows == {("Ulm", 7, 1), ("Bonn", 3, 0), (None, 1, 1)}
    assert text.startswith("MERGE INTO answers AS old USING changes_of_the_answer AS new ON old.`city` <=> new.`city` ")


def test_rows_without_a_key_have_a_number_of_copies(spark, statements):
    merge_into("answers")(changes(spark, (-1, "Ulm", 5), (1, "Ulm", 7), (1, "Ulm", 7), (2, "x", 1), (-2, "x", 1)), 3)
    ((text, rows),) = statements
    assert rows == {("Ulm", 5, -1, 3), ("Ulm", 7, 2, 3)}
    assert "WHEN MATCHED AND old.batch < new.batch AND old.copies + new.copies = 0 THEN DELETE" in text


def test_the_first_micro_batch_creates_the_table(spark, statements):
    none = changes(spark)
    merge_into("answers", key="city", using="iceberg")(none, 0)
    merge_into("answers")(none, 0)
    merge_into("answers")(none, 1)
    columns = "`city` string, `revenue` decimal(6,2)"
    assert [text for text, _ in statements] == [
        f"CREATE TABLE IF NOT EXISTS answers ({columns}) USING iceberg",
        f"CREATE TABLE IF NOT EXISTS answers ({columns}, copies bigint, batch bigint) USING delta",
    ]


@pytest.mark.usefixtures("statements")
def test_columns_that_are_no_key_are_refused(spark):
    with pytest.raises(Exception, match="not a key of the answer: city; give columns"):
        merge_into("answers", key="city")(changes(spark, (1, "Ulm", 7), (1, "Ulm", 8)), 3)
    with pytest.raises(DeltamarkError, match="unknown column of the answer: town"):
        merge_into("answers", key="town")(changes(spark), 0)
    with pytest.raises(DeltamarkError, match="a column that the table needs: copies"):
        merge_into("answers")(changes(spark).withColumnRenamed("city", "copies"), 0)


def test_a_frame_that_the_caller_has_cached_stays_cached(spark, statements):
    rows = changes(spark, (1, "Ulm", 7)).persist()
    merge_into("answers", key="city")(rows, 3)
    assert rows.is_cached
    rows.unpersist()
    merge_into("others", key="city")(rows, 3)
    assert not rows.is_cached
    assert len(statements) == 2


def test_each_of_several_queries_gets_its_own_changes_of_a_cached_frame(spark):
    schema = "query string, time bigint, diff bigint, sold struct<city:string, revenue:int>, `se.en` struct<visits:int>"
    rows = spark.createDataFrame([("sold", 4, 1, ("Ulm", 5), None), ("se.en", 4, -1, None, (3,))], schema)
    found = {}

    def record(name):
        def keep(own, batch):
            found[name] = batch, own.columns, [tuple(row) for row in own.collect()], rows.is_cached

        return keep

    for_each_query({name: record(name) for name in ("sold", "se.en")})(rows, 3)
    assert found == {
        "sold": (3, ["time", "diff", "city", "revenue"], [(4, 1, "Ulm", 5)], True),
        "se.en": (3, ["time", "diff", "visits"], [(4, -1, 3)], True),
    }
    assert not rows.is_cached


def test_queries_and_functions_must_have_the_same_names(spark):
    schema = "query string, time bigint, diff bigint, sold struct<city:string>, seen struct<visits:int>"
    rows = spark.createDataFrame([], schema)
    with pytest.raises(DeltamarkError, match="a query without a function: seen"):
        for_each_query({"sold": merge_into("sold")})(rows, 3)
    with pytest.raises(DeltamarkError, match="unknown column of the changes of several queries: lost"):
        for_each_query({"lost": merge_into("lost")})(rows, 3)
    with pytest.raises(DeltamarkError, match="unknown column of the changes of several queries: query"):
        for_each_query({})(changes(spark), 3)
