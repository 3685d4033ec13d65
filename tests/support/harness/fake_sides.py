"""Sides of a comparison with simulated samples, and a gate over them."""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np

from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.compare.cells import PHYSICAL, QUERIES, SF, WORKLOADS, cells
from deltamark.harness.compare.gate import Gate
from deltamark.harness.compare.sides import SideError

CELLS = cells(benchmark(), SF, QUERIES, WORKLOADS, [(1, size) for size in PHYSICAL])
SAMPLE = {"time": 0.1, "state": 20e6, "peak": 40e6, "rows": 100_000}


class FakeSide:
    """A side with simulated times, on a machine that drifts.

    behaviour: factors of quantities, failures by query, and the digest.
    """

    def __init__(self, name, log, rng, behaviour):
        self.name, self.log, self.rng = name, log, rng
        self.behaviour = behaviour

    def check(self, cell, _rounds):
        self._fail("check", cell)
        return self.behaviour.get("digest", "1 aa")

    def sample(self, cell):
        self.log.append((cell, self.name))
        self._fail("sample", cell)
        noise = math.exp(self.rng.normal(0, 0.02))
        drift = 1 + 0.2 * math.sin(len(self.log) / 300)
        return {
            name: value * self.behaviour.get(name, 1.0) * (drift * noise if name == "time" else 1.0)
            for name, value in SAMPLE.items()
        }

    def _fail(self, what, cell):
        if problem := self.behaviour.get(f"{what} fails", {}).get(cell.row.split()[0]):
            raise SideError(self.name, problem.partition(":")[0], f"{problem}\n{cell.again}")


def fake_gate(cells=CELLS, seed=1, log=None, **behaviours):
    """Return a gate over two fake sides, whose behaviours are given as base= and head=."""
    rng = np.random.default_rng(seed)
    samples = [] if log is None else log

    @contextmanager
    def open_sides():
        yield {name: FakeSide(name, samples, rng, behaviours.get(name, {})) for name in ("base", "head")}

    return Gate({cell: [1] for cell in cells}, open_sides, lambda: 0.1, lambda *_: None)
