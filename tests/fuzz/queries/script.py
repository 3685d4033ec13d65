"""The script of a fault: SQL of an engine alone that repeats it, commit by commit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from deltamark.harness.engines.external import named
from deltamark.harness.engines.peers import PEERS, Script, peer
from fuzz.queries.client import Answer, single, type_name
from fuzz.queries.tables import Row, Table, literal, live

ENDS = re.compile(r"(.*?)( ORDER BY (?:(?! ORDER BY)[^()])*? LIMIT [^()]*)?", re.DOTALL)
"""A query, and the order and the limit at its end."""


def script(
    engine: str,
    text: str,
    tables: Sequence[Table],
    feeds: Sequence[Sequence[int]],
    expected: Answer | None,
    said: Answer | str,
) -> str:
    """Return the script of a fault. feeds: the times of each batch up to the wrong one; said: an answer or an error."""
    how = peer(engine).manifest.script if engine in PEERS else Script()
    used = read_by_text(text, tables)
    query, order = ENDS.fullmatch(text).groups(default="")  # type: ignore[union-attr]
    read = how.read.format(query=text, order=order)
    if how.view or named.greeting(engine).maintains:
        view = [f"{how.view.format(query=query)};"] if how.view else []
        lines = [*(created(each, how) for each in used), *view, *_commits(used, feeds)]
    else:
        lines = [line for each in used for line in _filled(each, how, feeds[-1][-1] if feeds else -1)]
    translated = [named.translated(engine, line) for line in [*lines, f"{read};"]]
    wanted = [] if expected is None else [f"-- expected: {shown(expected)}"]
    got = f"-- error:    {said}" if isinstance(said, str) else f"-- it is:    {shown(said)}"
    return "\n".join([f"-- {named.greeting(engine).name}: {how.run}", *translated, *wanted, got])


def read_by_text(text: str, tables: Sequence[Table]) -> list[Table]:
    """Return the tables that a text reads, where each has an alias."""
    return [each for each in tables if re.search(rf"\b{each.name} AS ", text)]


def created(table: Table, how: Script, *, key: bool = True) -> str:
    columns = [
        f"{each.name} {_type(type_name(each), how)}{'' if each.type.nullable else ' NOT NULL'}"
        for each in table.schema.fields
    ]
    return f"CREATE TABLE {table.name} ({', '.join([how.key] * key + columns)});"


def _type(name: str, how: Script) -> str:
    kind, _, scale = name.rstrip(")").partition("(")
    return how.types[kind].format(scale)


def _commits(tables: Sequence[Table], feeds: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield the statements of each batch, in a transaction."""
    numbers: dict[str, dict[Row, list[int]]] = {each.name: {} for each in tables}
    arrived: Counter[str] = Counter()
    for times in feeds:
        statements = []
        for each in tables:
            for row, _, diff in (change for change in single(each) if change[1] in times):
                copies = numbers[each.name].setdefault(row, [])
                if diff > 0:
                    arrived[each.name] += 1
                    copies.append(arrived[each.name])
                    values = ", ".join([str(arrived[each.name]), *map(literal, row)])
                    statements.append(f"INSERT INTO {each.name} VALUES ({values});")
                else:
                    statements.append(f"DELETE FROM {each.name} WHERE arrival = {copies.pop(0)};")
        yield from statements if len(statements) < 2 else ["BEGIN;", *statements, "COMMIT;"]


def _filled(table: Table, how: Script, time: int) -> Iterator[str]:
    """Yield the statements that create a table with the rows that are live at a time."""
    present = Counter(live(table.stream, time)).elements()
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in present)
    if rows and how.filled:
        names = ", ".join(table.schema.names)
        casts = ", ".join(
            f"CAST({each.name} AS {_type(type_name(each), how)}) AS {each.name}" for each in table.schema.fields
        )
        yield how.filled.format(name=table.name, names=names, casts=casts, rows=rows) + ";"
        return
    yield created(table, how, key=False)
    if rows:
        yield f"INSERT INTO {table.name} VALUES {rows};"


def shown(answer: Answer) -> str:
    rows = [f"({', '.join('NULL' if each is None else _plain(each) for each in row)})" for row in answer.elements()]
    return ", ".join(sorted(rows)) or "no rows"


def _plain(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
