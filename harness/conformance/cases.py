"""The cases: batches of a few rows, each with the property that it shows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from deltamark.harness.conformance.rows import Change, customer, line, order

LATE = dt.date(1995, 6, 15)
"""A shipping date after the year of Q6, and before the limit of Q1. Q3 takes lines that were shipped after an order of
before 1995-03-15.
"""


@dataclass(frozen=True)
class Case:
    """Batches of a query. The answer is compared after each batch, and at each time if the engine has a stream."""

    name: str
    query: str
    batches: tuple[tuple[Change, ...], ...]


def _joined(time: int, key: int, diff: int = 1) -> tuple[Change, ...]:
    """Return an order of a customer of its own, with a line."""
    return (
        customer(time, diff, custkey=key),
        order(time + 1, diff, orderkey=key, custkey=key),
        line(time + 2, diff, orderkey=key, shipdate=LATE),
    )


NOTHING_BETWEEN = Case("growth again after nothing", "q01", ((line(0),), (line(8, -1),), (line(16),)))

CASES = (
    Case("an empty batch before all others", "q06", ((), (line(8),))),
    Case("an empty batch between others", "q06", ((line(0),), (), (line(16),))),
    Case("rows that change no answer", "q06", ((line(0),), (line(8, shipdate=LATE),))),
    Case("retraction", "q06", ((line(0), line(0, quantity=5)), (line(8, -1, quantity=5),))),
    Case("retraction and insertion of one row at one time", "q06", ((line(0),), (line(8, -1), line(8)))),
    Case("an update at one time", "q06", ((line(0),), (line(8, -1), line(8, quantity=7)))),
    Case("an answer with NULL", "q06", ((line(0),), (line(8, -1),))),
    Case("duplicate rows", "q01", ((line(0), line(0), line(0)), (line(8, -1),), (line(16, -1), line(16, -1)))),
    Case("deletion to nothing", "q01", (
        (line(0), line(0, returnflag="A")), (line(8, -1, returnflag="A"), line(8, -1)),
    )),
    NOTHING_BETWEEN,
    Case("several times in one batch", "q01", ((line(0), line(8), line(16, -1), line(24, returnflag="R")),)),
    Case("a change that is undone within a batch", "q01", (
        (line(0),), (line(8, returnflag="R"), line(16, -1, returnflag="R")),
    )),
    Case("several relations in one batch", "q03", ((*_joined(0, 1), *_joined(8, 2)),)),
    Case("the relations of a join in batches of their own", "q03", (
        (customer(0),), (order(9),), (line(18, shipdate=LATE),),
    )),
    Case("retraction from one relation of a join", "q03", (_joined(0, 1), (customer(8, -1),), (customer(16),))),
    Case("retraction from all relations of a join", "q03", ((*_joined(0, 1), *_joined(0, 2)), _joined(8, 1, -1))),
    Case("rows that enter and leave the first ten", "q03", (
        tuple(change for key in range(1, 13) for change in _joined(0, key)), _joined(8, 3, -1), _joined(16, 1, -1),
    )),
)  # fmt: skip
