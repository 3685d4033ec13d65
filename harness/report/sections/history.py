"""The times of cells over commits: a table of the steps, a panel for each cell, and the page of make history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from deltamark.harness.console.table import Table, TableEntry, brief, count, counted, words
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.report.cells import choices, command, compare_command, keys_of, title
from deltamark.harness.report.chart import (
    Axes,
    Axis,
    Frame,
    Kind,
    Linear,
    Row,
    Tooltip,
    Vertical,
    VerticalKind,
    chart,
    legend,
    look,
    point,
    series,
    verticals,
)
from deltamark.harness.report.document import Markup, Section, document, folded, panels, tag
from deltamark.harness.results.record import PROJECT
from deltamark.harness.tables.history import CommitHistory, Point, Series, Step, level

TICKS = 3
"""The largest number of intervals between labeled commits."""

ROOM = 0.12
"""The room for labels above the highest value, as a share of the range."""

HEADERS = ["cell", "commit", "date", "change", "points", "p", "note"]

TEXT = (
    "Seconds of each cell over commits, at equal distances: the median of the runs, and its 95% interval (from the "
    "fastest to the slowest run if there are fewer than 6). Vertical lines mark steps, which E-divisive finds "
    "within the points of one machine, and the first commit on another machine. Hollow points have edits that were not "
    "committed. A slow drift of the machine looks like steps; make compare judges whether a change is slower."
)


def history(of: CommitHistory, repository: str = PROJECT) -> Section:
    """Draw the cells, those with steps first. repository: that of the commits, which the title names."""
    by_steps = sorted(of.cells.items(), key=lambda item: (not any(each.steps for each in item[1]), item[0]))
    rows = {cell: _rows(of, of_cell) for cell, of_cell in by_steps}
    table = steps_table(of)
    keys = [keys_of(step.after[0].record) for _, step in of.steps]
    row_keys = dict(zip(map(id, table.rows), keys, strict=True))
    drawn = [_panel(of, of_cell, rows[cell]) for cell, of_cell in by_steps]
    body = [legend(replace(row, kind="solid") for of_cell in rows.values() for row in of_cell), panels(drawn)]
    if table.rows:
        body.insert(0, folded(table, lambda row: row_keys[id(row)], unfolded=True))
    sizes = f"{counted(len(of.cells), 'cell')} over {counted(len(of.commits), 'commit')}"
    finding = f"The times of {sizes} have {counted(len(table.rows), 'step')}."
    if repository == PROJECT:
        return Section("history", "History", finding, TEXT, body)
    return Section(re.sub(r"\W+", "-", f"history {repository}"), f"History of {repository}", finding, TEXT, body)


def steps_table(of: CommitHistory) -> Table:
    """Make the table of all steps, the latest first."""
    rows = [_row(series, step) for series, step in of.steps]
    notes = [
        "change: of the median time; points: before and after; p: of the permutation test, at least 0.005",
        "other data, other versions, same code: circumstances of the step that the commit may not explain",
    ]
    return Table("steps", counted(len(rows), "step"), HEADERS, rows, notes)


def _row(series: Series, step: Step) -> list[TableEntry]:
    return [
        words(series.cell), words(step.commit.short), words(step.commit.date), TableEntry(_size(step), step.percent),
        TableEntry(f"{len(step.before)} + {len(step.after)}", len(step.before) + len(step.after)),
        TableEntry(f"{step.p_value:.3g}", step.p_value), words(", ".join(step.notes)),
    ]  # fmt: skip


def _size(step: Step) -> str:
    return f"{step.percent:+.1f}% {_direction(step)}"


def _direction(step: Step) -> VerticalKind:
    return "slower" if step.log_ratio > 0 else "faster"


def _panel(of: CommitHistory, cell: Sequence[Series], rows: Sequence[Row]) -> list[Markup]:
    """Draw a cell: the commits without edits as a line, those with edits as hollow points."""
    axes = _axes(of, cell)
    by_machine = [(each, [row for row in rows if row.series == each.machine]) for each in cell]
    marks = [
        verticals(axes, [*_steps(cell), *_machine_changes(cell)]),
        *(series(replace(of_series[0], kind="solid"), _levels(axes, each)) for each, of_series in by_machine),
        *(_edited(axes, of_series) for _, of_series in by_machine),
    ]
    return chart([row for row in rows if row.kind == "solid"], axes, marks)


def _axes(of: CommitHistory, cell: Sequence[Series]) -> Axes:
    spacing = max(1, ceil((len(of.commits) - 1) / TICKS))
    steps = max(1, ceil((len(of.commits) - 1) / spacing))
    values = [value for series in cell for each in series.points for value in (each.low, each.high)]
    highest = max(values) + ROOM * (max(values) - min(values))
    names = lambda position: of.commits[int(position)].short if position < len(of.commits) else ""  # noqa: E731
    return Axes(
        Axis("time of the stream", Linear.around([*values, highest]), lambda value: brief(value).text),
        Axis("commit", Linear(0, spacing, steps), names),
    )


def _rows(of: CommitHistory, cell: Sequence[Series]) -> list[Row]:
    """Return a row for each commit: hollow ones have edits."""
    record = cell[0].points[-1].record
    frame = Frame(f"{title(record)}, SF\N{NO-BREAK SPACE}{record.sf}", keys_of(record))
    kinds: dict[bool, Kind] = {False: "solid", True: "hollow"}
    return [
        Row(
            frame, look(of.machines.index(each.machine)), kinds[at.commit.is_dirty], each.machine,
            keys_of(each.points[0].record), at.seconds, _tooltip(each, at), at.position, (at.low, at.high),
            (of.machines.index(each.machine),),
        )
        for each in cell for at in each.points
    ]  # fmt: skip


def _tooltip(of: Series, at: Point) -> Tooltip:
    between = f"from {brief(at.low).text} to {brief(at.high).text}"
    lines = (
        f"median {brief(at.seconds).text} of {counted(at.runs, 'run')}, {between}",
        f"{at.commit.date} {at.commit.subject}".strip(),
        of.machine,
    )
    return Tooltip(f"{title(at.record)}, {at.commit.short}", lines, command(at.record))


def _edited(axes: Axes, rows: Sequence[Row]) -> Markup:
    """Draw the commits with edits."""
    return series(replace(rows[0], kind="hollow"), [point(row, axes) for row in rows if row.kind == "hollow"])


def _levels(axes: Axes, of: Series) -> list[Markup]:
    """Draw the median of each part between steps."""
    drawn = []
    for part in of.parts:
        (first, y), (last, _) = (axes.at(each.position, level(part)) for each in (part[0], part[-1]))
        drawn.append(tag("line", class_="level", x1=first, x2=last, y1=y, y2=y))
    return drawn


def _steps(cell: Iterable[Series]) -> Iterable[Vertical]:
    for each in cell:
        for step in each.steps:
            before, after = step.before[-1], step.after[0]
            sizes = f"{count(len(step.before)).text} points before, {count(len(step.after)).text} after"
            lines = (
                f"{brief(level(step.before)).text} before, {brief(level(step.after)).text} after",
                f"{sizes}, p = {step.p_value:.3g}", f"{step.commit.date} {step.commit.subject}".strip(), *step.notes,
            )  # fmt: skip
            tip = Tooltip(f"{step.commit.short}: {_size(step)}", lines, compare_command(before.record, after.record))
            label = f"{step.commit.short}, {step.percent:+.0f}%"
            yield Vertical(after.position - 0.5, _direction(step), label, tip)


def _machine_changes(cell: Sequence[Series]) -> Iterable[Vertical]:
    """Mark the first commit of each machine but the first."""
    _, *later = sorted(cell, key=lambda each: each.points[0].position)
    for each in later:
        first = each.points[0]
        tip = Tooltip("Another machine", (each.machine, f"from {first.commit.short}"), command(first.record))
        yield Vertical(first.position - 0.5, "machine", "machine", tip)


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
