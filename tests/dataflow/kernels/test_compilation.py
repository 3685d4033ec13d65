"""All kernels can be compiled before their first use."""

from __future__ import annotations

from pathlib import Path

from numba import config

from deltamark.dataflow.kernels.compilation import compile_kernels
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer


def cached():
    return {path.name for path in Path(config.CACHE_DIR).rglob("*.nbc")}


def test_the_kernels_that_are_compiled_before_are_those_that_the_interpreter_calls():
    with Dataflow(source("numbers", {"n": integer(0, 9)}, 10)) as dataflow:
        dataflow.feed({})
    before, reports = cached(), []
    compile_kernels(lambda done, total: reports.append((done, total)))
    assert cached() == before
    total = len(reports) - 1
    assert reports == [(done, total) for done in range(total + 1)]
