"""Stored state belongs to a format, not to the code: another version of the engine continues it, or refuses it.

If a test of this module fails because the code was changed on purpose, raise `FORMAT`, and write the values anew.
"""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.spark.dealing import Contents
from deltamark.dataflow.spark.net_changes import WEIGHT, consolidated, net_changes, replay
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.dataflow.spark.planning.staged_plan import SUM, Edge
from deltamark.dataflow.spark.state_log import ENGINE, FORMAT, StateLog, StoredLog, format_identity
from deltamark.dataflow.spark.wire import owners_of
from deltamark.dataflow.types import TEXT, Field, integer
from deltamark.errors import DeltamarkError

EDGE = Edge(
    "0-edge", 1, "owner", ("key",),
    (Field("key", integer(0, 1000)), Field("name", TEXT), Field(f"{SUM}0", integer(-(2**40), 2**40))),
    is_summed=True,
)  # fmt: skip
BATCH = Batch(
    np.zeros(3, np.int64), np.array([1, 1, -2]),
    {"key": np.array([7, 7, 900]), "name": pa.array(["ä", "ä", None]), f"{SUM}0": np.array([2**35, 5, -3])},
)  # fmt: skip
NET = {"0": [7, 900], "1": ["ä", None], "2 high": [8, 0], "2 low": [5, 6], WEIGHT: [2, -2]}

IDENTITY = {"plan": "p", "format": "1", "engine": "0.1.0"}
STORED = {
    "0-edge 4 0": (
        "/////0ABAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAUAAADYAAAAmAAAAGwAAAA4AAAABAAA"
        "AEz///8AAAECEAAAABgAAAAEAAAAAAAAAAYAAAAyIGhpZ2gAADz///8AAAABQAAAAHz///8AAAECEAAAABgAAAAEAAAAAAAAAAUA"
        "AAAyIGxvdwAAAGz///8AAAABQAAAAKz///8AAAEFEAAAABgAAAAEAAAAAAAAAAEAAAAxAAAABAAEAAQAAADU////AAABAhAAAAAU"
        "AAAABAAAAAAAAAABAAAAMAAAAMD///8AAAABQAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABAhAAAAAgAAAABAAAAAAAAAAGAAAA"
        "d2VpZ2h0AAAIAAwACAAHAAgAAAAAAAABQAAAAP////9wAQAAFAAAAAAAAAAMABgABgAFAAgADAAMAAAAAAMEABwAAADoAAAAAAAA"
        "AAAAAAAMAB4AEAAEAAgADAAMAAAA4AAAACQAAAAYAAAAAgAAAAAAAAAAAAAAAAAGAAgABwAGAAAAAAAAAQsAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAhAAAAAAAAACgAAAAAAAAAAAAAAAAAAAAoAAAAAAAAACEAAAAAAAAAUAAAAAAAAAASAAAAAAAAAGgAAAAA"
        "AAAAHQAAAAAAAACIAAAAAAAAABMAAAAAAAAAoAAAAAAAAAAAAAAAAAAAAKAAAAAAAAAAIQAAAAAAAADIAAAAAAAAAAAAAAAAAAAA"
        "yAAAAAAAAAAZAAAAAAAAAAAAAAAFAAAAAgAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAgAA"
        "AAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAAQAAAAAAAAACi1L/0gEIEAAAIAAAAAAAAA/v////////8AAAAAAAAAEAAAAAAA"
        "AAAotS/9IBCBAAAHAAAAAAAAAIQDAAAAAAAAAAAAAAAAAAEAAAAAAAAAKLUv/SABCQAAAQAAAAAAAAwAAAAAAAAAKLUv/SAMYQAA"
        "AAAAAAIAAAACAAAAAAAAAgAAAAAAAAAotS/9IAIRAADDpAAAAAAAEAAAAAAAAAAotS/9IBCBAAAFAAAAAAAAAAYAAAAAAAAAAAAA"
        "AAAAABAAAAAAAAAAKLUv/SAQRQAAEAgAAQAywAIAAAAAAAAA/////wAAAAA="
    ),
    "index": (
        "WzQsIHsiMC1lZGdlIjogW1stMSwgNCwgOTQ0LCAyLCB0cnVlLCA3LCA5MDBdXX0sIHsicGxhbiI6ICJwIiwgImZvcm1hdCI6ICIx"
        "IiwgImVuZ2luZSI6ICIwLjEuMCJ9XQ=="
    ),
}
"""A log of format 1 with the net changes of BATCH, in base 64."""


def rows(table):
    return table.sort_by("0").select(sorted(table.column_names)).to_pydict()


def stored(contents):
    return StoredLog(Contents({name: base64.b64decode(each) for name, each in contents.items()}))


def test_a_stored_log_is_read():
    log = stored(STORED)
    index = log.index(IDENTITY)
    assert (index.batch, index.rows, index.identity) == (4, 2, IDENTITY)
    assert rows(log.net_changes_after(index, -1)[EDGE.name]) == NET


class Written(dict):
    """A map of Spark's state store, whose values are written as text."""

    def getValue(self, key):  # noqa: N802 (as Spark names it)
        return None if key[0] not in self else (self[key[0]],)

    def updateValue(self, key, value):  # noqa: N802 (as Spark names it)
        self[key[0]] = value[0]


def test_a_log_is_written_as_before():
    """The bytes of a table depend on the version of pyarrow, but not its rows, and not the index."""
    written = Written()
    log = StateLog(written)
    net = net_changes({EDGE.name: EDGE}, {EDGE.name: BATCH})
    log.append(log.index(IDENTITY), 4, net, {EDGE.name: EDGE})
    assert set(written) == set(STORED)
    assert rows(StoredLog(written).net_changes_after(StoredLog(written).index(IDENTITY), -1)[EDGE.name]) == NET


def test_net_changes_are_replayed_as_before():
    batch = replay({EDGE.name: EDGE}, {EDGE.name: consolidated(EDGE, pa.table(NET))}, 3)[EDGE.name]
    assert batch.time.tolist() == [3] * 6
    assert int((batch.columns[f"{SUM}0"] * batch.diff).sum()) == 2**35 + 5 + 6
    assert int(batch.diff.sum()) == 0


OWNERS = {
    "one number": ([np.arange(0, 160, 16)], [0, 4, 1, 5, 3, 0, 4, 2, 6, 3]),
    "two numbers": ([np.arange(10), np.arange(10) * 3], [0, 3, 3, 6, 4, 1, 2, 0, 0, 6]),
    "texts": ([pa.array(["a", "b", None, "", "ä"])], [4, 6, 0, 0, 2]),
}
"""The columns of a key, and the owners of its rows among 7 shards."""


@pytest.mark.parametrize("name", OWNERS)
def test_keys_have_the_owners_that_they_had(name):
    columns, owners = OWNERS[name]
    assert owners_of(columns, len(columns[0]), 7).tolist() == owners


def test_the_identity_of_a_format_names_it():
    assert {**IDENTITY, **format_identity()}.keys() == IDENTITY.keys()
    assert IDENTITY["format"] == str(FORMAT)


def test_another_version_of_the_engine_continues_a_log():
    assert stored(STORED).index({**IDENTITY, ENGINE: "9.0"}).batch == 4


REFUSED = {
    "another format": ({"format": "2"}, "its format is 1, not 2; continue it with the engine 0.1.0, or begin anew"),
    "other edges": ({"edges": "e"}, "its edges is None, not e; continue it with the engine 0.1.0, or begin anew"),
    "a plan of another version": (
        {"plan": "q", ENGINE: "9"},
        "its plan is p, not q; continue it with the engine 0.1.0",
    ),
    "another plan": ({"plan": "q"}, "its plan is p, not q; repeat the options of the first run"),
    "other shards": ({"shards": "3"}, "its shards is None, not 3; give its path as checkpoint="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_state_that_does_not_fit_is_refused_with_the_next_step(name):
    other, reason = REFUSED[name]
    with pytest.raises(DeltamarkError, match=reason):
        stored(STORED).index({**IDENTITY, **other})


def test_other_bounds_are_other_edges():
    """The widths of stored columns, and the shards that have copies of an input, follow from bounds and rows."""
    plans = [source("rows", {"a": integer(0, high)}, rows).count(by="a") for high, rows in ((9, 99), (9, 98), (8, 99))]
    digests = [plan_stages(each, 2).digest for each in plans]
    assert len({*digests}) == 3
    assert plan_stages(plans[0], 2).digest == digests[0]
