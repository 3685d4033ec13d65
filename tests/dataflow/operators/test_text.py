"""Laws of stored text: it is unchanged in the output, matched as in SQL, ordered by bytes, released with its rows."""

from __future__ import annotations

import re
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.inside import worker_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import TEXT, integer, unpack_short
from deltamark.errors import DeltamarkError

notes = source("notes", {"key": integer(0, 999), "text": TEXT}, 1000)
characters = st.characters(codec="utf-8", exclude_characters="\0")
any_texts = st.lists(st.one_of(st.text(characters), st.text("ab%é", max_size=30)), max_size=12)


def batch(texts: list[str], time: int = 0, diff: int = 1) -> dict[str, Batch]:
    times, diffs = np.full(len(texts), time), np.full(len(texts), diff)
    return {"notes": Batch(times, diffs, {"key": np.arange(len(texts)), "text": texts})}


def answer(collection: Collection, texts: list[str]) -> list[tuple[object, ...]]:
    with closing(Dataflow(collection)) as worker:
        out = worker.feed(batch(texts))
        return sorted(zip(*(out.columns[name].tolist() for name in collection.schema.names), strict=True))


@given(any_texts)
def test_a_text_is_unchanged_in_the_output(texts):
    assert answer(notes, texts) == list(enumerate(texts))


@given(any_texts, st.lists(st.sampled_from(["", "a", "b", "ab", "ba", "é", "aaaaaaaaab"]), min_size=1, max_size=4))
def test_like_is_that_of_sql(texts, pieces):
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    found = answer(notes.where(col.text.like("%".join(pieces))), texts)
    assert found == [(key, text) for key, text in enumerate(texts) if pattern.fullmatch(text)]


@given(any_texts)
def test_a_constant_replaces_a_missing_text(texts):
    every = notes.left_join(notes.where(col.key < 2).select("key", few=col.text), on="key")
    found = answer(every.select("key", few=col.few.coalesce("none")), texts)
    assert found == list(enumerate([*texts[:2], *("none" for _ in texts[2:])]))


@given(any_texts, st.integers(1, 9), st.integers(1, 3))
def test_a_substring_counts_characters(texts, start, length):
    parts = [text[start - 1 : start - 1 + length] for text in texts]
    chosen = notes.select("key", part=col.text.substring(start, length))
    if any(len(part.encode()) > 7 for part in parts):
        with pytest.raises(DeltamarkError, match="more than seven bytes"):
            answer(chosen, texts)
    else:
        assert [(key, unpack_short(part)) for key, part in answer(chosen, texts)] == list(enumerate(parts))


@given(any_texts, st.integers(1, 5))
def test_the_first_texts_are_the_first_by_their_bytes(texts, places):
    first = sorted(enumerate(texts), key=lambda row: (row[1].encode(), row[0]))[:places]
    assert answer(notes.top(places, ["text", "key"]), texts) == sorted(first)
    last = sorted(sorted(enumerate(texts)), key=lambda row: row[1].encode(), reverse=True)[:places]
    assert answer(notes.top(places, ["-text", "key"]), texts) == sorted(last)


def test_texts_may_be_cut_out_of_an_array():
    whole = pa.array(["one", "two", "three", "four"])
    assert answer(notes, whole.slice(1, 2)) == [(0, "two"), (1, "three")]


def test_a_text_that_is_missing_is_refused():
    with (
        closing(Dataflow(notes)) as worker,
        pytest.raises(DeltamarkError, match=r"missing values: notes\.text: 1 of them"),
    ):
        worker.feed(batch([None, "a"]))


def test_the_pool_follows_the_live_rows(monkeypatch):
    """Ten texts of all lengths are live at a time, and none recurs."""
    monkeypatch.setattr("deltamark.dataflow.builder.sweeps.MIN_SWEPT_NUMBERS", 10)
    with closing(Dataflow(notes.distinct("text"))) as worker:
        sizes = []
        for time in range(300):
            texts = [f"{time}-{number}-{'x' * (number * time % 90)}" for number in range(10)]
            worker.feed(batch(texts, 2 * time))
            worker.feed(batch(texts, 2 * time + 1, -1))
            pool = TextPool(worker_of(worker).compiled.program.sweeper.texts.block)
            sizes.append((pool.next_number, pool.heap))
        assert worker.state_rows() == 0
    assert sizes[-1][0] <= 40
    assert sizes[-1][1] == sizes[200][1]


def test_deleted_groups_keep_no_texts():
    """A group by three columns has a number, which a sweep releases for any signs of its rows."""
    rows = source("rows", {"a": TEXT, "b": TEXT, "n": integer(0, 2**40)}, 1000)
    signed = rows.concat(rows.negate(), rows).aggregate(by=("a", "b", "n"), sum=col.n.sum())
    numbers = np.arange(20)
    columns = {"a": [f"a {number}" for number in numbers], "b": [f"b {number}" for number in numbers], "n": numbers}
    with closing(Dataflow(signed)) as worker:
        for time, sign in enumerate([1, -1]):
            worker.feed({"rows": Batch(np.full(20, time), np.full(20, sign), columns)})
        assert worker.state_rows() == 0
