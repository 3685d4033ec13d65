"""Change feeds are converted to rows with weights, and a query over them follows their tables."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest
from support.engines.spark_queries import run
from support.manual import code

from deltamark.errors import DeltamarkError
from deltamark.harness.engines.spark_feed import SESSIONS
from deltamark.spark import from_change_types, from_debezium, from_keyed_values, from_upserts, maintain

pytestmark = pytest.mark.waits(6)


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


EVENTS = "op string, before struct<id: int, `a.b`: string>, after struct<id: int, `a.b`: string>"


def test_events_of_debezium_are_old_and_new_rows(spark):
    events = [
        ("r", None, (1, "a")), ("c", None, (2, None)), ("u", (1, "a"), (1, "b")), ("d", (2, None), None),
        (None, None, None),
    ]  # fmt: skip
    changes = from_debezium(spark.createDataFrame(events, EVENTS))
    assert changes.columns == ["id", "a.b", "diff"]
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
    "orders": "id long, shop int, product int, price decimal(6, 2), _change_type string, _commit_version long",
    "shops": "op string, before struct<shop: int, city: string>, after struct<shop: int, city: string>, offset long",
    "products": "product int, value struct<name: string>, offset long",
    "rates": "city string, rate int, changed timestamp, gone boolean",
}
TEXT = """
SELECT city, name, rate, count(*) AS orders, sum(price) AS revenue
FROM orders JOIN shops USING (shop) JOIN products USING (product) LEFT JOIN rates USING (city)
GROUP BY city, name, rate
"""
FIRST = {
    "orders": [
        (1, 7, 3, 2.5, "insert", 1), (2, 7, 4, 1.25, "insert", 1), (3, 7, 5, 9, "insert", 1), (4, 9, 3, 1, "insert", 1),
        (2**53 + 1, 8, 3, 4, "insert", 1),
    ],
    "shops": [
        ("r", None, {"shop": 7, "city": "Ulm"}, 0), ("r", None, {"shop": 8, "city": "Bonn"}, 1),
        ("r", None, {"shop": 9, "city": "Rom"}, 2),
    ],
    "products": [(3, {"name": "lamp"}, 0), (4, {"name": "rug"}, 1), (5, {"name": "mat"}, 2)],
    "rates": [
        ("Ulm", None, "2025-01-02T00:00:00", False), ("Ulm", 1, "2025-01-01T00:00:00", False),
        ("Köln", 9, "2025-01-01T00:00:00", False),
    ],
}  # fmt: skip
SECOND = {
    "orders": [(1, 7, 3, 2.5, "update_preimage", 2), (1, 8, 3, 3.5, "update_postimage", 2)],
    "shops": [
        ("u", None, {"shop": 8, "city": "Köln"}, 3), ("r", None, {"shop": 8, "city": "Bonn"}, 1),
        ("d", {"shop": 9, "city": None}, None, 5),
    ],
    "products": [(3, {"name": "light"}, 4), (3, {"name": "old"}, 3), (5, None, 5)],
    "rates": [("Köln", 9, "2025-01-03T00:00:00", True), ("Ulm", 1, "2025-01-01T00:00:00", False)],
}  # fmt: skip
"""The events of two micro-batches. The second one has a message again, and rows older than the present ones."""


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
            "shops": from_debezium(self.read["shops"], key="shop", order="offset", shards=2),
            "products": from_keyed_values(self.read["products"], key="product", shards=2),
            "rates": from_upserts(self.read["rates"], key="city", order="changed", deleted="gone", shards=2),
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
        ("Ulm", "lamp", None, 1, Decimal("2.50")): 1, ("Ulm", "rug", None, 1, Decimal("1.25")): 1,
        ("Ulm", "mat", None, 1, Decimal("9.00")): 1, ("Rom", "lamp", None, 1, Decimal("1.00")): 1,
        ("Bonn", "lamp", None, 1, Decimal("4.00")): 1,
    }  # fmt: skip
    feeds.arrive(SECOND)
    assert feeds.answer() == {
        ("Köln", "light", None, 2, Decimal("7.50")): 1, ("Ulm", "rug", None, 1, Decimal("1.25")): 1
    }  # fmt: skip


def test_the_example_of_the_manual_is_a_query(feeds, spark):
    (block,) = [each for each in code("python", "docs/spark.md") if "merge_into(" in each]
    names = {"spark": spark, "orders": feeds.read["orders"], "shops": feeds.read["shops"]}
    exec(block.replace("target.start()", "target"), names)
    assert names["changes"].columns == ["time", "diff", "city", "revenue"]
