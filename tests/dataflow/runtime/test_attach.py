"""Laws of attached and retired plans: a late plan has the changes of the plan from the beginning."""

from __future__ import annotations

from contextlib import closing
from mmap import PAGESIZE

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays, stream_of
from support.engines.explanations import parts
from support.engines.late import check_late, cuts_of, fed, live, numbers_of_workers
from support.random_plans.case import Case
from support.random_plans.strategies import cases, streams_of
from support.random_plans.streams import inputs_of
from support.written_plans.operators import OPERATORS, each_operator, items, others
from support.written_plans.thresholds import above

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError

few = settings(max_examples=4)
many = settings(max_examples=30)
each_number_of_workers = pytest.mark.parametrize("workers", [1, 2, 3])


@pytest.mark.draws(26)
@each_operator
@few
@given(data=st.data())
def test_an_operator_attached_late_has_its_changes_from_the_beginning(name, data):
    collection = OPERATORS[name]
    case = Case(collection, data.draw(streams_of(collection)))
    cut = data.draw(cuts_of(case.streams))
    check_late(case, {"same": collection}, cut, stay=data.draw(st.booleans()), workers=data.draw(numbers_of_workers))


@many
@given(cases(), st.data())
def test_a_plan_attached_late_has_its_changes_from_the_beginning(case, data):
    parts = [Collection(node) for node in walk(case.collection.node)]
    chosen = data.draw(st.lists(st.sampled_from(parts), max_size=3))
    inputs = [each for each in parts if isinstance(each.node, Input)]
    residents = {str(place): each for place, each in enumerate([*inputs, *chosen])}
    cut = data.draw(cuts_of(case.streams))
    check_late(case, residents, cut, stay=data.draw(st.booleans()), workers=data.draw(numbers_of_workers))


@each_number_of_workers
def test_a_late_plan_needs_no_history_of_arranged_rows(workers):
    streams = {"items": [((0, 1, 0), 0, 1), ((1, 2, 1), 0, 2)], "others": [((0, 2, 8034), 0, 1)]}
    joined = items.join(others, on="key")
    late = joined.count(by="key")
    with closing(Dataflow({"joined": joined}, workers=workers)) as together:
        fed(together, inputs_of(joined), streams)
        assert stream_of(late, together.attach("late", late)) == {(0, (0, 1)): 1}
        assert len(parts(together.explain(), "arrangement")) == 2


def test_a_late_plan_needs_the_history_of_rows_without_an_arrangement():
    with closing(Dataflow({"count": items.count(by="key")})) as together:
        fed(together, inputs_of(items), {"items": [((0, 1, 0), 0, 1)]})
        with pytest.raises(DeltamarkError, match="no arrangement has these rows"):
            together.attach("distinct", items.distinct("value"))
        assert list(together.schemas) == ["count"], "the failed plan is retired"


@each_number_of_workers
def test_retiring_a_plan_releases_the_state_that_no_other_plan_reads(workers):
    first, second = items.join(others, on="key"), items.distinct("value")
    streams = {"items": [((0, 1, 0), 0, 1)], "others": [((0, 0, 8034), 0, 1)]}
    with closing(Dataflow({"first": first}, workers=workers)) as together:
        fed(together, inputs_of(first), streams)
        rows, size, explained = together.state_rows(), together.state_bytes(), together.explain()
        for _ in range(3):
            together.attach("second", second, history={"items": [live(items.schema, streams["items"])]})
            assert together.state_rows() == rows + 1
            together.retire("second")
            assert (together.state_rows(), together.explain()) == (rows, explained)
            assert (
                together.state_bytes() <= size + 2 * workers * PAGESIZE
            )  # the blocks of retired operators, of some bytes, stay
        together.retire("first")
        assert (together.state_rows(), together.inputs) == (0, {})


@each_number_of_workers
def test_an_arrangement_outlives_the_dataflow_that_made_it(workers):
    first, second = items.join(others, on="key"), items.join(others, on="key").count()
    streams = {"items": [((0, 1, 0), 0, 1)], "others": [((0, 0, 8034), 0, 1)]}
    with closing(Dataflow({"first": first}, workers=workers)) as together:
        fed(together, inputs_of(first), streams)
        together.attach("second", second)
        together.retire("first")
        out = fed(together, inputs_of(first), {"items": [((0, 2, 0), 1, 1)]})
        assert stream_of(second, out["second"]) == {(1, (1,)): -1, (1, (2,)): 1}


def test_names_are_checked():
    with closing(Dataflow({"one": items})) as together:
        with pytest.raises(DeltamarkError, match="a plan of this name is attached"):
            together.attach("one", items)
        with pytest.raises(DeltamarkError, match="unknown plan"):
            together.retire("two")


@each_number_of_workers
@pytest.mark.parametrize("rows", [3, 200, 4000, 9000])
@pytest.mark.parametrize("given", [False, True], ids=["arranged", "history"])
def test_a_late_plan_reads_each_row_once(rows, given, workers):
    """The slices of a history are read from its own arrays, which are gone at the next feed."""
    numbers = source("numbers", {"a": integer(0, 2**20)}, 100_000)
    others = source("more", {"a": integer(0, 2**20)}, 100_000)

    def batch(count, time):
        return Batch(np.full(count, time), np.ones(count, np.int64), {"a": np.arange(count)})

    resident = numbers.count() if given else numbers.join(others, on="a")
    with closing(Dataflow({"resident": resident, "others": others.count()}, workers=workers)) as together:
        together.feed({"numbers": batch(rows, 7), "more": batch(2, 7)})
        late = together.attach("late", numbers.select("a"), history={"numbers": [batch(rows, 0)]} if given else None)
        assert (late.time.tolist(), sorted(late.columns["a"].tolist())) == ([7] * rows, [*range(rows)])
        assert len(together.feed({"more": batch(1, 8)})["late"].time) == 0
        assert together.feed({"numbers": batch(1, 9)})["late"].time.tolist() == [9]


TEXTS = source("texts", {"a": TEXT, "k": integer(0, 9)}, 10_000)
HOLDERS = {
    "arrangement": TEXTS.join(TEXTS.rename(other="k"), on="a"),
    "stored": TEXTS.join(TEXTS.rename(b="a"), on="k"),
    "group": TEXTS.count(by="a"),
    "groups": TEXTS.count(by=("a", "k")),
    "row": TEXTS.distinct(),
    "extreme": TEXTS.largest("k", by="a"),
    "top": TEXTS.top(3, ["-a"]),
    "or-null": TEXTS.or_null(),
    "at-most-one": TEXTS.at_most_one(("a", "k")),
    "bound": above(TEXTS, TEXTS.count(by="a"), col.k, "count", on="a"),
    "nothing": TEXTS,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_no_text_outlives_the_dataflow_that_held_it(name):
    def batch(first, time):
        texts = [f"text {number}" for number in range(first, first + 50)]
        return Batch(np.full(50, time), np.ones(50, np.int64), {"a": texts, "k": np.arange(50) % 10})

    with closing(Dataflow({"resident": others.count()})) as together:
        together.feed({"others": arrays(others.schema, [((0, 2, 8034), 0, 1)])})
        before = together.state_rows()
        for visit in range(3):
            together.attach("late", HOLDERS[name], history={"texts": [batch(100 * visit, 0)]})
            together.feed({"texts": batch(100 * visit + 50, visit + 1)})
            together.retire("late")
            assert together.state_rows() == before


@each_number_of_workers
def test_a_history_that_is_loaded_in_pieces_has_one_row_at_its_end(workers):
    """While it is loaded, each number occurs once for a while; at the end one number does."""
    numbers = source("numbers", {"a": integer(0, 2**20)}, 100_000)
    once = numbers.count(by="a").where(col.count == 1).at_most_one().select("a")
    rows = [*range(5000), *range(1, 5000)]
    batch = Batch(np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64), {"a": rows})
    with closing(Dataflow({"resident": numbers.count(by="a"), "rows": numbers}, workers=workers)) as together:
        together.feed({"numbers": batch})
        late = together.attach("late", once, history={"numbers": [batch]})
        assert late.columns["a"].tolist() == [0]


def test_a_history_before_the_first_feed_is_refused():
    rows = {"items": [live(items.schema, [((0, 1, 0), 0, 1)])]}
    with closing(Dataflow({"resident": others.count()})) as together:
        for begin in (
            lambda: together.attach("late", items, history=rows),
            lambda: together.attach("late", items, history=rows, fuel=2),
        ):
            with pytest.raises(DeltamarkError, match="a history before the first feed: items: 1 rows; feed these rows"):
                begin()
        assert list(together.schemas) == ["resident"]
        together.attach("late", items.count(), history={"items": []})
        assert together.feed({"items": rows["items"][0]})["late"].columns["count"].tolist() == [1]


def test_a_column_that_no_plan_has_read_since_a_held_time_is_refused():
    first, second = [((0, 1, 0), 0, 1)], [((0, 2, 0), 1, 1)]
    with closing(Dataflow({"resident": items.count(by="key")})) as together:
        fed(together, inputs_of(items), {"items": first})
        hold = together.hold()
        fed(together, inputs_of(items), {"items": second})
        with pytest.raises(DeltamarkError, match="changes that no plan read since then: items: value, in"):
            together.attach("late", items.count(by="value"), history={"items": [live(items.schema, first)]}, since=hold)


@pytest.mark.parametrize("reader", [None, "others.count()"])
def test_an_input_that_no_plan_has_read_since_a_held_time_is_refused(reader):
    """An input without a reader cannot be fed, so its rows are missing; an input with one has had no rows."""
    with closing(
        Dataflow({"resident": items.count(by="key")} | ({"reader": others.count()} if reader else {}))
    ) as together:
        together.feed({"items": arrays(items.schema, [((0, 1, 0), 0, 1)])})
        hold = together.hold()
        together.feed({"items": arrays(items.schema, [((0, 2, 0), 1, 1)])})
        history = {"others": [live(others.schema, [((0, 2, 8034), 0, 1)])]}
        if reader:
            assert together.attach("late", others.count(), history=history, since=hold).columns["count"].tolist() == [1]
        else:
            with pytest.raises(DeltamarkError, match="changes that no plan read since then: others"):
                together.attach("late", others.count(), history=history, since=hold)
