"""The command line: settings in the form of make, help, and errors in one line."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.__main__ import run
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.cli.commands import NAMES, load, make_help
from deltamark.harness.cli.main import main
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import INTERRUPTED
from deltamark.harness.console.progress import line


def parser() -> Parser:
    parser = Parser()
    parser.add_argument("queries", nargs="*")
    parser.add_argument("--sf", default=7, help="scale factor")
    parser.add_argument("--physical", default=(1, 2), help="batch sizes")
    parser.add_argument("--seed", default=0, help="seed")
    parser.add_argument("--data", help="directory (default: data)")
    return parser


def test_settings_are_options():
    args = parser().parse_settings(["SF=1", "--data", "x", "PYTHON=python3.12", "QUERIES=q01,q02"])
    assert (args.sf, args.data, args.queries) == ("1", "x", ["q01", "q02"])


def test_an_argument_may_contain_commas():
    parser = Parser()
    parser.add_argument("motif")
    assert parser.parse_settings(["MOTIF=e(a,b), e(b,c)"]).motif == "e(a,b), e(b,c)"


def test_unknown_settings_are_named():
    with pytest.raises(DeltamarkError, match="unknown setting: SFF; did you mean SF"):
        parser().parse_settings(["SFF=1"])


def test_the_help_has_the_defaults():
    lines = parser().format_help().splitlines()
    for words in (
        "scale factor (default: 7)",
        "batch sizes (default: 1,2)",
        "seed (default: 0)",
        "directory (default: data)",
    ):
        assert any(line.endswith(words) for line in lines)
    assert not any("SUPPRESS" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dta"], "error: unknown command: dta; did you mean data"),
        (["data", "SF=tiny"], "error: not a scale factor: 'tiny'; give a number from 0.001 to 100000 with at most 6"),
        (["data", "--frob"], "error: unknown setting: frob; there are arrives, benchmark, data, debug, help, keys"),
        (["bench", "--suiet", "tpch"], "error: unknown setting: suiet; did you mean suite, sizes, results\n"),
        (["bench", "--suiet=tpch"], "error: unknown setting: suiet; did you mean suite, sizes, results\n"),
        (["bench", "suite=tpch"], "error: unknown setting: suite; did you mean SUITE"),
        (["bench", "SUITE=tpc"], "error: unknown suite: tpc; did you mean tpch"),
        (["data-verify", "DATA=/nowhere"], "error: no manifest in the data directory: /nowhere/tpch-sf0.01-"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(capsys, words, message):
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(message)
    assert errors.count("\n") == 1


@pytest.mark.parametrize("command", ["answer", "changes", "explain", "soak"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--variant", "fast"], "error: unknown variant: fast; "),
        (["--workload", "windov:9"], "error: unknown workload: windov:9; did you mean window:N"),
        (["--seed", "7"], "error: no ranges to draw parameters from: modes; "),
        (["--param", "colour=red"], "error: unknown parameter of modes: colour"),
        (["--engine", "oracle"], "error: unknown engine: oracle"),
        (["--checkpoint", "kept"], "error: no checkpoints of the engine embedded: kept; add --engine spark"),
    ],
)
def test_a_wrong_setting_of_a_query_is_found_before_data_is_made(
    capsys, monkeypatch, tmp_path, command, words, message
):
    monkeypatch.setitem(benchmark().queries, "modes", replace(benchmark().queries["q01"], parameters={}))
    assert main([command, "modes", "--workload", "window:9", "--data", str(tmp_path / "data"), *words]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["answer", "changes", "explain", "soak", "spark-batches"])
def test_an_unknown_query_is_found_before_data_is_made(capsys, tmp_path, command):
    assert main([command, "q5", f"DATA={tmp_path / 'data'}"]) == 2
    assert capsys.readouterr().err == "error: unknown query: q5; did you mean q05, q15\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["bench", "plan", "verify"])
@pytest.mark.parametrize("setting", ["WORKLOAD=windov:9", "QUERIES=q77"])
def test_a_wrong_name_is_found_before_data_is_made(capsys, tmp_path, command, setting):
    results = [] if command == "verify" else [f"RESULTS={tmp_path}"]
    assert main([command, f"DATA={tmp_path / 'data'}", setting, *results]) == 2
    assert re.search("error: unknown (workload: windov:9|query: q77); ", capsys.readouterr().err)
    assert not (tmp_path / "data").exists()


def test_debug_shows_where_an_error_comes_from(capsys):
    assert main(["data-verify", "DATA=/nowhere", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as done:
        main([command, "--help"])
    assert done.value.code == 0
    assert f"harness {command}" in capsys.readouterr().out


def test_an_interrupt_is_one_line(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("deltamark.harness.cli.main.commands.load", interrupted)
    assert main(["sql", "q01"]) == 130
    assert capsys.readouterr().err == f"{INTERRUPTED}\n"


def test_an_interrupt_while_modules_are_imported_is_one_line(capsys, monkeypatch):
    class Slow:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "deltamark.harness.cli.main", Slow())
    assert run() == 130
    assert capsys.readouterr().err == "interrupted: nothing was begun\n"


def test_a_python_without_the_packages_is_an_error_of_one_line():
    command = [sys.executable, "-S", "-m", "harness", "plan"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    remedy = r"run make setup, and use .venv/bin/python; or pip install 'deltamark\[bench\]'"
    assert re.fullmatch(rf"error: a package is missing: \w+; {remedy}\n", done.stderr)


def test_the_program_alone_prints_its_commands():
    ran = subprocess.run([sys.executable, "-m", "harness"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(f"\n  {command} " in ran.stdout for command in NAMES)


@pytest.mark.parametrize("command", NAMES)
def test_the_help_of_a_command_begins_with_a_line_of_its_own(command):
    summary, *rest = load(command).help.splitlines()
    assert summary.endswith(".")
    assert not rest or rest[0] == ""


def test_make_help_has_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    shown = make_help(makefile)
    assert all(f"\n  {target} " in shown for target in [*targets, *NAMES] if target != "$(COMMANDS)")


def test_make_has_every_command():
    database = subprocess.run(["make", "-pn", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(re.search(rf"^{command}: ", database, re.MULTILINE) for command in NAMES)


def test_make_passes_quotes_and_blanks(tmp_path):
    setting = f'BENCHMARK={tmp_path}/it\'s a "shop"'
    command = ["make", "--no-print-directory", "-n", "-o", ".venv/ready", "bench", setting]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shlex.split(shown.splitlines()[-1])[-1] == setting


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 0, 0.0, "loading ..."),
        (0, 10, 3.0, "loading: 0 of 10 (0%), 3 s"),
        (2500, 10000, 10.0, "loading: 2,500 of 10,000 (25%), 10 s, about 30 s left"),
        (10, 10, 5.0, "loading: 10 of 10 (100%), 5 s"),
    ],
)
def test_progress_is_printed_in_lines(done, total, seconds, text):
    assert line("loading", done, total, seconds) == text


def test_the_locks_name_versions_and_hashes_and_no_address():
    for lock in ROOT.glob("*.lock"):
        assert not re.search(r"https?:|@ |--index|--find-links", lock.read_text()), lock
        pinned = re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE)
        assert len(pinned) <= lock.read_text().count("--hash=sha256:")
