"""Generation of data without Spark: its tasks run in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import Mock, patch

from deltamark.datagen import make, nexmark, prebatch, skew, tpch
from deltamark.datagen.graphs import make as make_graph
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.spark.session import run_task
from deltamark.errors import DeltamarkError


@contextmanager
def tasks_in_process():
    with ExitStack() as patches:
        for module in (make, make_graph):
            patches.enter_context(patch.object(module, "session", lambda *_: nullcontext(Mock())))
        for module in (tpch, prebatch, skew, make_graph, nexmark):
            patches.enter_context(patch.object(module, "run_tasks", _run_tasks))
        yield


def draw(data: Path, names: Iterable[str]) -> None:
    """Make graphs in a directory."""
    with tasks_in_process():
        for name in names:
            make_graph.make_graph(data, graph(name), "", lambda *_: None)


def _run_tasks(_spark, function, tasks, _poll=None):
    results = [run_task(function, task) for task in tasks]
    for each in results:
        if isinstance(each, DeltamarkError):
            raise each
    return results
