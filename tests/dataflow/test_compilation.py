"""All kernels can be compiled before their first use, and are compiled once on a machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from numba import config
from support.paths import ROOT

from deltamark.dataflow.interpreter.compilation import compile_kernels
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer


def kernels_in(directory):
    return {path.name for path in directory.rglob("*.nbc")}


def test_the_kernels_that_are_compiled_before_are_those_that_the_interpreter_calls(tmp_path, monkeypatch):
    with Dataflow(source("numbers", {"n": integer(0, 9)}, 10)) as dataflow:
        dataflow.feed({})
    cache, reports = Path(config.CACHE_DIR), []
    own = tmp_path / cache.name  # other processes may compile kernels into the cache at any time
    shutil.copytree(cache, own)
    before = kernels_in(own)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compile_kernels(lambda done, total: reports.append((done, total)))
    assert kernels_in(tmp_path) == before
    total = len(reports) - 1
    assert reports == [(done, total) for done in range(total + 1)]


USE = """
import gc
from deltamark.dataflow.kernels.core.dispatcher import KernelDispatcher
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

with Dataflow(source("numbers", {"n": integer(0, 9)}, 10).distinct().top(1, ["n"])) as dataflow:
    dataflow.feed({})
kernels = [each for each in gc.get_objects() if isinstance(each, KernelDispatcher)]
print(*(sum(sum(found.values()) for found in counts) for counts in zip(*(each.stats[1:] for each in kernels))))
"""


def test_a_second_process_compiles_nothing():
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", USE], cwd=ROOT, capture_output=True, text=True, check=True)
    hits, misses = map(int, done.stdout.split())
    assert hits > 0
    assert misses == 0
