"""Databases in files: restarts, kills at random moments, and files that are damaged, foreign or in use."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time

import duckdb
import pytest
from support.database.killed_writer import CHECKPOINT_EVERY, DECLARE_EVERY, VIEWS, check, filled, roll_back, transact
from support.paths import ROOT
from support.patience import patient

from deltamark import DeltamarkError, connect
from deltamark.database import files

WORDS = ("committed", "saving", "saved")
"""The words of the lines that the killed process has printed."""

MODES = {"durable": True, "checkpoints": False}


@pytest.mark.parametrize("mode", MODES)
def test_a_database_that_is_opened_again_has_the_same_answers(path, mode):
    with filled(path, durable=MODES[mode], steps=4) as con:
        con.execute("CREATE MACRO of(x) AS TABLE SELECT * FROM rich WHERE city = x; CREATE INDEX i ON sales (shop)")
        con.execute("CREATE OR REPLACE VIEW notes AS SELECT note FROM sales; DROP VIEW notes")
        con.execute(f"CREATE VIEW notes AS {VIEWS['notes']}")
        kept = con.execute("SHOW VIEWS").fetchall()
    for steps in (5, 6):
        with connect(path, durable=MODES[mode]) as con:
            assert con.execute("SHOW VIEWS").fetchall() == kept
            check(con, steps - 1)
            transact(con, steps)
            check(con, steps)
            assert con.execute("FROM of('Bonn')").columns == ["city"]
            with pytest.raises(DeltamarkError, match="NOT NULL constraint failed"):
                con.execute("INSERT INTO shops VALUES (1000, NULL)")


def copied(path, to):
    """Copy the files of a database that is open, as a kill would leave them."""
    for each in (path, path.with_name(f"{path.name}.wal")):
        if each.exists():
            shutil.copy(each, to / each.name)
    return to / path.name


def test_a_durable_database_is_complete_after_each_commit(path, tmp_path):
    with filled(path, durable=True, steps=0) as con:
        for steps in range(1, 8):
            transact(con, steps)
            (place := tmp_path / str(steps)).mkdir()
            copy = copied(path, place)
            for durable in (bool(steps % 2), True):  # what the log has is not replayed a second time
                with connect(copy, durable=durable) as again:
                    check(again, steps)
            roll_back(con)


def test_a_database_that_is_not_durable_has_the_state_of_the_last_checkpoint(path, tmp_path):
    with filled(path, durable=False, steps=3) as con:
        con.execute("CHECKPOINT")
        for steps in range(4, 8):
            transact(con, steps)
            con.execute(f"CREATE VIEW more{steps} AS SELECT * FROM sales WHERE shop = {steps}")
            (place := tmp_path / str(steps)).mkdir()
            assert not path.with_name("shop.db.wal").exists()
            with connect(copied(path, place)) as again:
                check(again, 3)
                assert len(again.execute("SHOW VIEWS")) == len(VIEWS)
        con.checkpoint()
        with connect(copied(path, place)) as again:
            check(again, 7)


def test_a_connection_that_is_not_closed_makes_no_checkpoint(path):
    con = filled(path, durable=False, steps=2)
    con.checkpoint()
    transact(con, 3)
    con._store.close()  # as the end of the process does
    with connect(path) as again:
        check(again, 2)


def killed(path, mode, rng):
    """Let a process change a database, kill it at a random moment, and return the lines that it has printed."""
    script = ROOT / "tests" / "support" / "database" / "killed_writer.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    lines = []
    with subprocess.Popen(
        [sys.executable, str(script), str(path), mode], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        if rng.random() < 0.9:
            lines += [process.stdout.readline() for _ in range(rng.randrange(1, 45))]
        time.sleep(rng.random() * rng.choice([0.001, 0.02, 0.2]) if lines else rng.random() * patient(3))
        process.kill()
        lines += process.stdout.readlines()
    return [(word, int(number)) for word, number in map(str.split, lines)]


@pytest.mark.waits(8)
@pytest.mark.draws(1, of="mode")
@pytest.mark.parametrize("moment", range(25))
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_process_loses_nothing_and_repeats_nothing(path, mode, moment):
    rng = random.Random(moment)
    step = declared = 0
    for _ in range(2):
        lines = [("", step), *killed(path, mode, rng)]
        last = {each: max([step, *(number for word, number in lines if word == each)]) for each in WORDS}
        with connect(path, durable=MODES[mode]) as con:
            if not con.execute("SHOW TABLES").fetchall():
                assert lines == [("", 0)]
                continue
            (step,) = con.execute("SELECT coalesce(max(number), 0) FROM steps").fetchall()[0]
            possible = (last["committed"], last["committed"] + 1) if MODES[mode] else (last["saved"], last["saving"])
            assert step in possible
            # Before a view was replaced, and unless the kill came within a checkpoint: the views are loaded then.
            if not MODES[mode] and last["saving"] == last["saved"] == step == CHECKPOINT_EVERY:
                assert con._views._saved.fits
            declared = max([declared, *(number for word, number in lines if word == "declared" and number <= step)])
            views = dict(con.execute("SHOW VIEWS").fetchall())
            found = re.findall(r"(\d+) AS step", views.get("extra", "0 AS step"))[0]
            assert int(found) in (declared, step if MODES[mode] and step % DECLARE_EVERY == 0 else declared)
            declared = int(found)
            for name in [each for each in VIEWS if each not in views]:  # the process was killed before it created them
                assert not step
                con.execute(f"CREATE VIEW {name} AS {VIEWS[name]}")
            check(con, step)


def test_a_file_is_open_once(path):
    with connect(path) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(DeltamarkError, match=r"that another connection has open: .*shop\.db; close"):
            connect(path, durable=True)
        code = f"from deltamark import connect; connect({str(path)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
        assert "OperationalError: a database that another connection has open" in other.stderr
        con.execute("INSERT INTO t VALUES (1)")
    with connect(path) as con:
        assert con.execute("FROM t").fetchall() == [(1,)]


def test_foreign_files_are_refused_and_stay_as_they_are(path, tmp_path, monkeypatch):
    path.write_text("no database" * 1000)
    with pytest.raises(DeltamarkError, match=r"not a database of deltamark: .*shop\.db; give another path"):
        connect(path)
    assert path.read_text() == "no database" * 1000
    with duckdb.connect(tmp_path / "theirs.db") as theirs:
        theirs.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(DeltamarkError, match=r"not a database of deltamark: .*theirs\.db; give"):
        connect(tmp_path / "theirs.db")
    with duckdb.connect(tmp_path / "theirs.db") as theirs:
        assert theirs.sql("SHOW TABLES").fetchall() == [("t",)]
    with pytest.raises(DeltamarkError, match="cannot read or write"):
        connect(tmp_path / "nowhere" / "shop.db")
    (tmp_path / "lost.db.wal").write_text("")
    with pytest.raises(DeltamarkError, match=r"a log without its database: .*lost\.db\.wal; give the database back"):
        connect(tmp_path / "lost.db")
    connect(tmp_path / "ours.db").close()
    monkeypatch.setattr(files, "VERSION", 2)
    with pytest.raises(DeltamarkError, match=r"a database of another version: .*ours\.db: 1; open it"):
        connect(tmp_path / "ours.db")


def refuse_or_check(path):
    """Open a damaged file and compare all rows; return the error, or None if the damage was in no block in use."""
    try:
        with connect(path) as con:
            con._store.checkpoint = lambda: None  # which close calls
            check(con, 6)
    except DeltamarkError as error:
        return str(error)
    return None


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.7])
def test_a_truncated_file_is_one_error(path, part):
    filled(path, durable=False, steps=6).close()
    os.truncate(path, int(path.stat().st_size * part))
    assert re.match(r"(not a database of deltamark|a database that cannot be read): .*shop\.db", refuse_or_check(path))


def test_a_damaged_block_is_an_error_of_the_first_statement_that_reads_it(path):
    filled(path, durable=False, steps=6).close()
    whole, rng = path.read_bytes(), random.Random(1)
    errors = []
    for _ in range(12):
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        errors.append(refuse_or_check(path))
    found = [each for each in errors if each]
    assert len(found) > 1
    assert all("a database that cannot be read" in each for each in found)


def test_checkpoints_need_a_file_and_no_transaction(path):
    with connect() as con, pytest.raises(DeltamarkError, match="a checkpoint of a database in memory"):
        con.checkpoint()
    with pytest.raises(DeltamarkError, match="a database in memory that is durable"):
        connect(durable=True)
    with connect(path) as con:
        con.begin()
        with pytest.raises(DeltamarkError, match="a checkpoint within a transaction"):
            con.checkpoint()
        con.execute("CREATE TABLE t (a INTEGER)")
    with connect(path) as con:
        assert con.execute("SHOW TABLES").fetchall() == []
