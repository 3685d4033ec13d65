"""A shop in Delta tables: six queries follow the change feeds of three tables, and are merged into six tables.

    python examples/lakehouse.py                           # Spark fetches the jars of Delta when it first starts
    python examples/lakehouse.py --batches 50 --repeat     # each micro-batch is merged twice, as after a kill
    python examples/lakehouse.py --batches 50 --kills 10   # the program is killed at random moments, and goes on

First the tables of the shop are written. Each batch is one commit of each table, which inserts, updates and deletes
rows, so version N of a table has the batches up to N. Then one query of Spark reads a commit of each table in each
micro-batch, maintains the six answers together, and merges their changes into six tables. After each micro-batch, these
are compared with the answers of DuckDB over the same versions of the tables of the shop.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import unquote, urlsplit

import duckdb
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from deltamark.spark import for_each_query, from_change_types, maintain, merge_into

SETTINGS = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.jars.excludes": "org.apache.*:*,com.fasterxml.*:*,org.slf4j:*,org.scala-lang:*,org.xerial*:*",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

KEYS = {
    "revenue_by_category": "category", "orders_by_status": "status", "best_customers": "customer_id",
    "waiting": "order_id", "labels": ("order_id", "number"), "never_sold": (),
}  # fmt: skip
"""The queries, and the columns in which no two rows of the answer agree. The last one is kept without a key."""

TABLE_KEYS = {"products": ["product_id"], "orders": ["order_id"], "lines": ["order_id", "number"]}

RECENT_ORDERS = """
    SELECT id AS order_id, {batch} - id DIV {orders} AS age, age > 0 AND pmod(xxhash64(id), 10) = 0 AS deleted
    FROM range(greatest({batch} - 2, 0) * {orders}, ({batch} + 1) * {orders})
"""
"""The orders of the last three batches. In the batch after its own, an order is shipped, or deleted with its lines. In
the next one, it is delivered."""

ARRIVING = {
    "products": """
        SELECT id AS product_id,
            concat(IF(id % 2 = 0, 'lamp ', 'chair '), id, IF(id % 400 = {batch}, ' (new)', '')) AS name,
            IF(id % 9 > 0, concat('aisle ', id % 5), NULL) AS category,
            CAST(5.99 + pmod(xxhash64(id, {batch}), 400) AS DECIMAL(9,2)) AS price, id = {batch} * 17 AS deleted
        FROM range(1000 + {batch} * 5)
        WHERE {batch} = 0 OR id >= 1000 + ({batch} - 1) * 5 OR pmod(id - {batch}, 40) = 0 OR id = {batch} * 17
    """,
    "orders": f"""
        SELECT order_id, pmod(xxhash64(order_id, 'customer'), 10000) AS customer_id,
            date_add(DATE'2025-01-01', CAST({{batch}} - age AS INT)) AS placed_on,
            IF(age > 0, date_add(DATE'2025-01-02', CAST({{batch}} - age AS INT)), NULL) AS shipped_on,
            element_at(array('new', 'shipped', 'delivered'), CAST(age AS INT) + 1) AS status, deleted
        FROM ({RECENT_ORDERS}) WHERE age < 2 OR NOT deleted
    """,
    "lines": f"""
        SELECT order_id, number, pmod(xxhash64(order_id, number), 1000 + ({{batch}} - age) * 5) AS product_id,
            1 + age + pmod(order_id + number, 5) AS quantity, deleted
        FROM (SELECT *, explode(sequence(1L, 1 + pmod(order_id, 4))) AS number FROM ({RECENT_ORDERS}))
        WHERE age = 0 OR age = 1 AND (deleted OR number = 2)
    """,
}  # fmt: skip
"""The rows that a batch inserts, updates and deletes."""


class Laps:
    """The seconds of the parts of each micro-batch."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, list[float]](list)
        self._last = perf_counter()

    def end(self, part: str) -> None:
        now = perf_counter()
        self.seconds[part].append(now - self._last)
        self._last = now

    def spent(self, summary: Callable[[list[float]], float]) -> str:
        return ", ".join(f"{part} {summary(seconds):.1f} s" for part, seconds in self.seconds.items())


def session(memory: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lakehouse").config("spark.driver.memory", memory)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write(spark: SparkSession, lake: Path, batches: int, orders: int) -> None:
    """Write the batches that the tables of the shop lack. The first one is a single file: the feed would split it."""
    for table, arriving in ARRIVING.items():
        path = f"delta.`{lake / table}`"
        first = spark.sql(arriving.format(batch=0, orders=orders)).drop("deleted").coalesce(1).write.format("delta")
        first.option("delta.enableChangeDataFeed", "true").mode("ignore").save(str(lake / table))
        last = spark.sql(f"DESCRIBE HISTORY {path}").agg({"version": "max"}).collect()[0][0]
        for batch in range(last + 1, batches):
            spark.sql(f"""
                MERGE INTO {path} AS old USING ({arriving.format(batch=batch, orders=orders)}) AS new
                ON {" AND ".join(f"old.{name} = new.{name}" for name in TABLE_KEYS[table])}
                WHEN MATCHED AND deleted THEN DELETE
                WHEN MATCHED THEN UPDATE SET *
                WHEN NOT MATCHED AND NOT deleted THEN INSERT *
            """)


def follow(spark: SparkSession, lake: Path, names: Sequence[str], merges: int, laps: Laps) -> DataStreamWriter:
    """Return the query, which ends after the last commit. merges: the times that each micro-batch is merged."""
    feed = spark.readStream.format("delta").options(readChangeFeed=True, startingVersion=0, maxFilesPerTrigger=1)
    frames = {table: from_change_types(feed.load(str(lake / table))) for table in ARRIVING}
    changes = maintain(spark, {name: text(name) for name in names}, frames, shards=2, weight="diff")
    merge = for_each_query({name: merge_into(f"delta.`{lake / 'answers' / name}`", KEYS[name]) for name in names})

    def merge_and_compare(changes: DataFrame, batch: int) -> None:
        laps.end("between")
        changes.persist()
        changes.count()
        laps.end("feed and operators")
        for _ in range(merges):
            merge(changes, batch)
        changes.unpersist()
        laps.end("merges")
        count = read_feed(spark, lake, batch)
        laps.end("feed alone")
        compare(spark, lake, names, batch)
        laps.end("comparison")
        spent = laps.spent(lambda seconds: seconds[-1])
        print(f"batch {batch}: {count} changes, {len(names)} answers are right; {spent}", flush=True)

    target = changes.writeStream.foreachBatch(merge_and_compare).trigger(availableNow=True)
    return target.option("checkpointLocation", str(lake / "checkpoint"))


def text(name: str) -> str:
    return (Path(__file__).parent / "shop" / f"{name}.sql").read_text()


def read_feed(spark: SparkSession, lake: Path, version: int) -> int:
    """Read the feeds of a version of the tables once more, in order to measure it; return the number of changes."""
    feed = spark.read.format("delta").options(readChangeFeed=True, startingVersion=version, endingVersion=version)
    total = 0
    for table in ARRIVING:
        found = Observation()
        changed = f.count_if(f.col("_change_type") != "update_preimage").alias("changed")
        feed.load(str(lake / table)).observe(found, changed).write.format("noop").mode("overwrite").save()
        total += found.get["changed"]
    return total


def compare(spark: SparkSession, lake: Path, names: Iterable[str], version: int) -> None:
    """Compare the tables of the answers with DuckDB's answers over a version of the tables of the shop."""
    with duckdb.connect() as connection:
        for table in ARRIVING:
            files = spark.read.format("delta").option("versionAsOf", version).load(str(lake / table)).inputFiles()
            connection.read_parquet([unquote(urlsplit(file).path) for file in files]).create_view(table)
        for name in names:
            connection.register("answer", spark.read.format("delta").load(str(lake / "answers" / name)).toArrow())
            copies = "*, 1 AS copies" if KEYS[name] else "* EXCLUDE batch"
            wrong = connection.execute(f"""
                WITH found AS (SELECT {copies} FROM answer),
                expected AS (SELECT *, count(*) AS copies FROM ({text(name)}) GROUP BY ALL)
                SELECT 'too many', * FROM (FROM found EXCEPT ALL FROM expected) UNION ALL
                SELECT 'missing', * FROM (FROM expected EXCEPT ALL FROM found)
            """).fetchmany(10)
            if wrong:
                raise ValueError(f"{name} is wrong in version {version}: {wrong}")


def run(target: DataStreamWriter) -> None:
    """Run a query. It starts again if Python did not start within 10 s."""
    while True:
        try:
            target.start().awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return


def killed(kills: int, longest: float, words: Sequence[str]) -> None:
    """Start this program several times, and kill it with its JVM at a random moment; then let it end."""
    for _ in range(kills):
        running = subprocess.Popen([sys.executable, __file__, *words], start_new_session=True)
        try:
            running.wait(random.uniform(0, longest))  # noqa: S311
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            print("killed", flush=True)
    subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="the tables, which a later run continues (default: a new one)")
    parser.add_argument("--batches", type=int, default=5, help="commits of each table (default: %(default)s)")
    parser.add_argument("--orders", type=int, default=200, help="new orders in a batch (default: %(default)s)")
    parser.add_argument("--queries", default=",".join(KEYS), help="names of queries (default: %(default)s)")
    parser.add_argument("--memory", default="1g", help="memory of the JVM (default: %(default)s)")
    parser.add_argument("--repeat", action="store_true", help="merge each micro-batch twice")
    parser.add_argument("--kills", type=int, default=0, help="times to kill the program (default: %(default)s)")
    parser.add_argument("--longest", type=float, default=60, help="most seconds until a kill (default: %(default)s)")
    given = parser.parse_args()
    directory = (given.directory or Path(tempfile.mkdtemp(prefix="lakehouse-"))).absolute()
    if given.kills:
        words = ["--directory", directory, "--batches", given.batches, "--orders", given.orders]
        words += ["--queries", given.queries, "--memory", given.memory, *(["--repeat"] if given.repeat else [])]
        killed(given.kills, given.longest, [*map(str, words)])
    else:
        spark = session(given.memory)
        write(spark, directory, given.batches, given.orders)
        laps = Laps()
        run(follow(spark, directory, given.queries.split(","), 2 if given.repeat else 1, laps))
        print(f"medians: {laps.spent(median)}")
        spark.stop()
