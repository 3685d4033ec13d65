"""The gate: silent on equals, not on a tenth more, and never on what it cannot know."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.compare import rule
from deltamark.harness.compare.cells import PHYSICAL, QUERIES, SF, WORKLOADS, cells, motif_cells
from deltamark.harness.compare.gate import EXIT_CODES, Gate, Judged, Outcome
from deltamark.harness.compare.rule import PEAK, QUANTITIES, STATE, TIME, Finding, Pair
from deltamark.harness.compare.side import SideError, TreeSide, opener
from deltamark.harness.compare.summary import Said, as_markdown, as_text, headline, verdict_line
from deltamark.harness.compare.trees import NOBODY, Tree, trees
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.client import ServerSpec
from deltamark.harness.measure.messages import WarmReply
from deltamark.harness.measure.stats import interval

MODULE, RUNNER = "deltamark.harness.measure.server", Path("harness", "warm.py")
CELLS = cells(SF, QUERIES, WORKLOADS, (1,), PHYSICAL)
USUAL = {"time": 0.1, "state": 20e6, "peak": 40e6}
SAID = Said("base (main, 0123)", "head (work tree, 4567)", "a machine", "make compare")


# the rule


@pytest.mark.parametrize("size", range(6, 31))
def test_the_interval_has_the_exact_ranks(size):
    low, high = interval(range(1, size + 1))
    assert high == size + 1 - low

    def missed(rank):
        """Return how likely it is that the median lies outside."""
        return 2 * sum(Fraction(math.comb(size, heads), 2**size) for heads in range(rank))

    assert missed(low) <= Fraction(5, 100) < missed(low + 1)


def pairs(ratios, quantity=TIME, base=1.0):
    return [Pair({quantity.name: base}, {quantity.name: base * ratio}) for ratio in ratios]


def simulated(rng, factor, count):
    """Noise of 3%, and one sample in twenty that something disturbed."""
    noise = rng.normal(0, 0.03, (2, count)) + rng.exponential(0.3, (2, count)) * (rng.random((2, count)) < 0.05)
    return pairs(factor * np.exp(noise[0] - noise[1]))


def verdict(rng, factor):
    first = rule.screen([simulated(rng, factor, rule.SCREEN)], TIME).verdict
    return rule.confirm([simulated(rng, factor, rule.CONFIRM)], TIME).verdict if first == "inconclusive" else first


def test_simulated_there_are_no_false_alarms_and_a_tenth_is_found():
    rng = np.random.default_rng(5)
    equal = [verdict(rng, 1.0) for _ in range(3000)]
    slower = [verdict(rng, 1.1) for _ in range(300)]
    assert not {"regression", "improvement"} & set(equal)
    assert slower.count("regression") > 0.85 * len(slower)


def test_few_pairs_conclude_nothing():
    assert rule.screen([pairs([1.0] * 5)], TIME).verdict == "inconclusive"
    assert rule.confirm([pairs([2.0] * 5)], TIME).verdict == "inconclusive"
    assert rule.confirm([pairs([2.0] * 6)], TIME).verdict == "regression"


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([1.2] * 8 + [0.5], "regression"), ([1.2] * 7 + [0.5] * 2, "inconclusive"), ([1.04] * 9, "unchanged"),
        ([0.9] * 9, "improvement"), ([1.0, 1.1] * 5, "inconclusive"),
    ],
)  # fmt: skip
def test_nine_pairs_forgive_one(ratios, said):
    assert rule.confirm([pairs(ratios)], TIME).verdict == said


def test_small_cells_and_small_differences_are_left_out():
    assert rule.confirm([pairs([2.0] * 9, base=0.02)], TIME).verdict == "too small"
    assert rule.confirm([pairs([3.0] * 9, base=0.02)], TIME).verdict == "regression"
    assert rule.confirm([pairs([1.08] * 9, base=0.06)], TIME).verdict == "unchanged"
    assert rule.confirm([pairs([1.04] * 9, STATE, 5e6)], STATE).verdict == "unchanged"


def test_a_row_is_judged_by_the_geometric_mean_of_its_cells():
    one, other, small = pairs([1.2] * 9), pairs([1.0] * 9), pairs([9.0] * 9, base=0.001)
    found = rule.confirm([one, other, small], TIME)
    assert math.exp(found.change) == pytest.approx(math.sqrt(1.2))
    assert (found.base, found.head) == (2.0, pytest.approx(2.2))
    assert found.verdict == "regression"


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 20), (6.0, 20), (10.0, 12), (60.0, 9)])
def test_slow_cells_are_confirmed_by_fewer_pairs(seconds, count):
    assert rule.confirming_pairs(seconds) == count


# the gate, with sides that only say what they are told to


class Fake:
    """A side of simulated times, on a machine that drifts."""

    def __init__(self, name, log, rng, said):
        self.name, self.log, self.rng = name, log, rng
        self.said = said.get(name, {})

    def check(self, cell, _rounds):
        self._fail("check", cell)
        return self.said.get("digest", "1 aa")

    def sample(self, cell):
        self.log.append((cell, self.name))
        self._fail("sample", cell)
        noise = math.exp(self.rng.normal(0, 0.02))
        drift = 1 + 0.2 * math.sin(len(self.log) / 300)
        return {
            name: usual * self.said.get(name, 1.0) * (drift * noise if name == "time" else 1.0)
            for name, usual in USUAL.items()
        }

    def _fail(self, what, cell):
        if problem := self.said.get(f"{what} fails", {}).get(cell.row.split()[0]):
            raise SideError(self.name, problem)


def gate(chosen=CELLS, seed=1, log=None, **said):
    rng = np.random.default_rng(seed)
    seen = [] if log is None else log

    @contextmanager
    def opened():
        yield {name: Fake(name, seen, rng, said) for name in ("base", "head")}

    return Gate({cell: [1] for cell in chosen}, opened, lambda: 0.1, lambda *_: None)


@pytest.mark.parametrize("seed", range(3))
def test_base_against_base_is_silent(seed):
    found = gate(seed=seed).run()
    assert found.exit_code == 0
    assert {each.finding.verdict for each in found.judged} <= {"unchanged", "inconclusive"}
    assert found.verdict == ("undecided" if found.of("inconclusive") else "unchanged")
    assert len(found.judged) == len(QUANTITIES) * (len(CELLS) + len(QUERIES) * len(WORKLOADS))


def test_a_tenth_more_time_is_a_regression():
    found = gate(head={"time": 1.1}).run()
    assert (found.exit_code, found.verdict) == (1, "regression")
    assert {each.finding.quantity for each in found.of("regression")} == {TIME}
    assert len(found.of("regression")) > len(CELLS)


@pytest.mark.parametrize("quantity", [STATE, PEAK])
def test_more_memory_is_a_regression(quantity):
    found = gate(head={quantity.name: 1.1}).run()
    assert found.exit_code == 1
    assert {each.finding.quantity for each in found.of("regression")} == {quantity}


def test_less_is_an_improvement():
    found = gate(head={"time": 0.8}).run()
    assert found.exit_code == 0
    assert found.of("improvement")
    assert "improvements" in headline(found)


@pytest.mark.parametrize("when", ["check fails", "sample fails"])
def test_what_head_cannot_do_is_exit_code_2(when):
    found = gate(head={when: {"q09": "wrong: row 1"}, "time": 1.1}).run()
    assert (found.exit_code, found.verdict) == (2, "wrong")
    assert {cell.query for cell in found.broken} == {"q09"}
    assert all(cell.query != "q09" for each in found.judged for cell in each.cells)
    assert "BROKEN q09 1x3000: wrong: row 1\npython -m harness changes q09" in as_text(found)


def test_motifs_are_judged_like_queries():
    chosen = motif_cells(12)
    silent = gate(chosen).run()
    assert silent.exit_code == 0
    assert len(silent.judged) == len(QUANTITIES) * len(chosen)
    slower = gate(chosen, head={"time": 1.1}).run()
    assert slower.exit_code == 1
    assert {each.cells for each in slower.of("regression")} == {(cell,) for cell in chosen}


def test_a_wrong_count_is_exit_code_2_and_says_how_to_count_again():
    found = gate(motif_cells(12), head={"check fails": {"4-clique": "wrong: 5, by hand 6"}}).run()
    assert found.exit_code == 2
    again = "python -m harness motif 4-clique --graph rmat:12 --orient --static --check 1"
    assert f"BROKEN 4-clique rmat:12 static: wrong: 5, by hand 6\n{again}\n" in as_text(found)


def test_another_stream_is_exit_code_2():
    found = gate(head={"digest": "1 bb"}).run()
    assert found.exit_code == 2
    assert found.broken[CELLS[0]] == "another stream than base's: 1 bb, not 1 aa"


@pytest.mark.parametrize("when", ["check fails", "sample fails"])
def test_what_base_cannot_do_is_not_compared(when):
    found = gate(base={when: {"q09": "failed: no such query"}}).run()
    assert (found.exit_code, found.verdict) == (0, "undecided")
    assert {cell.query for cell in found.skipped} == {"q09"}
    assert "not compared: q09 1x3000\n```\nfailed: no such query\n" in as_markdown(found, SAID)


def test_sides_take_turns_and_cells_do():
    log = []
    gate(CELLS[:2], log=log).run()
    first, second = CELLS[:2]
    turn = [(first, "base"), (first, "head"), (second, "base"), (second, "head")]
    back = [(first, "head"), (first, "base"), (second, "head"), (second, "base")]
    assert log[:40] == (turn + back) * 5


def test_what_is_confirmed_is_fresh():
    log = []
    gate(CELLS[:1], log=log, head={"time": 1.1}).run()
    assert len(log) == 2 * (rule.SCREEN + rule.CONFIRM)


def test_interrupted_it_says_what_it_knows():
    made = gate(CELLS[:1], head={"time": 1.1})
    log = []
    made.report = lambda what, done, _: log.append(done) or interrupt(what, done)

    def interrupt(what, done):
        if (what, done) == ("confirming", 4):
            raise KeyboardInterrupt

    found = made.run()
    assert found.exit_code == 130
    assert {each.finding.verdict for each in found.judged if each.finding.quantity == TIME} == {"inconclusive"}
    assert found.verdict == "interrupted"
    assert headline(found) == "interrupted; 2 unchanged, 1 inconclusive"


def test_interrupted_at_once_it_knows_nothing():
    made = gate()

    def interrupt(*_):
        raise KeyboardInterrupt

    made.report = interrupt
    found = made.run()
    assert found.exit_code == 130
    assert headline(found) == "interrupted; nothing was compared"


def test_the_comment_has_what_changed_first():
    found = gate(head={"time": 1.1}).run()
    comment = as_markdown(found, SAID)
    assert comment.startswith("### deltamark compare: ")
    assert comment.index("REGRESSION") < comment.index("<details>")
    assert "Control of fixed work" in comment
    assert "`make compare`" in comment


def test_cells_with_too_little_to_do_are_named():
    found = gate(CELLS[:1], base={"time": 0.1}, head={"time": 0.1}).run()
    assert found.exit_code == 0
    assert "Not judged by time, since both sides are below 50 ms: q01 1x3000; a larger SF or SCALE" in as_text(found)


def said(*verdicts, **more):
    """Return an outcome of one cell whose time, state and peak have these verdicts."""
    judged = [
        Judged((CELLS[0],), Finding(quantity, 1, 1, 9, 0.0, (0.0, 0.0), each))
        for quantity, each in zip(QUANTITIES, verdicts, strict=False)
    ]
    return Outcome(judged, **more)


@pytest.mark.parametrize("unknown", ["too small", "inconclusive"])
@pytest.mark.parametrize("at", range(len(QUANTITIES)))
def test_what_could_not_be_judged_never_reads_as_no_change(unknown, at):
    verdicts = ["unchanged"] * len(QUANTITIES)
    verdicts[at] = unknown
    found = said(*verdicts)
    assert headline(found) == f"2 unchanged, 1 {'too small to be judged' if unknown == 'too small' else unknown}"
    assert "no change" not in as_text(found) + as_markdown(found, SAID)
    judged_by_memory_alone = unknown == "too small" and QUANTITIES[at] != TIME
    assert found.verdict == ("unchanged" if judged_by_memory_alone else "undecided")


def test_only_what_was_judged_as_a_whole_has_no_change():
    assert headline(said("unchanged", "unchanged", "unchanged")) == "no change"
    assert headline(said(skipped={CELLS[1]: "failed"})) == "1 not compared"
    assert said().verdict == said("unchanged", skipped={CELLS[1]: "failed"}).verdict == "undecided"


def test_each_verdict_has_its_word_and_make_cannot_hide_it():
    everything = ["regression", "improvement", "inconclusive"]
    assert [found.verdict for found in (
        said(*everything, broken={CELLS[1]: "wrong"}, interrupted=True), said(*everything, interrupted=True),
        said(*everything), said(*everything[1:]), said("improvement"), said("unchanged"),
    )] == [*EXIT_CODES]  # fmt: skip
    line = verdict_line(said("regression"), Path(".compare", "verdict-tpch.txt"))
    assert line == "verdict: regression (exit code 1; make turns 1 into 2, .compare/verdict-tpch.txt has the word)"


# work trees


def git(directory, *words):
    subprocess.run(["git", *words], cwd=directory, env=os.environ | NOBODY, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    (tmp_path / RUNNER).parent.mkdir()
    for name, text in {RUNNER: "first", "other": "one", ".gitignore": ".compare/\nignored"}.items():
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message=first")
    return tmp_path


def test_head_is_the_work_tree_as_it_is(repository):
    (repository / "other").write_text("two")
    (repository / "new").write_text("new")
    (repository / "ignored").write_text("secret")
    with trees(repository, "main", "", module=MODULE) as (base, head):
        (repository / "other").write_text("three")
        assert [(tree.root / "other").read_text() for tree in (base, head)] == ["one", "two"]
        assert (head.root / "new").exists()
        assert not (head.root / "ignored").exists()
        assert head.label == f"head (work tree, {head.commit[:12]})"
    git(repository, "diff", "--cached", "--quiet")


def test_nothing_edited_is_the_last_commit_and_trees_are_used_again(repository):
    with trees(repository, "main", "", module=MODULE) as (base, head):
        assert base.commit == head.commit
    git(repository, "commit", "--allow-empty", "--message=second")
    with trees(repository, "main~1", "main", module=MODULE) as (base, head):
        assert base.commit != head.commit


def test_commits_that_are_not_there_or_cannot_be_measured_are_named(repository):
    with (
        pytest.raises(DeltamarkError, match="no such commit: mian; did you mean main"),
        trees(repository, "mian", "", module=MODULE),
    ):
        pass
    git(repository, "rm", str(RUNNER))
    git(repository, "commit", "--message=second")
    with (
        pytest.raises(DeltamarkError, match=r"base \(main, .*cannot be measured: it has no harness/measure/server.py"),
        trees(repository, "main", "main~1", module=MODULE),
    ):
        pass


def test_commits_from_before_motifs_were_compared_are_named(repository):
    with (
        pytest.raises(DeltamarkError, match=r"base \(main, .*cannot be measured: it has no harness/compare/motifs.py"),
        trees(repository, "main", "", module="deltamark.harness.compare.motifs"),
    ):
        pass


def _is_locked(_root, admin):
    (admin / "index.lock").touch()


def _is_half_made(root, admin):
    (root / ".git").unlink()
    (admin / "locked").write_text("initializing")


def _has_lost_its_record(_root, admin):
    shutil.rmtree(admin)


def _has_an_unreadable_index(_root, admin):
    (admin / "index").write_bytes(b"DIRC")


def _has_files_of_another_commit(root, _admin):
    (root / "harness" / "later.py").write_text("raise SystemExit")
    (root / "other").unlink()


@pytest.mark.parametrize(
    "killed",
    [_is_locked, _is_half_made, _has_lost_its_record, _has_an_unreadable_index, _has_files_of_another_commit],
)
@pytest.mark.parametrize("side", ["base", "head"])
def test_a_work_tree_that_a_killed_comparison_left_is_made_whole(repository, killed, side):
    with trees(repository, "main", "main", module=MODULE):
        pass
    killed(repository / ".compare" / side, repository / ".git" / "worktrees" / side)
    git(repository, "commit", "--allow-empty", "--message=second")
    with trees(repository, "main", "main", module=MODULE) as both:
        for tree in both:
            files = {str(each.relative_to(tree.root)) for each in tree.root.rglob("*") if each.is_file()}
            assert files == {".git", ".gitignore", "other", str(RUNNER)}
            assert (tree.root / "other").read_text() == "one"
    listed = subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 3


def test_git_that_outlives_a_killed_comparison_has_its_lock(repository):
    """Nothing else may write to the work trees meanwhile, so the next comparison waits."""
    (repository / ".compare").mkdir()
    script = "import fcntl, subprocess; lock = open('.compare/lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "
    script += "subprocess.Popen(['sleep', '0.5'], pass_fds=[lock.fileno()], stdout=subprocess.DEVNULL)"
    subprocess.run(["python3", "-c", script], cwd=repository, check=True)
    began = time.monotonic()
    with trees(repository, "main", "", module=MODULE) as (base, _):
        assert time.monotonic() - began > 0.4
        assert (base.root / RUNNER).exists()


def test_two_comparisons_do_not_disturb_each_other(repository, monkeypatch):
    monkeypatch.setattr("deltamark.harness.compare.trees.OUTLIVED", 0.1)
    with (
        trees(repository, "main", "", module=MODULE),
        pytest.raises(DeltamarkError, match="a comparison is running"),
        trees(repository, "main", "", module=MODULE),
    ):
        pass


def test_a_directory_without_a_repository_is_not_a_missing_commit(tmp_path):
    with (
        pytest.raises(DeltamarkError, match="git rev-parse stopped: fatal: not a git repository"),
        trees(tmp_path, "main", "", module=MODULE),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["BASE=mian"], "no such commit: mian; did you mean main"),
        (["QUERIES=q77"], "unknown query: q77"),
        (["WORKLOAD=windov:9"], "unknown workload: windov:9"),
        (["SUITE=graph", "BASE=mian"], "no such commit: mian; did you mean main"),
    ],
)
def test_a_wrong_setting_is_found_before_data_is_made_and_leaves_no_verdict(
    repository, words, message, capsys, monkeypatch
):
    (repository / "harness" / "compare").mkdir()
    (repository / "harness" / "compare" / "motifs.py").touch()
    monkeypatch.setattr("deltamark.harness.results.machine.ROOT", repository)
    stale = repository / ".compare" / f"verdict-{'graph' if 'SUITE=graph' in words else 'tpch'}.txt"
    stale.parent.mkdir()
    stale.write_text("unchanged\n")
    assert main(["compare", f"DATA={repository / 'data'}", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (repository / "data").exists()
    assert not stale.exists()


# sides


def test_a_side_checks_and_samples(chunked):
    both = tuple(Tree(name, "", name, ROOT) for name in ("base", "head"))
    cell = Cell("q04", "0.001", physical=500)
    rounds = chunked.rows("lineitem")
    with opener(both, ServerSpec(chunked.directory), 60.0)() as sides:
        digests = {side.check(cell, [rounds]) for side in sides.values()}
        samples = [side.sample(cell) for side in sides.values()]
        with pytest.raises(SideError, match=r"failed: .*none"):
            sides["head"].sample(cell.but(variant="none"))
    assert len(digests) == 1
    assert all(sample[quantity.name] > 0 for sample in samples for quantity in QUANTITIES)


def test_sides_that_measure_otherwise_do_not_compare():
    class Old:
        def warm(self):
            return WarmReply()

    side = TreeSide(Tree("base", "", "base (old)", ROOT), Old(), 1.0)
    with pytest.raises(DeltamarkError, match=r"base \(old\) does not compare: .*number 0"):
        side.open()


@pytest.mark.parametrize("words", [["SUITE=graph", "SF=1"], ["SUITE=graph", "QUERIES=q01"], ["SCALE=12"]])
def test_what_says_nothing_to_a_suite_is_refused(words, capsys):
    assert main(["compare", *words]) == 2
    suite = "graph" if "SUITE=graph" in words else "tpch"
    assert f"no setting of the suite {suite}: {words[-1].partition('=')[0]}" in capsys.readouterr().err
