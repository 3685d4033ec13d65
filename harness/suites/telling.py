"""What a run of a suite says: a line of its plan, a line a cell, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.finding import Finding
from harness.stats import percentile
from harness.suites.run import Plan
from harness.tables.entry import brief
from harness.telling import span


def plan_line(plan: Plan) -> str:
    """Say what would be measured."""
    left = plan.left
    return (
        f"suite {plan.suite}: {len(plan.tasks)} cells, up to {plan.runs} runs each, about {span(plan.estimate(left))}; "
        f"{len(plan.tasks) - len(left)} already done"
    )


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
    if first.is_bad:
        said = f"{'WRONG' if first.status == 'wrong' else 'failed'}: {first.problem}"
    else:
        said = f"{brief(first.took).text:>8}  {len(found)} row{'s' if len(found) > 1 else ''}"
        said += f", checked {first.verified}" if first.verified else ""
    return f"{first.cell:<40} {said}"


def bad_lines(made: Sequence[Finding]) -> list[str]:
    return [_line([each]) for each in made if each.is_bad]


def outcome_line(made: Sequence[Finding], left: int) -> str:
    """Say what became of a run, and whether the machine was the same all the time."""
    cells = {each.cell: each for each in made}
    bad = sum(each.is_bad for each in cells.values())
    said = [
        f"{len(cells)} cells measured{f': {bad} wrong or failed' if bad else ''}",
        *([f"{left} left"] if left else []),
    ]
    control = sorted(each.control for each in cells.values())
    if control:
        low, high = (brief(percentile(control, each)).text for each in (5, 95))
        said.append(f"the control work took {low} to {high}")
    return "; ".join(said)
