"""The suite of graphs: motifs without changes and with them, at a hub, vertex by vertex, by sizes of batches."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path

from deltamark.dataflow.language.motif import VARIANTS
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, make_graph
from deltamark.datagen.make import Wanted
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.results import machine
from deltamark.harness.results.finding import Finding, Task
from deltamark.harness.suites.graphs import cells, skew
from deltamark.harness.suites.graphs.counting import LOOPS
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.graphs.load_simulation import simulation
from deltamark.queries.graph.motifs import MOTIFS

CLIQUES = ("triangle", "4-clique", "5-clique", "6-clique")


class Lazy:
    """A graph that is read when a cell needs it, and kept. prepare: what is done to its edges then."""

    def __init__(self, name: str, data: Path, prepare: Callable[[Edges], Edges] = oriented) -> None:
        self._name, self._prepare = name, prepare
        self._directory = directory_of(data, graph(name))

    @cached_property
    def _edges(self) -> Edges:
        return self._prepare(stored(self._directory))

    def task(self, table: str, part: str, measure: Callable[[Edges], Iterable[Finding]], of: str = "") -> Task:
        digest = machine.data(self._directory)
        return Task(table, of or self._name, part, digest, lambda: measure(self._edges), lambda: self._edges)


def make(chosen: argparse.Namespace) -> None:
    """Generate the graphs that are not there."""
    names = [f"rmat:{chosen.scale}", chosen.vertices, f"hub:{chosen.hub}", *skew.planted(chosen.scale, chosen.hub)]
    with ProgressLine() as progress:
        for name in dict.fromkeys(names):
            make_graph(chosen.data, graph(name), chosen.master or Wanted.master, progress.report)


def tasks(chosen: argparse.Namespace) -> list[Task]:
    """List the cells of the suite."""
    whole, small = (Lazy(name, chosen.data) for name in (f"rmat:{chosen.scale}", chosen.vertices))
    hub = Lazy(f"hub:{chosen.hub}", chosen.data, lambda edges: edges)
    runs: int = chosen.runs
    return [
        *(whole.task("static", name, partial(cells.static, name=name, runs=runs)) for name in LOOPS),
        whole.task("rounds", "", cells.rounds),
        whole.task("at once", cells.TRIANGLE, partial(cells.at_once, name=cells.TRIANGLE, runs=runs)),
        *(
            whole.task("changing", str(batch), partial(cells.changing, batch=batch, runs=runs))
            for batch in chosen.batches
        ),
        *(hub.task("hub", variant, partial(cells.hub, variant=variant)) for variant in VARIANTS),
        *(small.task("vertices", name, partial(cells.vertices, name=name)) for name in CLIQUES),
        *_skewed(chosen),
        Task("shares", "formulas", "", "", skew.shares),
    ]


def _skewed(chosen: argparse.Namespace) -> Iterator[Task]:
    """List the cells of loads of shards."""
    measure = partial(
        skew.loads, name="triangle", pattern=MOTIFS["triangle"], shards=skew.SHARDS, batch=simulation.BATCH
    )  # fmt: skip
    names = skew.planted(chosen.scale, chosen.hub)
    graphs = [(name, Lazy(name, chosen.data, lambda edges: edges)) for name in names]
    for name, each in (*graphs, (f"{names[-1]}, oriented", Lazy(names[-1], chosen.data))):
        yield each.task("skew", name, measure, f"triangle, {skew.SHARDS} shards")
