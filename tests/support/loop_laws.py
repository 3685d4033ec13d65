"""The loops that tests run, by name."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from support.growth import Case
from support.loops import LOOPS
from support.plans import streams_of

each_loop = pytest.mark.parametrize("name", LOOPS)


def drawn(data: st.DataObject, name: str) -> Case:
    return Case(LOOPS[name], data.draw(streams_of(LOOPS[name])))
