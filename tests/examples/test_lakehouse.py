"""The example over Delta tables: its six answers are right after each batch, also if each micro-batch is merged twice.

Spark fetches the jars of Delta when the example first runs on a machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support.paths import ROOT

from deltamark.datagen.scratch import scratch
from deltamark.datagen.spark.java import java_home

NO_REGISTRY = re.compile(r"RuntimeException: \[(unresolved dependency|download failed): ")
"""The line of Spark if no registry that it reaches has the jars, or one of them."""

SETTINGS = """
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
"""Settings of Spark, which otherwise compiles code for each of many plans over a few rows."""


FEW = "revenue_by_category,labels,never_sold"
"""Queries of all three tables, one of which has no key."""


@pytest.mark.waits(10)
def test_merged_answers_are_right_after_each_batch(tmp_path, request):
    """Run two batches of three queries. With `--every-case` run 50 of all six, each merged twice: it takes minutes."""
    every = request.config.getoption("every_case")
    batches, queries, more = (50, 6, ["--repeat"]) if every else (2, 3, ["--queries", FEW])
    words = ["--directory", tmp_path / "lake", "--batches", str(batches), "--orders", "50", *more]
    (tmp_path / "spark-defaults.conf").write_text(SETTINGS)
    with scratch() as directory:
        java = {"JAVA_HOME": str(java_home(os.environ, directory)), "SPARK_CONF_DIR": str(tmp_path)}
        environment = {**os.environ, **java, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "lakehouse.py", *words], env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if NO_REGISTRY.search(done.stderr):
        pytest.skip("no registry has the jars of Delta")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{queries} answers are right") == batches
