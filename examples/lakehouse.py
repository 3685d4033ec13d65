"""A shop in Delta tables: six queries follow the change feeds of three tables, and are merged into six tables.

    python examples/make_shop.py
    python examples/lakehouse.py                           # Spark fetches the jars of Delta when it first starts
    python examples/lakehouse.py --batches 50 --repeat     # each micro-batch is merged twice, as after a kill
    python examples/lakehouse.py --batches 50 --kills 10   # the program is killed at random moments, and goes on

The rows of the shop arrive in batches: each inserts, updates and deletes rows of the three tables by MERGE, one commit
for each table. The queries read the changes of these commits, and merge those of their answers. After each batch, the
tables of the answers are compared with the answers of DuckDB over all rows.

The old rows of products are left out of their feed, so that the query has to keep them, as for a feed of upserts.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import duckdb
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from deltamark.spark import from_change_types, from_upserts, maintain, merge_into

SHOP = Path(__file__).parent / "shop"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
SETTINGS = {
    "spark.jars.packages": DELTA,
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

TABLES = {
    "products": "product_id BIGINT, name STRING, category STRING, price DECIMAL(9,2)",
    "orders": "order_id BIGINT, customer_id BIGINT, placed_on DATE, shipped_on DATE, status STRING",
    "lines": "order_id BIGINT, number BIGINT, product_id BIGINT, quantity BIGINT, price DOUBLE, discount DECIMAL(3,2)",
}
TABLE_KEYS = {"products": ["product_id"], "orders": ["order_id"], "lines": ["order_id", "number"]}
KEYS = {
    "revenue_by_category": ["category"], "orders_by_status": ["status"], "best_customers": ["customer_id"],
    "waiting": ["order_id"], "labels": ["order_id", "number"], "never_sold": [],
}  # fmt: skip
"""The queries, and the columns in which no two rows of the answer agree. The last one is kept without a key."""

LAST_CHANGES = """
WITH bounds AS (SELECT min(changed) AS low, max(changed) - min(changed) + INTERVAL 1 SECOND AS width FROM $orders)
SELECT {columns}, {deleted} AS deleted FROM $table, bounds
WHERE least(floor(epoch(changed - low) * {batches} / epoch(width)), {batches} - 1) = {batch}
QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY changed DESC) = 1
"""


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lakehouse")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def create(spark: SparkSession, lake: Path) -> None:
    """Create the three tables, with change feeds, if they do not exist."""
    for table, columns in TABLES.items():
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS delta.`{lake / table}` ({columns}) USING delta "
            "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )


def arrive(spark: SparkSession, lake: Path, shop: Path, batch: int, batches: int) -> int:
    """Merge the changes of a batch into the three tables; return their number. Merging them again changes nothing."""
    total = 0
    for table, key in TABLE_KEYS.items():
        columns = [column.split()[0] for column in TABLES[table].split(", ")]
        text = LAST_CHANGES.format(
            columns=", ".join(columns), deleted="weight < 0" if table == "lines" else "op = 'delete'",
            key=", ".join(key), batch=batch, batches=batches,
        )  # fmt: skip
        for name in ("orders", "table"):
            text = text.replace(f"${name}", f"'{shop / (table if name == 'table' else name)}.parquet'")
        with duckdb.connect() as connection:
            rows = connection.sql(text).to_arrow_table()
        if rows.num_rows:
            spark.createDataFrame(rows).createOrReplaceTempView("arriving")
            spark.sql(f"""
                MERGE INTO delta.`{lake / table}` AS old USING arriving AS new
                ON {" AND ".join(f"old.{name} = new.{name}" for name in key)}
                WHEN MATCHED AND new.deleted THEN DELETE
                WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = new.{name}" for name in columns)}
                WHEN NOT MATCHED AND NOT new.deleted
                THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"new.{name}" for name in columns)})
            """)
        total += rows.num_rows
    return total


def feeds(spark: SparkSession, lake: Path) -> dict[str, DataFrame]:
    """Return the changes of the tables: of products from a feed without old rows, of the others from whole feeds."""
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
    products, orders, lines = (feed.load(str(lake / table)) for table in TABLES)
    news = products.where("_change_type <> 'update_preimage'").selectExpr(
        "product_id", "name", "category", "price", "_commit_version AS version", "_change_type = 'delete' AS deleted"
    )
    return {
        "products": from_upserts(news, key="product_id", order="version", deleted="deleted", shards=2),
        "orders": from_change_types(orders), "lines": from_change_types(lines),
    }  # fmt: skip


def follow(spark: SparkSession, lake: Path, shop: Path, name: str, times: int) -> DataStreamWriter:
    """Return a query over the change feeds, whose changes are merged into a table."""
    frames = feeds(spark, lake)
    changes = maintain(spark, (shop / f"{name}.sql").read_text(), frames, shards=2, weight="diff")
    merge = repeated(merge_into(f"delta.`{lake / 'answers' / name}`", key=KEYS[name]), times)
    target = changes.writeStream.queryName(name).foreachBatch(merge)
    return target.option("checkpointLocation", str(lake / "checkpoints" / name))


def settled(target: DataStreamWriter, running: StreamingQuery) -> StreamingQuery:
    """Wait until a query has read all changes; return it. It starts again if Python did not start within 10 s."""
    while True:
        try:
            running.processAllAvailable()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
            running = target.start()
        else:
            return running


def repeated(merge: Callable[[DataFrame, int], None], times: int) -> Callable[[DataFrame, int], None]:
    """Return a function that merges each micro-batch several times, as if the query had been killed after a merge."""

    def merge_repeatedly(changes: DataFrame, batch: int) -> None:
        changes.persist()  # otherwise Spark would compute the changes for each merge
        for _ in range(times):
            merge(changes, batch)
        changes.unpersist()

    return merge_repeatedly


def compare(spark: SparkSession, lake: Path, shop: Path, names: Iterable[str]) -> None:
    """Compare the tables of the answers with DuckDB's answers over the rows of the shop."""
    with duckdb.connect() as connection:
        for table in TABLES:
            connection.register(table, spark.read.format("delta").load(str(lake / table)).toArrow())
        for name in names:
            expected = Counter(connection.execute((shop / f"{name}.sql").read_text()).fetchall())
            found = Counter[tuple[object, ...]]()
            for row in spark.read.format("delta").load(str(lake / "answers" / name)).collect():
                values, copies = (row, 1) if KEYS[name] else (row[:-2], row["copies"])
                found[tuple(values)] += copies
            if found != expected:
                raise SystemExit(f"{name} is wrong: {found - expected} are too many, {expected - found} are missing")


def run(lake: Path, shop: Path, batches: int, names: Sequence[str], times: int) -> None:
    """Let batches arrive, from the first one on that no earlier run has ended."""
    spark, progress = session(), lake / "progress"
    create(spark, lake)
    targets = [follow(spark, lake, shop, name, times) for name in names]
    queries = [target.start() for target in targets]
    for batch in range(int(progress.read_text()) if progress.exists() else 0, batches):
        changes = arrive(spark, lake, shop, batch, batches)
        queries = [settled(target, query) for target, query in zip(targets, queries)]
        compare(spark, lake, shop, names)
        progress.write_text(str(batch + 1))
        print(f"batch {batch}: {changes} changes of the tables, {len(names)} answers are right", flush=True)
    for query in queries:
        query.stop()
    spark.stop()


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
    parser.add_argument("--shop", type=Path, default=SHOP, help="files of make_shop.py, with queries (%(default)s)")
    parser.add_argument("--batches", type=int, default=5, help="batches of the shop (default: %(default)s)")
    parser.add_argument("--queries", default=",".join(KEYS), help="names of queries (default: %(default)s)")
    parser.add_argument("--repeat", action="store_true", help="merge each micro-batch twice")
    parser.add_argument("--kills", type=int, default=0, help="times to kill the program (default: %(default)s)")
    parser.add_argument("--longest", type=float, default=60, help="most seconds until a kill (default: %(default)s)")
    given = parser.parse_args()
    directory = (given.directory or Path(tempfile.mkdtemp(prefix="lakehouse-"))).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if given.kills:
        settings = ["--directory", directory, "--shop", given.shop, "--batches", given.batches]
        more = ["--queries", given.queries, *(["--repeat"] if given.repeat else [])]
        killed(given.kills, given.longest, [*map(str, settings), *more])
    else:
        run(directory, given.shop, given.batches, given.queries.split(","), 2 if given.repeat else 1)
