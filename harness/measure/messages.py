"""The messages between the process that plans measurements and the server that makes them, each a line of JSON.

    {"do": "warm"}                                                        ->  {"status": "ok", "measuring": 1}
    {"do": "ask", "cell": {...}, "rounds": [500, 1000], "limit": 600}     ->  {"status": "ok", "once": 0.1}
    {"do": "cell", "cell": {...}, "sample": 0, "runs": 3, "limit": 600,
     "compare": [500, 1000], "checked": true, "beside": {...}}            ->  the figures of a record
    {"do": "sample", "cell": {...}, "limit": 600}                         ->  {"status": "ok", "time": ..., ...}

The gate (harness/compare/) also talks to servers of older commits. Therefore fields may only be added, with defaults; a
change of the meaning of a field raises MEASURING (harness/results/record.py). Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.results.json_types import MAX_QUOTED_CHARACTERS, check, hints
from deltamark.harness.results.record import QueryRecord, Status

CellT = TypeVar("CellT", bound=AnyCell)
M = TypeVar("M")


@dataclass(frozen=True)
class WarmRequest:
    """Compile the kernels, and make all that cells have in common."""


@dataclass(frozen=True)
class AskRequest(Generic[CellT]):
    """Compute the oracle's answers of a cell after some numbers of rounds, or the oracle's count of a motif."""

    cell: CellT
    limit: float
    """Seconds."""
    rounds: tuple[int, ...] = ()


@dataclass(frozen=True)
class CellRequest(Generic[CellT]):
    """Measure a cell."""

    cell: CellT
    sample: int
    """The number of batches to time at most, spread over the stream; 0: all."""
    runs: int
    limit: float
    """Seconds that a run may take."""
    compare: tuple[int, ...]
    """The numbers of rounds after which answers are compared with those of an earlier `AskRequest`."""
    checked: bool = True
    beside: CellRequest[CellT] | None = None
    """The next request, whose check may run at the same time as the check of this one."""


@dataclass(frozen=True)
class SampleRequest(Generic[CellT]):
    """Time a cell, and check nothing."""

    cell: CellT
    limit: float


Request = WarmRequest | AskRequest[CellT] | CellRequest[CellT] | SampleRequest[CellT]
TAGS: Mapping[str, type] = {"warm": WarmRequest, "ask": AskRequest, "cell": CellRequest, "sample": SampleRequest}
"""The values of `do`."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The outcome of a request. problem: why there are no figures."""

    status: Status = "ok"
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class WarmReply(Reply):
    measuring: int = 0
    """The number of the measuring code (harness/results/record.py)."""


@dataclass(frozen=True, kw_only=True)
class AskReply(Reply):
    once: float = 0.0
    """Seconds of one run of the query in DuckDB over all rows with one thread; 0: the stream does not end with all."""


@dataclass(frozen=True, kw_only=True)
class SampleReply(Reply):
    time: float = 0.0
    """Seconds."""
    state: int = 0
    """Bytes that the engine keeps at the end."""
    peak: int = 0
    """Bytes by which the memory of the process grew at most."""


@dataclass(frozen=True, kw_only=True)
class CellReply(Reply):
    """The figures of a cell: fields of a `QueryRecord`, which describes them."""

    control: float = 0.0
    digest: str = ""
    verified: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    tuples: int = 0
    changes: int = 0
    batches: int = 0
    whole: bool = True
    latency: dict[str, float] = field(default_factory=dict)
    trace: list[tuple[int, float]] = field(default_factory=list)
    state_rows: int = 0
    state_bytes: int = 0
    peak_bytes: int = 0

    def fill(self, record: QueryRecord) -> QueryRecord:
        """Return a record with these figures."""
        return replace(
            record, status=self.status, problem=self.problem, control=self.control, digest=self.digest,
            verified=self.verified, seconds=self.seconds, cpu=self.cpu, cut=self.cut, tuples=self.tuples,
            changes=self.changes, batches=self.batches, fully_timed=self.whole, latency=self.latency, trace=self.trace,
            state_rows=self.state_rows, state_bytes=self.state_bytes, peak_bytes=self.peak_bytes,
        )  # fmt: skip


def encode(message: Request[Any] | Reply) -> dict[str, Any]:
    """Return a message as JSON. Requests are tagged with `do`."""
    raw = asdict(message)
    tag = next((tag for tag, kind in TAGS.items() if isinstance(message, kind)), None)
    if tag is None:
        return raw
    if isinstance(message, CellRequest):
        del raw["beside"]
        raw |= {"beside": encode(message.beside)} if message.beside else {}
    return {"do": tag, **raw}


def decode_request(raw: Any, cell: type[CellT]) -> Request[CellT]:
    """Read a request about cells of one class; raise a ValueError that names the place that does not fit."""
    _require(isinstance(raw, dict) and raw.get("do") in TAGS, raw, f"a request to {', '.join(TAGS)}", "the message")
    request: Request[CellT] = _decode(raw, TAGS[raw["do"]], "request", cell)
    return request


def decode_reply(raw: Any, kind: type[M]) -> M:
    """Read a reply; raise a ValueError that names the place that does not fit."""
    reply: M = _decode(raw, kind, "reply")
    return reply


def _decode(raw: Any, kind: Any, at: str, cell: Any = None) -> Any:
    """Convert JSON to a value of a type, with dataclasses, tuples and lists inside. cell: the meaning of CellT."""
    kind = cell if kind is CellT else kind
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if raw is None else _decode(raw, inner[0], at, cell)
    if is_dataclass(origin or kind):
        return _decode_fields(raw, origin or kind, at, cell)
    if origin is list or (origin is tuple and inner[-1] is ...):
        _require(isinstance(raw, list), raw, "a list", at)
        return origin(_decode(each, inner[0], f"{at}[{number}]") for number, each in enumerate(raw))
    check(raw, kind, at)
    return tuple(raw) if origin is tuple else raw


def _decode_fields(raw: Any, kind: Any, at: str, cell: Any) -> Any:
    _require(isinstance(raw, dict), raw, "an object", at)
    values = {}
    for each in fields(kind):
        if each.name in raw:
            values[each.name] = _decode(raw[each.name], hints(kind)[each.name], f"{at}.{each.name}", cell)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{at}.{each.name} is missing")
    return kind(**values)


def _require(holds: bool, raw: object, expected: str, at: str) -> None:  # noqa: FBT001
    if not holds:
        raise ValueError(f"{at} is {repr(raw)[:MAX_QUOTED_CHARACTERS]}, not {expected}")
