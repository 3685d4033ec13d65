"""The example over Delta tables: its answers are right after each batch, also if each micro-batch is merged twice.

The test takes about a minute, so only `pytest --every-case` runs it. It needs the jars of Delta, which Spark has
fetched if the example has run on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT
from support.shop_examples import example, shop_files

from deltamark.datagen.scratch import scratch
from deltamark.datagen.spark.java import java_home


def jar():
    """Return the name of Delta's jar in the cache of Spark's package manager."""
    return example("lakehouse").DELTA.replace(":", "_", 1).replace(":", "-") + ".jar"


@pytest.mark.skipif(not [*Path.home().glob(f".ivy2*/jars/{jar()}")], reason="run examples/lakehouse.py to fetch Delta")
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
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 answers are right") == 3
