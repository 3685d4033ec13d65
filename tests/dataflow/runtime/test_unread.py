"""Changes of unread columns are skipped, and others are not."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from support.engines.kernel_blocks import Blocks

from deltamark import TEXT, Batch, Dataflow, integer, source
from deltamark.dataflow.kernels.program import InputBlock, ProgramBlock
from deltamark.dataflow.kernels.unread import skip_unread

shops = source(
    "shops", {"shop": integer(0, 9), "name": TEXT, "owner": TEXT.or_null(), "size": integer(0, 99)}, rows=1000
)
sales = source("sales", {"shop": integer(0, 9), "price": integer(0, 99)}, rows=100_000)
NAMES = ["a", "b", "", "a longer text", "another text"]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_the_updates_of_a_time_are_skipped_if_they_cancel_in_pairs(width):
    """The values differ in their last byte."""
    rng, seen, step = np.random.default_rng(5), Counter(), 1 << 8 * (width - 1)
    for _ in range(500):
        rows = [tuple(map(int, row)) for row in rng.integers(0, 3, size=(rng.integers(1, 4), 2)) * step]
        changes = [(0, -1, *row) for row in rows] + [(0, 1, *row) for row in rows]
        if rng.random() < 0.5:
            at = rng.integers(len(changes))
            changes[at] = (0, changes[at][1], *(rng.integers(0, 3, size=2) * step).tolist())
        if rng.random() < 0.2:
            changes.append((0, int(rng.choice([-1, 1])), 0, 0))
        changes.append((1, 1, 0, 0))
        pairs = zip(*([row for _, diff, *row in changes[:-1] if diff == sign] for sign in (-1, 1)), strict=False)
        cancel = len(changes) == 2 * len(rows) + 1 and all(one == other for one, other in pairs)
        assert skipped(changes, width) == (2 * len(rows) if cancel else 0)
        seen[cancel] += 1
    assert min(seen.values()) > 50


def skipped(changes, width):
    """Return how many of some changes (time, diff, two values) are skipped. width: bytes of a value."""
    blocks = Blocks()
    times, diffs, *values = zip(*changes, strict=True)
    padded = [np.resize(np.array(each, f"i{width}"), 8 * len(each)).view(np.int64) for each in values]
    times, diffs, *columns = map(blocks.words, (times, diffs, *padded))
    block = blocks.block(
        InputBlock, times=times, diffs=diffs, rows=len(changes), size=0, time=0, diff=0, columns=2,
        bases=blocks.words(columns), widths=blocks.words([width, width]),
        skips_unread=1,
    )  # fmt: skip
    fields = dict.fromkeys(ProgramBlock.fields, 0) | {"inputs": 1, "input_blocks": blocks.words([block.address])}
    skip_unread(blocks.block(ProgramBlock, **fields))
    return block.position


@pytest.mark.parametrize("workers", [1, 2])
def test_changes_of_rows_give_the_answer_of_the_changed_rows(workers):
    rng = np.random.default_rng(workers)
    plan = sales.join(shops, on="shop").select("name", "owner", "price")
    live, sold, answer = [], [(int(shop), int(price)) for shop, price in rng.integers(0, 9, size=(40, 2))], Counter()
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        for time in range(60):
            changed = [live[at] for at in rng.permutation(len(live))[: rng.integers(4)]]
            arriving = [random_shop(rng) for _ in range(4)] if time % 7 == 0 else []
            arriving += [changed_shop(rng, shop) for shop in changed]
            for shop in changed:
                live.remove(shop)
            live += arriving
            batches = {"shops": shop_batch(time, changed, arriving)}
            if time == 0:
                batches["sales"] = Batch(
                    [0] * 40, [1] * 40, dict(zip(("shop", "price"), zip(*sold, strict=True), strict=True))
                )
            out = dataflow.feed(batches)
            columns = (out.columns[name].tolist() for name in plan.schema.names)
            for diff, *row in zip(out.diff.tolist(), *columns, strict=True):
                answer[tuple(row)] += diff
            wanted = Counter((name, owner, price) for shop, price in sold for at, name, owner, _ in live if at == shop)
            assert {row: weight for row, weight in answer.items() if weight} == wanted


def random_shop(rng):
    owner = None if rng.random() < 0.3 else str(rng.choice(NAMES))
    return int(rng.integers(9)), str(rng.choice(NAMES)), owner, int(rng.integers(99))


def changed_shop(rng, shop):
    """Change the size of a shop, which no plan reads, or everything."""
    return (*shop[:3], int(rng.integers(99))) if rng.random() < 0.8 else random_shop(rng)


def shop_batch(time, leaving, arriving):
    shop, name, owner, size = zip(*leaving, *arriving, strict=True) if leaving or arriving else ([],) * 4
    columns = {"shop": list(shop), "name": pa.array(name, pa.string()), "owner": pa.array(owner, pa.string())}
    diffs = [-1] * len(leaving) + [1] * len(arriving)
    return Batch([time] * len(diffs), diffs, columns | {"size": list(size)})
