"""The page of make history: the machines, the steps, and a panel for each cell."""

from __future__ import annotations

from deltamark.harness.console.formatting import counted
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.history.series import CommitHistory
from deltamark.harness.report.charts.marks import Markup, choices, tag
from deltamark.harness.report.document import document
from deltamark.harness.report.sections.history import history
from deltamark.harness.results.record import PROJECT


def history_page(of: CommitHistory, repository: str = PROJECT) -> str:
    """Make the page of the commits of a repository."""
    records = [point.record for cell in of.cells.values() for series in cell for point in series.points]
    engines = sorted({record.engine for record in records}, key=lambda name: (name != DEFAULT, name))
    return document(f"{repository}, history", _header(of, repository), [history(of)], choices(records, engines))


def _header(of: CommitHistory, repository: str) -> Markup:
    return tag("header", tag("h1", repository), tag("p", sizes(of), class_="subtitle"))


def sizes(of: CommitHistory) -> str:
    """Count the cells, commits and machines, and name the first and the last commit."""
    counts = ((of.cells, "cell"), (of.commits, "commit"), (of.machines, "machine"))
    text = ", ".join(counted(len(each), name) for each, name in counts)
    first, last = of.commits[0], of.commits[-1]
    return f"{text}; from {first.short} ({first.date}) to {last.short} ({last.date})"
