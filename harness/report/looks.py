"""How engines and workloads look, in all charts alike."""

from __future__ import annotations

from collections.abc import Iterator

from harness.record import Record
from harness.report.marks import LOOKS, Explained, Look, look
from harness.tables.lookup import DUCKDB, Lookup


def look_of(known: Lookup, engine: str, workload: str) -> Look:
    """Return an engine's look, with another outline where rows leave."""
    own = look(known.engines.index(engine))
    if workload == "insert":
        return own
    leaving = sorted({record.workload for record in known.records} - {"insert"}, reverse=True)
    return Look(own.color, LOOKS - 1 - leaving.index(workload) % 2)


def engine_words(engine: str) -> str:
    return "DuckDB, recomputing" if engine == DUCKDB else engine


def engines_explained(known: Lookup) -> Iterator[Explained]:
    return (Explained(look(at), "solid", engine_words(engine)) for at, engine in enumerate(known.engines))


def leaving_explained(known: Lookup, drawn: list[Record]) -> Iterator[Explained]:
    """Explain the workloads in which rows leave."""
    for engine, workload in dict.fromkeys((each.engine, each.workload) for each in drawn if each.workload != "insert"):
        yield Explained(look_of(known, engine, workload), "hollow", f"{engine_words(engine)}: {workload}")
