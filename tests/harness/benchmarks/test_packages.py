"""A benchmark may have texts in packages, which are installed on demand in a folder of their own."""

from __future__ import annotations

import hashlib
import re
from zipfile import ZipFile

import duckdb
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.schema import relation
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks import packages
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.packaged_texts import empty_database, in_total_order
from deltamark.harness.cli.main import main

TEXTS = {
    "sums": "SELECT k, TOTAL(i) AS total FROM numbers GROUP BY k;",
    "refused": "SELECT k, TOTAL(i) AS total, product(i) AS x, product(k) AS y FROM numbers GROUP BY k",
}
DESCRIPTION = """
packages = "requirements.txt"
queries = "little/texts/*.sql"
dialect = [["TOTAL", "sum"]]
[relations.numbers]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a benchmark whose texts are in a package that is not installed."""
    monkeypatch.setattr(packages, "INSTALLED", tmp_path / "installed")
    wheel = tmp_path / "little-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for name, text in TEXTS.items():
            archive.writestr(f"little/texts/{name}.sql", text)
        archive.writestr("little-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n")
        archive.writestr("little-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("little-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    home = tmp_path / "small"
    home.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i, i % 3 AS k FROM range(50) t(i)) TO '{home}/numbers.parquet'")
    (home / "benchmark.toml").write_text(DESCRIPTION)
    lock = f"--no-index\n--find-links {tmp_path}\nlittle==1.0 --hash=sha256:{digest}\n"
    (home / "requirements.txt").write_text(lock)
    return home


def test_texts_of_packages_are_queries_once_these_are_installed(folder, tmp_path, capfd):
    words = [f"BENCHMARK={folder}", f"DATA={tmp_path / 'data'}", "LOGICAL=1,5", "PHYSICAL=3,all", "TIMES=5"]
    assert main(["verify", *words]) == 2
    error = f"small needs packages that are not installed: little==1.0; run make packages BENCHMARK={folder}"
    assert error in capfd.readouterr().err
    assert main(["packages", f"BENCHMARK={folder}"]) == 0
    assert "is ready with little==1.0" in capfd.readouterr().out
    with tasks_in_process():
        assert main(["verify", *words]) == 0
    out = capfd.readouterr().out
    assert re.findall(r"^refused: refused: .*the aggregate product .*$", out, re.MULTILINE)
    assert "2 checked, 0 wrong, 1 query refused" in out


def test_packages_are_installed_again_if_the_list_changes(folder):
    found = benchmark(str(folder)).texts.packages
    found.install()
    assert [path.stem for path in found.files("little/texts/*.sql")] == ["refused", "sums"]
    with (folder / "requirements.txt").open("a") as file:
        file.write("# another list\n")
    assert not found.are_ready
    with pytest.raises(DeltamarkError, match="small needs packages that are not installed"):
        found.file("little/texts/sums.sql")


def test_a_wrong_hash_stops_the_installation(folder, capfd):
    path = folder / "requirements.txt"
    path.write_text(re.sub(r"sha256:\w+", f"sha256:{'0' * 64}", path.read_text()))
    assert main(["packages", f"BENCHMARK={folder}"]) == 2
    assert "the installation of little==1.0 stopped: pip ended with 1" in capfd.readouterr().err
    assert not benchmark(str(folder)).texts.packages.are_ready


def test_a_benchmark_without_packages_needs_none(capsys):
    assert main(["packages", "BENCHMARK=ssb"]) == 2
    assert "a benchmark without packages: ssb" in capsys.readouterr().err


ORDERED = {
    "SELECT a, b FROM t ORDER BY a": None,
    "SELECT a, b FROM t LIMIT 3": "ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 3",
    "SELECT a, b FROM t ORDER BY b DESC LIMIT 3": "ORDER BY b DESC NULLS LAST, 1 NULLS LAST LIMIT 3",
    "SELECT a, avg(b) x FROM t GROUP BY a ORDER BY a limit 3": "ORDER BY a NULLS LAST limit 3",
    "SELECT a, b FROM t ORDER BY coalesce(a, b), t.b NULLS FIRST -- (,\n LIMIT 3": (
        "ORDER BY coalesce(a, b) NULLS LAST, t.b NULLS FIRST, 1 NULLS LAST, 2 NULLS LAST LIMIT 3"
    ),
    "SELECT * FROM (SELECT a, 'LIMIT (' c FROM t ORDER BY a LIMIT 9) UNION ALL SELECT b, c FROM t ORDER BY 1 LIMIT 3": (
        "ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 3"
    ),
    "SELECT x FROM t LIMIT 3": None,
}
"""Texts, and how they end in a total order; None if they stay as they are."""


@pytest.mark.parametrize("text", ORDERED)
def test_a_limit_follows_a_total_order(text):
    database = empty_database([relation("t", "", "", "a:int? b:decimal(9,2)? c:text?")])
    found = " ".join(in_total_order(text, database).split())
    if ORDERED[text] is None:
        assert found == " ".join(text.split())
        return
    assert found.endswith(f" {ORDERED[text]}")
    assert len(database.execute(found).description) == 2
