"""The example over Delta tables: its answers are right after each batch, also if each micro-batch is merged twice.

The test takes about a minute, so only `pytest --every-case` runs it. Spark fetches the jars of Delta when the example
first runs on a machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.shop_examples import shop_files

from deltamark.datagen.scratch import scratch
from deltamark.datagen.spark.java import java_home

NO_REGISTRY = "unresolved dependency: io.delta"
"""The line of Spark if no registry that it reaches has the jars."""


def test_merged_answers_are_right_after_each_batch(tmp_path, request):
    if not request.config.getoption("every_case"):
        pytest.skip("a minute: --every-case runs it")
    folder = shop_files(tmp_path, 300)
    words = ["--shop", folder, "--directory", tmp_path / "lake", "--batches", "3", "--repeat"]
    queries = ["--queries", "revenue_by_category,never_sold"]
    with scratch() as directory:
        java = str(java_home(os.environ, directory))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "lakehouse.py", *words, *queries], env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if NO_REGISTRY in done.stderr:
        pytest.skip("no registry has the jars of Delta")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 answers are right") == 3
