"""Laws of benchmarks as folders: every command takes one, its answers are checked, and a mistake is one clear error."""

from __future__ import annotations

import importlib.util
import json
import shutil
from decimal import Decimal

import duckdb
import pytest
from support.harness.local_tasks import tasks_in_process
from support.harness.near_server import Near
from support.harness.programs import faulty
from support.paths import ROOT

from deltamark.datagen.tpch import RELATIONS
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import _read, anywhere, benchmark, described, named
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.results import store
from deltamark.harness.suites import throughput

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

QUERIES = (
    "balances", "best_customers", "funnel", "labels", "mean_discount", "median_price", "never_sold", "orders_by_status",
    "revenue_by_category", "top_products", "waiting", "weekly_revenue",
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


@pytest.fixture
def near(monkeypatch):
    """Measure in children of this process: a server of its own would load all kernels for a cell or two."""
    monkeypatch.setattr(throughput, "MeasurementClient", Near)


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
    assert (code, said.out.splitlines()[-1]) == (0, "24 checked, 0 wrong")


def test_engines_are_measured_and_compared_in_tables_of_their_own(run, tmp_path):
    words = ("QUERIES=balances,never_sold", "ENGINES=embedded,duckdb", "PHYSICAL=100,1000", "RUNS=1", "SAMPLE=5")
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
    assert "Of the 12 queries at scale factor 1, there are numbers for 2 with" in (machine / "report.html").read_text()
    code, said = run("export", "FORMAT=github-action-benchmark", "OUTPUT=-")
    assert code == 0
    assert len(json.loads(said.out)) > 0


@pytest.mark.usefixtures("near")
def test_tables_and_the_report_need_records_alone(shop, run, tmp_path, capsys):
    moved = shop.with_name("moved")
    assert run("bench", "QUERIES=waiting", "ENGINES=embedded", "PHYSICAL=1000", "RUNS=1", "SAMPLE=1")[0] == 0
    shop.rename(moved)
    _read.cache_clear()
    try:
        assert run("tables", "TABLE=physical")[0] == run("report")[0] == 0
        assert main(["tables", f"BENCHMARK={shop}s", f"RESULTS={tmp_path}"]) == 2
        assert "no folder of a benchmark: " in capsys.readouterr().err
    finally:
        moved.rename(shop)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("nulls", [True, False])
def test_only_programs_that_take_null_get_rows_with_null(run, tmp_path, nulls):
    """The shipping date of an order is NULL at first. The program fails unless `open` declares a nullable column."""
    told = "any(each.get('nullable') for each in request['relations'].values())"
    program = faulty(
        tmp_path, hello=f"return {{**super().hello(request), 'nulls': {nulls}}}",
        open=f"return super().open(request) if {told} else {{'refused': 'not told of NULL'}}",
    )  # fmt: skip
    code, said = run("bench", "QUERIES=waiting", f"ENGINES=mine={program}", "PHYSICAL=100", "RUNS=1", "SAMPLE=5")
    assert code == 0, said.err
    (machine,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (record,) = store.read(machine).records
    assert (record.status, record.verified) == (("ok", "oracle") if nulls else ("refused", ""))
    assert nulls or "it takes no NULL in its inputs, which " in record.problem


@pytest.mark.usefixtures("near")
def test_programs_get_no_doubles_and_timestamps(run, tmp_path):
    program = faulty(tmp_path, hello="return {**super().hello(request), 'nulls': True}")
    code, said = run("bench", "QUERIES=median_price", f"ENGINES=mine={program}", "PHYSICAL=100", "RUNS=1", "SAMPLE=5")
    assert code == 0, said.err
    (machine,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (record,) = store.read(machine).records
    assert (record.status, "price is a double, which no input" in record.problem) == ("refused", True)


@pytest.mark.usefixtures("near")
def test_an_edited_query_is_measured_again(run, tmp_path):
    file = tmp_path / "busy.sql"
    words = (f"SQL={file}", "ENGINES=embedded", "PHYSICAL=1000", "RUNS=1", "SAMPLE=1")
    done = []
    for least in (1, 1, 2):
        file.write_text(f"SELECT count(*) AS lines FROM lines WHERE quantity > {least}")
        done.append("0 already done" not in run("bench", *words)[1].out)
    assert done == [False, True, False]


def test_a_suite_over_tpch_alone_refuses_a_benchmark(shop, tmp_path, capsys):
    assert main(["bench", "SUITE=shared", f"BENCHMARK={shop}", f"RESULTS={tmp_path}"]) == 2
    assert "BENCHMARK" in capsys.readouterr().err


def test_golden_digests_are_kept_in_the_folder(shop, run):
    file = shop / "golden.csv"
    code, said = run("golden", results=False)
    assert (code, f"no golden digests: {file}" in said.err) == (2, True)
    assert run("golden", "WRITE=yes", results=False)[0] == 0
    assert run("golden", results=False)[0] == 0
    file.write_text(file.read_text().replace("waiting,changes,1000,", "waiting,changes,1000,9"))
    code, said = run("golden", results=False)
    file.unlink()
    assert (code, "24 digests of changes: 1 differ" in said.out) == (2, True)
    assert f"changes waiting --benchmark {shop}" in said.out


def test_batches_of_a_folder_are_cut(run):
    code, said = run("bench-feed", results=False)
    assert (code, said.out.count("changes")) == (0, 4)


def test_a_refused_query_does_not_end_the_check_of_the_others(run, tmp_path):
    file = tmp_path / "middle.sql"
    file.write_text("SELECT product(quantity) AS middle FROM lines")
    code, said = run("verify", "waiting", f"SQL={file}", "LOGICAL=1000", "TIMES=2", results=False)
    assert (code, said.out.splitlines()[-1]) == (0, "1 checked, 0 wrong, 1 query refused")
    assert f"{file}: refused: not supported in SQL: the aggregate product" in said.out


def test_a_path_names_one_benchmark_however_it_is_written(shop, monkeypatch):
    monkeypatch.chdir(shop.parent)
    assert {named(text) for text in ("shop", "shop/", "./shop", str(shop), "../" + shop.parent.name + "/shop")} == {
        "shop"
    }
    assert named(".") == "."
    monkeypatch.chdir(shop)
    assert (named("."), named("../shop")) == (".", ".")
    monkeypatch.chdir("/")
    assert anywhere(named(f"{shop}?keys=a:b")) == f"{shop}?keys=a:b"
    assert named(str(ROOT / "queries" / "ssb")) == named("ssb") == anywhere("ssb") == "ssb"
    assert named("tpcd") == "tpcd"


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("", "no input of the query moves in a window: count"),
        ("roles = 'events'\narrives = 'placed'", "the workload window does not apply: its rows arrive in the rounds"),
    ],
)
def test_a_window_needs_events_without_rounds_of_their_own(plain, tmp_path, capsys, roles, message):
    (plain / "benchmark.toml").write_text(f"[relations.lines]\n{roles}")
    with tasks_in_process():
        assert main(["soak", "count", f"BENCHMARK={plain}", f"DATA={tmp_path / 'data'}"]) == 2
    assert message in capsys.readouterr().err


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


@pytest.mark.usefixtures("near")
def test_a_query_that_our_sql_lacks_is_refused_and_others_are_measured(run, tmp_path):
    file = tmp_path / "middle.sql"
    file.write_text("SELECT product(quantity) AS middle FROM lines")
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
    assert "12 x changes" in run("plan", "ENGINES=embedded")[1].out


def test_a_folder_without_a_description_has_rows_that_arrive(tmp_path, capsys):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i, i % 3 AS k FROM range(50) t(i)) TO '{tmp_path}/numbers.parquet'")
    (tmp_path / "sums.sql").write_text("SELECT k, sum(i) AS total FROM numbers GROUP BY k")
    with tasks_in_process():
        words = ["verify", f"BENCHMARK={tmp_path}", f"DATA={tmp_path / 'data'}", "LOGICAL=1,5", "PHYSICAL=3,all"]
        assert main(words) == 0
    assert "2 checked, 0 wrong" in capsys.readouterr().out


@pytest.fixture
def plain(tmp_path):
    """Return a folder of orders and lines without a description."""
    folder = tmp_path / "it's a shop"
    folder.mkdir()
    with duckdb.connect() as connection:
        orders = "SELECT i AS id, DATE '2024-01-01' + (i * 7 % 5)::INTEGER AS placed FROM range(20) t(i)"
        lines = "SELECT i // 3 AS order_id, i % 3 AS line, DATE '2024-01-01' + (i // 3 * 7 % 5)::INTEGER AS placed"
        for name, text in (("orders", orders), ("lines", f"{lines} FROM range(60) t(i)")):
            path = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"COPY ({text}) TO '{path}'")
    (folder / "count.sql").write_text("SELECT placed, count(*) AS n FROM lines GROUP BY placed")
    return folder


def test_settings_give_keys_and_order_of_arrival_and_name_the_data(plain, tmp_path):
    settings = ["KEYS=orders:id,lines:order_id+line", "ARRIVES=lines:placed,orders:placed"]
    data = tmp_path / "data"
    for words in ([], settings[:1], settings, settings[::-1]):
        with tasks_in_process():
            assert main(["data", f"BENCHMARK={plain}", *words, f"DATA={data}"]) == 0
    assert len([*data.iterdir()]) == 3
    home = benchmark(named(str(plain), {"keys": "orders:id,lines:order_id+line", "arrives": "orders:placed"}))
    assert [each.key for each in home.relations.values()] == [("order_id", "line"), ("id",)]
    assert main(["verify", *settings, f"BENCHMARK={plain}", f"DATA={data}", "LOGICAL=1", "TIMES=5"]) == 0


SETTINGS = {
    "KEYS=orders": "not a value of KEYS: 'orders'; write RELATION:COLUMN+COLUMN",
    "KEYS=orders:id+": "not a value of KEYS: 'orders:id+'; ",
    "ARRIVES=orders:placed+id": "not a value of ARRIVES: 'orders:placed+id'; write RELATION:COLUMN,",
    "KEYS=order:id": "unknown relation in KEYS: order; did you mean orders",
    "KEYS=orders:idd": "unknown column in relations.orders.key of KEYS=orders:idd: idd; did you mean id",
    "KEYS=orders:id,orders:id": "a relation that KEYS names twice: orders",
    "KEYS=lines:order_id": "a key of lines is live twice: row 1 of its files",
    "ARRIVES=lines:placed,orders:id": "columns of arrival with different types: lines.placed date, orders.id int",
    "BENCHMARK=ssb KEYS=orders:id": "a setting of a folder that has a benchmark.toml: ",
    "KEYS=": "an empty setting: KEYS=",
}


@pytest.mark.parametrize("words", SETTINGS)
def test_a_mistake_in_keys_or_arrival_is_one_line(plain, tmp_path, capsys, words):
    with tasks_in_process():
        assert main(["data", f"BENCHMARK={plain}", *words.split(), f"DATA={tmp_path / 'data'}"]) == 2
    assert SETTINGS[words] in capsys.readouterr().err


def test_names_of_columns_may_have_blanks_and_be_words_of_sql(tmp_path, capsys):
    with duckdb.connect() as connection:
        connection.execute(f"""COPY (SELECT i AS "unit price", i % 3 AS "Größe", i AS "select" FROM range(9) t(i))
            TO '{tmp_path}/a.parquet'""")
    text = 'SELECT "Größe", sum("unit price") AS s, max("select") AS m FROM a GROUP BY "Größe"'
    (tmp_path / "q.sql").write_text(text)
    with tasks_in_process():
        assert main(["verify", f"BENCHMARK={tmp_path}", f"DATA={tmp_path / 'data'}", "LOGICAL=1", "TIMES=5"]) == 0
    assert "1 checked, 0 wrong" in capsys.readouterr().out


def test_doubles_and_timestamps_are_those_of_the_files(tmp_path, capsys):
    doubles = "NULL, '-inf', '-1.5', '-5e-324', '-0.0', '0', '0.1', '1e30', 'inf', 'nan', '-nan'"
    with duckdb.connect() as connection:
        connection.execute(f"""COPY (SELECT i, x::DOUBLE AS x, x::DOUBLE::FLOAT AS f, CASE WHEN i % 3 > 0
            THEN TIMESTAMP '1969-12-31 23:59:59.999999' + INTERVAL (i * 777777777777) MICROSECOND END AS t
            FROM (SELECT unnest([{doubles}]) AS x, unnest(range(11)) AS i)) TO '{tmp_path}/a.parquet'""")
    text = "SELECT x, f, x / 3 AS y, t, date_trunc('hour', t) AS h, count(*) AS n FROM a GROUP BY ALL"
    (tmp_path / "q.sql").write_text(text)
    words = [f"BENCHMARK={tmp_path}", f"DATA={tmp_path / 'data'}"]
    with tasks_in_process():
        assert main(["verify", *words, "LOGICAL=1", "TIMES=5"]) == 0
    assert "1 checked, 0 wrong" in capsys.readouterr().out
    assert main(["answer", *words, "q"]) == 0
    assert "-5e-324 " in capsys.readouterr().out


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
    "[relations.a]\nreferences = { k = 'a' }": "relations.a.k refers to no key of as many columns: {path}: a",
    "[relations.a]\nkey = 'k'\nreferences = { 'k k' = 'a' }": "relations.a.k k refers to no key of as many columns: ",
    "[relations.a]\nreferences = { 'k x' = 'a' }": "unknown column in relations.a.references of {path}: x",
    "[relations.a]\nkey = 't'\nreferences = { k = 'a' }": "relations.a.k refers to a key of no whole numbers: ",
    "[relations.a]\nkey = 'k'\nmember_of = 'a'": "relations.a.member_of leads in a circle: {path}: a, a",
    "[relations.a]\nkey = [1]": "relations.a.key is not a text: {path}: 1",
    "[relations.a]\nkey = ['k', 'k']": "relations.a.key names a column twice: {path}: k, k",
    "[relations.a]\nfiles = ['/tmp/*.parquet']": "relations.a.files are no paths in the folder: {path}: /tmp/*.parquet",
    "[relations.a]\nfiles = ['']": "relations.a.files are no paths in the folder: {path}: ",
    "[relations.a]\nchange = 't'\nweight = 'k'": "relations.a has a change and a weight: {path}: t, k",
    "[relations.a]\nchange = 'k'": "relations.a.change is no column of a text: {path}: k is INTEGER",
    "[relations.a]\nweight = 't'": "relations.a.weight is no column of a whole number: {path}: t is VARCHAR",
    "[relations.order]\nfiles = ['a.parquet']": "a word of SQL as the name of a relation: {path}: order",
    "[relations.a]\nkey = 'k'\n[relations.b]\nfiles = ['a.parquet']\nmember_of = 'a'": (
        "relations.b.member_of without a reference: {path}: a"
    ),
    "generator = 'tpch'\n[relations.a]": "a generator and relations: {path}",
    "[golden]\ninsert = 1000\n[relations.a]": "golden.insert is no list of sizes of logical batches: {path}: 1000",
    "[golden]\ninsert = [0]\n[relations.a]": "golden.insert is no list of sizes of logical batches: {path}: [0]",
    "[golden]\ninsort = [1]\n[relations.a]": "unknown workload: insort; did you mean insert",
    "queries = '*.sql'": "queries without packages: {path}",
    "packages = 'r.txt'\ndialect = ['x']": "dialect is no list of pairs: {path}: ",
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
    with pytest.raises(DeltamarkError, match="unknown benchmark: tpcd; did you mean tpcds, tpch"):
        benchmark("tpcd")
    for path in (tmp_path / "none", tmp_path / "a.parquet"):
        with pytest.raises(
            DeltamarkError, match=f"no folder of a benchmark: {path}; name a folder, or nexmark, ssb, tpcds, tpch"
        ):
            benchmark(str(path))


TEXTS = {
    "a.sql": {
        "": "no SQL in a file: {path}",
        "-- later": "not one statement in a file: {path}: 0",
        "SELECT 1 AS x FROM a; SELECT 2 AS x FROM a": "not one statement in a file: {path}: 2",
        "DELETE FROM a": "no SELECT in a file: {path}: DELETE",
        "SELECT 1 AS x\nFROM FROM a": 'not a query: syntax error at or near "FROM" in {path}, line 2',
    },
    "a.py": {
        "x = 1": "not one query in a file: {path}: 0",
        "def (": "the file of a query cannot be run: {path}: SyntaxError: ",
        "import nothing_there": "the file of a query cannot be run: {path}: ModuleNotFoundError: ",
    },
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in TEXTS for text in TEXTS[name]])
def test_a_mistake_in_the_file_of_a_query_names_the_file(tmp_path, name, text):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS k) TO '{tmp_path}/a.parquet'")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DeltamarkError) as error:
        _ = benchmark(str(tmp_path)).queries
    assert str(error.value).startswith(TEXTS[name][text].format(path=path))


def test_two_files_of_one_query_are_an_error(tmp_path):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS k) TO '{tmp_path}/a.parquet'")
    for name in ("q.sql", "q.py"):
        (tmp_path / name).write_text("")
    with pytest.raises(DeltamarkError, match=r"two files of one query: .*q\.py and q\.sql"):
        _ = benchmark(str(tmp_path)).queries


def test_a_source_without_scales_has_one(shop):
    assert benchmark(str(shop)).source.scale(Decimal("0.01")) == 1
    assert benchmark().source.scale(Decimal("0.01")) == Decimal("0.01")
