"""The series of cells: order, medians and intervals, machines, edits, and the same result from every source."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.harness.history_records import (
    commit_name,
    git,
    history_of,
    measured,
    noisy_step,
    write,
)
from support.harness.records import changed

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.results.history import in_branch, in_directory, read
from deltamark.harness.results.commits import KnownCommit, known_commits
from deltamark.harness.tables.history import UNKNOWN_MACHINE, commit_history, relation

STEP = noisy_step(2, 24, 14, 1.2)


def only(history):
    ((series,),) = history.cells.values()
    return series


def test_a_step_has_its_commit_and_size():
    (step,) = only(history_of(measured(STEP))).steps
    assert step.commit.name == commit_name(14)
    assert (len(step.before), len(step.after)) == (14, 10)
    assert step.percent == pytest.approx(20, abs=4)
    assert step.notes == []


def test_circumstances_of_a_step_are_named():
    records = measured(STEP)
    later = [changed(each, data="other", versions="other", code="same") for each in records[14:]]
    (step,) = only(history_of([*(changed(each, code="same") for each in records[:14]), *later])).steps
    assert step.notes == ["other data", "other versions", "same code"]


def test_the_order_of_records_does_not_matter():
    records = [*measured(STEP), *measured(STEP, cell="other"), *measured(STEP[:9], "other machine")]
    expected = history_of(records)
    random.Random(1).shuffle(records)
    shuffled = history_of(records)
    assert shuffled == expected
    assert list(shuffled.cells) == list(expected.cells)


def test_a_change_of_the_machine_is_no_step():
    on_two = [*measured(STEP)[:14], *measured(STEP, "faster machine")[14:]]
    history = history_of(on_two)
    assert [name.partition(",")[0] for name in history.machines] == ["CPU of m", "CPU of faster machine"]
    assert history.steps == []


def test_steps_are_found_on_alternating_machines():
    twice = [value for value in noisy_step(4, 20, 12, 1.2) for _ in range(2)]
    records = zip(measured(twice), measured(np.array(twice) - 1, "other"), strict=True)
    history = history_of([pair[number % 2] for number, pair in enumerate(records)])
    assert [step.after[0].position for _, step in history.steps] == [25, 24]


def test_a_point_is_the_median_of_all_runs_of_a_commit_with_its_interval():
    one, again = (changed(each, session="m", key=key) for each, key in zip(measured([0, 0]), "ab", strict=True))
    one = changed(one, seconds=[1.0, 2.0, 4.0])
    (point,) = only(history_of([one])).points
    assert (point.seconds, point.low, point.high, point.runs) == (2, 1, 4, 3)
    again = changed(again, seconds=[3.0, 5.0, 6.0, 0.5, 7.0, 9.0], commit=one.commit)
    (point,) = only(history_of([one, again])).points
    assert (point.seconds, point.low, point.high, point.runs) == (4, 1, 7, 9)


def test_commits_are_ordered_by_the_repository_and_else_by_their_first_record():
    records = measured([0, 0, 0])
    known = {commit_name(2): KnownCommit(0.0, "", "the oldest")}
    history = history_of([*records, changed(records[1], commit=f"{commit_name(2)}+")], known)
    names = [commit_name(2), f"{commit_name(2)}+", commit_name(0), commit_name(1)]
    assert [commit.name for commit in history.commits] == names
    assert history.commits[0].subject == "the oldest"


def test_commits_with_edits_are_points_without_steps():
    records = measured(STEP)
    edited = [changed(each, commit=f"{each.commit}+") for each in records]
    assert only(history_of(edited)).steps == []
    both = history_of([*records, *(changed(each, seconds=[9.0]) for each in edited)])
    assert [step.commit.name for _, step in both.steps] == [commit_name(14)]
    assert sum(point.commit.is_dirty for point in only(both).points) == len(STEP)


@pytest.mark.parametrize("changes", [{"status": "wrong"}, {"commit": "unknown"}, {"commit": ""}, {"measuring": 0}])
def test_records_that_are_not_comparable_are_no_points(changes):
    records = measured(STEP)
    assert history_of([*records, changed(records[0], seconds=[9.0], **changes)]) == history_of(records)


def test_directories_and_branches_have_the_same_series(tmp_path):
    records = [*measured(STEP), *measured(STEP, "other machine", cell="other")]
    write(tmp_path / "records" / "ci" / "m", records[:30])
    write(tmp_path / "records" / "desk", records[30:])
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "records/ci")
    git(tmp_path, "commit", "--message=some")
    git(tmp_path, "checkout", "--quiet", "-b", "measured")
    git(tmp_path, "add", "records")
    git(tmp_path, "commit", "--message=others")
    git(tmp_path, "checkout", "--quiet", "main")
    write(tmp_path / "all", records)
    expected = history_of(records)
    for files in (in_branch(tmp_path, "measured"), in_directory(tmp_path / "all")):
        parts, foreign = read(files)
        assert foreign == 0
        assert commit_history(relation(parts), {}) == expected
    assert commit_history(relation(read(in_branch(tmp_path, "main"))[0]), {}) != expected


def test_records_in_several_artifacts_count_once(tmp_path):
    records = measured(STEP)
    write(tmp_path / "first", records[:20])
    write(tmp_path / "second", records)
    parts, _ = read(in_directory(tmp_path))
    assert commit_history(relation(parts), {}) == history_of(records)


def test_a_session_without_header_is_an_unknown_machine(tmp_path):
    write(tmp_path / "first", measured(STEP))
    (tmp_path / "first" / "sessions.jsonl").unlink()
    db = relation(read(in_directory(tmp_path))[0])
    assert db.rows("SELECT DISTINCT machine FROM measured") == [(UNKNOWN_MACHINE,)]


def test_a_damaged_line_of_a_branch_is_named(tmp_path):
    write(tmp_path / "m", measured(STEP))
    (tmp_path / "m" / "records.jsonl").write_bytes(b"damaged\n")
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "m")
    git(tmp_path, "commit", "--message=damaged")
    with pytest.raises(DeltamarkError, match=r"main:m/records\.jsonl, line 1"):
        read(in_branch(tmp_path, "main"))


def test_the_repository_knows_its_commits_and_no_others(tmp_path):
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "commit", "--allow-empty", "--message=a subject of words", GIT_COMMITTER_DATE="@86400 +0000")
    name = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    commits = [name, "abcdef1+"]
    sha = git(tmp_path, "rev-parse", "HEAD")
    assert known_commits(tmp_path, commits) == {name: KnownCommit(86400.0, sha, "a subject of words")}
    assert known_commits(tmp_path, commits[1:]) == {}
    assert known_commits(tmp_path / "nowhere", commits) == {}
