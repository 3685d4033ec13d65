"""Spark SQL as an engine over the protocol, for `make fuzz`: the text runs again after each batch, over Arrow tables.

The engine `spark-sql` of the benchmark reads the rows of a data set, and takes no tables over the protocol.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "peers" / "shared"))

from recompute import ArrowEngine
from serve import serve

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}


class SparkSql(ArrowEngine):
    name = f"PySpark {version('pyspark')}, SQL"

    session: SparkSession | None = None

    def begin(self) -> None:
        if self.session is not None:
            return
        builder = SparkSession.builder.master("local[1]")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def prepare(self, sql: str) -> None:
        self.sql = sql

    def run(self) -> pa.Table:
        for name, table in self.relations.items():
            self.session.createDataFrame(table).createOrReplaceTempView(name)
        return self.session.sql(self.sql).toArrow()


if __name__ == "__main__":
    serve(SparkSql())
