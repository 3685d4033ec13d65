"""Change feeds are converted to rows with weights, and a query over them follows their tables."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest
from support.engines.spark_queries import run

from deltamark.dataflow.spark.query import explained
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


@pytest.mark.parametrize("event, message", [
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


class Feeds:
    """Directories of JSON files, which arrive together."""

    def __init__(self, directory, spark):
        self.directory, self.spark, self.files = directory, spark, 0
        for name in SCHEMAS:
            (directory / name).mkdir()

    def arrive(self, **events):
        for name, listed in events.items():
            names = [each.strip().split(" ")[0] for each in SCHEMAS[name].replace("(6, 2)", "").split(", ")]
            if name == "shops":
                names = ["op", "before", "after", "offset"]
            lines = [json.dumps(dict(zip(names, each, strict=True))) for each in listed]
            (self.directory / name / f"{self.files}.json").write_text("\n".join(lines))
        self.files += 1

    def frames(self):
        read = {
            name: self.spark.readStream.schema(schema).json(str(self.directory / name))
            for name, schema in SCHEMAS.items()
        }
        return {
            "orders": from_change_types(read["orders"]),
            "shops": from_debezium(read["shops"], key="shop", order="offset", shards=2),
            "products": from_keyed_values(read["products"], key="product", shards=2),
            "rates": from_upserts(read["rates"], key="city", order="changed", deleted="gone", shards=2),
        }

    def run(self):
        """Run the query until it has read all files."""
        changes = maintain(self.spark, TEXT, self.frames(), shards=2, weight="diff")
        target = changes.writeStream.format("parquet").option("path", str(self.directory / "changes"))
        run(target.option("checkpointLocation", str(self.directory / "state")).trigger(availableNow=True))

    def answer(self):
        total = Counter()
        for row in self.spark.read.parquet(str(self.directory / "changes")).collect():
            total[tuple(row[2:])] += row["diff"]
        return total


def test_a_query_over_feeds_follows_their_tables(spark, tmp_path):
    feeds = Feeds(tmp_path, spark)
    feeds.arrive(
        orders=[(1, 7, 3, 2.5, "insert", 1), (2, 7, 4, 1.25, "insert", 1), (2**53 + 1, 8, 3, 4, "insert", 1)],
        shops=[("r", None, {"shop": 7, "city": "Ulm"}, 0), ("r", None, {"shop": 8, "city": "Bonn"}, 1)],
        products=[(3, {"name": "lamp"}, 0), (4, {"name": "rug"}, 1)],
        rates=[("Ulm", 1, "2025-01-01T00:00:00", False), ("Ulm", None, "2025-01-02T00:00:00", False)],
    )
    feeds.run()
    first = {
        ("Ulm", "lamp", None, 1, Decimal("2.50")): 1, ("Ulm", "rug", None, 1, Decimal("1.25")): 1,
        ("Bonn", "lamp", None, 1, Decimal("4.00")): 1,
    }  # fmt: skip
    assert +feeds.answer() == first

    feeds.arrive(
        orders=[(1, 7, 3, 2.5, "update_preimage", 2), (1, 8, 3, 3.5, "update_postimage", 2)],
        shops=[("u", None, {"shop": 8, "city": "Köln"}, 3), ("d", {"shop": 7, "city": None}, None, 5)],
        products=[(3, {"name": "light"}, 3), (3, {"name": "old"}, 2), (4, None, 4)],
        rates=[("Köln", 9, "2025-01-03T00:00:00", False), ("Ulm", 1, "2025-01-01T00:00:00", False)],
    )
    feeds.run()
    assert +feeds.answer() == {("Köln", "light", 9, 2, Decimal("7.50")): 1}

    feeds.arrive(
        shops=[("u", None, {"shop": 8, "city": "Köln"}, 3), ("c", None, {"shop": 7, "city": "Ulm"}, 6)],
        rates=[("Köln", 9, "2025-01-04T00:00:00", True), ("Köln", 8, "2025-01-02T00:00:00", False)],
        products=[(4, {"name": "rug"}, 5), (4, {"name": "mat"}, 5)],
    )
    with pytest.raises(Exception, match="none is the newest") as failure:
        feeds.run()
    error = explained(failure.value)
    assert (error.cause, error.actual) == ("rows of a micro-batch have one key, and none is the newest", "product 4")
    assert set((-feeds.answer()).values()) == set()
