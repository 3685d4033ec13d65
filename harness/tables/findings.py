"""Findings: the fastest engine of each cell, the engines in pairs, and the batch size from which recomputing wins.

Runs are compared by their time for a tuple. One engine is faster than another if its fastest run is by more than MARGIN
faster, and its slowest run is faster than the fastest run of the other. Otherwise the two tie. A single run has an
assumed spread. An engine competes with numbers that are right and plausible. All records are of one machine, as those
of a directory are. The relations, for SQL, besides those of relation.py:

- `contests`: for each query, workload, number of workers and batching L x P that several engines were measured with on
  the same data, the runs of those that compete, the fastest first. If there are several versions of the data, it is
  that with most engines, then the latest. `ids` are all records of the contest.
- `findings`: the contests with a run. `leaders` are the fastest engine and those that it ties with.
- `series`: the fastest run that maintains, and the fastest that recomputes, by the rounds of a batch, for the batches
  with P = 1 and those with L = 1. An empty query means the sum over those that have both at all sizes.
- `crossovers`: the least size from which recomputing is faster at all measured sizes.
- `outcomes`: the last records, each with its outcome.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltamark.datagen.workloads.registry import PLAIN
from deltamark.harness.benchmarks.cell import Batching
from deltamark.harness.console.table import Table, TableEntry, count, counted, listed, ratio, words
from deltamark.harness.engines.duckdb import DuckDBEngine
from deltamark.harness.results.record import Record
from deltamark.harness.tables.relation import Certified, Column, Relations, at, entry, literal

MARGIN = 0.05
"""The difference below which two engines tie: that of harness/compare/rule.py. A few runs have no confidence interval,
so their whole ranges are compared instead.
"""

ASSUMED_SPREAD = 1.5
"""The time of the slowest run relative to that of the fastest one, if only one was timed. Of the cells of our engine
with three runs in the committed records, nine in ten have less.
"""

MAX_PLACES = 4
"""The most batch sizes that a sentence lists; it counts more of them."""

SCOPE = "workload, workers"
SCOPE_ORDER = "NOT plain(workload), workload, workers"

VIEWS = f"""
CREATE MACRO beats(a, b) AS b.pace > {1 + MARGIN} * a.pace AND b.pace > a.slowest;
CREATE TABLE entrants AS SELECT *, CASE WHEN runs = 1 THEN {ASSUMED_SPREAD} ELSE 1 END AS widened,
    has_numbers AND NOT is_doubtful AS competes, {{
        'engine': engine, 'name': CASE WHEN engine = '{DuckDBEngine.name}' THEN 'DuckDB' ELSE short END,
        'ours': ours, 'recomputes': recomputes, 'runs': runs, 'pace': best / tuples,
        'slowest': slowest / tuples * widened, 'batch': best / batches, 'slowest_batch': slowest / batches * widened
    }} AS run
    FROM cells SEMI JOIN (SELECT workload, workers, logical AS L, physical AS P FROM latest WHERE is_default)
    USING (workload, workers, L, P) WHERE dataflow = '';
CREATE TABLE contests AS SELECT * EXCLUDE (engines, exact) FROM (
        SELECT query, {SCOPE}, L, P, list(id ORDER BY id) AS ids, count(DISTINCT engine) AS engines,
            count(*) FILTER ((logical, physical) = (L, P)) AS exact,
            coalesce(list(run ORDER BY run.pace, NOT ours, engine) FILTER (competes), []) AS runs
        FROM entrants GROUP BY data, query, {SCOPE}, L, P HAVING engines > 1
        QUALIFY row_number() OVER (PARTITION BY ids ORDER BY exact DESC, L * P, L) = 1
    ) QUALIFY row_number() OVER (PARTITION BY query, {SCOPE}, L, P ORDER BY engines DESC, list_max(ids) DESC) = 1;
CREATE TABLE findings AS SELECT *, list_filter(runs, lambda run: NOT beats(runs[1], run)) AS leaders,
        list_filter(runs, lambda run: NOT run.recomputes)[1] AS maintained,
        list_filter(runs, lambda run: run.recomputes)[1] AS recomputed
    FROM contests WHERE len(runs) > 0;
CREATE TABLE compared_sizes AS SELECT {SCOPE}, shape, L * P AS size, query, maintained, recomputed
    FROM findings, (VALUES ('P = 1'), ('L = 1')) shapes (shape)
    WHERE maintained IS NOT NULL AND recomputed IS NOT NULL AND CASE shape WHEN 'P = 1' THEN P ELSE L END = 1
    QUALIFY shape = 'P = 1' OR max(size) OVER (PARTITION BY {SCOPE}, shape) > 1;
CREATE TABLE series AS
    SELECT * REPLACE (
        {{'pace': maintained.pace, 'slowest': maintained.slowest}} AS maintained,
        {{'pace': recomputed.pace, 'slowest': recomputed.slowest}} AS recomputed), 1 AS queries FROM compared_sizes
    UNION ALL
    SELECT {SCOPE}, shape, size, '', {{'pace': sum(maintained.batch), 'slowest': sum(maintained.slowest_batch)}},
        {{'pace': sum(recomputed.batch), 'slowest': sum(recomputed.slowest_batch)}}, count(*)
    FROM (SELECT *, count(*) OVER (PARTITION BY {SCOPE}, shape, query) AS sizes,
        count(DISTINCT size) OVER (PARTITION BY {SCOPE}, shape) AS most FROM compared_sizes)
    WHERE sizes = most GROUP BY {SCOPE}, shape, size HAVING count(*) > 1;
CREATE TABLE crossovers AS
    SELECT {SCOPE}, shape, query, any_value(queries) AS queries, max(size) AS largest,
        min(size) FILTER (size > last_other) AS first, arg_min(gain, size) FILTER (size > last_other) AS gain_at_first,
        arg_max(gain, size) AS gain_at_largest, arg_max(beats(maintained, recomputed), size) AS is_lost_at_largest
    FROM (
        SELECT *, maintained.pace / recomputed.pace AS gain,
            coalesce(max(size) FILTER (NOT beats(recomputed, maintained)) OVER same, 0) AS last_other
        FROM series WINDOW same AS (PARTITION BY {SCOPE}, shape, query)
    ) GROUP BY {SCOPE}, shape, query;
CREATE TABLE outcomes AS SELECT e.*, query || CASE WHEN is_default THEN '' ELSE ' ' || variant END AS dataflow,
    CASE WHEN e.status <> 'ok' THEN e.status WHEN NOT has_numbers THEN 'not timed'
        WHEN is_doubtful THEN 'not plausible' ELSE 'right' END AS outcome,
        id IN (SELECT unnest(ids) FROM contests) AS is_compared
    FROM latest e;
"""

OUTCOMES = {
    "wrong": "wrong", "failed": "failed", "timeout": "timed out", "refused": "refused",
    "not plausible": "not plausible", "not timed": "not timed",
}  # fmt: skip


class Scope(NamedTuple):
    """The workload and the number of workers, which the compared cells have in common."""

    workload: str
    workers: int

    @property
    def name(self) -> str:
        return f"{self.workload}, {counted(self.workers, 'worker')}"


@dataclass(frozen=True)
class ScopeFindings:
    """The sentences about the cells with one workload and number of workers: over all queries, and for each of them."""

    scope: Scope
    summary: Sequence[str]
    queries: Mapping[str, str]


@dataclass(frozen=True)
class Findings:
    """The sentences of a benchmark at a scale factor."""

    headline: str
    summary: Sequence[str]
    scopes: Sequence[ScopeFindings]


def relation(records: Iterable[Record], grades: Certified | None = None) -> Relations:
    """Return the relations of findings, in which the records of each version of the data are a part."""
    by_data: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_data[record.data].append(record)
    db = Relations.of_queries(*by_data.values(), grades=grades)
    db.rows(VIEWS)
    return db


RULE = (
    f"a tie: the fastest runs differ by at most {MARGIN:.0%}, or the slowest run of the faster engine is no faster "
    f"than the fastest of the other; a single run counts as if there were one that takes {ASSUMED_SPREAD} times as long"
)


def findings_tables(records: Iterable[Record]) -> list[Table]:
    """Make the tables of findings: the engines in pairs, and the fastest of each cell; none without a comparison."""
    db = relation(records)
    columns: list[Column] = [
        ("engine", "engine_name", words), ("against", "against", words), ("workload", "workload", words),
        ("workers", "workers", count), ("cells", "cells", count), ("faster", "wins", count), ("ties", "ties", count),
        ("slower", "losses", count), ("ratio", "factor", ratio),
    ]  # fmt: skip
    notes = [
        "cells: those that both engines have; ratio: the geometric mean of how many times as fast the engine is",
        RULE,
    ]
    pairs = db.table("findings", "Engines in pairs", columns, f"FROM ({PAIRS})", notes)
    return [pairs, *(_fastest(db, scope) for scope in _scopes(db))] if pairs.rows else []


def _fastest(db: Relations, scope: Scope) -> Table:
    columns: list[Column] = [("query", "query", words)]
    of_scope = f"FROM findings WHERE {_where(scope)}"
    for logical, size in db.rows(f"SELECT DISTINCT L, P {of_scope} ORDER BY L * P, L"):
        value = at(f"(L, P) = {(logical, size)}", "{'all': runs, 'first': leaders}")
        columns.append((f"{logical} x {size}", value, _first))
    here = f"FROM crossovers WHERE {_where(scope)}"
    shapes = [shape for (shape,) in db.rows(f"SELECT DISTINCT shape {here} ORDER BY shape DESC")]
    crossings = [at(f"shape = '{shape}'", "{'first': first, 'largest': largest}") for shape in shapes]
    columns += [(f"recomputing wins, {shape}", each, _since) for shape, each in zip(shapes, crossings, strict=True)]
    source = f"""
        FROM findings LEFT JOIN crossovers USING ({SCOPE}, query) WHERE {_where(scope)} GROUP BY query ORDER BY query"""
    notes = ["the fastest engine, and how many times as fast as the next it is; =: engines that tie", RULE]
    name = f"findings-{scope.name}".replace(", ", "-").replace(" ", "-")
    table = db.table(name, f"The fastest engine: {scope.name}", columns, source, notes)
    if shapes:
        table.notes.append("recomputing wins: from this number of rounds a batch, and at all larger ones measured")
        ((number, *sums),) = db.rows(f"SELECT max(queries), {', '.join(crossings)} {here} AND query = ''")
        if number:
            gap = [words("")] * (len(columns) - 1 - len(shapes))
            table.foot = [words("sum"), *gap, *(entry(each, _since) for each in sums)]
            table.notes.append(
                f"sum: of the times of a batch of the {counted(number, 'query')} with numbers at all sizes"
            )
    return table


def _first(cell: dict[str, Any]) -> TableEntry:
    leaders, runs = cell["first"], cell["all"]
    names = " = ".join(run["name"] for run in leaders)
    if len(leaders) == len(runs):
        return words(names if len(runs) > 1 else f"{names} alone")
    factor = ratio(runs[len(leaders)]["pace"] / runs[0]["pace"])
    return TableEntry(f"{names} {factor.text}", factor.value)


def _since(crossing: dict[str, int | None]) -> TableEntry:
    first, largest = crossing["first"], crossing["largest"]
    return count(first) if first is not None else TableEntry(f"above {largest:,}", math.inf)


def _scopes(db: Relations) -> list[Scope]:
    return [Scope(*row) for row in db.rows(f"SELECT DISTINCT {SCOPE} FROM findings ORDER BY {SCOPE_ORDER}")]


def findings(records: Iterable[Record], grades: Certified | None = None) -> Findings | None:
    """Return the sentences; None unless several engines were measured."""
    db = relation(records, grades)
    if len(db.rows("SELECT DISTINCT engine FROM latest")) < 2:
        return None
    summary = [*_recomputing(db), *_problems(db), *_not_compared(db)]
    scopes = [
        ScopeFindings(scope, [*_versus(db, scope), *_crossing(db, scope)], dict(_of_queries(db, scope)))
        for scope in _scopes(db)
    ]
    return Findings(_headline(db), summary, scopes)


def _where(scope: Scope) -> str:
    return f"({SCOPE}) = {literal(tuple(scope))}"


def _headline(db: Relations) -> str:
    """Count the cells of which each engine is the fastest."""
    rows = db.rows("""
        SELECT CASE WHEN len(leaders) = 1 THEN leaders[1].name END AS fastest, count(*) AS number
        FROM findings WHERE len(runs) > 1 GROUP BY fastest ORDER BY number DESC, fastest""")
    total = sum(number for _, number in rows)
    if not total:
        ((number,),) = db.rows("SELECT count(*) FROM outcomes WHERE outcome = 'right'")
        return f"None of {counted(number, 'cell')} with a plausible number is comparable with one of another engine."
    wins = [f"{name} in {number:,}" for name, number in rows if name]
    ties = sum(number for name, number in rows if name is None)
    parts = ([f"the fastest engine is {listed(wins)}"] if wins else []) + ([f"{ties:,} tie"] if ties else [])
    return f"Of {counted(total, 'cell')} that several engines have, {'; '.join(parts)}."


def _versus(db: Relations, scope: Scope) -> Iterator[str]:
    """Compare the engines in pairs."""
    for one, other, cells, wins, ties, losses, factor in db.rows(
        f"SELECT * EXCLUDE ({SCOPE}) FROM ({PAIRS}) WHERE {_where(scope)}"
    ):
        fast, slow, share = (one, other, factor) if factor >= 1 else (other, one, 1 / factor)
        won, lost = (wins, losses) if factor >= 1 else (losses, wins)
        said = {"wins": won, "loses": lost, "ties in": ties}
        counts = [f"{verb} {number:,}" for verb, number in said.items() if number]
        if cells == 1:
            where = "in the only cell that both have" + ", which is a tie" * ties
        else:
            where = f"in the geometric mean of the {cells:,} cells that both have; it {listed(counts)}"
        yield f"{fast} is {times(share)} as fast as {slow} {where}."


PAIRS = f"""
    SELECT {SCOPE}, one.name AS engine_name, other.name AS against, count(*) AS cells,
        count_if(beats(one, other)) AS wins, count_if(NOT beats(one, other) AND NOT beats(other, one)) AS ties,
        count_if(beats(other, one)) AS losses, geomean(other.pace / one.pace) AS factor
    FROM (SELECT {SCOPE}, runs, unnest(runs) AS one FROM findings), unnest(runs) AS others (other)
    WHERE (NOT one.ours, one.engine) < (NOT other.ours, other.engine)
    GROUP BY {SCOPE}, one.ours, one.engine, one.name, other.ours, other.engine, other.name
    ORDER BY {SCOPE_ORDER}, NOT one.ours, one.engine, NOT other.ours, other.engine"""


def _crossing(db: Relations, scope: Scope) -> Iterator[str]:
    """State from which batch size recomputing is faster than the fastest engine that maintains."""
    for (shape,) in db.rows(f"SELECT DISTINCT shape FROM crossovers WHERE {_where(scope)} ORDER BY shape DESC"):
        here = f"FROM crossovers WHERE {_where(scope)} AND shape = '{shape}'"
        won = db.rows(f"""
            SELECT first, list(query ORDER BY query) {here} AND query <> '' AND first IS NOT NULL
            GROUP BY first ORDER BY first""")
        lost = db.rows(f"""
            SELECT largest, count(*) {here} AND query <> '' AND first IS NULL GROUP BY largest ORDER BY largest""")
        parts = [f"for {listed(queries)} from {_batches(first)}" for first, queries in won]
        for largest, number in lost:
            none = f"for {counted(number, 'query')} at no size" if won else f"for none of {counted(number, 'query')}"
            parts.append(f"{none} up to {_batches(largest)}")
        yield f"With {shape}, recomputing is faster than the fastest maintained answer {'; '.join(parts)}."
        in_sum = "first, largest, queries, gain_at_first, 1 / gain_at_largest, is_lost_at_largest"
        for first, largest, number, gain, loss, is_lost in db.rows(f"SELECT {in_sum} {here} AND query = ''"):
            faster = f"maintaining is {times(loss)} as fast" if is_lost else "the two tie"
            if first:
                faster = f"recomputing is faster from {_batches(first)} ({times(gain)} as fast)"
            yield f"In the sum of {counted(number, 'query')}, {faster}{'' if first else f' at {_batches(largest)}'}."


def _batches(size: int) -> str:
    return f"{counted(size, 'round')} a batch"


def _queries(names: Sequence[str]) -> str:
    return listed(names) if len(names) <= MAX_PLACES else f"{len(names)} queries ({' '.join(names)})"


def _recomputing(db: Relations) -> Iterator[str]:
    """Name the engines that recompute, and the queries if an engine maintains others."""
    rows = db.rows("""
        SELECT any_value(name), list(DISTINCT query ORDER BY query) FILTER (recomputes),
            list(DISTINCT query ORDER BY query) FILTER (NOT recomputes)
        FROM (SELECT run.name, ours, engine, query, recomputes FROM entrants WHERE has_numbers)
        GROUP BY ours, engine ORDER BY NOT ours, engine""")
    again = [name if not kept else f"{name}, for {_queries(queries)}," for name, queries, kept in rows if queries]
    never = [name for name, queries, _ in rows if not queries]
    maintaining = f"{listed(never)} {'maintain their' if len(never) > 1 else 'maintains its'} answers." if never else ""
    if again:
        they = "recompute: they run" if len(again) > 1 else "recomputes: it runs"
        yield f"{listed(again)} {they} the query again after each batch. {maintaining}".strip()
    elif never:
        yield f"No engine recomputes: {maintaining}"


def _problems(db: Relations) -> Iterator[str]:
    """Name the cells of each engine that have no right and plausible number."""
    rows = db.rows("""
        SELECT any_value(short), outcome, list({'query': dataflow, 'cells': cells, 'is_all': is_all} ORDER BY dataflow)
        FROM (
            SELECT ours, engine, any_value(short) AS short, outcome, dataflow,
                list((logical, physical, workers, workload) ORDER BY logical * physical, logical) AS cells,
                count(*) = any_value(number) AS is_all
            FROM (SELECT *, count(*) OVER (PARTITION BY engine, dataflow) AS number FROM outcomes)
            WHERE outcome <> 'right' GROUP BY ours, engine, outcome, dataflow
        ) GROUP BY ours, engine, outcome ORDER BY NOT ours, engine, outcome""")
    for name, outcome, queries in rows:
        number = sum(len(each["cells"]) for each in queries)
        places = [each["query"] + ("" if each["is_all"] else f" at {_cells(each['cells'])}") for each in queries]
        verb = "" if outcome == "timeout" else "is " if number == 1 else "are "
        yield f"{name}: {counted(number, 'cell')} {verb}{OUTCOMES.get(outcome, outcome)}: {'; '.join(places)}."


def _cells(cells: Sequence[tuple[int, int, int, str]]) -> str:
    if len(cells) > MAX_PLACES:
        return f"{len(cells)} batch sizes"
    return listed(
        [
            place(logical, size) + f", {workers} workers" * (workers > 1) + f", {workload}" * (workload not in PLAIN)
            for logical, size, workers, workload in cells
        ]
    )


def _not_compared(db: Relations) -> Iterator[str]:
    """Count the right cells that no other engine has, and those whose spread is not known."""
    rows = db.rows("""
        SELECT any_value(short), count(*) FROM outcomes WHERE outcome = 'right' AND NOT is_compared
        GROUP BY ours, engine ORDER BY NOT ours, engine""")
    if rows:
        parts = [f"{counted(number, 'cell')} of {name}" for name, number in rows]
        yield f"Not compared: {listed(parts)}, because no other engine has such a cell of the same data."
    ((once, number),) = db.rows("""
        SELECT count_if(run.runs = 1), count(*) FROM (SELECT unnest(runs) AS run FROM findings WHERE len(runs) > 1)""")
    if once:
        spread = f"a spread of {ASSUMED_SPREAD - 1:.0%} is assumed"
        yield f"Of {counted(number, 'compared cell')}, {once:,} had one timed run, for which {spread}."


def _of_queries(db: Relations, scope: Scope) -> Iterator[tuple[str, str]]:
    """Describe the fastest engines of each query."""
    for query, found in db.rows(f"""
        SELECT query, list({{'L': L, 'P': P, 'runs': runs, 'leaders': leaders}} ORDER BY L * P, L)
        FROM findings WHERE {_where(scope)} GROUP BY query ORDER BY query"""):
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for each in found:
            alone = ["alone"] if len(each["runs"]) == 1 else []
            groups[(*(run["name"] for run in each["leaders"]), *alone)].append(each)
        parts = [_group(names, of_group, found) for names, of_group in groups.items()]
        yield query, f"{query}: {'; '.join(parts)}."


def _group(names: Sequence[str], group: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> str:
    """Describe the batch sizes of a query at which the same engines are the fastest."""
    where = _places([(each["L"], each["P"]) for each in group], [(each["L"], each["P"]) for each in found])
    if names[-1] == "alone":
        return f"{names[0]} alone has a number {where}"
    beaten = [
        (each["runs"][0], each["runs"][len(each["leaders"])])
        for each in group
        if len(each["leaders"]) < len(each["runs"])
    ]
    factors = [behind["pace"] / first["pace"] for first, behind in beaten]
    rivals = dict.fromkeys(behind["name"] for _, behind in beaten)
    by = f", {_span(factors)} as fast as {' or '.join(rivals)}" if factors else ""
    return f"{listed(names)} {'tie' if len(names) > 1 else 'is the fastest'} {where}{by}"


def _places(group: Sequence[Batching], found: Sequence[Batching]) -> str:
    """Name some of the batch sizes, which are ordered."""
    if len(group) == len(found) > 1:
        return "at both batch sizes" if len(found) == 2 else f"at all {len(found)} batch sizes"
    is_series = len({logical for logical, _ in found}) == 1 or len({size for _, size in found}) == 1
    if is_series and len(group) > 1 and group == found[: len(group)]:
        return f"up to {place(*group[-1])}"
    if is_series and len(group) > 1 and group == found[-len(group) :]:
        return f"from {place(*group[0])}"
    if len(group) > MAX_PLACES:
        return f"at {len(group)} of {len(found)} batch sizes"
    return f"at {listed([place(*each) for each in group])}"


def _span(factors: Sequence[float]) -> str:
    low, high = (ratio(each(factors)).text.removesuffix("x") for each in (min, max))
    return times(max(factors)) if low == high else f"{low} to {high} times"


def times(factor: float) -> str:
    return f"{ratio(factor).text.removesuffix('x')} times"


def place(logical: int, size: int) -> str:
    return f"{logical:,} x {size:,}"
