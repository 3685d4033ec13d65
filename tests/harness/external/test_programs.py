"""An external engine is measured and checked; whatever goes wrong in it is an error of one line."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pyarrow as pa
import pytest
from support.harness.processes import all_end
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, STREAM_FILE, example_in_thread, faulty, stream_in_thread

from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.run_check import open_check
from deltamark.harness.cli.main import main
from deltamark.harness.engines.external import engine as external
from deltamark.harness.engines.external import named, program
from deltamark.harness.engines.external.messages import HelloReply, plain
from deltamark.harness.engines.registry import capabilities, known_engine, open_engine, open_stream
from deltamark.harness.measure.client import CellRequest
from deltamark.harness.measure.runs import answers_of, measured, timed_run
from deltamark.harness.results.record import Record


def answers(dataset, cell):
    return answers_of(cell, workload(dataset, cell.workload))


def outcome(dataset, cell):
    return measured(CellRequest(cell, 1, 60.0), answers(dataset, cell), dataset, Mock())


@pytest.mark.draws(8)
@pytest.mark.parametrize("name", benchmark().queries)
def test_an_external_engine_is_right(monkeypatch, chunked, name):
    example_in_thread(monkeypatch)
    cell = Cell(name, "0.001", "window:100", 500, 1, engine=EXAMPLE)
    found = outcome(chunked, cell)
    assert (found.status, found.verified) == ("ok", "oracle"), found


def test_an_external_engine_is_measured_by_its_own_clock(chunked):
    cell = Cell("q04", "0.001", "insert", 500, 1, engine=EXAMPLE)
    found = outcome(chunked, cell).fill(Record())
    assert (found.status, found.verified, found.digest) == ("ok", "oracle", ""), found
    assert found.state_rows == found.tuples == chunked.rows("lineitem") + chunked.rows("orders")
    assert found.outside > found.seconds > [0.0]


def test_a_program_says_what_it_can_do():
    able = capabilities(f"mine={EXAMPLE}")
    assert (able.output, able.recomputes, able.has_session) == ("batches", True, False)
    assert named.short_name(f"mine={EXAMPLE}") == "mine"
    assert named.info(EXAMPLE).name.startswith("DuckDB ")


FAULTS = {
    "open": ("return {'error': 'out of luck'}", "failed to open: out of luck"),
    "feed": ("sys.exit(3)", "failed to feed: it has ended with exit code 3"),
    "apply": ("return {'seconds': 1}", "failed to apply: .*missing required field `changes`"),
    "changes": ("return {'file': 'nowhere.arrow'}", "failed to changes: .*nowhere.arrow"),
    "state": ("os.kill(os.getpid(), 9)", "failed to state: it was ended by SIGKILL"),
    "end": ("return {}\nimport atexit; atexit.register(os._exit, 7)", "failed to close: it has ended with exit code 7"),
}


@pytest.mark.parametrize("request_", FAULTS)
def test_a_fault_names_the_request_and_the_reason(chunked, tmp_path, request_):
    body, message = FAULTS[request_]
    cell = Cell("q06", "0.001", "insert", 10_000, 1, engine=faulty(tmp_path, **{request_: body}))
    with pytest.raises(DeltamarkError, match=message):
        outcome(chunked, cell)


def test_the_last_line_of_standard_error_is_shown(chunked, tmp_path):
    engine = faulty(tmp_path, open="raise ValueError('no such thing')")
    with pytest.raises(DeltamarkError, match="it has ended with exit code 1: ValueError: no such thing"):
        open_engine(Cell("q06", "0.001", engine=engine), chunked, workload(chunked, "insert"))


def test_a_time_that_is_longer_than_the_harness_saw_is_refused(monkeypatch, chunked):
    class Slow(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def apply(self, request):
            return super().apply(request) | {"seconds": 1e9}

    example_in_thread(monkeypatch, Slow)
    cell = Cell("q06", "0.001", "insert", 10_000, 1, engine=EXAMPLE)
    with pytest.raises(DeltamarkError, match=r"failed to apply: it reports 1000000000\.0 s, and the harness saw"):
        outcome(chunked, cell)


class Renaming(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """Names a file outside the directory."""

    outside: Path

    def changes(self, request):
        path = self.directory / super().changes(request)["file"]
        return {"file": shutil.move(path, str(self.outside))}


class Retyping(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """Has words instead of numbers from the second file on."""

    files = 0

    def changes(self, request):
        reply, self.files = super().changes(request), self.files + 1
        path = self.directory / reply["file"]
        table = pa.ipc.open_file(path.read_bytes()).read_all()
        if self.files > 1:
            table = table.set_column(2, "revenue", pa.array(map(str, table.column(2))))
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
        return reply


class Miscounting(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """Counts a change more than there are."""

    def apply(self, request):
        reply = super().apply(request)
        return reply | {"changes": reply["changes"] + 1}


@pytest.mark.parametrize(("engine", "message"), [
    (Renaming, "not the name of a file in the directory: .*/outside.arrow"),
    (Retyping, r"column revenue is string, not decimal\(4\)"),
    (Miscounting, r"the file has \d+ rows, and the program counted \d+"),
])  # fmt: skip
def test_a_wrong_file_of_changes_is_an_error_that_names_the_engine(monkeypatch, tmp_path, chunked, engine, message):
    Renaming.outside = tmp_path / "outside.arrow"
    monkeypatch.setattr(external, "COLLECTED_CHANGES", 1)
    example_in_thread(monkeypatch, engine)
    cell = Cell("q06", "0.001", logical=1000, physical=1, engine=f"mine={EXAMPLE}")
    with pytest.raises(DeltamarkError, match=f"^mine failed to changes: {message}; docs/protocol.md"):
        outcome(chunked, cell)
    assert engine is not Renaming or Renaming.outside.exists()


def test_a_stream_that_will_be_read_is_opened_with_collect(monkeypatch, chunked):
    opened = []

    class Noting(runpy.run_path(str(STREAM_FILE))["Engine"]):
        def __init__(self):
            super().__init__("0.001")

        def open(self, request):
            opened.append(request["collect"])
            return super().open(request)

    example_in_thread(monkeypatch, Noting)
    cell = Cell("q06", "0.001", logical=1000, physical=1, engine=f"exec:{STREAM_FILE} 0.001")
    with closing(open_stream(cell, chunked, workload(chunked, "insert"))) as stream:
        assert sum(len(changes.time) for changes in stream.changes(2000))
    assert opened == [True]


def test_open_has_the_keys_that_rows_keep(monkeypatch, chunked):
    """The query names a part of the key of lines, and the key of partsupp is not unique at this scale."""
    opened = {}

    class Noting(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def open(self, request):
            opened.update({name: each.get("keys") for name, each in request["relations"].items()})
            return super().open(request)

    example_in_thread(monkeypatch, Noting)
    for query in ("q03", "q11"):
        cell = Cell(query, "0.001", engine=EXAMPLE)
        with closing(open_engine(cell, chunked, workload(chunked, "insert"))):
            pass
    assert opened == {
        "customer": [["c_custkey"]], "orders": [["o_orderkey"]], "lineitem": None,
        "partsupp": None, "supplier": [["s_suppkey"]], "nation": [["n_nationkey"]],
    }  # fmt: skip


def test_the_texts_of_a_program_are_plain():
    reply = '{"protocol": 1, "name": "mine\\n\\u001b[31m\\u202e 1.0", "output": "stream"}'
    assert msgspec.json.decode(reply, type=HelloReply).name == r"mine \x1b[31m\u202e 1.0"
    assert len(plain("x" * 10**6)) < 1000


def test_a_refused_query_is_no_failure(monkeypatch, chunked):
    class Refusing(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def open(self, _):
            return {"refused": "too hard"}

    example_in_thread(monkeypatch, Refusing)
    found = outcome(chunked, Cell("q06", "0.001", logical=10_000, physical=1, engine=EXAMPLE))
    assert (found.status, found.problem) == ("refused", "too hard")


def test_changes_that_retract_rows_they_did_not_insert_are_an_error(monkeypatch, chunked):
    class Backwards(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def difference(self, query):
            return [(time, -diff, *row) for time, diff, *row in super().difference(query)]

    example_in_thread(monkeypatch, Backwards)
    cell, work = Cell("q06", "0.001", logical=10_000, physical=1, engine=EXAMPLE), workload(chunked, "insert")
    check = open_check(cell, work, answers(chunked, cell))
    with pytest.raises(DeltamarkError, match=r"failed to feed: .* a row that they did not insert: \(.*\), weight -1"):
        timed_run(cell, work, lambda: open_engine(cell, chunked, work, check.add), check)


@pytest.mark.parametrize(("physical", "sample"), [(1, 30), (7, 0), (200_000, 0)])
@pytest.mark.parametrize("work", ["window:100", "window:1000"])
def test_several_batches_in_one_request_are_those_of_one_request_each(monkeypatch, chunked, work, physical, sample):
    stream_in_thread(monkeypatch, "0.001")
    stream = workload(chunked, work)
    cells = [
        Cell("q12", "0.001", work, 1, physical, engine=name, sample=sample)
        for name in (f"exec:{STREAM_FILE} 0.001", "embedded")
    ]
    runs = [timed_run(cell, stream, partial(open_engine, cell, chunked, stream)) for cell in cells]
    several, single = ((len(run.latencies), run.tuples, run.changes, run.loaded_by) for run in runs)
    assert several == single
    assert runs[0].outside > runs[0].seconds == sum(runs[0].latencies)


def test_an_engine_must_report_each_of_several_batches(chunked, tmp_path):
    program = faulty(tmp_path, STREAM_FILE, apply="return super().apply(request) | {'seconds': [0.0]}")
    cell, stream = Cell("q12", "0.001", "window:100", 1, 7, engine=f"{program} 0.001"), workload(chunked, "window:100")
    with pytest.raises(DeltamarkError, match=r"failed to apply: \d+ changes and 1 seconds for \d+ batches"):
        timed_run(cell, stream, partial(open_engine, cell, chunked, stream))


def test_cells_of_an_engine_with_a_session_use_one_program(chunked, tmp_path):
    opened = tmp_path / "opened"
    engine = faulty(
        tmp_path,
        hello="return super().hello(request) | {'session': True}",
        open=(
            f"open({str(opened)!r}, 'a').write(f'{{os.getpid()}} ')\n"
            "        return {'refused': 'too hard'} if request['query'] == 'q01' else super().open(request)"
        ),
    )
    cells = [
        "QUERIES=q01,q06,q15",
        f"ENGINES=mine={engine}",
        "LOGICAL=1000",
        "PHYSICAL=1",
        "WORKERS=1",
        "SF=0.001",
    ]
    assert main(["bench", *cells, f"DATA={chunked.directory.parent}", f"RESULTS={tmp_path / 'results'}"]) == 0
    programs = opened.read_text().split()
    assert len(programs) >= 5
    assert len(set(programs)) == 1


def test_a_busy_program_ends_with_its_parent():
    start = (
        "import os, sys; from deltamark.harness.engines.external.program import Program\n"
        "print(Program('busy', sys.argv[1:]).process, flush=True); os.kill(os.getpid(), 9)"
    )
    hello = '{"protocol": 1, "name": "busy", "output": "answers", "maintains": false}'
    command = [sys.executable, "-c", start, "sh", "-c", f"read line; echo '{hello}'; exec sleep 60"]
    pid = int(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    assert all_end([pid])


def test_the_memory_of_an_external_engine_is_that_of_its_program(chunked, tmp_path):
    size = 64 << 20
    engine = faulty(tmp_path, open=f"self.more = b'1' * {size}; return super().open(request)")
    cell, work = Cell("q06", "0.001", engine=engine), workload(chunked, "insert")
    with closing(open_engine(cell, chunked, work)) as opened:
        assert size < opened.memory.growth < 2 * size
        assert opened.memory.peak > opened.memory.growth


def test_a_program_that_hangs_from_the_start_fails_its_cells_only_within_the_limit_of_a_run(chunked, tmp_path):
    engine = faulty(tmp_path, hello="time.sleep(1000)")
    with program.hello_within(0.2):
        assert capabilities(engine).output == "answers"
        with pytest.raises(DeltamarkError, match=r"failed to hello: .* no reply within 0\.2 s"):
            open_engine(Cell("q06", "0.001", engine=engine), chunked, workload(chunked, "insert"))


@pytest.mark.parametrize("command", ["bench", "compare"])
def test_the_limit_of_a_run_is_that_of_hello_in_all_processes(monkeypatch, chunked, tmp_path, command):
    limits = []

    def waiting(_name):
        limits.append(os.environ[program.HELLO_LIMIT])
        raise DeltamarkError("enough", "", "")

    monkeypatch.setattr(named, "greeting", waiting)
    for module in ("cli.measure.compare", "compare.sides"):
        monkeypatch.setattr(f"deltamark.harness.{module}.DIRECTORY", str(tmp_path))
    name = "ENGINES" if command == "bench" else "BASE"
    words = [
        f"{name}={EXAMPLE}",
        "SF=0.001",
        f"DATA={chunked.directory.parent}",
        "QUERIES=q06",
        "TIMEOUT=7",
    ]
    words += [f"RESULTS={tmp_path}"] if command == "bench" else ["HEAD=embedded"]
    assert main([command, *words]) == 2
    assert limits == ["7.0"]
    assert program.HELLO_LIMIT not in os.environ


def test_a_program_of_another_protocol_fails_its_cells_only(chunked, tmp_path):
    path = tmp_path / "old.py"
    path.write_text("import sys\nfor line in sys.stdin:\n    print('{\"ok\": true}', flush=True)\n")
    engine = f"exec:{path}"
    assert known_engine(engine) == engine
    assert capabilities(engine).output == "answers"
    with pytest.raises(DeltamarkError, match="the harness speaks protocols 1 and 2, and the program does not"):
        open_engine(Cell("q06", "0.001", engine=engine), chunked, workload(chunked, "insert"))
