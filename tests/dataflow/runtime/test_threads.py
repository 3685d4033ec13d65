"""Threads and forked processes use one dataflow as if in some order, or get an error."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from contextlib import closing, suppress
from itertools import count as counted

import pytest
from support.engines.elsewhere import TIMEOUT_S, in_child, in_thread

from deltamark import Atom, Batch, Dataflow, DeltamarkError, StaticMotif, integer, source

sales = source("sales", {"shop": integer(0, 9)}, rows=1_000_000)
by_shop = sales.count(by="shop")
FEEDS = 60


def sold(time, *shops):
    return {"sales": Batch([time] * len(shops), [1] * len(shops), {"shop": list(shops)})}


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("many_switches")
def test_feeds_of_several_threads_are_as_if_in_some_order(workers):
    times, said = counted(), list[Batch]()
    with Dataflow(by_shop, workers=workers) as dataflow:

        def feed():
            for _ in range(FEEDS):
                with suppress(DeltamarkError):  # a later time was fed first
                    said.append(dataflow.feed(sold(next(times), *range(10))))

        threads = [threading.Thread(target=feed) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    answer = Counter()
    for each in said:
        rows = zip(each.columns["shop"].tolist(), each.columns["count"].tolist(), strict=True)
        for row, diff in zip(rows, each.diff.tolist(), strict=True):
            answer[row] += diff
    assert {row: diff for row, diff in answer.items() if diff} == {(shop, len(said)): 1 for shop in range(10)}


@pytest.mark.usefixtures("many_switches")
def test_a_dataflow_that_is_closed_between_the_feeds_of_another_thread_says_so():
    dataflow = Dataflow(by_shop)

    def feed_for_ever():
        for time in counted():
            dataflow.feed(sold(time, *range(10)))
            if time == 20:
                closer.start()

    closer = threading.Thread(target=dataflow.close)
    error = in_thread(feed_for_ever)
    closer.join()
    assert str(error) == "the dataflow is closed: its memory was released; open another one"


def test_a_history_cannot_feed_the_dataflow_that_reads_it():
    with Dataflow({"shops": by_shop}) as dataflow:
        dataflow.feed(sold(0, 1))

        def history():
            dataflow.feed(sold(1, 1))
            yield sold(0, 1)["sales"]

        with pytest.raises(DeltamarkError, match="a call during another call of the dataflow"):
            dataflow.attach("late", sales.count(), history={"sales": history()})
        assert list(dataflow.schemas) == ["shops"]
        assert dataflow.feed(sold(1, 1))["shops"].columns["count"].tolist() == [1, 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_forked_process_has_its_own_copy_of_a_dataflow(workers):
    with Dataflow(by_shop, workers=workers) as dataflow:
        dataflow.feed(sold(0, 1))
        assert "2" in in_child(lambda: dataflow.feed(sold(1, 1)).columns["count"])
        assert dataflow.feed(sold(1, 1, 1)).columns["count"].tolist() == [1, 3]


def test_a_forked_process_has_its_own_copy_of_a_static_motif():
    edges = source("e", {"src": integer(0, 9), "dst": integer(0, 9)}, 99)
    with closing(StaticMotif([Atom(edges, ("a", "b"))], workers=2)) as motif:
        motif.load({"e": Batch([0], [1], {"src": [1], "dst": [2]})})
        assert motif.count() == 1
        assert in_child(motif.count) == "1"
        assert in_child(motif.close) == "None"
        assert motif.count() == 1


def test_a_forked_process_opens_a_dataflow_with_several_workers():
    def feed():
        with Dataflow(by_shop, workers=3) as dataflow:
            return dataflow.feed(sold(0, *range(10))).diff.sum()

    assert feed() == 10
    assert in_child(feed) == "10"


def threads():
    return [each for each in threading.enumerate() if each.name.startswith("deltamark worker")]


def test_the_threads_of_workers_end_with_their_dataflow():
    assert not threads()
    with Dataflow(by_shop, workers=3) as dataflow:
        dataflow.feed(sold(0, 1))
        assert threads()
    assert not threads()
    dataflow = Dataflow(by_shop, workers=3)
    dataflow.feed(sold(0, 1))
    ended = threads()
    del dataflow
    gc.collect()
    for each in ended:
        each.join(TIMEOUT_S)
    assert not threads()


def test_dataflows_with_several_workers_are_used_at_once():
    def feed():
        with Dataflow(by_shop, workers=2) as dataflow:
            return sum(int(dataflow.feed(sold(time, *range(10))).diff.sum()) for time in range(FEEDS))

    found = []
    each_thread = [threading.Thread(target=lambda: found.append(feed())) for _ in range(3)]
    for each in each_thread:
        each.start()
    for each in each_thread:
        each.join()
    assert found == [10] * 3
