"""Strategies of hypothesis for random plans, their streams, and cuts of the streams into feeds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from support.random_plans.case import Case
from support.random_plans.choices import Drawn
from support.random_plans.growth import case
from support.random_plans.streams import Streams, cut, inputs_of, row, streams_for, times_of
from support.reference.rows import Row

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.types import Schema

__all__ = ["Case", "Streams", "cases", "cuts", "inputs_of", "rows", "streams_of", "times_of"]


@st.composite
def rows(draw: Any, schema: Schema) -> Row:
    return row(Drawn(draw), schema)


@st.composite
def streams_of(draw: Any, collection: Collection) -> Streams:
    """Draw a stream for each input of a plan."""
    return streams_for(Drawn(draw), inputs_of(collection))


@st.composite
def cuts(draw: Any, streams: Streams) -> list[list[int]]:
    """Cut the times of streams into feeds, some of them empty."""
    return cut(Drawn(draw), times_of(streams))


@st.composite
def cases(draw: Any) -> Case:
    """Draw a plan of up to five steps and streams for its inputs."""
    return case(Drawn(draw))
