"""All queries by name."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.errors import unknown
from deltamark.queries.q01 import Q01
from deltamark.queries.q02 import Q02
from deltamark.queries.q03 import Q03
from deltamark.queries.q04 import Q04
from deltamark.queries.q05 import Q05
from deltamark.queries.q06 import Q06
from deltamark.queries.q07 import Q07
from deltamark.queries.q08 import Q08
from deltamark.queries.q09 import Q09
from deltamark.queries.q10 import Q10
from deltamark.queries.q11 import Q11
from deltamark.queries.q12 import Q12
from deltamark.queries.q13 import Q13
from deltamark.queries.q14 import Q14
from deltamark.queries.q15 import Q15
from deltamark.queries.q16 import Q16
from deltamark.queries.q17 import Q17
from deltamark.queries.q18 import Q18
from deltamark.queries.q19 import Q19
from deltamark.queries.q20 import Q20
from deltamark.queries.q21 import Q21
from deltamark.queries.q22 import Q22
from deltamark.queries.query import Query

QUERIES: Mapping[str, Query] = {
    "q01": Q01, "q02": Q02, "q03": Q03, "q04": Q04, "q05": Q05, "q06": Q06, "q07": Q07, "q08": Q08, "q09": Q09,
    "q10": Q10, "q11": Q11, "q12": Q12, "q13": Q13, "q14": Q14, "q15": Q15, "q16": Q16, "q17": Q17, "q18": Q18,
    "q19": Q19, "q20": Q20, "q21": Q21, "q22": Q22,
}  # fmt: skip


def query(name: str) -> Query:
    if name not in QUERIES:
        raise unknown("query", name, QUERIES)
    return QUERIES[name]
