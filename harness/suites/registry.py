"""The registry of suites."""

from __future__ import annotations

from deltamark.harness.suites.coverage.suite import CoverageSuite
from deltamark.harness.suites.graphs.suite import GraphSuite
from deltamark.harness.suites.loops.suite import LoopSuite
from deltamark.harness.suites.memory.suite import MemorySuite
from deltamark.harness.suites.rate.suite import RateSuite
from deltamark.harness.suites.sharing.suite import SharingSuite
from deltamark.harness.suites.suite import Suite
from deltamark.harness.suites.tpch.suite import TpchSuite

SUITES: dict[str, type[Suite]] = {
    suite.NAME: suite
    for suite in (
        TpchSuite, CoverageSuite, GraphSuite, LoopSuite, MemorySuite, RateSuite, SharingSuite,
    )
}  # fmt: skip
DEFAULT = TpchSuite.NAME
