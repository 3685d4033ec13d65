"""Spark's own streaming: the text of a query over streaming frames, without operators of this project.

A batch is a file for each relation, which moves into the directory that Spark watches. Spark emits all groups (output
mode `complete`) or those that have changed (`update`). The sink is a table, from which the answer is read.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from ends import parts_of
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from recompute import Columns, schema
from serve import Message, RefusedError, one_line, read, serve, write

SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.ui.enabled": "false",
}
"""The heap is enough for the state of scale factor 0.1."""

TYPES = {"int64": "BIGINT", "date32": "DATE", "string": "STRING"}

GROUPS = re.compile(r"\bGROUP BY\s+([\w\s,.]+)\Z")
"""The groups at the end of a text: names of columns, which may have those of their tables before them."""


class Sink:
    """The rows that Spark has emitted last for each group."""

    def __init__(self) -> None:
        self.database = duckdb.connect(config={"threads": 1})
        self.keys: list[str] | None = []
        """The columns of the groups; none: there is one group, or Spark emits all of them; None: rows are added."""

    def take(self, emitted: pa.Table) -> None:
        self.database.register("emitted", emitted)
        self.database.execute("CREATE TABLE IF NOT EXISTS answer AS FROM emitted LIMIT 0")
        if self.keys is not None:
            same = " AND ".join(f"answer.{key} IS NOT DISTINCT FROM emitted.{key}" for key in self.keys)
            self.database.execute(f"DELETE FROM answer USING emitted WHERE {same}" if same else "DELETE FROM answer")
        self.database.execute("INSERT INTO answer FROM emitted")

    def answer(self, end: str) -> pa.Table:
        return self.database.sql(f"FROM answer {end}").to_arrow_table()


class SparkNative:
    """The engine. A program has one session, and each query a directory of its own."""

    def __init__(self) -> None:
        self.session: SparkSession | None = None
        self.workers = self.queries = self.files = 0

    def hello(self, _: Message) -> Message:
        name = f"PySpark {version('pyspark')}, streaming"
        said = {"session": True, "nulls": True, "deletions": False}
        return {"protocol": 1, "name": name, "output": "answers", **said}

    def open(self, request: Message) -> Message:
        self.directory, self.columns = Path(request["directory"]), [name for name, _ in request["answer"]]
        self.start(request["workers"])
        self.queries += 1
        self.place = self.directory / f"query-{self.queries}"
        self.schemas = {name: schema(each["columns"]) for name, each in request["relations"].items()}
        self.rows, self.batch, self.query = 0, [], None
        for name, each in request["relations"].items():
            self.watch(name, each["columns"])
        try:
            self.run(request["sql"])
            self.batch = [self.written(name, of.empty_table()) for name, of in self.schemas.items()]
            self.result = self.emitted()
        except (PySparkException, RefusedError) as error:
            self.end({})
            raise RefusedError(one_line(str(error).partition(";")[0])) from error  # the plan is behind it
        return {}

    def start(self, workers: int) -> None:
        """Start a session for a number of cores, unless it runs already."""
        if self.session and workers == self.workers:
            return
        self.close()
        own = {"spark.local.dir": self.directory, "spark.sql.warehouse.dir": self.directory / "warehouse"}
        builder = SparkSession.builder.master(f"local[{workers}]").config("spark.sql.shuffle.partitions", workers)
        for name, value in {**SETTINGS, **own}.items():
            builder = builder.config(name, str(value))
        self.session, self.workers = builder.getOrCreate(), workers
        self.session.sparkContext.setLogLevel("ERROR")

    def watch(self, name: str, columns: Columns) -> None:
        """Make a streaming frame of the files that move into a directory."""
        (self.place / name).mkdir(parents=True)
        declared = ", ".join(f"{column} {TYPES.get(type_) or _decimal(type_)}" for column, type_ in columns)
        stream = self.session.readStream.schema(declared).parquet(str(self.place / name))
        stream.createOrReplaceTempView(name)

    def run(self, sql: str) -> None:
        """Start the query: the text as it is, or else without an order and a limit, which the sink then has."""
        try:
            self.begin(sql, "complete", Sink())
            self.reading = ""
        except PySparkException:
            body, self.reading = parts_of(sql)
            frame, sink = self.session.sql(body), Sink()
            sink.keys = keys_of(body, frame)
            self.begin(body, "update", sink)

    def begin(self, text: str, mode: str, sink: Sink) -> None:
        self.sink = sink
        stream = self.session.sql(text).writeStream.outputMode(mode)
        stream = stream.option("checkpointLocation", str(self.place / mode))
        self.query = stream.foreachBatch(lambda emitted, _: sink.take(emitted.toArrow())).start()

    def written(self, name: str, rows: pa.Table) -> tuple[Path, Path]:
        """Write rows to a file that Spark does not see; return it, and the place to which it moves."""
        self.files += 1
        file = self.place / f"{self.files}.parquet"
        pq.write_table(rows.cast(self.schemas[name]), file)
        return file, self.place / name / file.name

    def feed(self, request: Message) -> Message:
        self.batch = []
        for name, file in request["relations"].items():
            changes = read(self.directory, file)
            if (pc.min(changes["diff"]).as_py() or 1) < 0:
                raise ValueError("a row leaves")
            self.rows += changes.num_rows
            self.batch.append(self.written(name, changes.drop_columns(["time", "diff"])))
        return {}

    def apply(self, _: Message) -> Message:
        started = time.perf_counter()
        self.result = self.emitted()
        seconds = time.perf_counter() - started
        for _, file in self.batch:
            file.unlink()  # Spark lists the directory before each batch
        return {"changes": self.result.num_rows, "seconds": seconds}

    def emitted(self) -> pa.Table:
        """Let Spark take the batch; return the answer after it."""
        for file, place in self.batch:
            file.rename(place)
        self.query.processAllAvailable()
        return self.sink.answer(self.reading)

    def answer(self, _: Message) -> Message:
        return write(self.directory, "answer.arrow", self.result.rename_columns(self.columns))

    def state(self, _: Message) -> Message:
        return {"rows": self.rows}

    def end(self, _: Message) -> Message:
        if self.query:
            self.query.stop()
        for name in self.schemas:
            self.session.catalog.dropTempView(name)
        shutil.rmtree(self.place, ignore_errors=True)
        return {}

    def close(self) -> None:
        if self.session:
            self.session.stop()


def keys_of(body: str, frame: DataFrame) -> list[str] | None:
    """Return the columns by which a sink finds the row of a group; None if rows are only added."""
    if "Aggregate [" not in frame._jdf.queryExecution().analyzed().toString():  # noqa: SLF001 (no other way to the plan)
        return None
    if "HAVING" in body:
        raise RefusedError("HAVING: Spark emits no group that leaves the answer")
    found = GROUPS.search(body)
    if not found and "GROUP BY" in body:
        raise RefusedError("groups by other expressions than columns")
    return [_named(key.strip(), body, frame) for key in found[1].split(",")] if found else []


def _named(key: str, body: str, frame: DataFrame) -> str:
    """Return the column of the answer that is a key of the groups."""
    names = [key, *re.findall(rf"(?<![\w.]){re.escape(key)} AS (\w+)", body)]
    if found := [each for each in names if each in frame.columns]:
        return found[0]
    raise RefusedError(f"the answer has no column {key}, by which the query groups")


def _decimal(type_: str) -> str:
    return type_.replace("decimal(", "DECIMAL(15, ")


if __name__ == "__main__":
    replies = os.dup(1)
    os.dup2(2, 1)  # the JVM must not write to the pipe of replies
    sys.stdout = os.fdopen(replies, "w", encoding="utf-8")
    engine = SparkNative()
    serve(engine)
    engine.close()
