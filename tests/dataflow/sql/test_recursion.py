"""WITH RECURSIVE: the answers of DuckDB, and bodies that are refused."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import TEXT, Field, Schema, integer
from deltamark.errors import DeltamarkError

NUMBER = integer(0, 5)
TABLES = [
    Table("t", Schema((Field("a", NUMBER.or_null()), Field("b", NUMBER.or_null())), ROWS), ()),
    Table("u", Schema((Field("id", NUMBER), Field("up", NUMBER.or_null()), Field("s", TEXT)), ROWS), ("id",)),
]
LINKS = "WITH RECURSIVE r AS (SELECT a, b FROM t UNION SELECT r.a, t.b FROM r JOIN t ON r.b = t.a)"
LEVELS = (
    "WITH RECURSIVE r(id, d) AS (SELECT id, 0 FROM u WHERE up IS NULL"
    " UNION ALL SELECT u.id, d + 1 FROM r JOIN u ON u.up = r.id)"
)
CHAINS = (
    "WITH RECURSIVE r(id, low) AS (SELECT id, id FROM u"
    " UNION ALL SELECT up, low FROM r JOIN u USING (id) WHERE up < id)"
)

QUERIES = {
    "links": f"{LINKS} SELECT * FROM r",
    "links, counted": f"{LINKS} SELECT a, count(*) n, max(b) m FROM r GROUP BY a",
    "links, read twice": f"{LINKS} SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a WHERE x.a < y.b",
    "from some rows": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT b FROM r JOIN t ON n = a) SELECT n FROM r",
    "NULL is a row": (
        "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT b FROM r JOIN t ON n IS NOT DISTINCT FROM a)"
        " SELECT n FROM r"
    ),
    "a condition": (
        "WITH RECURSIVE r(n, d) AS (SELECT a, 0 FROM t UNION SELECT b, d + 1 FROM r JOIN t ON n = a WHERE d < 4)"
        " SELECT n, min(d) d FROM r GROUP BY n"
    ),
    "EXISTS and NOT EXISTS": (
        "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT b FROM r JOIN t ON n = a"
        " WHERE EXISTS (SELECT 1 FROM u WHERE id = b) AND NOT EXISTS (SELECT 1 FROM u WHERE up = b)) SELECT n FROM r"
    ),
    "a left join": (
        "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT up FROM r LEFT JOIN u ON id = n) SELECT n FROM r"
    ),
    "two steps": (
        "WITH RECURSIVE r(n) AS (SELECT 0 UNION"
        " (SELECT b FROM r JOIN t ON n = a UNION ALL SELECT up FROM r JOIN u ON n = id)) SELECT n FROM r"
    ),
    "of a group": (
        "WITH RECURSIVE r(n) AS (SELECT max(a) FROM t UNION SELECT b FROM r JOIN t ON n = a) SELECT n FROM r"
    ),
    "decimals": "WITH RECURSIVE r(n) AS (SELECT 1.0 UNION SELECT n + 0.5 FROM r WHERE n < 4) SELECT n FROM r",
    "numbers": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 7)"
        " SELECT n, a FROM r LEFT JOIN t ON a = n"
    ),
    "texts beside": (
        "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT up FROM r JOIN u ON n = id WHERE s < 'b')"
        " SELECT n, s FROM r JOIN u ON n = id"
    ),
    "copies of a chain": f"{CHAINS} SELECT * FROM r",
    "copies, without the start": f"{CHAINS} SELECT id, count(*) n FROM r GROUP BY id",
}


@pytest.mark.draws(2, of="name")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed, workers):
    check(QUERIES[name], TABLES, seed, workers)


REFUSED = {
    "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT x.n FROM r x JOIN r y ON x.n = y.n) SELECT n FROM r": (
        "both sides of a join change in a loop"
    ),
    "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT max(n) + 1 FROM r WHERE n < 5) SELECT n FROM r": (
        "cannot be done inside a loop: extreme"
    ),
    "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION (SELECT n + 1 FROM r UNION ALL SELECT id FROM u)) FROM r": (
        "a part of a recursion that does not read its rows"
    ),
    "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION ALL SELECT b FROM r JOIN t ON n = a) SELECT n FROM r": (
        "a recursion with UNION ALL that may have equal rows"
    ),
    "WITH RECURSIVE r(n) AS (SELECT s FROM v UNION SELECT s FROM r JOIN v ON n = s) SELECT n FROM r": (
        "a column of stored texts in a recursion"
    ),
    "WITH RECURSIVE r(n) AS (SELECT w FROM v UNION SELECT w FROM r JOIN v ON n = w) SELECT n FROM r": (
        "a key of a loop does not fit in 62 bits: c0"
    ),
    "WITH RECURSIVE r(n) AS (SELECT a FROM t UNION SELECT n FROM r JOIN v ON n = w) SELECT n FROM r": (
        "a key of a loop does not fit in 62 bits"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_another_body_is_refused_in_one_line(text):
    relations = {each.name: each.collection() for each in TABLES}
    wide = Schema((Field("s", TEXT), Field("w", integer(-(2**62), 2**62))), ROWS)
    relations["v"] = Table("v", wide, ()).collection()
    with pytest.raises(DeltamarkError) as raised:
        sql(text, relations)
    assert REFUSED[text] in str(raised.value)
    assert "(line 1, column 6)" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_levels_are_accepted():
    """DuckDB does not end for rows in a circle, which the changes of other tests may have."""
    relations = {each.name: each.collection() for each in TABLES}
    assert sql(f"{LEVELS} SELECT d, count(*) n FROM r GROUP BY d", relations).schema.names == ("d", "n")
