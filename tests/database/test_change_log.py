"""Laws of the log of changes: a durable database that was killed continues from its state, and never wrongly."""

from __future__ import annotations

import logging
import random
import shutil

import duckdb
import pytest
from support.database.killed_writer import VIEWS, check, filled, transact

from deltamark import DeltamarkError, connect
from deltamark.database import change_log
from deltamark.database.store import Store
from deltamark.database.views import Views

FILES = ("", ".wal", ".state", ".state.log")

EXTRA = "SELECT city, max(price) AS largest FROM sales JOIN shops USING (shop) GROUP BY ALL"


@pytest.fixture
def copy(path, tmp_path):
    """A function that copies the files of a database as a kill leaves them, and returns the path of the copy."""
    count = iter(range(1000))

    def copied(of=path):
        to = tmp_path / f"copy{next(count)}.db"
        for each in FILES:
            if of.with_name(of.name + each).exists():
                shutil.copy(of.with_name(of.name + each), to.with_name(to.name + each))
        return to

    return copied


def saved(path, *, steps):
    """Return a durable database that has saved its state, after some transactions."""
    con = filled(path, durable=True, steps=steps)
    con.checkpoint()
    return con


def end(con):
    """End a connection as the end of its process does."""
    con._store.close()
    con._views.close()


def same(con, name, query):
    """Compare a view with the answer of its query."""
    return sorted(con.execute(f"FROM {name}").fetchall()) == sorted(con.execute(query).fetchall())


def test_a_killed_database_continues_from_its_state_again_and_again(path, copy, loads):
    with saved(path, steps=3) as con:
        loads.clear()
        for steps in range(4, 8):
            transact(con, steps)
            for durable in (True, False):
                killed = copy()
                for more in (1, 2):  # a database that is not durable has the transactions of the log alone
                    again = connect(killed, durable=durable)
                    check(again, steps + (more - 1) * durable)
                    transact(again, steps + 1 + (more - 1) * durable)
                    killed = copy(killed)
                    end(again)
    with connect(path) as con:
        check(con, 7)
    assert loads == []


def test_views_that_were_created_dropped_or_replaced_after_the_state_are_right(path, copy, loads):
    with saved(path, steps=3) as con:
        loads.clear()
        for step, text in enumerate((
            f"CREATE VIEW extra AS {EXTRA}",
            "DROP VIEW notes",
            f"CREATE OR REPLACE VIEW extra AS {EXTRA} HAVING max(price) > 100",
            f"CREATE VIEW notes AS {VIEWS['notes']}",
            "DROP VIEW rich; DROP VIEW revenue",
            f"CREATE VIEW revenue AS {VIEWS['revenue']}; CREATE VIEW rich AS {VIEWS['rich']}",
        )):  # fmt: skip
            transact(con, 4 + step)
            con.execute(text)
            again = connect(copy(), durable=True)
            for name, query in again.execute("SHOW VIEWS").fetchall():
                assert same(again, name, query), (text, name)
            assert len(again.execute("SHOW VIEWS")) == len(con.execute("SHOW VIEWS"))
            end(again)
        check(con, 9)
    assert loads == []


def test_a_table_that_is_made_anew_after_the_state_has_its_new_rows_alone(path, copy, loads):
    with saved(path, steps=3) as con:
        con.execute("DROP TABLE steps CASCADE; CREATE TABLE steps (number INTEGER)")
        con.execute(f"CREATE VIEW progress AS {VIEWS['progress']}")
        con.execute("INSERT INTO steps VALUES (70), (80)")
        loads.clear()
        for durable in (True, False):
            again = connect(copy(), durable=durable)
            assert again.execute("FROM progress").fetchall() == [(80, 2)]
            end(again)
    assert loads == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_transaction_that_was_killed_in_its_commit_is_whole_or_absent(path, copy, loads, when, monkeypatch):
    con, commit, kept = saved(path, steps=3), Store.commit, []

    def killed(store):
        if when == "after":
            commit(store)
        kept.append(copy())
        raise KeyboardInterrupt

    transact(con, 4)
    loads.clear()
    monkeypatch.setattr(Store, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        transact(con, 5)
    monkeypatch.undo()
    monkeypatch.setattr(Views, "_loaded", lambda *_: pytest.fail("tables were read"))
    again = connect(kept[0], durable=True)
    check(again, 4 + (when == "after"))
    transact(again, 5 + (when == "after"))
    end(again)
    again = connect(copy(kept[0]), durable=True)
    check(again, 5 + (when == "after"))
    end(again)
    monkeypatch.undo()
    end(con)
    with connect(path, durable=True) as con:  # after the interrupt, there is no log any more
        check(con, 4 + (when == "after"))


def test_a_damaged_log_never_gives_a_wrong_answer(path, copy, caplog):
    con = saved(path, steps=3)
    for steps in (4, 5, 6):
        transact(con, steps)
    con.execute("DROP VIEW notes")
    con.execute(f"CREATE VIEW notes AS {VIEWS['notes']}")
    end(con)
    log = path.with_name("shop.db.state.log")
    whole, rng = log.read_bytes(), random.Random(1)
    caplog.set_level(logging.INFO)
    for at in [0, 9, 40, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(6))]:
        damaged = copy()
        damaged.with_name(f"{damaged.name}.state.log").write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        )
        again = connect(damaged, durable=True)
        check(again, 6)
        end(again)
    for size in [0, 5, *(rng.randrange(len(whole)) for _ in range(4))]:
        damaged = copy()
        damaged.with_name(f"{damaged.name}.state.log").write_bytes(whole[:size])
        again = connect(damaged, durable=True)
        check(again, 6)
        end(again)


def test_tables_that_another_program_has_changed_are_read(path, copy, loads):
    con = saved(path, steps=3)
    transact(con, 4)
    end(con)
    for closes in (True, False):
        changed = copy()
        other = duckdb.connect(changed)
        other.execute("INSERT INTO shops VALUES (1000, 'Rome'); INSERT INTO sales VALUES (1000, 60, 'note')")
        if closes:
            other.close()
        changed = copy(changed)  # as the kill of the other program leaves it
        other.close()
        loads.clear()
        again = connect(changed, durable=True)
        assert ("Rome",) in again.execute("FROM rich").fetchall()
        assert len(loads) == 1
        end(again)


def test_duckdb_may_move_its_log_into_the_file(path, copy, loads):
    con = saved(path, steps=3)
    con.execute("SET wal_autocheckpoint = '1KB'")
    loads.clear()
    for steps in (4, 5, 6, 7):
        transact(con, steps)
        assert not path.with_name("shop.db.wal").exists() or path.with_name("shop.db.wal").stat().st_size < 1 << 16
        again = connect(copy(), durable=True)
        check(again, steps)
        end(again)
    end(con)
    assert loads == []


def test_a_log_that_is_larger_than_the_tables_ends(path, copy, loads, monkeypatch):
    monkeypatch.setattr(change_log, "MIN_BYTES", 0)
    con = saved(path, steps=3)
    con._views._saved._log._most_bytes = 2000
    for steps in (4, 5, 6, 7, 8):
        transact(con, steps)
    assert not path.with_name("shop.db.state.log").exists()
    loads.clear()
    again = connect(copy(), durable=True)
    check(again, 8)
    assert len(loads) == 1
    end(again)
    con.close()
    with connect(path, durable=True) as con:
        check(con, 8)
        assert path.with_name("shop.db.state.log").exists()
    assert len(loads) == 1


def test_changes_that_the_engine_refuses_are_not_logged(path, copy, loads):
    con = saved(path, steps=3)
    con.execute("CREATE VIEW one AS SELECT (SELECT shop FROM shops WHERE shop > 1000) AS shop FROM steps")
    with pytest.raises(DeltamarkError, match="cannot follow"):
        con.execute("INSERT INTO shops VALUES (1001, 'a'), (1002, 'b')")
    con.execute("INSERT INTO shops VALUES (1001, 'a')")
    killed = copy()
    end(con)
    loads.clear()
    with connect(killed, durable=True) as again:
        assert set(again.execute("FROM one").fetchall()) == {(1001,)}
    assert loads == []
