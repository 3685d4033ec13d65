"""The queries of Nexmark without windows of event time, as text.

Tucker, Tufte, Papadimos, Maier: NEXMark, a benchmark for queries over data streams, 2010. Queries 0, 9 and 13 come from
Apache Beam, and those from 14 on from Nexmark for Flink. The day of a time is a date. Window functions that keep the
first row of a group are joins with its extreme: query 9 takes the earliest of equal bids, and in query 18 no two bids
have the same time. Query 14 leaves out the count of the letter c, which is a function written in Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PATHS = sorted(Path(__file__).parent.glob("q*.sql"), key=lambda path: int(path.stem[1:]))

TEXTS: Mapping[str, str] = {path.stem: path.read_text(encoding="utf-8") for path in _PATHS}
"""The texts by the names of the queries: q0 to q23."""
