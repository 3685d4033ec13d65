"""Kernels of maps, sums and sorting agree with plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.intrinsics import add_product
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap

WORDS = st.integers(-(2**63), 2**63 - 1)


def made(memory: Memory, kind: type[Block], **fields: int) -> int:
    """Return a block in new memory."""
    address = memory.reserve(kind.size_in_words)
    view(address, kind.size_in_words)[:] = kind.words(**fields)
    return address


def hashed(memory: Memory, mask: int) -> KeyMap:
    table, free, keys = (memory.reserve(words) for words in (2 * (mask + 1), 4096, 4096))
    return KeyMap(made(memory, KeyMap, hashed=1, low=0, high=0, mask=mask, table=table, free=free, keys=keys))


def paged(memory: Memory, low: int, high: int) -> KeyMap:
    arrays = {name: memory.reserve(4096) for name in ("free", "pages", "runs", "members")}
    return KeyMap(made(memory, KeyMap, hashed=1, low=low, high=high, **arrays))


def check_as_dict(keys: KeyMap, steps: Iterable[tuple[bool, int]]) -> None:
    """Compare a map with a dict, while steps add or remove a key."""
    known = {}
    for adds, key in steps:
        if adds:
            known.setdefault(key, hash_map.add(keys, key))
        elif key in known:
            hash_map.remove(keys, key)
            del known[key]
        assert {each: hash_map.find(keys, each) for each in known} == known
        assert len(set(known.values())) == len(known)
        assert all(hash_map.key_of(keys, known[each]) == each for each in known)
        assert all(each < hash_map.id_limit(keys) for each in known.values())
        assert keys.used == len(known)
    for key in list(known):
        hash_map.remove(keys, key)
    assert keys.used == 0


@given(st.lists(st.tuples(st.booleans(), st.one_of(st.integers(0, 40), WORDS)), max_size=200))
def test_a_hashed_key_map_is_a_dict_that_uses_ids_again(steps):
    memory, mask = Memory(), 31
    keys = hashed(memory, mask)

    def with_room() -> Iterator[tuple[bool, int]]:
        nonlocal mask
        for step in steps:
            if hash_map.needs_rehash(keys, 1):
                mask = 2 * mask + 1
                hash_map.rehash(keys, Array(memory.reserve(2 * (mask + 1))), mask)
            yield step

    check_as_dict(keys, with_room())
    assert keys.next_id <= len(steps)
    assert hash_map.find(keys, 0) == -1


@given(st.lists(st.tuples(st.booleans(), st.integers(-70, 200)), max_size=200), WORDS)
def test_a_paged_key_map_is_a_dict(steps, other):
    memory = Memory()
    keys = paged(memory, -70, 200)
    check_as_dict(keys, steps)
    assert hash_map.find(keys, other) == -1


def test_a_paged_key_map_uses_the_pages_of_runs_without_keys_again():
    memory = Memory()
    keys = paged(memory, 1, 10**5)
    for key in range(1, 10**4):
        hash_map.add(keys, key)
        if key > 100:
            hash_map.remove(keys, key - 100)
    assert hash_map.id_limit(keys) <= 4 * 64


@njit
def add_all(address, pairs):
    for at in range(len(pairs)):
        add_product(address, pairs[at, 0], pairs[at, 1])


@given(st.lists(st.tuples(WORDS, WORDS), max_size=20))
def test_sums_of_products_are_exact_in_128_bits(pairs):
    memory = Memory()
    address = memory.reserve(2)
    add_all(address, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    low, high = (int(word) for word in view(address, 2))
    expected = sum(a * b for a, b in pairs)
    assert (high << 64 | low % 2**64) % 2**128 == expected % 2**128


def test_reservations_cost_nothing_until_they_are_touched():
    memory = Memory()
    address = memory.reserve(1 << 31)
    assert memory.resident([address]) == {address: 0}
    view(address, 1)[0] = 1
    assert 0 < memory.resident([address])[address] <= 1 << 22  # one or two huge pages
    view(address, 1 << 24)[::512] = 1
    assert 1 << 27 <= memory.resident([address])[address] <= 1 << 28
    memory.close()
    assert not memory.reservations()
