"""Laws of memory: pages of earlier users neither reach nor count for later ones, and the pool has a bound."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamark.dataflow.kernels.core import pages
from deltamark.dataflow.kernels.core.guard import CHECKED
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.core.pages import (
    ADDRESS_BYTES,
    HUGE_PAGE_BYTES,
    PAGE_BYTES,
    Kind,
    Mapping,
    Pool,
    map_pages,
    touched,
    unmap,
)
from deltamark.errors import DeltamarkError

WORDS, SEEN = 1 << 24, 1 << 20
"""The words of a reservation in these tests, and those that they look at."""

pytestmark = pytest.mark.skipif(CHECKED, reason="checked kernels have no pool")

places = st.lists(st.integers(0, SEEN - 1), max_size=20)
users = st.lists(st.tuples(st.booleans(), st.sampled_from([0, SEEN]), places), max_size=6)


@pytest.fixture(autouse=True)
def _needs_extents():
    mapping = map_pages(Kind.of(PAGE_BYTES, 0), 0)
    view(mapping.start, 1)[0] = 1
    (extents,) = touched([mapping])
    unmap(mapping)
    if not extents:
        pytest.skip("this kernel does not tell which pages a process has touched: nothing is kept")


@settings(max_examples=50, deadline=None)
@given(st.lists(users, max_size=4))
def test_words_are_zero_whatever_their_last_user_has_written(lives):
    pool = Pool(1 << 30)
    for reservations in lives:
        memory = Memory(pool)
        for is_unset, expected, written in reservations:
            address = (memory.reserve_unset if is_unset else memory.reserve)(WORDS, expected)
            assert is_unset or not view(address, SEEN).any()
            view(address, SEEN)[written] = -1
        memory.close()
    pool.clear()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, SEEN), st.integers(0, SEEN), st.booleans(), st.sampled_from([0, SEEN]))
def test_an_array_counts_the_pages_that_it_has_used(before, used, is_unset, expected):
    pool, sizes = Pool(1 << 30), []
    for words in (used, before, used):
        memory = Memory(pool)
        address = (memory.reserve_unset if is_unset else memory.reserve)(WORDS, expected)
        view(address, words)[:] = 1
        sizes.append(memory.resident([address])[address])
        memory.close()
    pool.clear()
    assert sizes[0] == sizes[2]
    assert 8 * used <= sizes[0] < 8 * used + 2 * HUGE_PAGE_BYTES


def test_a_memory_that_is_opened_again_gets_the_pages_of_the_same_arrays():
    pool = Pool(1 << 30)
    kinds = [(WORDS, 0), (WORDS, 1 << 12), (WORDS // 4, 0), (WORDS, 0)]
    larger, memory = Memory(pool), Memory(pool)

    def reserved(memory, kinds):
        addresses = [memory.reserve_unset(*kind) for kind in kinds]
        for address in addresses:
            view(address, 1)[0] = 1
        return addresses

    reserved(larger, 3 * kinds)
    addresses = reserved(memory, kinds)
    larger.close()  # its ranges are of the same kinds, and older
    for _ in range(3):
        memory.close()
        memory = Memory(pool)
        assert reserved(memory, kinds) == addresses
    memory.close()
    pool.clear()


@pytest.mark.parametrize("most_pages", [0, 1, 3, 100])
def test_the_pool_keeps_the_youngest_pages_up_to_its_bound(most_pages):
    pool = Pool(most_pages * PAGE_BYTES)
    for _ in range(2):
        memory = Memory(pool)
        for _ in range(10):
            view(memory.reserve(100), 1)[0] = 1
        memory.close()
        assert pool.bytes == min(most_pages, 10) * PAGE_BYTES
    pool.clear()
    assert pool.bytes == 0


def test_the_pool_keeps_address_space_up_to_its_bound():
    assert Pool(0).most_space == ADDRESS_BYTES // 2
    pool = Pool(1 << 30, most_space=1 << 36)
    for words in (1 << 30, 1 << 29):
        memory = Memory(pool)
        for _ in range(10):  # 80 GB, and 40 of another kind
            view(memory.reserve_whole(words), 1)[0] = 1
        memory.close()
        assert 0 < pool.space <= 1 << 36
    pool.clear()
    assert pool.space == 0


def test_untouched_reservations_return_to_the_system():
    pool = Pool(1 << 30)
    memory = Memory(pool)
    memory.reserve(WORDS)
    memory.close()
    assert pool.bytes == 0


def test_a_forked_process_has_an_empty_pool():
    from deltamark.dataflow.kernels.core.pages import POOL  # noqa: PLC0415 (the pool of this process)

    memory = Memory()
    view(memory.reserve(1000), 1)[0] = 1
    memory.close()
    assert POOL.bytes > 0
    if (child := os.fork()) == 0:
        os._exit(POOL.bytes > 0)
    assert os.waitpid(child, 0)[1] == 0
    assert POOL.bytes > 0


def test_threads_may_reserve_and_release_at_once():
    pool, wrong = Pool(1 << 22), []

    def work(number):
        random = np.random.default_rng(number)
        for _ in range(200):
            memory = Memory(pool)
            for _ in range(5):
                words = view(memory.reserve(1 << 12), 1 << 12)
                if words.any():
                    wrong.append(number)
                words[: random.integers(1 << 12)] = number
            memory.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert pool.bytes <= 1 << 22
    pool.clear()
    assert pool.bytes == 0


def test_the_bytes_of_the_pool_count_ranges_that_a_collection_puts_into_it_meanwhile():
    """A collection may begin while a range is counted, and release the memory of an abandoned dataflow."""
    pool, late = Pool(1 << 30), Memory(None)
    others = [_used(late)]
    counted = Mapping.kept_bytes.fget

    def while_collected(mapping):
        if others:
            pool.put([others.pop()])
        return counted(mapping)

    with patch.object(Mapping, "kept_bytes", property(while_collected)):
        pool.put([_used(late)])
    assert pool.bytes == 2 * PAGE_BYTES
    pool.clear()
    assert pool.bytes == pool.space == 0


@pytest.mark.parametrize("count", [511, 600, 1700])
def test_ranges_that_are_scanned_together_have_their_own_pages(count):
    mappings = [map_pages(Kind.of(1 << 30, 0), 0) for _ in range(count)]  # they lie side by side
    for each in mappings:
        view(each.start, 1)[0] = 1
    together = touched(mappings)
    assert together == [found for each in mappings for found in touched([each])]
    assert {each.page_bytes for extents in together for each in extents} == {PAGE_BYTES}
    for each in mappings:
        unmap(each)


@pytest.mark.parametrize("expected", [0, 1 << 30])
def test_a_page_before_an_array_and_one_behind_it_cannot_be_written(expected):
    mapping = map_pages(Kind.of(1 << 30, expected), 0)
    for address in (mapping.first - 2 * PAGE_BYTES, mapping.end + PAGE_BYTES):
        if (child := os.fork()) == 0:
            faulthandler.disable()  # it would print the stack
            view(address, 1)[0] = 1
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) in (signal.SIGSEGV, signal.SIGBUS)
    view(mapping.start, (1 << 30) // 8)[[0, -1]] = 1
    unmap(mapping)


def _mappings():
    return Path("/proc/self/maps").read_bytes().count(b"\n")


@pytest.mark.parametrize(("words", "expected"), [(1 << 20, 0), (1 << 27, 0), (1 << 27, 1 << 27)])
def test_ranges_side_by_side_are_few_mappings_of_the_kernel(words, expected):
    before = _mappings()
    mappings = [map_pages(Kind.of(words, expected), 0) for _ in range(500)]
    most = 2 * len(mappings)  # each, and what separates it from the next
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 13):
        most = len(mappings) // 10
    assert _mappings() - before <= most
    for each in mappings:
        unmap(each)
    assert _mappings() - before <= 2


def test_too_many_mappings_are_an_error_that_names_the_limit(tmp_path):
    limit = tmp_path / "max_map_count"
    limit.write_text(str(_mappings()))
    with (
        patch.object(pages, "MAX_MAPPINGS", limit),
        patch.object(pages.libc, "mmap", lambda *_: None),
        pytest.raises(DeltamarkError, match=r"too many memory mappings of a process: .*vm\.max_map_count is"),
    ):
        map_pages(Kind.of(1 << 20, 0), 0)


def _used(memory):
    """Return a range of whose pages one was touched, which belongs to no memory any more."""
    address = memory.reserve(1)
    view(address, 1)[0] = 1
    del memory._owners[address]
    return memory._held.pop(address).mapping
