"""The table of growth, from records of several scale factors."""

from __future__ import annotations

from support.harness.records import changed
from support.harness.table_records import record, texts

from deltamark.harness.cli.main import main
from deltamark.harness.results import store
from deltamark.harness.tables.tpch import growth


def at_sf(sf, took, tuples=6_000_000, name="q01", **changes):
    made = record(name, 1, 100_000, took, **changes)
    return changed(made, sf=sf, tuples=tuples, cell=made.cell.replace("sf1 ", f"sf{sf} "))


def test_growth_is_that_of_the_time_of_a_tuple_from_the_second_largest_scale_factor_to_the_largest():
    small = at_sf("0.1", 0.003, 600_000), at_sf("0.1", 0.03, 600_000, "q02")
    large = at_sf("1", 0.06, peak_bytes=1), at_sf("1", 0.6, name="q02")
    largest = (
        at_sf("10", 1.2, 60_000_000, peak_bytes=2_500_000_000),
        at_sf("10", 6, 60_000_000, "q02", peak_bytes=10**8),
    )
    made = growth([*largest, *small, *large])
    assert made.headers == ["query", "SF 0.1", "SF 1", "SF 10", "SF 10 / SF 1", "peak MB SF 10"]
    assert texts(made.rows[0]) == ["q01", "5.00 ms", "10.0 ms", "20.0 ms", "2.00x", "2,500.0"]
    assert texts(made.foot) == ["geomean", "15.8 ms", "31.6 ms", "44.7 ms", "1.41x", "500.0"]
    assert not [note for note in made.notes if note.startswith("no records")]


def test_growth_shows_no_number_of_a_bad_cell_and_no_ratio_to_it():
    wrong, failed = at_sf("10", 1.2, status="wrong"), at_sf("1", 0.6, name="q02", status="failed")
    made = growth([at_sf("1", 0.06), wrong, failed, at_sf("10", 6.0, name="q02"), at_sf("1", 1.0, name="q03")])
    assert [texts(row)[1:4] for row in made.rows] == [
        ["10.0 ms", "WRONG", "-"], ["failed", "1.00 s", "-"], ["167 ms", "-", "-"],
    ]  # fmt: skip
    assert [row[4].text for row in made.rows] == ["WRONG", "0.0", "-"]
    assert texts(made.foot) == ["geomean", "", "", "", ""]


def test_growth_names_the_command_of_a_scale_factor_without_records():
    others = [at_sf("10", 1.0, workers=2), at_sf("10", 1.0, engine="duckdb"), at_sf("10", 1.0, workload="window:9")]
    made = growth([at_sf("0.1", 1.0), at_sf("1", 1.0), *others, changed(record("q01", 1, 1000), sf="10")])
    assert made.headers[1:4] == ["SF 0.1", "SF 1", "SF 1 / SF 0.1"]
    assert made.notes[1:] == ["no records of SF 10: make bench SF=10 ENGINES=embedded PHYSICAL=100000"]


def test_growth_needs_two_scale_factors(tmp_path, capsys):
    words = ["tables", f"RESULTS={tmp_path}", "MACHINE=m", "TABLE=growth"]
    with store.writing(tmp_path / "m") as writer:
        writer.add([at_sf("1", 0.06)])
        assert main(words) == 2
        assert capsys.readouterr().err == (
            f"error: growth needs records of two scale factors: {tmp_path / 'm'}, SF 1; "
            "make bench SF=1 ENGINES=embedded PHYSICAL=100000, and the same with SF=10\n"
        )
        writer.add([at_sf("10", 1.2)])
    assert main([*words[:-1], "SF=1", "TABLE=growht"]) == 2
    assert capsys.readouterr().err == "error: unknown table: growht; did you mean growth\n"
    assert main(words) == 0
    assert "SF 10 / SF 1" in capsys.readouterr().out
