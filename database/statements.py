"""Statements of a text of SQL, cut into words: which table one changes, and by which clauses.

DuckDB parses, binds and executes; only the places of clauses are found here. A clause begins with a word outside of all
parentheses, literals, quoted names and comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from deltamark.errors import ProgrammingError

Kind = Literal["space", "text", "name", "parameter", "word", "sign"]

TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$|\d[\w.]*)
    |(?P<name>"(?:[^"]|"")*")
    |(?P<parameter>\?\d*|\$\w+)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)

OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")

CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE")
"""The words that begin a change of rows."""

KNOWN_TEXTS, KNOWN_CHARACTERS = 256, 4096
"""The texts whose statements are remembered, and the length of the longest. Not tuned."""

MAX_SHOWN = 60
"""Characters of a statement that an error shows."""

Parameters = Sequence[object] | Mapping[str, object] | None
"""The values of a statement's parameters: of `?` and `$1` in order, or of `$name` by name."""


@dataclass(frozen=True)
class Token:
    """A word, a literal or a sign of a text, with the parentheses around it."""

    kind: Kind
    text: str
    start: int
    depth: int

    @property
    def word(self) -> str:
        """The word in upper case; empty for a quoted name, a literal or a sign."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def stop(self) -> int:
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "name")

    @property
    def name(self) -> str:
        """The name that the token is, without quotes."""
        return self.text[1:-1].replace('""', '"') if self.kind == "name" else self.text


@dataclass(frozen=True)
class Statement:
    """One statement of a text, without the semicolon behind it."""

    text: str
    tokens: tuple[Token, ...]
    """All but spaces and comments. Their places are those in `text`."""

    def __str__(self) -> str:
        shown = " ".join(self.text.split())
        return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."

    def words(self, count: int) -> tuple[str, ...]:
        """Return the first words of the statement."""
        return tuple(each.word for each in self.tokens[:count])

    def find(self, *words: str, after: int = 0) -> int | None:
        """Return the place among the tokens of the first of some words outside of parentheses, from a place on."""
        found = (at for at in range(after, len(self.tokens)) if self._is(at, words))
        return next(found, None)

    def behind(self, word: str, after: int = 0) -> int:
        """Return the place behind a word, from a place on; that of the end if the statement does not have it."""
        found = self.find(word, after=after)
        return len(self.tokens) if found is None else found + 1

    def _is(self, at: int, words: Sequence[str]) -> bool:
        token = self.tokens[at]
        if token.depth or token.word not in words:
            return False
        # IS DISTINCT FROM is no clause
        return not (token.word == "FROM" and at and self.tokens[at - 1].word == "DISTINCT")

    def between(self, start: int, stop: int | None) -> str:
        """Return the text from one token up to another, or to the end, with numbered parameters."""
        tokens = self.tokens[start:stop]
        if not tokens:
            return ""
        pieces, at = [], tokens[0].start
        for token in tokens:
            pieces += [self.text[at : token.start], self._numbered(token)]
            at = token.stop
        return "".join(pieces)

    def _numbered(self, token: Token) -> str:
        if token.kind != "parameter" or not token.text.startswith("?"):
            return token.text
        marks = [each.start for each in self.tokens if each.text == "?"]
        return f"${token.text[1:] or marks.index(token.start) + 1}"

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the text, in lower case, some of which may be of tables or views.

        A PRAGMA has them as texts.
        """
        found = {each.name.lower() for each in self.tokens if each.is_name}
        if any(each.startswith("pragma") for each in found):
            found |= {each.text[1:-1].lower() for each in self.tokens if each.kind == "text"}
        return frozenset(found)

    @cached_property
    def change(self) -> Change | None:
        """The change of rows that the statement makes; None for a statement of another kind."""
        return change_of(self)

    @property
    def hidden_change(self) -> str | None:
        """The word of a change of rows in a WITH clause."""
        threes = zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False)
        found = (c.word for a, b, c in threes if a.word in ("AS", "MATERIALIZED") and b.text == "(")
        return next((each for each in found if each in CHANGING), None)


def statements(text: object) -> Sequence[Statement]:
    """Return the statements of a text."""
    if not isinstance(text, str):
        raise ProgrammingError("not a text of SQL", f"a value of type {type(text).__name__}", "give a string")
    return _known(text) if len(text) <= KNOWN_CHARACTERS else list(_cut(text))


@lru_cache(maxsize=KNOWN_TEXTS)
def _known(text: str) -> tuple[Statement, ...]:
    return tuple(_cut(text))


def _cut(text: str) -> Iterator[Statement]:
    tokens: list[Token] = []
    begin, depth = 0, 0
    for found in TOKEN.finditer(text):
        kind, word = found.lastgroup, found[0]
        assert kind is not None
        if kind == "tag":
            kind = "text"
        if word == ";":
            yield from _statement(text[begin : found.start()], begin, tokens)
            tokens, begin, depth = [], found.end(), 0
        elif kind != "space":
            depth -= word in CLOSING
            tokens.append(Token(kind, word, found.start(), max(depth, 0)))  # type: ignore[arg-type]
            depth += word in OPENING
    yield from _statement(text[begin:], begin, tokens)


def _statement(text: str, begin: int, tokens: Sequence[Token]) -> Iterator[Statement]:
    if tokens:
        first, last = tokens[0].start, tokens[-1].stop
        moved = tuple(Token(each.kind, each.text, each.start - first, each.depth) for each in tokens)
        yield Statement(text[first - begin : last - begin], moved)


def copied_rows(statement: Statement, to: str) -> tuple[str, str, str] | None:
    """Return the name of the table of a COPY FROM, its list of columns, and the COPY into another table.

    None is returned if the statement has another form.
    """
    source = statement.find("FROM")
    if source is None:
        return None
    table, behind = _name(statement, 1)
    columns = statement.between(behind, source)
    return table, columns, f"COPY {to} {statement.between(source, None)}"


def given(parameters: Parameters, text: str) -> dict[str, object]:
    """Return those parameters of a statement that a part of it has, whose parameters are numbered or have names."""
    if not parameters:
        return {}
    names = {found[0][1:] for found in TOKEN.finditer(text) if found.lastgroup == "parameter"}
    values = parameters if isinstance(parameters, Mapping) else {str(i): v for i, v in enumerate(parameters, 1)}
    return {name: value for name, value in values.items() if name in names}


@dataclass(frozen=True)
class Change:
    """An INSERT, an UPDATE, a DELETE or a MERGE, by its clauses."""

    kind: Literal["INSERT", "UPDATE", "DELETE", "MERGE"]
    table: str
    """The name of the table, as the text has it."""
    body: str
    """The statement up to RETURNING."""
    returning: str
    """The list behind RETURNING; empty without one."""
    replaces: bool = False
    """Whether an INSERT may change rows that exist."""
    assigned: frozenset[str] | None = None
    """The columns that an UPDATE or an INSERT assigns in rows that exist, in lower case; None if they are unknown.
    INSERT OR REPLACE has none, because the rows keep their keys."""
    old: str = ""
    """For an UPDATE whose condition has no parentheses, and so no function that may have other values another time, a
    query of the rows that it changes."""
    matches: str = ""
    """For an UPDATE, a query of the rowid of each row that it changes, perhaps several times."""
    by_rowid: str = ""
    """For an UPDATE without FROM, its text up to the condition, in whose place a choice of rows by rowid may stand."""


def change_of(statement: Statement) -> Change | None:
    """Return the change of rows that a statement makes; None for a statement of another kind."""
    at = statement.find(*CHANGING, "SELECT", "FROM", "VALUES", "TABLE") if statement.words(1) == ("WITH",) else 0
    if at is None or statement.tokens[at].word not in (*CHANGING, "TRUNCATE"):
        return None
    returns = statement.find("RETURNING", after=at)
    body = statement.between(0, returns)
    returning = "" if returns is None else statement.between(returns + 1, None)
    match statement.tokens[at].word:
        case "UPDATE":
            return _update(statement, at, body, returning, returns)
        case "INSERT":
            return _insert(statement, at, body, returning)
        case "TRUNCATE":
            begin = at + 1 + (statement.find("TABLE") == at + 1)
            body = f"DELETE FROM {statement.between(begin, None)}"
        case "DELETE":
            begin = statement.behind("FROM", at)
        case _:
            table, _ = _name(statement, statement.behind("INTO", at))
            return Change("MERGE", table, body, returning)
    table, _ = _name(statement, begin)
    return Change("DELETE", table, body, returning)


def _insert(statement: Statement, at: int, body: str, returning: str) -> Change:
    into = statement.behind("INTO", at)
    table, behind = _name(statement, into)
    if statement.find("REPLACE", after=at) in range(at, into):
        return Change("INSERT", table, body, returning, replaces=True, assigned=frozenset())
    if (update := _conflict_update(statement, behind)) is None:
        return Change("INSERT", table, body, returning)
    return Change("INSERT", table, body, returning, replaces=True, assigned=_assigned(statement, update))


def _conflict_update(statement: Statement, after: int) -> int | None:
    """Return the place of SET in ON CONFLICT DO UPDATE SET; None without such a clause."""
    conflict = statement.find("CONFLICT", after=after)
    do = None if conflict is None else statement.find("DO", after=conflict)
    return None if do is None or statement.find("UPDATE", after=do) != do + 1 else statement.find("SET", after=do)


def _assigned(statement: Statement, begin: int) -> frozenset[str] | None:
    """Return the columns that a SET clause assigns; None if one of them is not a plain name."""
    end = statement.find("FROM", "WHERE", "RETURNING", after=begin) or len(statement.tokens)
    tokens = [each for each in statement.tokens[begin:end] if not each.depth]
    names: set[str] = set()
    for before, name, sign in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if before.word == "SET" or before.text == ",":
            if not name.is_name or sign.text != "=":
                return None
            names.add(name.name.lower())
    return frozenset(names)


def _update(statement: Statement, at: int, body: str, returning: str, returns: int | None) -> Change:
    table, behind = _name(statement, at + 1)
    begin = statement.behind("SET", behind) - 1
    named = statement.tokens[behind:begin]
    alias = (named[-1] if named else statement.tokens[behind - 1]).text
    source = statement.find("FROM", after=begin)
    where = statement.find("WHERE", after=begin if source is None else source)
    target = statement.between(at + 1, begin)
    others = "" if source is None else f", {statement.between(source + 1, where or returns)}"
    condition = "" if where is None else f" WHERE {statement.between(where + 1, returns)}"
    prefix = statement.between(0, at)
    matches = f"{prefix} SELECT {alias}.rowid AS place FROM {target}{others}{condition}"
    assigned = _assigned(statement, begin)
    if source is not None:
        return Change("UPDATE", table, body, returning, assigned=assigned, matches=matches)
    conditions = () if where is None else statement.tokens[where:returns]
    is_plain = not any(each.text in OPENING for each in conditions)
    old = f"{prefix} SELECT {alias}.* FROM {target}{condition}" if is_plain else ""
    by_rowid = f"{statement.between(0, where or returns)} WHERE {alias}.rowid"
    return Change("UPDATE", table, body, returning, assigned=assigned, old=old, matches=matches, by_rowid=by_rowid)


def _name(statement: Statement, at: int) -> tuple[str, int]:
    """Return the last part of a qualified name that begins at a token, and the place behind it."""
    tokens = statement.tokens
    while at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    if at >= len(tokens) or not tokens[at].is_name:
        raise ProgrammingError("not a statement", f"{statement}", "name a table")
    return tokens[at].name, at + 1
