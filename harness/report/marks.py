"""The marks of charts, their looks, legends, scales and tooltips, and sentences that compare engines.

A look is a color and an outline, mostly of an engine. The kind of a line distinguishes batchings and workloads. A
tooltip names the cell, its numbers, and the command that measures it again. HTML and SVG are text, in which strings are
escaped, except those that are markup already.
"""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE
from deltamark.harness.console.table import TableEntry, brief, count, counted, listed, megabytes, rate
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.measure.stats import geomean
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import PROJECT, Record
from deltamark.harness.tables.lookup import Lookup, recorded_capabilities

VERIFIED = {"oracle": "answers equal DuckDB's", "digest": "same change stream as a cell whose answers equal DuckDB's"}


@dataclass(frozen=True)
class Tooltip:
    """The text that the script shows for a point."""

    title: str
    lines: tuple[str, ...]
    command: str


def tooltip(record: Record) -> Tooltip:
    p50, p99, slowest = (brief(record.latency[part]).text for part in ("p50", "p99", "max"))
    lines = (
        f"{rate(record.rate).text}: {count(record.tuples).text} tuples in {brief(record.best).text}",
        f"the fastest of {counted(len(record.seconds), 'run')}; a batch p50 {p50}, p99 {p99}, at most {slowest}",
        f"state {count(record.state_rows).text} rows, {megabytes(record.state_bytes).text} MB",
        VERIFIED.get(record.verified, "not verified"),
        *([f"the time is not plausible: {doubt}"] if (doubt := doubt_of(record)) else []),
    )
    return Tooltip(title(record), lines, command(record))


def title(record: Record) -> str:
    """Name a cell in words."""
    workers = f", {record.workers} workers" if record.workers > 1 else ""
    variant = "" if record.is_default else f" ({record.variant})"
    work = "" if record.is_plain else f", {record.workload}"
    return f"{record.query}{variant}{work}, {record.logical} x {record.physical}, {short_name(record.engine)}{workers}"


def command(record: Record) -> str:
    """Return the command that measures a cell again, in another directory: in the same one the cell is done.

    For REPO it has the name of the repository, whose directory is not known.
    """
    settings = {
        "BENCHMARK": shlex.quote(record.benchmark), "SF": record.sf, "QUERIES": record.query,
        "VARIANTS": "" if record.is_default else record.variant,
        "WORKLOAD": record.workload, "LOGICAL": record.logical, "PHYSICAL": record.physical,
        "WORKERS": record.workers, "ENGINES": shlex.quote(record.engine), "SAMPLE": record.sample,
        "REPO": shlex.quote(record.repository), "RESULTS": "again",
    }  # fmt: skip
    return _command(
        "make bench",
        settings,
        {"BENCHMARK": BENCHMARK, "VARIANTS": "", "WORKLOAD": "insert", "WORKERS": 1, "REPO": PROJECT},
    )


def compare_command(before: Record, after: Record) -> str:
    """Return the command that compares two commits by a cell; only our engine over TPC-H has a past."""
    base, head = (record.commit.removesuffix("+") for record in (before, after))
    if before.engine != DEFAULT_ENGINE or before.benchmark != BENCHMARK:
        return f"git log --oneline {base}..{head}"
    settings = {
        "BASE": base, "HEAD": head, "SF": before.sf, "QUERIES": before.query,
        "VARIANT": "" if before.is_default else before.variant, "WORKLOAD": before.workload,
        "LOGICAL": before.logical, "PHYSICAL": before.physical, "WORKERS": before.workers,
    }  # fmt: skip
    return _command("make compare", settings, {"VARIANT": "", "LOGICAL": 1, "WORKERS": 1})


def _command(program: str, settings: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """Return a command with the settings that are not its defaults."""
    words = (f"{name}={value}" for name, value in settings.items() if value != defaults.get(name))
    return " ".join([program, *words])


VOID = ("input", "meta")


class Markup(str):
    """Text that is markup and must not be escaped again."""

    __slots__ = ()


MarkupChild = str | Iterable[str]
Attribute = str | float | bool | None


def tag(name: str, /, *children: MarkupChild, **attributes: Attribute) -> Markup:
    """Make an element. `data_query` stands for `data-query`, and `class_` for `class`; None and False are omitted."""
    opening = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Markup(opening if name in VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[MarkupChild]) -> Markup:
    """Concatenate children."""
    return Markup("".join(_child(child) for child in children))


def _child(child: MarkupChild) -> str:
    if isinstance(child, Markup):
        return child
    return html.escape(child) if isinstance(child, str) else joined(child)


def _attribute(name: str, value: Attribute) -> str:
    key = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {key}="{html.escape(text)}"'


EngineThreads = tuple[str, int]
"""An engine and its number of workers, or of shards on Spark. Each runner has a look of its own."""


def chart_records(lookup: Lookup) -> list[Record]:
    """Return the records that charts draw: right answers of default dataflows.

    An engine is drawn with one worker, because more workers have their own chart, unless it was only measured with
    several. Spark has no records with one worker, so it is drawn with each number of shards.
    """
    records = [record for record in lookup.records if record.has_numbers and record.is_default]
    single = {each.engine for each in records if each.workers == 1 and not recorded_capabilities(each).has_master}
    return [record for record in records if record.workers == 1 or record.engine not in single]


def runner(record: Record) -> EngineThreads:
    return record.engine, record.workers


def in_order(lookup: Lookup, records: Iterable[Record]) -> list[Record]:
    """Sort records by runner, those of our engine first. The sort is stable."""
    return sorted(records, key=lambda record: (lookup.engines.index(record.engine), record.workers))


def look_of(lookup: Lookup, record: Record) -> Look:
    """Return the look of a runner: the color of its engine, and an outline for each number of workers."""
    own = look(lookup.engines.index(record.engine))
    numbers = sorted(
        {other.workers for other in chart_records(lookup) if other.engine == record.engine} | {record.workers}
    )
    outline = (own.outline + numbers.index(record.workers)) % LOOKS
    if record.is_plain:
        return Look(own.color, outline)
    workloads = sorted({other.workload for other in lookup.records if not other.is_plain}, reverse=True)
    return Look(own.color, LOOKS - 1 - workloads.index(record.workload) % 2)


def runner_words(lookup: Lookup, engine: str, workers: int) -> str:
    name, able = "DuckDB" if engine == DuckDBEngine.name else short_name(engine), lookup.capabilities(engine)
    name += ", recomputing" * able.recomputes
    if able.has_master:
        return f"{name}, {workers} shard{'s' if workers > 1 else ''}"
    return f"{name}, {workers} workers" if workers > 1 else name


def runner_legend(lookup: Lookup, records: Iterable[Record]) -> Iterator[LegendEntry]:
    """Return legend entries for the runners of records without retractions."""
    runners = {runner(record): record for record in in_order(lookup, records) if record.is_plain}
    return (
        LegendEntry(look_of(lookup, record), "solid", runner_words(lookup, *key)) for key, record in runners.items()
    )


def retraction_legend(lookup: Lookup, records: Iterable[Record]) -> Iterator[LegendEntry]:
    """Return legend entries for the runners and workloads with retractions."""
    retracting = [record for record in in_order(lookup, records) if not record.is_plain]
    for (key, workload), record in {(runner(record), record.workload): record for record in retracting}.items():
        yield LegendEntry(look_of(lookup, record), "hollow", f"{runner_words(lookup, *key)}: {workload}")


Format = Callable[[float], str]


@dataclass(frozen=True)
class Log:
    """A logarithmic scale over whole decades, from 10^low to 10^high."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Iterable[float]) -> Log:
        """Return the scale of the decades with all positive values."""
        powers = [math.log10(value) for value in values if value > 0] or [0.0]
        low, high = math.floor(min(powers) + 1e-9), math.ceil(max(powers) - 1e-9)
        return cls(low, max(high, low + 1))

    def share(self, value: float) -> float:
        power = math.log10(value) if value > 0 else self.low
        return (max(power, self.low) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


@dataclass(frozen=True)
class Linear:
    """A linear scale from `low`, with a number of steps."""

    low: float
    step: float
    steps: int

    @classmethod
    def around(cls, values: Iterable[float]) -> Linear:
        """Return a scale of about four round steps around positive values; it need not begin at zero.

        It spans at least a fifth of the values, so that noise of a few percent looks small.
        """
        ordered = sorted(values)
        low, high = ordered[0], ordered[-1]
        margin = max(0.0, 0.1 * (low + high) - (high - low)) / 2
        step = _round_step((high - low + 2 * margin) / 4)
        first = math.floor((low - margin) / step + 1e-9)
        return cls(first * step, step, math.ceil((high + margin) / step - 1e-9) - first)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.step * self.steps)

    @property
    def ticks(self) -> list[float]:
        return [self.low + self.step * number for number in range(self.steps + 1)]


Scale = Log | Linear


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least a positive value."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick(value: float) -> str:
    """Format a power of ten of seconds, with its unit where one begins."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= size * (1 - 1e-9):
            times = round(value / size)
            return f"1 {unit}" if times == 1 else str(times)
    return f"{value:g}"


def short(value: float) -> str:
    """Format a power of ten, or a small number."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


LineKind = Literal["solid", "hollow", "dotted"]
Keys = Mapping[str, str]
"""The values of the filters: query, engine, workload."""

SIZE = 3.5
"""Half the width of a mark, in pixels."""


def keys_of(record: Record) -> dict[str, str]:
    return {"query": record.query, "engine": record.engine, "workload": record.workload}


def choices(records: Iterable[Record], engines: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the values of the filters that some record has."""
    records = list(records)
    return {
        "query": sorted({record.query for record in records}), "engine": engines,
        "workload": sorted({record.workload for record in records}),
    }  # fmt: skip


def data(keys: Keys) -> dict[str, Attribute]:
    return {f"data_{name}": value for name, value in keys.items()}


def _polygon(*corners: tuple[float, float]) -> str:
    return "M" + "L".join(f"{x * SIZE:.2f} {y * SIZE:.2f}" for x, y in corners) + "Z"


OUTLINES = (
    "",
    _polygon((-1, -1), (1, -1), (1, 1), (-1, 1)),
    _polygon((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
    _polygon((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
)
LOOKS = len(OUTLINES)
COLORS = 8
"""The number of colors in report.css."""


@dataclass(frozen=True)
class Look:
    """The numbers of a color and of an outline."""

    color: int
    outline: int


def look(number: int) -> Look:
    """Return the look of an engine: a color with an outline of its own."""
    return Look(number % COLORS, (number + number // COLORS) % LOOKS)


def shape(look: Look, x: str | float, y: float) -> Markup:
    """Draw a mark at a position; x may be a share of the width (`12%`)."""
    if look.outline == 0:
        return tag("circle", cx=x, cy=y, r=SIZE + 0.3)
    return tag("svg", tag("path", d=OUTLINES[look.outline]), x=x, y=y, width=1, height=1, overflow="visible")


def point(marks: Iterable[Markup], tooltip: Tooltip) -> Markup:
    """Give marks a tooltip."""
    lines = "\n".join(tooltip.lines)
    return tag("g", marks, class_="point", data_title=tooltip.title, data_lines=lines, data_command=tooltip.command)


def series(look: Look, kind: LineKind, keys: Keys, marks: MarkupChild) -> Markup:
    """Group marks that filters show and hide together."""
    return tag("g", marks, class_=f"series look{look.color} {kind}", **data(keys))


@dataclass(frozen=True)
class LegendEntry:
    """A line and a mark with their meaning."""

    look: Look
    kind: LineKind
    text: str


def legend(entries: Iterable[LegendEntry]) -> Markup:
    return tag("ul", (_entry(entry) for entry in entries), class_="legend")


def _entry(entry: LegendEntry) -> Markup:
    line = tag("line", class_="line", x1=1, x2=27, y1=8, y2=8)
    sample = series(entry.look, entry.kind, {}, [line, shape(entry.look, 14, 8)])
    return tag("li", tag("svg", sample, width=28, height=16, aria_hidden="true"), entry.text)


ByQuery = Mapping[str, float]
"""A number for each query, or for each cell."""


def engine_name(lookup: Lookup, engine: str, workers: int, *more: str) -> str:
    """Name an engine and its number of workers without a comma: `spark-sql (recomputing, 2 shards)`."""
    name, *others = [*runner_words(lookup, engine, workers).split(", "), *more]
    return f"{name} ({', '.join(others)})" if others else name


def side_by_side(lookup: Lookup, found: Mapping[EngineThreads, ByQuery], show: Callable[[float], TableEntry]) -> str:
    """Return the geometric means of all engines, such as `8M/s with embedded and 1M/s with DuckDB`.

    A mean over fewer queries than usual has their number.
    """
    most = max(map(len, found.values()))
    parts = []
    for each, numbers in found.items():
        fewer = [f"over {len(numbers)}"] if len(numbers) < most else []
        mean = show(geomean(number for number in numbers.values() if number > 0))
        parts.append(f"{mean.text} with {engine_name(lookup, *each, *fewer)}")
    return listed(parts)


def over(found: Mapping[EngineThreads, ByQuery], noun: str = "queries") -> str:
    """Name the queries, or the cells, of the means of `side_by_side`."""
    names = max((list(numbers) for numbers in found.values()), key=len)
    return f"in the geometric mean of {len(names)} {noun}" if len(names) > 1 else f"for {names[0]}"
