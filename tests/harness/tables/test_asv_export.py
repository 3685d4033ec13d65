"""The files of asv follow its schema: one for each commit that asv finds in the repository, without a failed result."""

from __future__ import annotations

import random

import msgspec
import pytest
from support.harness.export_records import ALL_RECORDS, WITH_NUMBERS, at_scale_factor, make_repository, source
from support.harness.export_schemas import asv_files
from support.harness.history_records import git
from support.harness.records import changed

from deltamark.harness.tables.exports import EXPORTS

ASV = EXPORTS["asv"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def shas(repository):
    return make_repository(repository)


def at(sha, records, edited=""):
    return [changed(record, commit=sha[:12] + edited) for record in records]


def test_there_is_a_file_for_each_commit_of_the_repository(repository, shas):
    first, _, third = shas
    records = [*at(first, ALL_RECORDS), *at(third, WITH_NUMBERS[:2]), *at(third, WITH_NUMBERS[2:], "+")]
    encoded = ASV.encode(source(records, repository))
    _, results = asv_files(encoded.content)
    assert {file["commit_hash"] for file in results.values()} == {first, third}
    assert encoded.cells == len(WITH_NUMBERS) + 2
    assert encoded.left_out == {"wrong": 1, "timeout": 1, "failed": 1, "of no commit of the repository": 3}
    assert {file["python"] for file in results.values()} == {"3.11.7"}
    shuffled = random.Random(1).sample(records, len(records))
    assert ASV.encode(source(shuffled, repository)).content == encoded.content


def test_results_are_the_fastest_runs_with_all_samples(repository, shas):
    made = [*WITH_NUMBERS[:2], at_scale_factor("0.1", WITH_NUMBERS[0])]
    benchmarks, results = asv_files(ASV.encode(source(at(shas[0], made), repository)).content)
    (of_commit,) = results.values()
    cells = [f"'sf{sf} embedded 1x1000 w{workers}'" for sf, workers in (("0.1", 1), ("1", 1), ("1", 2))]
    assert of_commit["results"]["tpch.insert.q01.data.seconds"] == [
        [0.25, 0.25, 0.2], [cells], "1", [[0.5, 0.25, 1.0], [0.5, 0.25, 1.0], [0.2]],
    ]  # fmt: skip
    assert of_commit["results"]["tpch.insert.q01.data.state-bytes"] == [[5], [cells[2:]], "1"]
    assert {(each["type"], each["unit"]) for each in benchmarks.values()} == {
        ("time", "seconds"), ("track", "seconds"), ("memory", "bytes"), ("peakmemory", "bytes"),
    }  # fmt: skip


def test_benchmarks_list_the_cells_of_all_commits(repository, shas):
    records = [*at(shas[0], WITH_NUMBERS[:1]), *at(shas[2], WITH_NUMBERS[1:2])]
    benchmarks, results = asv_files(ASV.encode(source(records, repository)).content)
    assert len(benchmarks["tpch.insert.q01.data.seconds"]["params"][0]) == 2
    assert [len(file["results"]["tpch.insert.q01.data.seconds"][0]) for file in results.values()] == [1, 1]


def test_a_merged_commit_is_a_branch_of_its_own(repository, shas):
    def branches(*commits):
        records = [record for sha in commits for record in at(sha, WITH_NUMBERS)]
        return msgspec.json.decode(ASV.encode(source(records, repository)).content["asv.conf.json"])["branches"]

    first, merged, third = shas
    assert branches(first, third) == ["HEAD"]
    assert branches(first, merged) == ["HEAD", merged]


def test_a_commit_that_no_branch_contains_is_left_out(repository, shas):
    lost = git(repository, "commit-tree", "-m", "lost", f"{shas[0]}^{{tree}}")
    encoded = ASV.encode(source([*at(shas[0], WITH_NUMBERS[:1]), *at(lost, WITH_NUMBERS[1:])], repository))
    assert (encoded.cells, encoded.left_out) == (1, {"of no commit of the repository": len(WITH_NUMBERS) - 1})


def test_without_a_repository_all_records_are_left_out(tmp_path):
    encoded = ASV.encode(source(WITH_NUMBERS, tmp_path / "none"))
    assert (encoded.cells, encoded.left_out) == (0, {"of no commit of the repository": len(WITH_NUMBERS)})
