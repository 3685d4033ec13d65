"""Change feeds are converted to rows with weights, and a query over them follows their tables."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest
from support.engines.spark_queries import run
from support.manual import code

from deltamark.dataflow.spark.upserts import DELETED, ORDER
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.spark_feed import SESSIONS
from deltamark.spark import from_change_types, from_debezium, from_keyed_values, from_upserts, maintain

pytestmark = pytest.mark.waits(1)


@pytest.fixture
def spark():
    return SESSIONS.on("local[2]")


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_change_types_are_weights(spark):
    types = ["insert", "update_preimage", "update_postimage", "delete", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER"]
    frame = spark.createDataFrame([(n, each, 5) for n, each in enumerate(types)], "n int, _change_type string, x int")
    changes = from_change_types(frame.withColumnRenamed("x", "_commit_version"))
    assert changes.columns == ["n", "diff"]
    assert rows(changes) == [(0, 1), (1, -1), (2, 1), (3, -1), (4, 1), (5, -1), (6, 1)]
    unknown = from_change_types(spark.createDataFrame([("merge",)], "_change_type string"))
    with pytest.raises(Exception, match="an unknown change type: merge; known are insert"):
        unknown.collect()


EVENTS = "op string, before struct<product: int, name: string>, after struct<product: int, name: string>"


def test_events_of_debezium_are_old_and_new_rows(spark):
    events = [
        ("r", None, (1, "a")), ("c", None, (2, None)), ("u", (1, "a"), (1, "b")), ("d", (2, None), None),
        (None, None, None),
    ]  # fmt: skip
    changes = from_debezium(spark.createDataFrame(events, EVENTS))
    assert changes.columns == ["product", "name", "diff"]
    assert Counter(tuple(row) for row in changes.collect()) == Counter(
        [(1, "a", 1), (2, None, 1), (1, "a", -1), (1, "b", 1), (2, None, -1)]
    )


@pytest.mark.parametrize(("event", "message"), [
    (("u", None, (1, "a")), "an event without before: u; publish whole old rows"),
    (("t", None, None), "an unknown operation of Debezium: t; known are c, r, u and d"),
])  # fmt: skip
def test_events_without_rows_are_refused(spark, event, message):
    with pytest.raises(Exception, match=message):
        from_debezium(spark.createDataFrame([event], EVENTS)).collect()


@pytest.fixture
def upserts(monkeypatch):
    """Let the conversions return the rows that they give to the stateful operator."""
    monkeypatch.setattr("deltamark.dataflow.spark.feeds.changes_by_key", lambda rows, *_: rows)


@pytest.mark.usefixtures("upserts")
def test_events_of_debezium_are_upserts_by_key(spark):
    events = [("u", None, (1, "b"), 5), ("c", None, (2, None), 3), ("d", (1, "b"), None, 6), (None, None, None, 7)]
    frame = spark.createDataFrame(events, f"{EVENTS}, offset long")
    changes = from_debezium(frame, key="product", order="offset")
    assert changes.columns == ["product", "name", ORDER, DELETED]
    assert Counter(tuple(row) for row in changes.collect()) == Counter(
        [(1, "b", 5, False), (1, None, 6, True), (2, None, 3, False)]
    )
    with pytest.raises(Exception, match="an event without a row, or of an unknown operation: u; known are"):
        from_debezium(spark.createDataFrame([("u", (1, "a"), None)], EVENTS), key="product").collect()


@pytest.mark.usefixtures("upserts")
def test_tombstones_delete_keys(spark):
    messages = [(1, 7, ("a", 9), 0), (1, 7, None, 1), (2, None, (None, 8), 2)]
    frame = spark.createDataFrame(messages, "part int, `a.b` int, value struct<name: string, `a.b`: int>, offset long")
    changes = from_keyed_values(frame, key=["part", "a.b"])
    assert changes.columns == ["part", "a.b", "name", ORDER, DELETED]
    assert Counter(tuple(row) for row in changes.collect()) == Counter(
        [(1, 7, "a", 0, False), (1, 7, None, 1, True), (2, None, None, 2, False)]
    )


@pytest.mark.usefixtures("upserts")
def test_marked_rows_delete_keys(spark):
    frame = spark.createDataFrame(
        [(1, "a", None), (2, "b", True), (3, "c", False)], "id int, name string, gone boolean"
    )
    changes = from_upserts(frame, key="id", order="name", deleted="gone")
    assert changes.columns == ["id", "name", ORDER, DELETED]
    assert rows(changes) == [(1, "a", "a", False), (2, None, "b", True), (3, "c", "c", False)]
    assert rows(from_upserts(frame.drop("gone"), key="id"))[0] == (1, "a", False)


def test_feeds_that_cannot_be_converted_are_refused(spark):
    frame = spark.createDataFrame([], "id int, diff int, value string, _change_type string")
    with pytest.raises(DeltamarkError, match="a column has the name of the weights: diff"):
        from_change_types(frame)
    with pytest.raises(DeltamarkError, match="unknown column of the feed: op"):
        from_debezium(frame)
    with pytest.raises(DeltamarkError, match="not a struct: value is string"):
        from_keyed_values(frame, key="id", order=None)
    with pytest.raises(DeltamarkError, match="not a streaming frame"):
        from_upserts(frame.drop("diff"), key="id")
    with pytest.raises(DeltamarkError, match="upserts without a key"):
        from_upserts(frame.drop("diff"), key=())
    with pytest.raises(DeltamarkError, match="unknown field of after: number"):
        from_debezium(spark.createDataFrame([], EVENTS), key="number")


SCHEMAS = {
    "orders": "id long, product int, price decimal(6, 2), _change_type string, _commit_version long",
    "stocks": "product int, value struct<stock: long>, sent timestamp",
}
TEXT = """
SELECT product, stock, count(*) AS orders, sum(price) AS revenue
FROM orders JOIN stocks USING (product) GROUP BY product, stock
"""
MANY = 2**53 + 1
"""A number that a double does not have."""

FIRST = {
    "orders": [
        (1, 3, 2.5, "insert", 1), (2, 4, 1.25, "insert", 1), (3, 5, 9, "insert", 1), (4, 6, 1, "insert", 1),
        (5, 3, 4, "insert", 1),
    ],
    "stocks": [
        (3, {"stock": 10}, "2025-01-01T00:00:00"), (4, {"stock": MANY}, "2025-01-01T00:00:00"),
        (5, {"stock": 12}, "2025-01-01T00:00:00"), (6, {"stock": None}, "2025-01-01T00:00:00"),
    ],
}  # fmt: skip
SECOND = {
    "orders": [(1, 3, 2.5, "update_preimage", 2), (1, 4, 3.5, "update_postimage", 2)],
    "stocks": [
        (3, {"stock": 20}, "2025-01-01T00:00:00.000003"), (3, {"stock": 19}, "2025-01-01T00:00:00.000002"),
        (4, {"stock": 0}, "2024-12-31T00:00:00"), (5, None, "2025-01-02T00:00:00"),
    ],
}  # fmt: skip
"""The events of two micro-batches. The second one has rows that are older than the present ones."""


class Feeds:
    """Directories of JSON files."""

    def __init__(self, directory, spark):
        self.directory, self.spark, self.read = directory, spark, {}
        for name, schema in SCHEMAS.items():
            (directory / name).mkdir()
            self.read[name] = spark.readStream.schema(schema).json(str(directory / name))

    def arrive(self, events):
        for name, listed in events.items():
            lines = [json.dumps(dict(zip(self.read[name].columns, each, strict=True))) for each in listed]
            folder = self.directory / name
            (folder / f"{len(list(folder.iterdir()))}.json").write_text("\n".join(lines))

    def answer(self):
        """Run the query until it has read all files; return the rows of the answer."""
        frames = {
            "orders": from_change_types(self.read["orders"]),
            "stocks": from_keyed_values(self.read["stocks"], key="product", order="sent", shards=2),
        }
        changes = maintain(self.spark, TEXT, frames, shards=2, weight="diff")
        target = changes.writeStream.format("parquet").option("path", str(self.directory / "changes"))
        run(target.option("checkpointLocation", str(self.directory / "state")).trigger(availableNow=True))
        total = Counter()
        for row in self.spark.read.parquet(str(self.directory / "changes")).collect():
            total[tuple(row[2:])] += row["diff"]
        return {row: weight for row, weight in total.items() if weight}


@pytest.fixture
def feeds(tmp_path, spark):
    return Feeds(tmp_path, spark)


def test_a_query_over_feeds_follows_their_tables(feeds):
    feeds.arrive(FIRST)
    assert feeds.answer() == {
        (3, 10, 2, Decimal("6.50")): 1, (4, MANY, 1, Decimal("1.25")): 1,
        (5, 12, 1, Decimal("9.00")): 1, (6, None, 1, Decimal("1.00")): 1,
    }  # fmt: skip
    feeds.arrive(SECOND)
    assert feeds.answer() == {
        (3, 20, 1, Decimal("4.00")): 1, (4, MANY, 2, Decimal("4.75")): 1, (6, None, 1, Decimal("1.00")): 1,
    }  # fmt: skip


def test_names_may_have_dots(spark, tmp_path):
    frame = spark.readStream.schema("`a.b` int, c int").json(str(tmp_path))
    assert from_upserts(frame, key="a.b").columns == ["a.b", "c", "diff"]


def test_the_example_of_the_manual_is_a_query(feeds, spark, tmp_path):
    (block,) = [each for each in code("python", "docs/spark.md") if "merge_into(" in each]
    products = spark.readStream.schema(f"{EVENTS}, offset long").json(str(tmp_path))
    names = {"spark": spark, "orders": feeds.read["orders"], "products": products}
    exec(block.replace(".start()", ""), names)
    assert names["changes"].columns == ["time", "diff", "product", "name", "revenue"]
