"""Laws of the saved state of views: it is used only with the tables that it belongs to, and then no table is read."""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter

import duckdb
import pytest
from support.database.killed_writer import VIEWS, check, filled, transact

from deltamark import DeltamarkError, connect
from deltamark.database.saved_views import SavedViews
from deltamark.database.store import Store
from deltamark.dataflow.runtime import saved_state

MODES = {"durable": True, "checkpoints": False}

each_mode = pytest.mark.parametrize("mode", MODES)


def times_of(changes):
    """Return the times of the changes that wait."""
    return [each.time for each in iter(lambda: changes.read(timeout=0), None)]


def end(con):
    """End a connection as the end of its process does."""
    con._store.close()
    con._views.close()


@each_mode
@pytest.mark.parametrize("workers", [1, 2])
def test_a_database_that_is_opened_again_continues_from_the_state_of_its_views(path, mode, workers, loads):
    filled(path, durable=MODES[mode], steps=3).close()
    with connect(path, durable=MODES[mode], workers=workers) as con:
        check(con, 3)
    loads.clear()
    for steps in range(4, 8):
        with connect(path, durable=MODES[mode], workers=workers) as con:
            if steps % 2:
                check(con, steps - 1)
            changes = con.subscribe("rich")
            transact(con, steps)
            con.execute("INSERT INTO shops VALUES ($1, 'Bonn')", [100 + steps])
            con.execute("INSERT INTO sales VALUES ($1, 1000, NULL)", [100 + steps])
            con.execute("DELETE FROM sales WHERE shop >= 100; DELETE FROM shops WHERE shop >= 100")
            check(con, steps)
            assert all(0 < each < 20 for each in times_of(changes)), "times begin anew"
    assert loads == []


@each_mode
def test_a_view_that_is_created_after_opening_shares_the_restored_state(path, mode, loads):
    filled(path, durable=MODES[mode], steps=4).close()
    loads.clear()
    for number in range(3):
        with connect(path, durable=MODES[mode]) as con:
            largest = "SELECT city, max(price) AS largest FROM sales JOIN shops USING (shop) GROUP BY ALL"
            con.execute(f"CREATE VIEW more{number} AS {largest}")
            transact(con, 5 + number)
            check(con, 5 + number)
            found, expected = con.execute(f"FROM more{number}"), con.execute(largest)
            assert sorted(found.fetchall()) == sorted(expected.fetchall())
    assert loads == []


@each_mode
def test_states_and_tables_of_different_checkpoints_are_never_combined(path, tmp_path, mode, loads):
    """A process that is killed between the two files leaves those of different checkpoints."""
    with filled(path, durable=MODES[mode], steps=2) as con:
        for steps in (3, 4, 5):
            transact(con, steps)
            con.checkpoint()
            for each in ("shop.db", "shop.db.state"):
                shutil.copy(tmp_path / each, tmp_path / f"{each}.{steps}")
    for steps in (3, 4, 5):
        for other in (3, 4, 5):
            shutil.copy(tmp_path / f"shop.db.{steps}", path)
            shutil.copy(tmp_path / f"shop.db.state.{other}", tmp_path / "shop.db.state")
            loads.clear()
            con = connect(path, durable=MODES[mode])
            check(con, steps)
            assert len(loads) == (steps != other)
            end(con)


STEPS = {"mark": Store, "checkpoint": Store, "files": Store, "_stage": SavedViews, "begin": SavedViews}
"""The steps of a checkpoint, and the classes that take them."""


@each_mode
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_checkpoint_that_ends_anywhere_leaves_files_that_agree(path, mode, name, when, monkeypatch):
    filled(path, durable=MODES[mode], steps=4).close()
    run = getattr(STEPS[name], name)

    def ended(*args):
        if when == "after":
            run(*args)
        raise KeyboardInterrupt

    con = connect(path, durable=MODES[mode])
    transact(con, 5)
    monkeypatch.setattr(STEPS[name], name, ended)
    with pytest.raises(KeyboardInterrupt):
        con.checkpoint()
    monkeypatch.undo()
    end(con)
    with connect(path, durable=MODES[mode]) as con:
        (steps,) = con.execute("SELECT max(number) FROM steps").fetchall()[0]
        assert steps == 5 if MODES[mode] else steps in (4, 5)
        check(con, steps)
        transact(con, steps + 1)
        check(con, steps + 1)


@each_mode
def test_tables_that_another_program_has_changed_are_read(path, mode, loads):
    filled(path, durable=MODES[mode], steps=4).close()
    with duckdb.connect(path) as other:
        other.execute("INSERT INTO shops VALUES (1000, 'Rome'); INSERT INTO sales VALUES (1000, 60, 'note')")
    loads.clear()
    with connect(path, durable=MODES[mode]) as con:
        assert ("Rome",) in con.execute("FROM rich").fetchall()
        assert len(loads) == 1


def test_a_log_with_later_transactions_is_read(path, tmp_path, loads):
    with filled(path, durable=True, steps=4) as con:
        con.checkpoint()
        transact(con, 5)
        copy = tmp_path / "copy.db"
        for each in ("", ".wal", ".state"):
            shutil.copy(f"{path}{each}", f"{copy}{each}")
    loads.clear()
    for durable in (True, False):
        con = connect(copy, durable=durable)
        check(con, 5)
        end(con)
    assert len(loads) == 2


def test_other_tables_may_change_while_the_views_are_not_needed(path, loads):
    with filled(path, durable=False, steps=4) as con:
        con.execute("CREATE TABLE remarks (remark VARCHAR); CREATE SEQUENCE numbers")
    loads.clear()
    for number in range(1, 4):
        with connect(path) as con:
            con.execute("INSERT INTO remarks VALUES ('later')")
            assert con.execute("SELECT nextval('numbers')").fetchall() == [(number,)]
            con.checkpoint()
            assert con._views._dataflow is None
    with connect(path) as con:
        check(con, 4)
        assert len(con.execute("FROM remarks")) == 3
    assert loads == []


def test_a_commit_that_fails_leaves_the_state_of_before(path, loads):
    filled(path, durable=False, steps=4).close()
    loads.clear()
    with connect(path) as con:
        con.execute("CREATE VIEW one AS SELECT (SELECT shop FROM shops WHERE shop > 1000) AS shop FROM steps")
        with pytest.raises(DeltamarkError, match="cannot follow"):
            con.execute("INSERT INTO shops VALUES (1001, 'a'), (1002, 'b')")
        con.checkpoint()
        check(con, 4)
        con.execute("DROP VIEW one")
    with connect(path) as con:
        check(con, 4)
        transact(con, 5)
        check(con, 5)


MORE = {
    "dear": "SELECT city, max(price) AS price FROM sales JOIN shops USING (shop) GROUP BY city",
    "cities": "SELECT city, count(*) AS shops FROM shops GROUP BY city",
    "pairs": "SELECT dear.city, price, shops FROM dear JOIN cities USING (city)",
    "texts": "SELECT note, count(*) AS n FROM sales GROUP BY note",
}
"""Views that share arrangements and texts with the others."""


def check_views(con):
    """Compare all views with the answers of their queries."""
    for name, query in con.execute("SHOW VIEWS").fetchall():
        assert Counter(con.execute(f"FROM {name}").fetchall()) == Counter(con.execute(query).fetchall()), name


@pytest.mark.parametrize("options", [{"durable": True}, {"workers": 2}])
def test_the_state_of_the_other_views_is_saved_after_some_were_dropped(path, options, loads):
    filled(path, durable="durable" in options, steps=2).close()
    with connect(path, **options) as con:
        for name, text in MORE.items():
            con.execute(f"CREATE VIEW {name} AS {text}")
        transact(con, 3)
    loads.clear()
    texts = [
        "DROP VIEW pairs", "DROP VIEW texts", f"CREATE OR REPLACE VIEW cities AS {MORE['cities']} HAVING count(*) > 1",
        f"CREATE VIEW pairs AS {MORE['pairs']}", "DROP VIEW cities CASCADE",
        f"DROP VIEW dear; CREATE VIEW texts AS {MORE['texts']}", "DROP VIEW texts",
    ]  # fmt: skip
    for steps, text in enumerate(texts, 4):
        with connect(path, **options) as con:
            if steps % 2:
                check_views(con)
            con.execute(text)
            if steps % 3:
                con.checkpoint()
                check_views(con)
            transact(con, steps)
            con.execute("DELETE FROM shops WHERE shop = $1", [steps % 9])
            con.execute("INSERT INTO shops VALUES ($1, 'Oslo')", [100 + steps])
            con.execute("DELETE FROM shops WHERE shop >= 100")
            check_views(con)
        with connect(path, **options) as con:
            check_views(con)
    assert loads == []


def test_a_view_is_dropped_before_any_view_is_needed(path, loads):
    filled(path, durable=False, steps=4).close()
    loads.clear()
    with connect(path) as con:
        con.execute("DROP VIEW rich; DROP VIEW revenue")
    with connect(path) as con:
        con.execute(f"CREATE VIEW revenue AS {VIEWS['revenue']}; CREATE VIEW rich AS {VIEWS['rich']}")
        check(con, 4)
    assert loads == []


def test_a_view_is_dropped_with_its_table(path, loads):
    """Its plan is needed once more, although its table has other columns then, or there is none."""
    with filled(path, durable=False, steps=4) as con:
        con.execute("CREATE TABLE old (a INTEGER CHECK (a < 9), b VARCHAR); INSERT INTO old VALUES (1, 'b')")
        con.execute("CREATE VIEW joined AS SELECT a, b, city FROM old JOIN shops ON a = shop")
        con.execute("CREATE VIEW few AS SELECT a FROM joined WHERE b > 'a'")
        con.execute("INSERT INTO old VALUES (2, 'c')")
        con.execute("DROP TABLE old CASCADE")
    loads.clear()
    for steps in (5, 6):
        with connect(path) as con:
            check(con, steps - 1)
            transact(con, steps)
            con.execute("CREATE TABLE IF NOT EXISTS old (a VARCHAR)")
    with connect(path) as con:
        check(con, 6)
    assert loads == []


@pytest.mark.parametrize("options", [{"rows": 10**6}, {"workers": 2}])
def test_views_with_other_options_are_loaded(path, options, loads, caplog):
    filled(path, durable=False, steps=4).close()
    for count in (1, 0):
        loads.clear()
        with connect(path, **options) as con:
            check(con, 4)
            assert len(loads) == count
    assert "a state of other plans, or of another number of workers" in caplog.text


def test_the_state_of_another_version_is_ignored_with_a_note(path, loads, caplog, monkeypatch):
    filled(path, durable=False, steps=4).close()
    loads.clear()
    monkeypatch.setattr(saved_state, "engine", lambda: "newer")
    with connect(path) as con:
        check(con, 4)
    assert len(loads) == 1
    assert "a state of another version, or of another machine" in caplog.text
    loads.clear()
    with connect(path) as con:
        check(con, 4)
    assert loads == []


def test_a_damaged_byte_never_gives_a_wrong_answer(path, loads, caplog):
    filled(path, durable=False, steps=6).close()
    state = path.with_name("shop.db.state")
    whole, rng = state.read_bytes(), random.Random(1)
    caplog.set_level(logging.INFO)
    anywhere = [rng.randrange(len(whole)) for _ in range(12)]
    for at in [*range(0, 40, 7), *anywhere, *range(len(whole) - 48, len(whole), 9)]:
        state.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        loads.clear()
        caplog.clear()
        con = connect(path)
        check(con, 6)
        end(con)
        assert len(loads) == 1
        assert "a state that is damaged" in caplog.text or "is not the state of the views" in caplog.text
    for size in (0, 40, len(whole) // 2, len(whole) - 1):
        state.write_bytes(whole[:size])
        con = connect(path)
        check(con, 6)
        end(con)


def test_a_database_without_room_for_the_state_saves_its_tables(path, loads, monkeypatch):
    con = filled(path, durable=False, steps=4)
    monkeypatch.setattr(SavedViews, "_stage", lambda *_: False)
    con.close()
    assert not path.with_name("shop.db.state").exists()
    loads.clear()
    with connect(path) as con:
        check(con, 4)
    assert len(loads) == 1
