"""Views of a database: the engine maintains their answers from the changes of each transaction.

A commit is a logical time of one dataflow, which has a plan for each view. A view over views is planned as one query
with their texts, and shares equal parts with them. The answers are kept, and DuckDB reads them as rows of Arrow, cast
to the types that the query has in DuckDB.

An error within a feed ends a dataflow. The next statement that needs a view then loads all views from the tables. After
a database in a file was opened, the first one restores their state, if it was saved: see `saved_views`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from deltamark.database.change_log import Contents
from deltamark.database.conversions import Conversion
from deltamark.database.definitions import Definition
from deltamark.database.result import Result
from deltamark.database.saved_views import SavedViews
from deltamark.database.statements import Statement, statements
from deltamark.database.store import Changed, Store, given_rows
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.live_plans import NoHistoryError
from deltamark.dataflow.sql.arrow_tables import arrow_batch
from deltamark.dataflow.sql.fragments import Json, objects
from deltamark.dataflow.sql.planner import quoted
from deltamark.dataflow.sql.problems import SeveralSqlError
from deltamark.dataflow.sql.query import Query, query
from deltamark.errors import DataError, DeltamarkError, NotSupportedError, ProgrammingError, unknown

MOMENTS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
"""The words that are functions of the clock without parentheses."""

PASSING = (
    *MOMENTS, "now", "today", "transaction_timestamp", "get_current_time", "get_current_timestamp", "ago",
    "current_localtime", "current_localtimestamp", "txid_current", "current_setting", "getvariable",
)  # fmt: skip
"""The functions whose values change while the rows of tables do not."""

Plans: TypeAlias = "Dataflow[dict[str, Batch]]"
"""A dataflow with a plan for each view."""


@dataclass
class View:
    """A view: its text, what it reads, and its plan."""

    name: str
    text: str
    reads: frozenset[str]
    """The tables and views in its text, in lower case."""
    query: Query
    definition: Definition
    answer: pa.Table | None = None
    """The present answer, if it was read since it changed."""

    @property
    def digest(self) -> str:
        """The digest of its plan."""
        return self.query.collection.node.digest.hex()

    @property
    def rows(self) -> str:
        """The name under which DuckDB reads its answer."""
        return f"rows of {self.name}"

    @property
    def columns(self) -> str:
        """The columns in SQL, cast to the types of the query."""
        return ", ".join(
            f"CAST({quoted(name)} AS {type_}) AS {quoted(name)}" for name, type_ in self.query.types.items()
        )


class Views:
    """The views of a database, in the order in which they were created. workers: the threads that maintain them."""

    def __init__(self, store: Store, workers: int) -> None:
        self._store, self._workers = store, workers
        self._views: dict[str, View] = {}
        self._dataflow: Plans | None = None
        self.time = 0
        """The logical time of the last commit that the views have followed."""
        self._has_old_columns = False
        """Whether the dataflow may still check columns that only dropped views have read."""
        self._saved = SavedViews(store)
        self._is_saved = True
        """Whether no view has changed since the state was saved, or the database was opened."""
        self._lead = 0
        """The logical time of the dataflow when `time` was 0."""
        self._compiled: dict[str, Definition] = {}
        """The definitions of all views whose plans the dataflow has compiled, by the digests of the plans."""
        self._conversions: dict[str, Conversion] = {}
        """The conversion of the rows of each table that was needed before."""

    def __iter__(self) -> Iterator[View]:
        return iter(self._views.values())

    def find(self, name: str) -> View | None:
        """Return the view of a name, without regard to case; None if there is none."""
        return self._views.get(name.lower())

    def __getitem__(self, name: str) -> View:
        view = self.find(name)
        if view is None:
            raise unknown("view", name, [each.name for each in self])
        return view

    def watches(self, name: str) -> bool:
        """Return whether a view reads a table, or would read it after the views were loaded anew."""
        return any(name.lower() in each.reads for each in self)

    def dependents(self, name: str) -> list[View]:
        """Return the views that read a table or a view, directly or by others, in the order of their creation."""
        found, names = [], {name.lower()}
        for each in self:
            if each.reads & names:
                found.append(each)
                names.add(each.name.lower())
        return found

    def plan(self, name: str, text: str, others: Mapping[str, View] | None = None) -> View:
        """Return a view that is not maintained yet; refuse one that the engine cannot maintain.

        others: the views that it may read, by their names in lower case; by default all.
        """
        known = self._views if others is None else others
        reads = self._tables_of(text)
        tables = [self._store.catalog[each] for each in self._store.catalog.names()]
        inputs = {each.name: each.collection for each in tables if each.collection.schema.fields}
        words = {name for each in statements(text) for name in each.names}
        needed = _needed(reads, known)
        try:
            found = query(text, inputs, needed)
        except DeltamarkError as error:
            for table in tables:
                for column, absence in table.absent.items():
                    if table.name.lower() in reads and column.lower() in words:
                        raise absence from None
            kind = SeveralSqlError if isinstance(error, SeveralSqlError) else NotSupportedError
            raise kind(f"view {name} cannot be maintained: {error.cause}", error.actual, error.remedy) from None
        names = [each.lower() for each in found.names]
        if repeated := [each for each in names if names.count(each) > 1]:
            raise ProgrammingError("a view with two columns of one name", f"{name}.{repeated[0]}", "write AS")
        used = reads.union(*(known[each.lower()].reads for each in needed))
        read = {each: table for each, table in inputs.items() if each.lower() in used}
        return View(name, text, reads, found, Definition(text, needed, read or inputs))

    def _tables_of(self, text: str) -> frozenset[str]:
        """Return the names in FROM, in lower case."""
        tables = (each["table_name"] for each in self._syntax(text) if each.get("type") == "BASE_TABLE")
        return frozenset(each.lower() for each in tables)

    def _syntax(self, text: str) -> Iterator[Json]:
        """Yield the objects of DuckDB's syntax tree of a text."""
        return objects(json.loads(self._store.run("SELECT json_serialize_sql($1)", [text]).fetchall()[0][0]))

    def refuse_passing(self, name: str, text: str) -> None:
        """Refuse a view that would have to change without a commit: it reads the clock, or a setting."""
        for each in self._syntax(text):
            called, columns = str(each.get("function_name", "")).lower(), each.get("column_names", ())
            is_column = each.get("type") == "COLUMN_REF" and len(columns) == 1
            if called in PASSING or (is_column and columns[0].lower() in MOMENTS):
                actual = f"{called or columns[0]}{'()' * bool(called)}"
                remedy = "write its value into the text, or compare with it in a SELECT from the view"
                raise NotSupportedError(
                    f"view {name} cannot be maintained: it changes without a commit", actual, remedy
                )

    def restore(self) -> None:
        """Plan the views that the file of the database declares."""
        declared = self._store.run("SELECT name, definition FROM deltamark.views ORDER BY position")
        for name, text in declared.fetchall():
            self._views[name.lower()] = self.plan(name, text)
        self._saved.begin(self._texts)

    @property
    def _texts(self) -> dict[str, str]:
        return {each.name: each.text for each in self}

    def create(self, view: View, replaced: View | None = None) -> None:
        """Maintain a view from now on, in place of another one. After an error, the views are as before."""
        try:
            with self._store.declaring():
                if replaced is not None:
                    self.drop(replaced)
                self._maintain(view)
                self._declare(view)
        except BaseException:
            self._forget(view)
            if replaced is not None and self.find(replaced.name) is None:
                self._maintain(replaced)
            raise

    def _maintain(self, view: View) -> None:
        self._load()
        self._is_saved = False
        view.answer = None
        assert self._dataflow is not None
        self._dataflow.keep(view.name, self._attached(view, self._dataflow))
        self._views[view.name.lower()] = view

    def _forget(self, view: View) -> None:
        """Maintain a view no more, if it is maintained."""
        self._is_saved = False
        if self.find(view.name) is view:
            del self._views[view.name.lower()]
        if self._dataflow is None:
            return
        if self._dataflow.has_failed:
            self.invalidate()
        elif self.find(view.name) is None:
            self._retire(self._dataflow, view.name)

    def _declare(self, view: View) -> None:
        """Let DuckDB know the columns of a view, and let the file have its text."""
        duckdb, columns = self._store.duckdb, {name: pa.array([], pa.null()) for name in view.query.types}
        with given_rows(duckdb, pa.table(columns), view.rows):
            duckdb.execute(f"CREATE VIEW {quoted(view.name)} AS SELECT {view.columns} FROM {quoted(view.rows)}")
        position = "(SELECT coalesce(max(position), 0) + 1 FROM deltamark.views)"
        duckdb.execute(f"INSERT INTO deltamark.views VALUES ({position}, $1, $2)", [view.name, view.text])

    def _attached(self, view: View, dataflow: Plans) -> Batch:
        """Attach a view to the arrangements that have the rows that it needs, or else to rows of the tables."""
        plan = view.query.collection
        self._compiled[view.digest] = view.definition
        try:
            return dataflow.attach(view.name, plan)
        except NoHistoryError as error:
            history = {name: self._rows_of(name) for name in error.inputs}
            return dataflow.attach(view.name, plan, history=history)

    def drop(self, *views: View) -> None:
        """Maintain some views no more. No other view reads them."""
        self._continue()  # so that a checkpoint can save the state of the others
        for view in views:
            self._saved.drop(view.name)
        with self._store.declaring():
            for view in views:
                self._store.duckdb.execute(f"DROP VIEW {quoted(view.name)}")
                self._store.duckdb.execute("DELETE FROM deltamark.views WHERE name = $1", [view.name])
        for view in views:
            self._forget(view)

    def feed(self, changes: Mapping[str, Sequence[Changed]]) -> dict[str, Batch]:
        """Maintain all views by the changes of a transaction; return the changes of each.

        After an error they are loaded anew when they are needed.
        """
        if not any(rows.num_rows for changed in changes.values() for rows, _ in changed):
            return {}
        try:
            return self._feed(changes)
        except DeltamarkError as error:
            if not self._has_old_columns:
                raise self._refused(error) from error
            self.invalidate()  # a column that no view reads any more may be the reason
            return self.feed(changes)

    def _feed(self, changes: Mapping[str, Sequence[Changed]]) -> dict[str, Batch]:
        self._load()
        self._is_saved = False
        assert self._dataflow is not None
        time = self.time + 1
        try:
            found = self._follow(self._dataflow, changes, self._lead + time)
        except BaseException:
            if self._dataflow.has_failed:
                self.invalidate()
            raise
        if found is None:
            return {}
        self.time = time
        for name, each in found.items():
            if len(each.time):
                self[name].answer = None
        return found

    def _follow(self, dataflow: Plans, changes: Mapping[str, Sequence[Changed]], time: int) -> dict[str, Batch] | None:
        """Feed changes of tables at a logical time; return those of the views, None if no view reads the tables."""
        batches = self._batches(dataflow, changes, time)
        return dataflow.feed(batches) if batches else None

    def _batches(self, dataflow: Plans, changes: Mapping[str, Sequence[Changed]], time: int) -> dict[str, Batch]:
        """Return changes of tables as batches of one time, with the columns that views read."""
        batches = {}
        for name, columns in dataflow.inputs.items():
            if present := [each for each in changes.get(name, ()) if each[0].num_rows]:
                table, found = self._store.catalog[name], self._conversions.get(name)
                if found is None or found.table is not table or found.columns != columns:
                    found = self._conversions[name] = Conversion(table, columns)
                batches[name] = found.batch(present, time)
        return batches

    def _refused(self, error: DeltamarkError) -> DeltamarkError:
        names = ", ".join(error.plans)
        views = f"view{'s' * (len(error.plans) > 1)} {names}" if names else "the views"
        return DataError(
            f"{views} cannot follow a change: {error.cause}", error.actual, "nothing was changed", time=error.time
        )

    def invalidate(self) -> None:
        """Forget the state of all views: the next use loads them from the tables."""
        if self._dataflow is not None:
            self._dataflow.close()
        self._dataflow = None
        for each in self:
            each.answer = None

    def close(self) -> None:
        self.invalidate()
        self._saved.close()

    def logged(self, changes: Mapping[str, Sequence[Changed]]) -> AbstractContextManager[None]:
        """Log the changes of a transaction that commits in the block, if the database is durable."""
        return self._saved.logged(changes)

    def mark(self) -> None:
        """Note that a statement may have written to the files of the tables."""
        self._saved.mark()

    def _load(self) -> None:
        """Load all views, unless they are maintained already: from their saved state, or from the committed rows."""
        if not self._continue():
            self._lead, self._has_old_columns = 0, False
            self._compiled = {each.digest: each.definition for each in self}
            self._dataflow = self._loaded(self)

    def _continue(self) -> bool:
        """Continue from the saved state, unless views are maintained already; return whether they are maintained."""
        if self._dataflow is None and self._is_saved and self._saved.fits:
            later = self._saved.later
            try:
                self._dataflow = self._restored(self) if later is None else self._replayed(later)
            except (DeltamarkError, pa.ArrowException) as error:
                self._saved.refuse(error)
            if self._dataflow is not None:
                self._lead = self._dataflow.last - self.time
        return self._dataflow is not None

    def _restored(self, views: Iterable[View]) -> Plans | None:
        """Return the dataflow that continues from the saved state of some views."""
        plans, retired = {each.name: each.query.collection for each in views}, self._retired()
        self._compiled = {each.digest: each.definition for each in views}
        self._compiled |= {digest: definition for digest, (definition, _) in retired.items()}
        self._has_old_columns = bool(retired)
        return self._saved.restored(plans, [plan for _, plan in retired.values()], self._workers)

    def _retired(self) -> dict[str, tuple[Definition, Collection]]:
        """Return the definitions and plans of the views that were dropped before the state was saved, by digests."""
        definitions = map(Definition.read, self._store.retired())
        planned = [(each, each.plan()) for each in definitions]
        return {plan.node.digest.hex(): (each, plan) for each, plan in planned}

    def _replayed(self, later: Contents) -> Plans | None:
        """Return the dataflow that continues from the saved state, after the changes of a log.

        It has the views of the state at first. Some of them may be dropped now, and others may have their names.
        """
        saved = self._saved_views(later.views)
        dataflow = self._restored(saved.values())
        if dataflow is None:
            return None
        try:
            for record in later.records():
                if isinstance(record, str):
                    saved.pop(record.lower(), None)
                    self._retire(dataflow, record)
                else:
                    self._follow(dataflow, record, dataflow.last + 1)
                self._is_saved = False
            for view in saved.values():
                if self.find(view.name) is not view:
                    self._retire(dataflow, view.name)
            for view in self:
                if view.name not in dataflow.schemas:
                    self._is_saved = False
                    dataflow.keep(view.name, self._attached(view, dataflow))
        except BaseException:
            dataflow.close()
            raise
        return dataflow

    def _saved_views(self, texts: Iterable[tuple[str, str]]) -> dict[str, View]:
        """Return views with some texts: those that exist, if they and all views that they read have the same texts."""
        found: dict[str, View] = {}
        for name, text in texts:
            present = self.find(name)
            is_same = present is not None and present.name == name and present.text == text
            if is_same and present is not None and all(found.get(each) is self.find(each) for each in present.reads):
                found[name.lower()] = present
            else:
                found[name.lower()] = self.plan(name, text, found)
        return found

    def _retire(self, dataflow: Plans, name: str) -> None:
        if name in dataflow.schemas:
            dataflow.retire(name)
            self._has_old_columns = True

    def checkpoint(self) -> None:
        """Write the committed rows of the tables and the state of the views to their files."""
        present = {each.digest for each in self}
        retired = [definition for digest, definition in self._compiled.items() if digest not in present]
        dataflow = self._dataflow if self._views else None
        self._saved.checkpoint(dataflow, self._texts, retired, is_saved=self._is_saved)
        self._is_saved = self._saved.fits

    def _loaded(self, views: Iterable[View], prepare: Callable[[Plans], None] = lambda _: None) -> Plans:
        """Return a dataflow that has followed the committed rows of the tables."""
        dataflow = Dataflow({each.name: each.query.collection for each in views}, workers=self._workers)
        try:
            prepare(dataflow)
            for name in dataflow.schemas:
                dataflow.keep(name)
            loaded = {name: [(rows, 1) for rows in self._store.committed(name)] for name in dataflow.inputs}
            dataflow.feed(self._batches(dataflow, loaded, self.time))
        except BaseException:
            dataflow.close()
            raise
        return dataflow

    def _rows_of(self, name: str) -> Iterator[Batch]:
        schema = self._store.catalog[name].collection.schema
        return (arrow_batch(rows, schema, 0) for rows in self._store.committed(name))

    def answer(self, name: str) -> pa.Table:
        """Return the present answer of a view, as Arrow has the engine's values."""
        view = self[name]
        if view.answer is None:
            self._load()
            assert self._dataflow is not None
            view.answer = self._dataflow.answer(view.name)
        return view.answer

    def typed(self, view: View) -> Result:
        """Return no rows, with the columns that the answer of a view has in DuckDB."""
        columns = {name: pa.array([], pa.null()) for name in view.query.types}
        with given_rows(self._store.duckdb, pa.table(columns), view.rows):
            return self._store.run(f"SELECT {view.columns} FROM {quoted(view.rows)}")

    @contextmanager
    def readable(self, statement: Statement) -> Iterator[None]:
        """Let DuckDB read the answers of the views, and the registered rows, that a statement names."""
        names = statement.names
        with ExitStack() as given:
            for each in self:
                if self._store.has_macros or each.name.lower() in names:
                    given.enter_context(given_rows(self._store.duckdb, self.answer(each.name), each.rows))
            for name, rows in self._store.registered.items():
                if self._store.has_macros or name in names:
                    given.enter_context(given_rows(self._store.duckdb, rows, name))
            yield

    def explain(self, name: str) -> str:
        """Return the tree of a view's operators, with the rows that they keep."""
        self._load()
        assert self._dataflow is not None
        return self._dataflow.explain(self[name].name)

    def measure(self, name: str) -> str:
        """Load a view once more, by itself; return its tree with the changes and the time of each operator."""
        dataflow = self._loaded([self[name]], Dataflow.profile)
        try:
            return dataflow.explain(self[name].name)
        finally:
            dataflow.close()


def _needed(reads: Iterable[str], views: Mapping[str, View]) -> dict[str, str]:
    """Return the texts of the views that a text reads, directly or by others, in the order of their creation."""
    needed = set(reads)
    for name, each in reversed(list(views.items())):
        if name in needed:
            needed |= each.reads
    return {each.name: each.text for name, each in views.items() if name in needed}
