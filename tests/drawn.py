"""Graphs that are generated as Spark would, without it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from datagen import make_graph
from datagen.graph import graph


def draw(data: Path, names: Iterable[str]) -> None:
    """Make graphs in a directory, a task after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make_graph, "session", _Nothing)
        patch.setattr(make_graph, "run_tasks", _in_turn)
        for name in names:
            make_graph.make_graph(data, graph(name), "", lambda *_: None)


class _Nothing:
    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _in_turn(_spark: object, function: str, tasks: list[dict[str, Any]], _poll: object) -> list[Any]:
    return [getattr(make_graph, function.split(":")[1])(task) for task in tasks]
