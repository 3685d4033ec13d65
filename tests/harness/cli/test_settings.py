"""Settings: an absurd number is an error that names the bounds."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest
from support.harness.command_line import error_line

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.commands import NAMES, load
from deltamark.harness.cli.main import main
from deltamark.harness.cli.options import size as read_size
from deltamark.harness.cli.options import words as read_words
from deltamark.harness.cli.parser import Parser

UNTYPED = ("rounds", "at")
"""Settings whose bounds depend on the workload."""

ABSURD = ["nan", "inf", "-inf", "-1", "1e300", "1e-300", "9" * 30, "9" * 5000, "", "x", "1,", "\u00b2", "0x10", "1_0"]


def typed(command: str) -> list[argparse.Action]:
    parser = Parser()
    load(command).options(parser)
    return [action for action in parser._actions if action.type not in (None, str, Path) and action.dest not in UNTYPED]


@pytest.mark.parametrize("command", NAMES)
def test_every_setting_refuses_absurd_numbers(command):
    for action in typed(command):
        assert action.type not in (int, float), action.dest
        for text in ABSURD:
            try:
                values = action.type(text)
            except DeltamarkError:
                continue
            for value in values if isinstance(values, tuple) else (values,):
                assert isinstance(value, str) or 0 < value < math.inf, (action.dest, text)


@pytest.mark.parametrize("command", NAMES)
def test_every_setting_refuses_an_empty_value(command):
    parser = Parser()
    load(command).options(parser)
    for action in [each for each in parser._actions if each.nargs != 0]:
        empty = [[f"{action.dest.upper()}="]]
        for option in action.option_strings:
            empty += [[f"{option}="], [option, ""], *([[option, ","], [option, "a,,b"]] * (action.type is read_words))]
        for words in empty:
            with pytest.raises(DeltamarkError, match=r"^an empty (setting|word in a list): "):
                parser.parse_settings(words)


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("10K", 10_000), ("10k", 10_000), ("2M", 2_000_000), ("2m", 2_000_000)]
)
def test_a_size_may_end_in_thousands_or_millions(text, number):
    assert read_size(text) == number


def test_an_empty_variant_of_a_side_is_the_first_one():
    parser = Parser()
    load("compare").options(parser)
    assert parser.parse_settings(["VARIANT=,sql"]).variant == ("", "sql")


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        (["bench", "TIMEOUT=0"], "not a number of seconds: '0'; write a number from 0.001 to 1000000"),
        (["bench", "QUERIES="], "an empty setting: QUERIES=; give it a value, or leave it out"),
        (["bench", "QUERIES=q01,"], "an empty word in a list: 'q01,'; write words with single commas between them"),
        (["answer", "QUERY="], "an empty setting: QUERY=; give it a value, or leave it out"),
        (["verify", "QUERIES=q01,,q02"], "an empty setting: QUERIES="),
        (["bench", "TIMEOUT=nan"], "not a number of seconds: 'nan'"),
        (["compare", "--timeout", "inf"], "not a number of seconds: 'inf'"),
        (["bench", "SAMPLE=-1"], "not a whole number: '-1'; write one from 0 to 1000000000000"),
        (["bench", "RUNS=1000000"], "write one from 1 to 1000"),
        (["answer", "q01", f"LOGICAL={10**30}"], "write one from 1 to 1000000000000"),
        (["answer", "q01", f"PHYSICAL={10**30}"], "write one from 1 to 1000000000000"),
        (["answer", "q01", "WORKERS=100000"], "write one from 1 to 1024"),
        (["verify", "--times", "0"], "write one from 1 to 1000000"),
        (["verify", "--logical", "1,0"], "write one from 1 to 1000000000000"),
        (["data", "SF=1e300"], "not a scale factor: '1e300'; give a number from 0.001 to 100000"),
        (["chaos", "--times", "-1"], "not a whole number: '-1'"),
        (["spark-batches", "q01", "--batches", "1"], "write one from 2 to 1000000000000"),
        (["bench", "SUITE=loops", "NODES=99999999999999M"], "write one from 1 to 10000"),
        (["motif", "triangle", "--graph", f"rmat:{'9' * 5000}"], "the graph rmat:N needs a whole number N: '999"),
        (["motif", "triangle", "--check", "-1"], "not a whole number: '-1'"),
    ],
)
def test_an_absurd_setting_is_an_error_that_names_the_bounds(capsys, words, bounds):
    assert bounds in error_line(capsys, words)


def test_the_largest_batches_are_one_batch(chunked, capsys):
    data = f"DATA={chunked.directory.parent}"
    answers = []
    for size in (10**12, 1):
        words = ["answer", "q06", "SF=0.001", data, f"LOGICAL={size}", "PHYSICAL=1000000000000"]
        assert main(words) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
