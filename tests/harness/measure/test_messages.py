"""Messages are read unchanged, in the format of older commits too; a message of another form is an error."""

from __future__ import annotations

import re

import msgspec
import pytest

from deltamark.harness.benchmarks.cell import Cell, MotifCell
from deltamark.harness.measure.client import (
    CellReply,
    CellRequest,
    OracleReply,
    OracleRequest,
    Request,
    SampleReply,
    SampleRequest,
    WarmReply,
    WarmRequest,
)
from deltamark.harness.results.record import Origin, blank_record

CELL = Cell("q06", "0.01", "window:5", 10, 100, sample=15, seed=7, given=(("date", "1994-01-01"), ("quantity", "3")))
NEXT = CellRequest(Cell("q04", "0.01"), 1, 60.0)
REQUESTS = [
    WarmRequest(),
    OracleRequest(CELL, 600.0, (500, 1000), ((10, 81),)),
    CellRequest(CELL, 3, 600.0, (500, 1000), (81,), checked=False, beside=NEXT),
    SampleRequest(CELL, 60.0),
]
REPLIES = [
    WarmReply(measuring=1),
    OracleReply(status="failed", problem="no memory"),
    SampleReply(time=0.5, state=7, rows=3, peak=9),
    CellReply(figures={"seconds": [0.5], "p50": [0.1], "trace_rows": [10, 20], "sampled": [1]}, digest="1 aa"),
]


def wired(message):
    return msgspec.json.decode(msgspec.json.encode(message))


def decode_request(raw, cell):
    return msgspec.convert(raw, Request[cell])


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_requests_are_read_as_they_were_written(request_):
    assert decode_request(wired(request_), Cell) == request_


@pytest.mark.parametrize("reply", REPLIES, ids=lambda each: type(each).__name__)
def test_replies_are_read_as_they_were_written(reply):
    assert msgspec.convert(wired(reply), type(reply)) == reply


def test_cells_of_motifs_are_read_too():
    request = SampleRequest(MotifCell("triangle", "rmat:7", 100), 60.0)
    assert decode_request(wired(request), MotifCell) == request


def test_servers_of_older_commits_understand_requests():
    assert wired(WarmRequest()) == {"do": "warm"}
    fields = {
        "do": "cell",
        "sample": 0,
        "runs": 1,
        "limit": 60.0,
        "compare": [],
        "times": [],
        "checked": True,
        "beside": None,
    }
    of_cell = {
        "query": "q04", "sf": "0.01", "workload": "insert", "logical": 1, "physical": 1 << 40, "variant": "",
        "workers": 1, "engine": "embedded", "seed": None, "given": [], "master": "", "checkpoint": "",
        "benchmark": "tpch",
    }  # fmt: skip
    request = wired(NEXT)
    assert of_cell.items() <= request.pop("cell").items(), "they ignore other fields"
    assert request == fields
    assert wired(REQUESTS[2])["beside"] == wired(NEXT)  # the server finds the cell that it has begun by its number


def test_replies_of_older_commits_are_understood():
    assert msgspec.convert({"status": "ok", "once": 0.1}, OracleReply) == OracleReply(once=0.1)
    assert msgspec.convert({"status": "ok", "measuring": 1}, WarmReply) == WarmReply(measuring=1)
    assert msgspec.convert({"status": "ok", "digest": "1 2"}, CellReply) == CellReply(digest="1 2")
    assert msgspec.convert({"status": "wrong", "problem": "7"}, CellReply) == CellReply(status="wrong", problem="7")


MISFITS = {
    "Invalid value 'stop' - at `$.do`": {"do": "stop"},
    "Expected `object`, got `int`": 7,
    "Object missing required field `limit`": {"do": "sample", "cell": {"query": "q01", "sf": "1"}},
    "Expected `float`, got `str` - at `$.limit`": {
        "do": "sample", "cell": {"query": "q01", "sf": "1"}, "limit": "long",
    },
    "Object missing required field `sf` - at `$.cell`": {"do": "sample", "cell": {"query": "q01"}, "limit": 1.0},
    "Expected `array`, got `str` - at `$.cell.given`": {
        "do": "sample", "cell": {"query": "q01", "sf": "1", "given": "x"}, "limit": 1.0,
    },
}  # fmt: skip


@pytest.mark.parametrize("problem", MISFITS)
def test_a_message_that_does_not_fit_names_the_place(problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        decode_request(MISFITS[problem], Cell)


def test_a_reply_with_another_field_type_is_an_error():
    with pytest.raises(ValueError, match=r"Expected `array`, got `int` - at `\$.figures\[...\]`"):
        msgspec.convert({"figures": {"seconds": 1}}, CellReply)


def test_figures_make_a_record():
    record = REPLIES[3].fill(blank_record(CELL, Origin("code", "versions")))
    assert (record.seconds, record.digest, record.fully_timed, record.trace_rows) == ([0.5], "1 aa", False, [10, 20])
    assert (record.query, record.sample) == ("q06", 15)
