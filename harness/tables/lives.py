"""The tables of the suites about the life of an engine: recovery after kills, and queries that come later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from deltamark.harness.console.table import Table, TableEntry, brief, count, megabytes, ratio, words
from deltamark.harness.results.record import REFUSED
from deltamark.harness.tables.relation import Column, Format, Relations, literal
from deltamark.harness.tables.suites import shown

Moment = Literal["apply", "between", "snapshot", "driver", "executor", "worker"]
"""The kinds of kills: during a batch, between two, during a snapshot; of Spark, the process that is killed."""

MOMENTS: dict[Moment, str] = {
    "apply": "in a batch", "between": "between batches", "snapshot": "in a snapshot", "driver": "the driver",
    "executor": "an executor", "worker": "a Python worker",
}  # fmt: skip

Outcome = Literal["wrong", "gone", "never", "twice", "right", "once"]

OUTCOMES: tuple[Outcome, ...] = ("wrong", "gone", "never", "twice", "right", "once")
"""From the worst to the best."""

OUTCOME_WORDS: dict[Outcome, str] = {
    "wrong": "WRONG", "gone": "NO SNAPSHOT", "never": "CHANGES LOST", "twice": "CHANGES TWICE",
    "right": "right answers", "once": "exactly once",
}  # fmt: skip


FAULT = 80
"""The characters of a fault that the table shows; the record has all."""


def _outcome(number: float) -> TableEntry:
    return words(OUTCOME_WORDS[OUTCOMES[int(number)]])


REFUSAL = f"CASE WHEN starts_with(note, '{REFUSED}') THEN 'refused' END"


def _middle(header: str, figure: str, form: Format = brief) -> Column:
    """Return the column of the median of a figure."""
    return shown(header, f"list_median(figures['{figure}'])", form)


def recovery_tables(db: Relations) -> Iterator[Table]:
    """Make the table of kills: a row for each query, engine and kind of moment."""
    lives = f"""(
        SELECT *, split_part(name, ' ', 1) AS query, split_part(name, ' ', 2) AS work,
            CASE WHEN figure['outcome'] IS NOT NULL THEN split_part(name, ' ', 3) END AS moment,
            substr(name, len(query) + len(work) + len(coalesce(moment || ' ', '')) + 3) AS engine
        FROM measured WHERE table_name = {literal("kills")})"""
    moments = " ".join(f"WHEN {literal(name)} THEN {literal(text)}" for name, text in MOMENTS.items())
    fault = f"CASE WHEN len(note) > {FAULT} THEN left(note, {FAULT}) || '...' ELSE nullif(note, '') END"
    problems = db.rows(f"FROM {lives} WHERE note <> '' LIMIT 1")
    yield db.table(
        "kills", "Recovery: an engine is killed, and continues from its last snapshot",
        [
            ("query", "query", words), ("workload", "work", words), ("engine", "engine", words),
            ("killed", f"CASE moment {moments} END", words),
            ("outcome", f"{{'value': figure['outcome'], 'text': coalesce(why, {REFUSAL}), 'mark': false}}", _outcome),
            shown("kills", "len(figures['seconds'])", count), _middle("right again", "seconds"),
            shown("slowest", "list_max(figures['seconds'])", brief),
            shown("start", "list_max(figures['start_seconds'])", brief), _middle("rounds again", "rounds", count),
            shown("MB of a snapshot", "list_max(figures['snapshot_bytes'])", megabytes),
            _middle("its time", "snapshot_seconds"),
            *([("fault", fault, words)] if problems else []),
        ],
        f"FROM {lives} r ORDER BY id",
        [
            "exactly once: the changes are those of a run without kills, and the answers are DuckDB's",
            "right again: from the kill to the answer that the engine had or was about to have (median)",
            "start: the slowest start without a snapshot; rounds again: those that were fed a second time",
            "MB of a snapshot: the largest; of Spark, all checkpoints at the end, which are parts of its batches",
        ],
    )  # fmt: skip


def attach_tables(db: Relations) -> Iterator[Table]:
    """Make the table of queries that come while another one runs."""
    pairs = f"""(
        SELECT *, split_part(name, ' ', 1) AS present, split_part(name, ' ', 2) AS coming,
            substr(name, len(present) + len(coming) + 3) AS engine
        FROM measured WHERE table_name = {literal("attached")})"""
    yield db.table(
        "attached", "A second query beside the first, over rows that are loaded",
        [
            ("first", "present", words), ("second", "coming", words), ("engine", "engine", words),
            shown("first answer", "figure['seconds']", brief),
            shown("MB at peak", "figure['peak_bytes']", megabytes), shown("MB kept", "figure['kept_bytes']", megabytes),
            _middle("batch before", "before"), _middle("batch after", "after"),
            shown("ratio", "list_median(figures['after']) / list_median(figures['before'])", ratio),
            shown("alone", "figure['alone']", brief),
            shown("outcome", f"coalesce({REFUSAL}, nullif(note, ''), 'right')", words),
        ],
        f"FROM {pairs} r ORDER BY id",
        [
            "first answer: from the request until the second query has its answer; the first query waits meanwhile",
            "MB: the growth of the engine's processes at the peak, and afterwards",
            "batch before, after: the median time of a batch of the first query alone, and of both queries",
            "alone: the median time of a batch of the second query alone; without sharing, both take the sum",
        ],
    )  # fmt: skip
