"""The parts of the report: markup, scales and tooltips."""

from __future__ import annotations

import itertools
import re

import pytest
from support.harness.report_records import HOSTILE, record

from deltamark.harness.cli.commands import load
from deltamark.harness.cli.parser import Parser
from deltamark.harness.report.cells import command, compare_command, tooltip
from deltamark.harness.report.chart import CHARACTER, Axes, Axis, Linear, Log, Tooltip, Vertical, short, tick, verticals
from deltamark.harness.report.document import Markup, joined, tag


def test_markup_escapes_all_but_markup():
    element = tag("p", HOSTILE, tag("b", "<"), data_said=HOSTILE, hidden=True, title=None)
    assert "<script" not in element
    assert element.startswith('<p data-said="&lt;script&gt;')
    assert element.endswith("<b>&lt;</b></p>")
    assert " hidden>" in element
    assert "title" not in element
    assert joined([Markup("<br>"), ["<"]]) == "<br>&lt;"


def test_scales_contain_their_values():
    scale = Log.over([0.2, 30, 0])
    assert scale.ticks == pytest.approx([0.1, 1, 10, 100])
    assert [scale.share(value) for value in (0.1, 1, 100, 0)] == pytest.approx([0, 1 / 3, 1, 0])
    assert Log.over([1000.0]).ticks == [1000, 10_000]
    assert Linear(0, 0.5, 4).ticks == [0, 0.5, 1, 1.5, 2]
    assert Linear(0, 0.5, 4).share(0.5) == 0.25


@pytest.mark.parametrize("values", [[3.0], [0.97, 1.03], [1e-6, 4e-6, 2e-6], [99.5, 100.5], [1.0, 700.0]])
def test_scales_around_values_have_few_round_steps_and_show_noise_as_small(values):
    scale = Linear.around(values)
    assert all(-1e-9 <= scale.share(value) <= 1 + 1e-9 for value in values)
    assert 3 <= scale.steps <= 6
    assert float(f"{scale.step:.1g}") == pytest.approx(scale.step)
    assert scale.step * scale.steps >= 0.1 * max(values)


def test_labels_of_vertical_marks_do_not_overlap():
    axes = Axes(Axis("", Linear(0, 1, 4), str), Axis("", Linear(0, 10, 3), str))
    marks = [Vertical(x, "slower", f"c0ffee{x}, +10%", Tooltip("", (), "")) for x in (0, 1, 2, 30)]
    drawn = verticals(axes, marks)
    places = [tuple(map(float, place)) for place in re.findall(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"', drawn)]
    assert len(places) == 4
    for (x, y), (other, row) in itertools.combinations(places, 2):
        assert y != row or abs(x - other) >= len("c0ffee0, +10%") * CHARACTER
    assert places[3][1] == places[0][1]


def test_the_command_that_compares_two_commits_is_one_of_this_program():
    before, after = record(commit="c0ffee+"), record(commit="decade")
    words = compare_command(before, after).split()
    parser = Parser()
    load(words[1]).options(parser)
    settings = parser.parse_settings(words[2:])
    assert (settings.base, settings.head, settings.queries) == ("c0ffee", "decade", ("q01",))
    assert compare_command(*(record(engine="duckdb", commit=name) for name in "ab")) == "git log --oneline a..b"


def test_ticks_are_short():
    assert [short(10.0**power) for power in (0, 3, 5, 9)] == ["1", "1K", "100K", "1G"]
    assert [tick(10.0**power) for power in range(-6, 1)] == ["1 \u00b5s", "10", "100", "1 ms", "10", "100", "1 s"]


def test_a_tooltip_has_the_command_that_repeats_the_cell():
    repeats = "make bench SF=1 QUERIES=q01 LOGICAL=1 PHYSICAL=1000 ENGINES=embedded SAMPLE=20000 RESULTS=again"
    assert command(record()) == repeats
    other = record("q15", variant="flat", workload="window:5", workers=2, engine="exec:a b", sample=7)
    assert command(other).endswith(
        "VARIANTS=flat WORKLOAD=window:5 LOGICAL=1 PHYSICAL=1000 WORKERS=2 ENGINES='exec:a b' SAMPLE=7 RESULTS=again"
    )
    assert tooltip(record()).lines[0] == "12.00M/s: 6,000,000 tuples in 500 ms"
