"""Laws of feeds: a mistake is one error that names it, changes nothing, and does not disturb the next feed."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import BOOL, LAST_TIME, NULL, TEXT, date_type, integer
from deltamark.errors import DeltamarkError

left = source("left", {"key": integer(-100, 100), "value": integer(0, 9)}, 1000)
right = source("right", {"key": integer(-100, 100), "text": TEXT}, 1000)
joined = left.join(right, on="key").aggregate(by=("key", "text"), sum=col.value.sum())


def ints(*values):
    return np.array(values, dtype=np.int64)


def lefts(time=(0,), diff=(1,), **columns):
    return Batch(ints(*time), ints(*diff), {"key": ints(5), "value": ints(1)} | columns)


def rights(**columns):
    return Batch(ints(0), ints(1), {"key": ints(5), "text": pa.array(["a"])} | columns)


MISTAKES = {
    "a column of floats": ({"left": lefts(key=np.array([1.5]))}, "not whole numbers: left.key: float64"),
    "a column of nan": ({"left": lefts(key=np.array([np.nan]))}, "not whole numbers: left.key: float64"),
    "a column of conditions": ({"left": lefts(key=np.array([True]))}, "not whole numbers: left.key: bool"),
    "a column of strings": ({"left": lefts(key=np.array(["7"]))}, "not whole numbers: left.key: <U1"),
    "a ragged list": ({"left": lefts(key=[[1, 2], [3]])}, "columns of different lengths"),
    "a column of two dimensions": ({"left": lefts(key=np.array([[1, 2]]))}, "left.key: int64 in 2 dimensions"),
    "a column that is a number": ({"left": lefts(key=7)}, "not a column: left.key: 7"),
    "a number of 65 bits": ({"left": lefts(key=[2**64])}, "not whole numbers: left.key: object"),
    "an unsigned number": ({"left": lefts(key=np.array([2**63], np.uint64))}, "left.key: 9223372036854775808"),
    "a missing number": ({"left": lefts(key=pa.array([None], pa.int64()))}, "missing values: left.key: 1"),
    "NULL where there is none": ({"left": lefts(key=ints(NULL))}, "a value outside its bounds: left.key"),
    "a column too short": ({"left": lefts((0, 0), (1, 1))}, "left.key: 1 values, time: 2"),
    "a column too long": ({"left": lefts(key=ints(1, 2))}, "left.key: 2 values, time: 1"),
    "too few weights": ({"left": lefts((0, 0), (1,), key=ints(1, 2), value=ints(1, 2))}, "left.diff: 1 values"),
    "a text too few": ({"right": rights(key=ints(5, 6), text=pa.array(["a"]))}, "right.key: 2 values, time: 1"),
    "texts that are numbers": ({"right": rights(text=[5])}, "not a column of text: right.text: int64"),
    "a text that is no UTF-8": ({"right": rights(text=["\ud800"])}, "not a column of text: right.text"),
    "bytes that are no UTF-8": (
        {"right": rights(text=pa.StringArray.from_buffers(1, pa.py_buffer(ints(1 << 32)), pa.py_buffer(b"\xff")))},
        "not a column of text: right.text",
    ),
    "bytes for a text": ({"right": rights(text=pa.array([b"a"]))}, "not a column of text: right.text: binary"),
    "a missing text": ({"right": rights(text=pa.array([None], pa.string()))}, "missing values: right.text: 1"),
    "a column that is missing": (
        {"left": Batch(ints(0), ints(1), {"key": ints(5)})},
        "a column is missing: left.value; the batch has key",
    ),
    "columns without names": ({"left": Batch(ints(0), ints(1), [ints(5)])}, "not a batch: left: Batch"),
    "no batch": ({"left": {"key": ints(5)}}, "not a batch: left: dict"),
    "an unknown input": ({"lefts": lefts()}, "unknown input: lefts; did you mean left"),
    "no names of inputs": ([lefts()], "not batches by the names of inputs: list"),
    "a negative time": ({"left": lefts((-5,))}, "a time outside its range: left: -5"),
    "a time too late": ({"left": lefts((LAST_TIME + 1,))}, f"left: {LAST_TIME + 1}..{LAST_TIME + 1}; .* {LAST_TIME}"),
    "times that fall": (
        {"left": lefts((3, 1), (1, 1), key=ints(1, 1), value=ints(1, 1))},
        "times out of order: left: 1 after 3, at row 1",
    ),
    "a fraction of a time": (
        {"left": Batch(np.array([0.5]), ints(1), {"key": ints(5), "value": ints(1)})},
        "not whole numbers: left.time: float64",
    ),
    "too many rows": ({"left": lefts(diff=(1001,))}, "more rows than declared: left: 1001, declared 1000"),
    "a weight without a positive": ({"left": lefts(diff=(-(2**63),))}, f"left: {2**63}, declared 1000"),
    "weights whose sum wraps": (
        {"left": lefts((0,) * 4, (2**62,) * 4, key=ints(1, 1, 1, 1), value=ints(1, 1, 1, 1))}, "more rows than declared"
    ),
    "a value outside its bounds": ({"left": lefts(), "right": rights(key=ints(101))}, "right.key: 101..101, declared"),
}  # fmt: skip


def rows(batch):
    columns = (values.tolist() for values in batch.columns.values())
    return sorted(zip(batch.time.tolist(), batch.diff.tolist(), *columns, strict=True))


@pytest.mark.parametrize("make", [Dataflow, lambda plan: Dataflow(plan, workers=2)], ids=["worker", "workers"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_error_and_changes_nothing(name, make):
    batches, message = MISTAKES[name]
    most = {"left": lefts(diff=(1000,)), "right": rights()}
    with closing(make(joined)) as engine:
        with pytest.raises(DeltamarkError, match=message):
            engine.feed(batches)
        assert rows(engine.feed(most)) == [(0, 1, 5, "a", 1000)]


def test_earlier_feeds_count_in_the_checks_of_times_and_rows():
    mistakes = {
        "times out of order: left: 3 after 3": lefts((3,)),
        "more rows than declared: left: 1001, declared 1000": lefts((4,), (401,)),
    }
    with closing(Dataflow(left.distinct())) as worker:
        worker.feed({"left": lefts((3,), (600,))})
        for message, mistake in mistakes.items():
            with pytest.raises(DeltamarkError, match=message):
                worker.feed({"left": mistake})
        assert rows(worker.feed({"left": lefts((4,), (400,))})) == []


def test_a_sum_of_weights_that_needs_more_than_64_bits_is_too_many_rows():
    many = source("many", {"key": integer(0, 9)}, 2**62)
    heavy = Batch(ints(0, 0, 0, 0), ints(*[2**61] * 4), {"key": ints(1, 2, 3, 4)})
    with (
        closing(Dataflow(many.distinct())) as worker,
        pytest.raises(DeltamarkError, match=f"more rows than declared: many: {2**63}, declared {2**62}"),
    ):
        worker.feed({"many": heavy})


FORMS = {
    "a list": [5, 6],
    "narrow integers": np.array([5, 6], np.int8),
    "unsigned integers": np.array([5, 6], np.uint64),
    "the other byte order": np.array([5, 6], ">i4"),
    "a strided view": np.array([5, 0, 6, 0])[::2],
    "an Arrow array": pa.array([5, 6]),
    "a slice of an Arrow array": pa.array([0, 5, 6, 0], pa.int16())[1:3],
    "chunks": pa.chunked_array([[5], [6]]),
    "a masked array without a mask": np.ma.array([5, 6]),
}


@pytest.mark.parametrize("form", FORMS)
def test_integers_may_be_fed_in_any_form(form):
    with closing(Dataflow(left.select("key"))) as worker:
        found = worker.feed({"left": Batch(ints(0, 0), ints(1, 1), {"key": FORMS[form]})})
    assert rows(found) == [(0, 1, 5), (0, 1, 6)]


TEXTS = {
    "Arrow's strings": pa.array(["a", "é"]),
    "large strings": pa.array(["a", "é"], pa.large_string()),
    "string views": pa.array(["a", "é"]).cast(pa.string_view()),
    "a dictionary": pa.array(["a", "é"]).dictionary_encode(),
    "chunks": pa.chunked_array([["a"], ["é"]]),
    "a slice": pa.array(["x", "a", "é", "y"])[1:3],
    "objects": np.array(["a", "é"], object),
    "a list": ["a", "é"],
    "bytes up to the end of their memory": pa.StringArray.from_buffers(
        2, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer("aé".encode())
    ),
}


@pytest.mark.parametrize("form", TEXTS)
def test_texts_may_be_fed_in_any_form(form):
    with closing(Dataflow(right.distinct("text"))) as worker:
        found = worker.feed({"right": Batch(ints(0, 0), ints(1, 1), {"text": TEXTS[form]})})
    assert rows(found) == [(0, 1, "a"), (0, 1, "é")]


nullable = source("some", {"n": integer(0, 9).or_null(), "d": date_type(0, 9).or_null(), "t": TEXT.or_null()}, 100)


@pytest.mark.parametrize(
    "numbers",
    [pa.array([1, None, 3]), ints(1, NULL, 3), np.ma.array([1, 2, 3], mask=[False, True, False])],
    ids=["arrow", "array", "masked"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_may_declare_null(numbers, workers):
    dates, texts = pa.array([None, 2, 3], pa.int32()), pa.array([None, None, "c"])
    batch = Batch(ints(0, 0, 0), ints(1, 2, 1), {"n": numbers, "d": dates, "t": texts})
    with closing(Dataflow(nullable.distinct(), workers=workers)) as engine:
        columns = engine.feed({"some": batch}).columns
    found = set(zip(*(each.tolist() for each in columns.values()), strict=True))
    assert found == {(1, NULL, None), (NULL, 2, None), (3, 3, "c")}
    filtered = nullable.where(col.t.is_null() & ~col.n.is_null()).select("n", "t")
    with closing(Dataflow(filtered, workers=workers)) as engine:
        assert [each.tolist() for each in engine.feed({"some": batch}).columns.values()] == [[1], [None]]


@pytest.mark.parametrize("time", [2**53, 2**61, LAST_TIME])
@pytest.mark.parametrize("workers", [1, 2])
def test_times_may_be_as_late_as_the_last(time, workers):
    with closing(Dataflow(joined, workers=workers)) as engine:
        late = Batch(ints(time), ints(1), {"key": ints(5), "text": ["a"]})
        assert rows(engine.feed({"left": lefts((time,)), "right": late})) == [(time, 1, 5, "a", 1)]


def test_a_dataflow_that_was_stopped_halfway_raises_an_error():
    with closing(Dataflow(left.distinct())) as worker:
        with pytest.raises(DeltamarkError, match="a negative multiplicity"):
            worker.feed({"left": lefts(diff=(-1,))})
        with pytest.raises(DeltamarkError, match=r"an earlier call was stopped halfway: .* a negative multiplicity"):
            worker.feed({"left": lefts((1,))})


late = source("late", {"late": BOOL.or_null()}, 1000)
CONDITIONS = {
    "bools": ([True, False], [1, 0]),
    "bools of numpy": (np.array([True, False]), [1, 0]),
    "bools of Arrow": (pa.array([True, None]), [1, NULL]),
    "chunks of Arrow": (pa.chunked_array([[True], [None]]), [1, NULL]),
    "a masked array": (np.ma.masked_array([True, False], [False, True]), [1, NULL]),
    "numbers": (ints(1, NULL), [1, NULL]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_column_of_conditions_may_have_many_forms(name):
    fed, stored = CONDITIONS[name]
    with closing(Dataflow(late)) as dataflow:
        changes = dataflow.feed({"late": Batch(ints(0, 0), ints(1, 1), {"late": fed})})
    assert changes.columns["late"].tolist() == stored
