"""The tooltip of a point: the name of the cell, its numbers, and the command that measures it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE
from deltamark.harness.console.formatting import brief, count, counted, megabytes, rate
from deltamark.harness.engines.base import short_name
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.results.record import PROJECT, Record

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
