"""Random queries on engines of others: faults are found and printed as SQL, and refused features are avoided."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from unittest.mock import Mock

import pytest
from support.harness.programs import EXAMPLE, STREAM
from support.paths import ROOT
from support.random_plans.choices import Seeded

from deltamark.dataflow.types import SHORT, Field, Schema, integer
from deltamark.harness.engines.peers import peer
from fuzz import kinds
from fuzz.__main__ import main, settings_of
from fuzz.example import WrongError
from fuzz.kinds import fuzz_engine
from fuzz.queries import client as clients
from fuzz.queries.client import Query, client, keeps_key, relation, single, typed
from fuzz.queries.elsewhere import DELETIONS, Elsewhere, example_elsewhere, learnt
from fuzz.queries.learned import Learnt
from fuzz.queries.parts import Part, clause, listed, without
from fuzz.queries.portable import PORTABLE, features, first_rows, is_total, portable
from fuzz.queries.recomputed import database
from fuzz.queries.tables import ROWS, Table
from fuzz.tally import TALLY
from fuzz.watch import FuzzSettings, explore

LEARNT = "exec:an engine that is only learnt"
PROGRAM = ROOT / "tests" / "support" / "engines" / "sqlite_program.py"


def sqlite(*words):
    """Return the name of SQLite as an engine. It reads dates as texts, so that texts with dates are refused."""
    return f"exec:{PROGRAM} {' '.join([*(words or ['right']), 'DATE', 'LIKE', 'upper', 'lower'])}"


@pytest.fixture(autouse=True)
def ended():
    """End the programs of this process, and forget what was learnt and counted."""
    TALLY.clear()
    yield
    for engine in ENGINES:
        client(engine).discard()
    client.cache_clear()
    learnt.cache_clear()
    TALLY.clear()


ENGINES: list[str] = []


def tried(engine, seeds):
    """Run examples one after another; return their outcomes."""
    ENGINES.append(engine)
    outcomes = []
    for seed in seeds:
        TALLY.clear()
        try:
            example_elsewhere(Seeded(seed), engine).run()
        except WrongError as error:
            outcomes.append(error.what)
        else:
            outcomes += [name for name in ("refused", "right") if any(f": {name}" in each for each in TALLY)]
    return outcomes


def explored(monkeypatch, engine, examples, seed=0):
    monkeypatch.setitem(kinds.KINDS, "queries", kinds.KINDS["queries"])
    fuzz_engine(engine)
    database.cache_clear()  # child processes cannot use the database of their parent
    said = []
    found = explore(FuzzSettings(seed, examples, 600, ["queries"], 1, engine), said.append)
    return found, "\n".join(said)


FIELDS = (Field("a", integer(0, 9), "BIGINT"), Field("s", SHORT))
TEXTS = Table("t", Schema(FIELDS, ROWS), (), (((1, "a"), 0, 1), ((2, "B"), 0, 1), ((1, "a"), 3, -1), ((3, "A"), 3, 2)))


def written(text, engine, *tables):
    """Return an example of a text that is written here."""
    ENGINES.append(engine)
    return Elsewhere(Part("query", (text,)), tables or (TEXTS,), [[0], [3]], 64, 1, engine)


def test_a_right_engine_has_no_failures():
    found = tried(sqlite(), range(30))
    assert set(found) == {"right", "refused"}
    assert found.count("right") > 5


@pytest.mark.parametrize(("fault", "what"), {
    "loses_groups": "rows are missing", "fails": "expected a positive weight",
}.items())  # fmt: skip
def test_a_fault_is_found_within_some_examples(fault, what):
    assert any(what in each for each in tried(sqlite(fault), range(25)))


def test_an_engine_that_hangs_is_found(monkeypatch):
    monkeypatch.setattr(clients, "REQUEST_TIMEOUT_S", 5.0)
    example = written("SELECT t1.a AS x FROM t AS t1", sqlite("hangs"))
    with pytest.raises(WrongError, match="failed to apply: no reply within s"):
        example.run()


def test_the_time_after_which_an_engine_hangs_is_a_setting(monkeypatch):
    monkeypatch.setattr(clients, "REQUEST_TIMEOUT_S", 30.0)
    settings_of([])
    assert clients.REQUEST_TIMEOUT_S == 30.0
    settings_of(["TIMEOUT=300"])
    assert clients.REQUEST_TIMEOUT_S == 300.0


def test_a_failure_is_shrunk_and_its_script_has_the_commits(monkeypatch):
    monkeypatch.setattr("fuzz.shrink.MOST_SECONDS", 5.0)
    monkeypatch.setattr("fuzz.watch.MAX_WAITING", 0)  # only the first failure of a kind is made smaller
    found, said = explored(monkeypatch, sqlite("loses_groups"), 20)
    assert found.failures
    assert found.tally["SQLite: wrong"] == len(found.failures)
    assert found.tally["SQLite: tried"] == found.tally["SQLite: accepted"] + found.tally["SQLite: refused"]
    assert f"SQLite: tried {found.tally['SQLite: tried']}" in said
    smallest = min(said.split("made smaller")[1:], key=len)
    assert "CREATE TABLE" in smallest
    assert smallest.index("CREATE TABLE") < smallest.index("INSERT INTO") < smallest.index("-- expected: "), said


def test_a_script_repeats_the_wrong_answer():
    """The LIKE of SQLite takes letters of either case for equal: an answer that differs from DuckDB's."""
    engine = f"exec:{PROGRAM} right"
    with pytest.raises(WrongError) as failure:
        written("SELECT t1.a AS x, count(*) AS n FROM t AS t1 WHERE t1.s LIKE 'a%' GROUP BY t1.a", engine).run()
    script = failure.value.details
    assert "-- expected: no rows\n-- it is:    (3, 2)" in script
    assert script.count("BEGIN;") == script.count("COMMIT;") == 2
    with sqlite3.connect(":memory:", isolation_level=None) as database:
        for statement in re.sub("--.*", "", script).split(";"):
            rows = database.execute(statement).fetchall()
            if rows:
                answer = rows
    assert answer == [(3, 2)]


def test_an_error_is_no_fault_if_a_scalar_subquery_has_several_rows():
    """DuckDB does not run the subquery, because no row reads its value. An engine may run it, and must then fail."""
    several = Part("int", ("(", Part("query", ("SELECT t2.a FROM t AS t2",)), ")"), "scalar subquery")
    pieces = ("SELECT t1.a AS x FROM t AS t1 UNION ALL SELECT ", several, " AS x FROM t AS t3 WHERE FALSE")
    example = written("", sqlite("fails"))
    replace(example, query=Part("query", pieces)).run()
    assert TALLY == {"unfit: a scalar subquery with several rows": 1}


@pytest.mark.parametrize("engine", [EXAMPLE, STREAM])
def test_engines_with_changes_are_compared_as_well(engine):
    """The first has the changes of batches, and the second those of logical times."""
    text = "SELECT t1.s AS x, count(*) AS n, sum(t1.a) AS y, avg(t1.a) AS z FROM t AS t1 GROUP BY t1.s"
    written(text, engine, replace(TEXTS, key=("a",))).run()
    assert [count for name, count in TALLY.items() if name.endswith(": right")] == [1], TALLY


def test_a_wrong_answer_is_learnt_as_an_accepted_text():
    engine = sqlite("loses_groups")
    with pytest.raises(WrongError):
        written("SELECT t1.a AS x FROM t AS t1", engine).run()
    assert learnt(engine).accepted["deletions"] == 1
    assert TALLY["SQLite: accepted"] == TALLY["SQLite: wrong"] == 1


REFUSED = {"JOIN", "LEFT JOIN", "CASE", "CASE x WHEN", "IN list", "coalesce", "nullif", "CTE", "UNION", "DISTINCT"}


def test_most_texts_are_accepted_after_a_while():
    accepted = []
    for seed in range(200):
        found = example_elsewhere(Seeded(seed), LEARNT).features()
        accepted.append(not found & REFUSED)
        learnt(LEARNT).learn(found, accepted=accepted[-1])
    assert sum(accepted[-50:]) > 30
    assert sum(accepted[-50:]) > sum(accepted[:50]) + 10
    assert not {each for each in learnt(LEARNT).blamed if learnt(LEARNT).refusal(each) > 0.9} - REFUSED


def test_an_engine_without_null_is_soon_given_none():
    found = tried(sqlite("right", "NULL"), range(60))
    assert found[-20:].count("refused") < found[:20].count("refused")


def test_an_engine_that_takes_insertions_only_is_given_no_deletions():
    assert not peer("spark-native").manifest.deletions
    examples = [example_elsewhere(Seeded(seed), "spark-native") for seed in range(20)]
    assert not [each for each in examples if DELETIONS in each.features()]


@pytest.mark.parametrize(("diffs", "deletions"), [((1, 1), False), ((1, -1), True)])
def test_an_opened_query_says_whether_rows_will_leave(diffs, deletions):
    program = Mock()
    each = replace(TEXTS, stream=tuple(((1, "a"), time, diff) for time, diff in enumerate(diffs)), key=())
    Query(program, "SELECT 1", [each], [], None)
    assert program.open.call_args.args[0].deletions == deletions


def test_a_double_with_more_digits_than_a_decimal_is_not_rounded_to_it():
    """DuckDB rounds 0.25 in `SELECT 0.25 EXCEPT ALL SELECT sum(0.5)`; an engine without such decimals does not."""
    assert typed(Counter({(0.25,): 1, (0.1 + 0.2,): 2}), ["DECIMAL(38,1)"]) == {(0.25,): 1, (Decimal("0.3"),): 2}


def test_the_first_rows_are_those_of_a_total_order():
    """Without all columns in its order, a text has several right answers: it is no smaller form of a fault."""
    drawn = [each for seed in range(200) for each in first_rows(example_elsewhere(Seeded(seed), LEARNT).query)]
    assert len(drawn) > 5
    assert any(map(is_total, drawn))
    ordered = max(filter(is_total, drawn), key=lambda each: len(list(each.pieces[2].parts())))
    smaller = replace(ordered.pieces[2], pieces=ordered.pieces[2].pieces[2:])
    assert not is_total(replace(ordered, pieces=(*ordered.pieces[:2], smaller, *ordered.pieces[3:])))
    less = replace(written("", sqlite()), query=replace(ordered, pieces=(ordered.pieces[0], " ORDER BY ", listed([]))))
    less.run()
    assert TALLY["unfit: an order that leaves rows equal"] == 1


def test_the_blame_for_a_refused_text_falls_on_what_no_accepted_text_had():
    learnt_ = Learnt()
    learnt_.learn({"sum", "JOIN"}, accepted=True)
    for _ in range(20):
        learnt_.learn({"sum", "JOIN", "CASE"}, accepted=False)
    assert learnt_.refusal("CASE") > 0.9
    assert learnt_.refusal("sum") == learnt_.refusal("JOIN") == learnt_.refusal("never seen") == 0
    assert Counter(each for seed in range(50) for each in learnt_.avoided(Seeded(seed)))["CASE"] > 40


def test_a_refused_text_of_known_features_blames_all_of_them():
    learnt_ = Learnt()
    learnt_.learn({"sum"}, accepted=True)
    learnt_.learn({"JOIN"}, accepted=True)
    learnt_.learn({"sum", "JOIN"}, accepted=False)
    assert learnt_.refusal("sum") == learnt_.refusal("JOIN") > 0


def test_texts_for_other_engines_have_portable_constructs_only():
    for seed in range(100):
        drawn = example_elsewhere(Seeded(seed), f"exec:{PROGRAM} right")
        assert drawn.query.constructs().keys() <= PORTABLE
        assert "::" not in str(drawn.query)
        orders = re.findall(r"ORDER BY ([^()]*) (?:LIMIT|ROWS)", str(drawn))
        assert all("NULLS" in each for order in orders for each in order.split(","))


def test_bad_parts_are_replaced_by_inner_parts_and_literals_and_clauses_are_left_out():
    def is_bad(part, clause):
        return clause == "ON" or part.construct in ("CASE", "HAVING", "sum")

    column = Part("int", ("a",), "column")
    case = Part("int", ("CASE WHEN TRUE THEN ", column, " END"), "CASE")
    total = Part("int", ("sum(", column, ")"), "sum")
    having = Part("clause", (" HAVING ", case), "HAVING")
    whole = Part("query", ("SELECT ", listed([case, total]), " FROM t", having, clause(" LIMIT 1")))
    assert str(without(whole, is_bad)) == "SELECT a, 0 FROM t LIMIT 1"
    filtered = Part("int", (total, clause(" FILTER (WHERE TRUE)")), "FILTER")
    assert str(without(filtered, is_bad)) == "0"
    assert without(Part("table", (Part("table", ("t",)), " JOIN u"), "HAVING"), is_bad) is None
    on = Part("on", (" ON ", listed([Part("truth", ("a = b",), "=")])))
    assert without(on, is_bad) is None


def test_conditions_are_features_with_their_clause():
    test = Part("truth", ("TRUE",), "literal condition")
    query = Part("query", ("SELECT ", test, clause(" WHERE ", listed([test])), clause(" HAVING ", test)))
    assert set(features(query)) == {"literal condition", *(f"literal condition in {each}" for each in (
        "SELECT", "WHERE", "HAVING",
    ))}  # fmt: skip
    assert str(portable(query, frozenset({"literal condition in WHERE"}))) == "SELECT TRUE HAVING TRUE"


def test_a_row_leaves_after_it_has_arrived():
    early = Table("t", Schema(FIELDS, ROWS), ("a",), (((1, "a"), 2, -1), ((1, "a"), 2, 1), ((1, "a"), 0, 1)))
    assert [diff for _, _, diff in single(early)] == [1, -1, 1]
    assert keeps_key(early)
    assert relation(early).keys == [["a"]]
    wrong = Table("t", Schema(FIELDS, ROWS), ("a",), (((1, "a"), 2, -1), ((1, "a"), 2, 1)))
    assert [diff for _, _, diff in single(wrong)] == [1, -1]
    both = Table("t", Schema(FIELDS, ROWS), ("a",), (((1, "a"), 0, 1), ((1, "b"), 1, 1), ((1, "a"), 1, -1)))
    assert relation(both).keys == []


@pytest.mark.parametrize("words", [["ENGINE=embedded"], ["ENGINE=exec:no-such-program"],
                                   ["KINDS=worker", f"ENGINE=exec:{PROGRAM}"]])  # fmt: skip
def test_an_engine_that_cannot_be_fuzzed_is_an_error(words, capsys):
    assert main(words) == 2
    assert "error: " in capsys.readouterr().err


FOUND = {
    "another answer of a text: rows are missing": "SELECT sum(t1.a) AS x FROM t AS t1 WHERE (t1.a > 5)",
    "another answer of a text: other values": "SELECT max(t1.a) AS x FROM t AS t1",
}


@pytest.mark.parametrize("what", FOUND)
def test_the_script_of_turso_repeats_its_faults(what):
    if not peer("turso").is_current:
        pytest.skip("make peer PEER=turso")
    fields = (Field("a", integer(0, 9), "BIGINT"),)
    rows = Table("t", Schema(fields, ROWS), (), (((1,), 0, 2), ((1,), 3, -1)))
    with pytest.raises(WrongError, match=what) as failure:
        written(FOUND[what], "turso", rows).run()
    said = re.findall("-- it is: +(.*)", failure.value.details)
    code = (
        "import sys, re, turso\n"
        "database = turso.connect(':memory:', experimental_features='views', isolation_level=None)\n"
        "for statement in re.sub('--.*', '', sys.argv[1]).strip().strip(';').split(';'):\n"
        "    rows = database.execute(statement).fetchall()\n"
        "print(', '.join(str(row) for row in rows).replace('None,', 'NULL') or 'no rows')\n"
    )
    command = [str(peer("turso").installed / "venv" / "bin" / "python"), "-c", code, failure.value.details]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == said


REPEATED = """
import json, sqlite3, sys, turso
query = ''
for script in json.loads(sys.argv[1]):
    database = turso.connect(":memory:", experimental_features="views", isolation_level=None)
    lite = sqlite3.connect(":memory:", isolation_level=None)
    for statement in script:
        query = statement.partition("CREATE MATERIALIZED VIEW v AS ")[2] or query
        database.execute(statement)
        if "MATERIALIZED" not in statement:
            lite.execute(statement)
    try:
        rows = database.execute("SELECT * FROM v").fetchall()
    except turso.DatabaseError as error:
        rows = str(error)
    print(json.dumps([rows, [list(row) for row in lite.execute(query).fetchall()]]))
"""


def test_the_scripts_of_the_page_repeat_the_faults_of_turso():
    if not peer("turso").is_current:
        pytest.skip("make peer PEER=turso")
    page = (ROOT / "docs" / "found.md").read_text(encoding="utf-8")
    paragraphs = page.partition("## Turso")[2].partition("## Polars")[0].split("\n\n")
    scripts = [
        [statement.strip() for statement in script.strip().strip(";").split(";")]
        for title, script in pairwise(paragraphs)
        if title.startswith("**")
    ]
    command = [str(peer("turso").installed / "venv" / "bin" / "python"), "-c", REPEATED, json.dumps(scripts)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) == len(scripts) > 10
    assert [at for at, (rows, expected) in enumerate(found) if rows == expected] == []
