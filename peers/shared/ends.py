"""The order and the limit at the end of a query, which a maintained view often must not have."""

from __future__ import annotations

import re
from typing import NamedTuple

_ENDS = re.compile(
    r"(?P<body>.*?)(?P<order>ORDER BY (?:(?!ORDER BY)[^()])*?)?(?P<limit>LIMIT [\sOFSET0-9]+)?", re.DOTALL
)


class Parts(NamedTuple):
    """A query without its end, and this end; an order without a limit is left out."""

    body: str
    end: str


def parts_of(sql: str) -> Parts:
    found = _ENDS.fullmatch(sql.strip())
    assert found
    limit = found["limit"] or ""
    return Parts(found["body"].strip(), f"{found['order'] or ''} {limit}".strip() if limit else "")
