"""The changes of a query over the streaming frames of a caller add up to the answer over all rows that have arrived."""

from __future__ import annotations

import os
import re
from collections import Counter
from decimal import Decimal
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f
from support.engines.spark_queries import run
from support.manual import code

from deltamark import code_type, col, integer, source
from deltamark.dataflow.spark.failures import explained
from deltamark.dataflow.spark.rescale import SUFFIX
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.spark_feed import SESSIONS
from deltamark.spark import maintain, stored_state

pytestmark = pytest.mark.waits(6)

BY_REGION = """
SELECT region, count(*) AS sales, sum(price) AS revenue, count(note) AS notes
FROM sales JOIN shops USING (shop) GROUP BY region
"""
OTHER = BY_REGION.replace("count(note)", "count(price)")
SALES = "shop int, price decimal(6, 2), note string, diff int"
SHOPS = "shop int, region string"


@pytest.fixture
def spark():
    return SESSIONS.on("local[2]")


FIRST_FILE_S = 10**9
"""The time of the first file of a directory. Spark reads files in the order of their times."""


class Files:
    """Directories of Parquet files, which arrive one by one."""

    def __init__(self, directory):
        self.directory = directory
        for name in ("sales", "shops"):
            (directory / name).mkdir()

    def add(self, name, **columns):
        folder = self.directory / name
        number = len(list(folder.iterdir()))
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (FIRST_FILE_S + number, FIRST_FILE_S + number))

    def sell(self, rows, diff=1):
        shops, prices, notes = zip(*rows, strict=True)
        price = pa.array(map(Decimal, prices), pa.decimal128(6, 2))
        weights = pa.array([diff] * len(rows), pa.int32())
        self.add("sales", shop=pa.array(shops, pa.int32()), price=price, note=pa.array(notes), diff=weights)

    def frame(self, spark, name, schema):
        folder = str(self.directory / name)
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)

    def frames(self, spark):
        return {"sales": self.frame(spark, "sales", SALES), "shops": self.frame(spark, "shops", SHOPS)}

    def run(self, changes, name="query"):
        """Run a query until it has read all files."""
        target = changes.writeStream.format("parquet").option("path", str(self.directory / f"{name} changes"))
        run(target.option("checkpointLocation", str(self.directory / name)).trigger(availableNow=True))

    def answer(self, spark, name="query"):
        """Add up the changes of a query."""
        rows = Counter()
        for time, diff, *values in spark.read.parquet(str(self.directory / f"{name} changes")).collect():
            assert time >= 0
            rows[tuple(values)] += diff
        return +rows

    def expected(self, text):
        with duckdb.connect() as connection:
            for name in ("sales", "shops"):
                connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{self.directory}/{name}/*.parquet')")
            connection.execute(
                "DELETE FROM sales WHERE (shop, price) IN (SELECT shop, price FROM sales WHERE diff < 0)"
            )
            return Counter(connection.execute(text).fetchall())


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_a_query_is_resumed_and_another_one_is_refused(files, spark):
    files.add("shops", shop=pa.array([1, 2], pa.int32()), region=["north", "south"])
    files.sell([(1, "2.50", "a"), (2, "4.00", None), (1, "1.25", "c")])
    files.run(maintain(spark, BY_REGION, files.frames(spark), shards=2, weight="diff"))
    assert files.answer(spark) == files.expected(BY_REGION)

    files.add("shops", shop=pa.array([3], pa.int32()), region=["north"])
    files.sell([(3, "9.00", "late"), (4, "7.00", "nowhere")])
    files.sell([(1, "2.50", "a")], diff=-1)
    files.run(maintain(spark, BY_REGION, files.frames(spark), shards=2, weight="diff"))
    assert files.answer(spark) == files.expected(BY_REGION)
    assert {row[:2] for row in files.answer(spark)} == {("north", 2), ("south", 1)}

    files.sell([(1, "1.00", "new")])
    with pytest.raises(Exception, match="does not match") as failure:
        files.run(maintain(spark, OTHER, files.frames(spark), shards=2, weight="diff"))
    assert str(explained(failure.value)).startswith("the checkpoint does not match: its plan is ")
    assert files.answer(spark) != files.expected(BY_REGION)


def test_a_query_continues_with_another_number_of_shards(files, spark):
    files.add("shops", shop=pa.array([1, 2, 3], pa.int32()), region=["north", "south", "north"])
    files.sell([(1, "2.50", "a"), (2, "4.00", None), (1, "1.25", "c"), (3, "8.00", "d")])
    files.run(maintain(spark, BY_REGION, files.frames(spark), shards=2, weight="diff"))
    files.sell([(1, "2.50", "a")], diff=-1)
    files.sell([(3, "1.00", None), (2, "3.00", "late")])
    checkpoint = str(files.directory / "query")
    with pytest.raises(DeltamarkError, match="the checkpoint does not match: its plan is"):
        maintain(spark, OTHER, files.frames(spark), shards=3, weight="diff", checkpoint=checkpoint)
    assert [each.name for each in files.directory.iterdir() if SUFFIX in each.name] == []
    files.run(maintain(spark, BY_REGION, files.frames(spark), shards=3, weight="diff", checkpoint=checkpoint))
    assert files.answer(spark) == files.expected(BY_REGION)
    state = stored_state(spark, checkpoint)
    assert {each.shard for each in state} == {0, 1, 2}
    assert sum(each.rows for each in state) > 0


def test_a_running_query_is_not_rescaled(files, spark, tmp_path):
    files.add("shops", shop=pa.array([1, 2], pa.int32()), region=["north", "south"])
    shops, checkpoint = files.frames(spark)["shops"], str(tmp_path / "running")
    text = "SELECT region, count(*) AS n FROM shops GROUP BY region"
    target = maintain(spark, text, {"shops": shops}, shards=2).writeStream.format("noop")

    def has_refused(running):
        if not running.lastProgress:
            return False
        with pytest.raises(DeltamarkError, match="a running query cannot be rescaled"):
            maintain(spark, text, {"shops": shops}, shards=3, checkpoint=checkpoint)
        return True

    run(target.option("checkpointLocation", checkpoint), has_refused)


def test_several_queries_are_maintained_as_one(files, spark):
    texts = {
        "regions": BY_REGION,
        "sold": "SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop",
        "notes": "SELECT DISTINCT note FROM sales JOIN shops USING (shop)",
    }
    files.add("shops", shop=pa.array([1, 2], pa.int32()), region=["north", "south"])
    files.sell([(1, "2.50", "a"), (2, "4.00", None), (1, "1.25", "c"), (3, "1.25", "d")])
    files.sell([(1, "2.50", "a")], diff=-1)
    changes = maintain(spark, texts, files.frames(spark), shards=2, weight="diff")
    assert changes.columns == ["query", "time", "diff", *texts]
    files.run(changes)
    found = {name: Counter() for name in texts}
    for row in spark.read.parquet(str(files.directory / "query changes")).collect():
        found[row["query"]][tuple(row[row["query"]])] += row["diff"]
        assert [name for name in texts if row[name] is not None] == [row["query"]]
    assert {name: +each for name, each in found.items()} == {name: files.expected(text) for name, text in texts.items()}


def test_a_collection_over_a_rate_source(spark):
    numbers = source("numbers", {"value": integer(0, 10**6), "kind": code_type(("even", "odd"))}, rows=10**6)
    total = numbers.where(col.value < 70).aggregate(by="kind", total=col.value.sum())
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    kinds = f.when(f.col("value") % 2 == 0, "even").otherwise("odd")
    rows = rate.select(f.col("value").cast("int"), kinds.alias("kind"), "timestamp")
    target = maintain(spark, total, {"numbers": rows}).writeStream.format("memory").queryName("totals")
    run(target, has_ended=lambda running: running.lastProgress and running.lastProgress["batchId"] >= 1)
    sums = Counter()
    for row in spark.table("totals").collect():
        sums[row["kind"], int(row["total"])] += row["diff"]
    assert +sums == {("even", sum(range(0, 70, 2))): 1, ("odd", sum(range(1, 70, 2))): 1}


def test_an_answer_over_no_rows_arrives_with_the_first_batch(files, spark):
    files.add("shops", shop=pa.array([1], pa.int32()), region=["north"])
    text = "SELECT count(*) AS n FROM shops WHERE shop > 5"
    files.run(maintain(spark, text, {"shops": files.frames(spark)["shops"]}))
    assert files.answer(spark) == {(0,): 1}


def test_the_example_of_the_manual_runs(tmp_path, spark):
    (tmp_path / "visits").mkdir()
    prices = pa.array([Decimal("2.50"), Decimal("1.25"), None], pa.decimal128(8, 2))
    pq.write_table(
        pa.table({"shop": pa.array([7, 7, 8], pa.int32()), "spent": prices}), tmp_path / "visits" / "0.parquet"
    )
    (block,) = [each for each in code("python", "docs/spark.md") if "maintain(spark, text, {" in each]
    names = {"spark": spark}
    exec(re.sub(r'"(visits|changes|state)"\)', rf'"{tmp_path}/\1")', block), names)
    rows = {tuple(row) for row in names["answer"].collect()}
    assert rows == {(7, 2, Decimal("3.75"), 1), (8, 1, None, 1)}


def test_frames_that_do_not_fit_the_query_are_refused(files, spark):
    frames = files.frames(spark)
    with pytest.raises(DeltamarkError, match="not a streaming frame: shops"):
        maintain(spark, "SELECT * FROM shops", {"shops": spark.createDataFrame([], SHOPS)})
    with pytest.raises(DeltamarkError, match="not the name of a query: Time"):
        maintain(spark, {"Time": "SELECT * FROM shops"}, frames)
    with pytest.raises(DeltamarkError, match="not a number of shards: 0"):
        maintain(spark, "SELECT * FROM shops", frames, shards=0)
    plan = source("others", {"shop": integer(0, 9)}, rows=9)
    with pytest.raises(DeltamarkError, match="an input without a frame: others"):
        maintain(spark, plan, frames)
    with pytest.raises(DeltamarkError, match="unknown column of shops: price"):
        maintain(spark, source("shops", {"price": integer(0, 9)}, rows=9), {"shops": frames["shops"]})


def test_a_session_without_a_context_is_refused():
    """A session of Spark Connect has none."""
    with pytest.raises(DeltamarkError, match=r"not a classic session of Spark: types\.SimpleNamespace"):
        maintain(SimpleNamespace(), "SELECT 1", {})
