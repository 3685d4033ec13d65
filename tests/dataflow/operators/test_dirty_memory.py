"""Laws: a change stream does not depend on the words that an earlier user has left in the memory."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import maintained
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.seeded_streams import long_stream
from support.random_plans.strategies import cases, streams_of
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.operators import OPERATORS, each_operator

from deltamark.dataflow.kernels.core.guard import CHECKED
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.core.pages import POOL, map_pages, touched

pytestmark = pytest.mark.skipif(CHECKED, reason="checked kernels have no pool, and fill unset words by themselves")

DIRTY_BYTES = 1 << 16


@pytest.fixture(scope="module", autouse=True)
def _dirty():
    """Let every reservation begin with pages that another user has filled with random words."""
    random = np.random.default_rng(0)

    def take(kind):
        mapping = map_pages(kind, 0)
        size = min(DIRTY_BYTES, kind.size)
        view(mapping.first, size // 8)[:] = random.integers(-(1 << 62), 1 << 62, size // 8)
        return replace(mapping, extents=touched([mapping])[0])

    with patch.object(POOL, "take", take):
        yield


@pytest.mark.draws(26)
@each_operator
@settings(max_examples=4)
@given(st.data())
def test_an_operator_does_not_depend_on_what_its_memory_has_held(name, data):
    check_life(Case(OPERATORS[name], data.draw(streams_of(OPERATORS[name]))), data)


@settings(max_examples=50)
@given(cases(), st.data())
def test_plans_do_not_depend_on_what_their_memory_has_held(case, data):
    check_life(case, data)


@pytest.mark.draws(26)
@pytest.mark.parametrize("workers", [1, 2, 3])
@each_operator
def test_many_times_do_not_depend_on_what_the_memory_has_held(name, workers):
    collection = OPERATORS[name]
    streams = {each: long_stream(schema, len(each), 120) for each, schema in inputs_of(collection).items()}
    assert maintained(collection, streams, [times_of(streams)], workers) == changes(collection.node, streams)
