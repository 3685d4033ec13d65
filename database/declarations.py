"""Statements that declare tables and views, drop them, or show them."""

from __future__ import annotations

import pyarrow as pa

from deltamark.database.result import Result, nothing
from deltamark.database.statements import Parameters, Statement
from deltamark.database.store import Store
from deltamark.database.views import View, Views
from deltamark.dataflow.sql.planner import quoted
from deltamark.errors import NotSupportedError, ProgrammingError

DECLARED = ("TABLE", "INDEX", "SEQUENCE", "TYPE", "MACRO", "FUNCTION")
"""The kinds of objects that CREATE and DROP name, beside views."""

QUALIFIERS = ("OR", "REPLACE", "UNIQUE", "PERSISTENT")
"""The words that may stand between CREATE and the kind of what it creates."""


class Declarations:
    """Runs the statements of declarations over the tables and views of a database."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store, self._views = store, views

    def run(self, statement: Statement, *, in_transaction: bool) -> Result | None:
        """Run a statement about views, which DuckDB does not know; return None for another one."""
        words = [each for each in statement.words(5) if each not in ("OR", "REPLACE", "MATERIALIZED")]
        match words[:2]:
            case ["CREATE", "VIEW"]:
                self._refuse_open(in_transaction, statement)
                return self._create_view(statement)
            case ["DROP", "VIEW"]:
                self._refuse_open(in_transaction, statement)
                return self._drop_views(statement)
            case ["SHOW", "VIEWS"] if len(statement.tokens) == 2:
                return self._show_views()
            case ["EXPLAIN", *_]:
                return self._explain(statement)
        return None

    def declare(self, statement: Statement, parameters: Parameters, *, in_transaction: bool) -> Result:
        """Run a CREATE, DROP or ALTER of anything but views."""
        words = statement.words(len(statement.tokens))
        at = next((at for at, word in enumerate(words) if at and word not in QUALIFIERS), 0)
        if words[0] != "COMMENT" and words[at] not in DECLARED:
            actual = f"{words[0]} {words[at]} in: {statement}"
            raise NotSupportedError("not supported in a database", actual, "docs/database.md lists what is")
        dependents: dict[str, View] = {}
        if words[at] == "TABLE" and not (words[0] == "CREATE" and "REPLACE" not in words[:at]):
            names = self._names(statement, at + 1)
            dependents = {each.name: each for name in names for each in self._views.dependents(name)}
            if dependents:
                self._refuse_read(statement, names, dependents, cascades=words[0] == "DROP" and words[-1] == "CASCADE")
                self._refuse_open(in_transaction, statement)
        self._store.prepare()
        with self._views.readable(statement):
            result = self._store.run(statement.text, parameters)
        self._views.drop(*reversed(dependents.values()))
        self._store.catalog.forget()
        for name in self._store.registered:
            if self._store.catalog.find(name) is not None:
                raise ProgrammingError("registered rows have the name of a table", name, "unregister them first")
        self._store.has_macros |= words[at] in ("MACRO", "FUNCTION")
        return result if words[0] == "CREATE" and "AS" in words else nothing()

    def _refuse_read(
        self, statement: Statement, names: list[str], dependents: dict[str, View], *, cascades: bool
    ) -> None:
        if not cascades:
            remedy = "drop them first" if statement.words(1) != ("DROP",) else "drop them first, or write CASCADE"
            actual = f"{', '.join(names)}: {', '.join(dependents)}"
            raise ProgrammingError("views read what a statement would change", actual, remedy)

    def _refuse_open(self, in_transaction: bool, statement: Statement) -> None:  # noqa: FBT001 (a state, no choice)
        if in_transaction:
            raise ProgrammingError("a view within a transaction", f"{statement}", "commit first, or roll back")

    def _create_view(self, statement: Statement) -> Result:
        tokens = statement.tokens
        replaces = "REPLACE" in statement.words(3)
        at = statement.behind("VIEW")
        is_optional = statement.words(at + 3)[at:] == ("IF", "NOT", "EXISTS")
        at += 3 * is_optional
        if at + 2 < len(tokens) and (tokens[at].name.lower(), tokens[at + 1].text) == ("main", "."):
            at += 2
        if at + 1 >= len(tokens) or not tokens[at].is_name:
            raise ProgrammingError("not a view", f"{statement}", "write CREATE VIEW name AS SELECT ...")
        name, begin = tokens[at].name, statement.behind("AS")
        if begin >= len(tokens) or tokens[at + 1].text not in ("(", tokens[begin - 1].text):
            raise ProgrammingError("not a view", f"{statement}", "write CREATE VIEW name AS SELECT ...")
        existing = self._views.find(name)
        if existing is not None and is_optional:
            return nothing()
        if existing is not None and not replaces:
            raise ProgrammingError(
                "a view of this name exists", existing.name, "drop it, or write CREATE OR REPLACE VIEW"
            )
        if self._store.catalog.find(name) is not None:
            raise ProgrammingError("a table has the name of a view", name, "give the view another name")
        if name.lower() in self._store.registered:
            raise ProgrammingError("registered rows have the name of a view", name, "give the view another name")
        if existing is not None and (dependents := self._views.dependents(name)):
            actual = f"{name}: {', '.join(each.name for each in dependents)}"
            raise ProgrammingError("views read what a statement would change", actual, "drop them first")
        text = self._query(statement, at, begin)
        self._views.refuse_passing(name, text)
        self._views.create(self._views.plan(name, text), replaced=existing)
        return nothing()

    def _query(self, statement: Statement, at: int, begin: int) -> str:
        """Return the query of a view, at its place in the statement: errors then have the places of the statement."""
        tokens = statement.tokens
        start = tokens[begin].start
        before = "".join(each if each == "\n" else " " for each in statement.text[:start])
        text = statement.text[start:]
        if tokens[at + 1].text != "(":
            return f"{before}{text}"
        names = statement.text[tokens[at + 1].start : tokens[begin - 1].start]
        opening = "SELECT * FROM ("  # shorter than CREATE VIEW v(a) AS
        return f"{before[: -len(opening)]}{opening}{text}) AS {quoted(tokens[at].name)}{names}"

    def _drop_views(self, statement: Statement) -> Result:
        names = self._names(statement, statement.behind("VIEW"))
        is_optional = "EXISTS" in statement.words(len(statement.tokens))
        found = [each for name in names if (each := self._views.find(name) if is_optional else self._views[name])]
        dropped = {each.name: each for each in found}
        for view in found:
            for each in self._views.dependents(view.name):
                if each.name not in dropped and statement.tokens[-1].word != "CASCADE":
                    actual = f"{view.name}: {each.name}"
                    raise ProgrammingError("a view reads another one", actual, "drop it first, or write CASCADE")
                dropped[each.name] = each
        self._views.drop(*[each for each in self._views if each.name in dropped][::-1])
        return nothing()

    def _names(self, statement: Statement, at: int) -> list[str]:
        """Return the names of a list of tables or views, which begins at a token."""
        tokens = (
            statement.tokens[at + 2 :] if statement.words(at + 2)[at:] == ("IF", "EXISTS") else statement.tokens[at:]
        )
        names: list[str] = []
        expects = True
        for token in tokens:
            if token.text in (",", "."):
                names = names[:-1] if token.text == "." else names
                expects = True
            elif expects and token.is_name:
                names.append(token.name)
                expects = False
            else:
                break
        return names

    def _show_views(self) -> Result:
        views = list(self._views)
        table = pa.table(
            {
                "name": pa.array([each.name for each in views], pa.string()),
                "definition": pa.array([" ".join(each.text.split()) for each in views], pa.string()),
            }
        )
        return Result(table, ["VARCHAR", "VARCHAR"])

    def _explain(self, statement: Statement) -> Result | None:
        """Explain a view by the plan that maintains it; with ANALYZE, measure how long it takes to load the view."""
        analyzes = statement.words(2)[1:] == ("ANALYZE",) and len(statement.tokens) > 2
        at = 1 + analyzes
        at += statement.words(at + 1)[at:] == ("VIEW",) and len(statement.tokens) == at + 2
        if len(statement.tokens) != at + 1 or not statement.tokens[at].is_name:
            return None
        explain = self._views.measure if analyzes else self._views.explain
        return Result(pa.table({"plan": explain(statement.tokens[at].name).splitlines()}), ["VARCHAR"])
