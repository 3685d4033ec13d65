"""The loops with names, as parameters of tests, and random streams for them."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from support.random_plans.case import Case
from support.random_plans.strategies import streams_of
from support.written_plans.loops import LOOPS

each_loop = pytest.mark.parametrize("name", LOOPS)


def drawn(data: st.DataObject, name: str) -> Case:
    return Case(LOOPS[name], data.draw(streams_of(LOOPS[name])))
