"""Tables of findings: what their rows show, and why there is nothing to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from deltamark.harness.results.finding import AbsentError, Finding
from deltamark.harness.tables.entry import NOTHING, Entry, Row, Table, brief, count, why, words

Show = Callable[[Finding], Entry]
Found = Mapping[str, Sequence[Finding]]
"""Of one graph, or one scale factor: rows by the name of their table, in order."""


def by_table(findings: Iterable[Finding]) -> Found:
    """Sort findings by their tables, and in these by the numbers in their names."""
    found: dict[str, list[Finding]] = {}
    for each in findings:
        found.setdefault(each.table, []).append(each)
    return {name: sorted(rows, key=_numbers) for name, rows in found.items()}


def _numbers(finding: Finding) -> list[int]:
    return list(map(int, re.findall(r"\d+", finding.row)))


def rows(found: Iterable[Finding], *shown: Show, name: Callable[[str], str] = str) -> list[Row]:
    return [[words(name(each.row)), *(shown_or_why(each, show) for show in shown)] for each in found]


def shown_or_why(finding: Finding, show: Show) -> Entry:
    """Write something of a finding; of a wrong one never a number, of one that has it not, for it is old, nothing."""
    try:
        return show(finding) if finding.shown else why(finding)
    except AbsentError:
        return NOTHING


def least(figure: str, write: Callable[[float], Entry] = brief) -> Show:
    """Show the least of a figure."""
    return lambda each: write(each.least(figure))


def number(figure: str) -> Show:
    return least(figure, count)


def share(one: str, other: str, write: Callable[[float], Entry]) -> Show:
    """Show one figure divided by another."""
    return lambda each: write(each.least(one) / each.least(other))


def named(table: Table, of: str) -> Table:
    """Say what a table is of."""
    slug = re.sub(r"\W+", "-", of).strip("-").lower()
    return Table(f"{table.name}-{slug}", f"{table.title} ({of})", table.headers, table.rows, table.notes, table.foot)
