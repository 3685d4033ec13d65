"""All kernels can be compiled before their first use."""

from __future__ import annotations

import shutil
from pathlib import Path

from numba import config

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
