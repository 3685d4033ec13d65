"""What a run of a suite says: a line of its plan, a line a cell, and what was wrong."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.harness.console.sweep_lines import reason, span
from deltamark.harness.results.finding import Finding
from deltamark.harness.suites.run import Plan
from deltamark.harness.tables.entry import brief

WIDTH = 48
"""Of a cell's name."""


def plan_line(plan: Plan) -> str:
    """Say what would be measured, and how long that may take: what was never measured is not guessed at."""
    left = plan.left
    new = sum(plan.before(task) is None for task in left)
    about = f"about {span(plan.known(left))}" if new < len(left) or not left else ""
    about += f"{' and ' if about else ''}{new} not yet measured" if new else ""
    return (
        f"suite {plan.suite}: {len(plan.tasks)} cells, up to {plan.effort.runs} runs each, {about}; "
        f"{len(plan.tasks) - len(left)} already done"
    )


def plan_lines(plan: Plan) -> list[str]:
    """Say of each cell that is left what it took the last time."""
    return [_planned(plan.blank(task).cell, plan.before(task)) for task in plan.left]


def _planned(cell: str, seconds: float | None) -> str:
    return f"  {cell:<{WIDTH}} {'not yet measured' if seconds is None else brief(seconds).text}"


class Teller:
    """Prints a line a cell."""

    def __init__(self, total: int) -> None:
        self._total = total

    def tell(self, found: Sequence[Finding], left: int, seconds: float) -> None:
        place = f"{self._total - left:>{len(str(self._total))}}/{self._total}"
        rest = f", about {span(seconds)} left" if left else ""
        print(f"{place} {_line(found)}{rest}", flush=True)


def _line(found: Sequence[Finding]) -> str:
    first = found[0]
    if first.shown:
        said = f"{brief(first.took).text:>8}  {len(found)} row{'s' if len(found) > 1 else ''}"
        said += f", checked {first.verified}" if first.verified else ""
    else:
        said = reason(first)
    return f"{first.cell:<{WIDTH}} {said}"


def bad_lines(made: Sequence[Finding]) -> list[str]:
    return [_line([each]) for each in made if each.is_bad]
