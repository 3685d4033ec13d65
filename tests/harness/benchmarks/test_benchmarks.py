"""Laws of benchmarks as folders: every command takes one, its answers are checked, and a mistake is one clear error."""

from __future__ import annotations

import importlib.util
import json
import shutil
from decimal import Decimal

import duckdb
import pytest
from support.harness.local_tasks import tasks_in_process
from support.paths import ROOT

from deltamark.datagen.tpch import RELATIONS
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.description import described
from deltamark.harness.cli.main import main
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results import store

QUERIES = (
    "best_customers", "mean_discount", "never_sold", "orders_by_status", "revenue_by_category", "waiting",
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return a copy of the example with few orders, and its data beside it."""
    folder = tmp_path_factory.mktemp("shops") / "shop"
    shutil.copytree(ROOT / "examples" / "shop", folder, ignore=shutil.ignore_patterns("*.parquet"))
    spec = importlib.util.spec_from_file_location("make_shop", ROOT / "examples" / "make_shop.py")
    assert spec
    assert spec.loader
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    maker.make(folder, 300)
    with tasks_in_process():
        assert main(["data", f"BENCHMARK={folder}", f"DATA={folder.parent / 'data'}"]) == 0
    return folder


@pytest.fixture
def run(shop, tmp_path, capsys):
    """Return a function that runs a command on the shop, and returns its exit code and what it prints."""

    def run_command(name, *words, results=True):
        data = [f"DATA={shop.parent / 'data'}"] if name not in ("tables", "report", "sql", "export", "history") else []
        where = [f"RESULTS={tmp_path}"] * results
        capsys.readouterr()
        return main([name, *words, f"BENCHMARK={shop}", *data, *where]), capsys.readouterr()

    return run_command


def test_a_folder_has_the_queries_of_its_files(shop):
    assert tuple(benchmark(str(shop)).queries) == QUERIES
    assert benchmark(str(shop)).reads("best_customers") == ("lines", "orders", "products")
    assert (
        Cell("waiting", "1", benchmark=str(shop))
        .command("answer")
        .startswith(f"python -m harness answer waiting --benchmark {shop}")
    )


def test_answers_over_changes_are_right_at_any_time_and_in_any_batches(run):
    words = ("LOGICAL=1,7", "PHYSICAL=13,all", "TIMES=12", "WORKERS=1,2")
    code, said = run("verify", *words, results=False)
    assert (code, said.out.splitlines()[-1]) == (0, "12 checked, 0 wrong")


def test_engines_are_measured_and_compared_in_tables_of_their_own(run, tmp_path):
    words = ("QUERIES=waiting,never_sold", "ENGINES=embedded,duckdb", "PHYSICAL=100,1000", "RUNS=1", "SAMPLE=5")
    code, said = run("bench", *words)
    assert code == 0, said.err
    (machine,) = (path for path in tmp_path.iterdir() if path.is_dir())
    records = store.read(machine).records
    assert len(records) == 8
    assert {(record.workload, record.status) for record in records} == {("changes", "ok")}
    assert all(record.verified for record in records)
    code, said = run("tables", "TABLE=physical")
    assert (code, "never_sold" in said.out, "hot dog" in said.out) == (0, True, False)
    assert main(["tables", f"RESULTS={tmp_path}"]) == 2, "TPC-H has no records here"
    assert run("report")[0] == 0
    code, said = run("export", "FORMAT=github-action-benchmark", "OUTPUT=-")
    assert code == 0
    assert len(json.loads(said.out)) > 0


def test_an_edited_query_is_measured_again(run, tmp_path):
    file = tmp_path / "busy.sql"
    words = (f"SQL={file}", "ENGINES=embedded", "PHYSICAL=1000", "RUNS=1", "SAMPLE=1")
    done = []
    for least in (1, 1, 2):
        file.write_text(f"SELECT count(*) AS lines FROM lines WHERE quantity > {least}")
        done.append("0 already done" not in run("bench", *words)[1].out)
    assert done == [False, True, False]


@pytest.mark.parametrize("words", [["golden"], ["compare"], ["chaos"], ["bench-feed"], ["bench", "SUITE=shared"]])
def test_a_command_over_tpch_alone_refuses_a_benchmark(shop, tmp_path, capsys, words):
    results = [f"RESULTS={tmp_path}"] * (words[0] == "bench")
    assert main([*words, f"BENCHMARK={shop}", *results]) == 2
    assert "BENCHMARK" in capsys.readouterr().err


def test_rows_of_files_cannot_be_generated_again(run):
    assert run("data-verify", results=False)[0] == 0
    code, said = run("data-verify", "SOURCE=yes", results=False)
    assert (code, "cannot be generated again" in said.err) == (2, True)


def test_the_highest_rate_and_the_least_memory_are_found_over_changes(run):
    words = ("QUERIES=waiting", "ENGINES=embedded", "SECONDS=0.2")
    assert run("bench", "SUITE=rate", *words)[0] == 0


def test_an_engine_is_graded_for_each_query(run):
    code, said = run("bench", "SUITE=coverage", "QUERIES=waiting,mean_discount", "ENGINES=embedded,duckdb")
    assert code == 0
    assert "at every logical time" in said.out
    assert "at the end of every batch" in said.out


def test_a_query_that_our_sql_lacks_is_refused_and_others_are_measured(run, tmp_path):
    file = tmp_path / "middle.sql"
    file.write_text("SELECT median(quantity) AS middle FROM lines")
    words = (f"SQL={file}", "ENGINES=embedded,duckdb", "PHYSICAL=1000", "RUNS=1", "SAMPLE=2")
    code, said = run("bench", *words)
    assert code == 0, said.err
    (machine,) = (path for path in tmp_path.iterdir() if path.is_dir())
    outcomes = {record.engine: record.status for record in store.read(machine).records}
    assert outcomes == {"embedded": "refused", "duckdb": "ok"}


def test_single_commands_take_a_folder(run):
    code, said = run("answer", "orders_by_status", results=False)
    assert (code, len(said.out.splitlines())) == (0, 5)
    assert run("changes", "waiting", "LOGICAL=100", results=False)[0] == 0
    assert "shipped_on" in run("explain", "waiting", results=False)[1].out
    assert "HAVING" in run("sql", "waiting", results=False)[1].out
    assert "6 x changes" in run("plan", "ENGINES=embedded")[1].out


def test_a_folder_without_a_description_has_rows_that_arrive(tmp_path, capsys):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i, i % 3 AS k FROM range(50) t(i)) TO '{tmp_path}/numbers.parquet'")
    (tmp_path / "sums.sql").write_text("SELECT k, sum(i) AS total FROM numbers GROUP BY k")
    with tasks_in_process():
        words = ["verify", f"BENCHMARK={tmp_path}", f"DATA={tmp_path / 'data'}", "LOGICAL=1,5", "PHYSICAL=3,all"]
        assert main(words) == 0
    assert "2 checked, 0 wrong" in capsys.readouterr().out


def test_tpch_is_described_in_a_folder_of_its_own():
    assert benchmark() is benchmark("tpch")
    assert benchmark().relations == RELATIONS
    assert list(benchmark().queries) == [f"q{number:02}" for number in range(1, 23)]


WRONG = {
    "x =": "a description that is no TOML: ",
    "titel = 'x'": "unknown field of {path}: titel; did you mean title",
    "title = 1": "title is not a text: {path}: 1",
    "generator = 'tpcx'": "unknown generator in {path}: tpcx; did you mean tpch",
    "[relations]": "no relation in a benchmark: ",
    "relations = 1": "relations is not a table: {path}: 1",
    "[relations.b]": "no files of relations.b: {path}: b.parquet, b/*.parquet",
    "[relations.'a b']": "not a name of a relation: {path}: a b",
    "[relations.a]\nkeys = 'k'": "unknown field of relations.a in {path}: keys; did you mean key",
    "[relations.a]\nkey = 'x'": "unknown column in relations.a.key of {path}: x",
    "[relations.a]\narrives = 'x'": "unknown column of ",
    "[relations.a]\nchange = 'x'": "unknown column of ",
    "[relations.a]\nroles = ['event']": "unknown role in relations.a.roles of {path}: event; did you mean events",
    "[relations.a]\nin_turn = 'yes'": "relations.a.in_turn is not true or false: {path}: yes",
    "[relations.a]\nreferences = { k = 'b' }": "unknown relation in relations.a.k of {path}: b",
    "[relations.a]\nreferences = { k = 'a' }": "relations.a.k refers to no single key: {path}: a",
    "[relations.a]\nkey = 't'\nreferences = { k = 'a' }": "relations.a.k refers to a key of no whole numbers: ",
    "[relations.a]\nkey = 'k'\nmember_of = 'a'": "relations.a.member_of without a reference: {path}: a",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_a_description_names_the_file_and_the_field(tmp_path, text):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS k, 'x' AS t) TO '{tmp_path}/a.parquet'")
    path = tmp_path / "benchmark.toml"
    path.write_text(text)
    with pytest.raises(DeltamarkError) as error:
        described(tmp_path)
    assert str(error.value).startswith(WRONG[text].format(path=path))


def test_a_folder_without_queries_or_rows_is_an_error(tmp_path):
    with pytest.raises(DeltamarkError, match=r"no relation in a benchmark: .*; add Parquet files"):
        benchmark(str(tmp_path))
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS k) TO '{tmp_path}/a.parquet'")
    with pytest.raises(DeltamarkError, match="no query in a benchmark"):
        _ = benchmark(str(tmp_path)).queries
    with pytest.raises(DeltamarkError, match="unknown benchmark: tpcd; did you mean tpch"):
        benchmark("tpcd")


def test_a_source_without_scales_has_one(shop):
    assert benchmark(str(shop)).source.scale(Decimal("0.01")) == 1
    assert benchmark().source.scale(Decimal("0.01")) == Decimal("0.01")
