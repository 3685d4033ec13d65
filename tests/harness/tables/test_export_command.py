"""The command writes beside the records or where it is sent, counts what it leaves out, and explains its errors."""

from __future__ import annotations

import pytest
from support.harness.command_line import error_line
from support.harness.export_records import ALL_RECORDS, WITH_NUMBERS, WITHOUT_NUMBERS, at_scale_factor
from support.harness.export_schemas import asv_files, bencher_benchmarks
from support.harness.records import changed
from support.harness.suite_records import HEADER
from support.paths import ROOT

from deltamark.harness.cli.main import main
from deltamark.harness.results import store
from deltamark.harness.tables.exports import EXPORTS


def words(directory, name, *more):
    return ["export", f"FORMAT={name}", f"RESULTS={directory}", "MACHINE=m", *more]


@pytest.fixture
def results(tmp_path):
    with store.writing(tmp_path / "m") as writer:
        writer.add([*ALL_RECORDS, at_scale_factor("0.1", WITH_NUMBERS[0])])
        writer.add_session(HEADER)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "asv"])
def test_a_file_lies_beside_the_records_unless_another_is_named(results, capsysbinary, name):
    path = results / "m" / EXPORTS[name].target
    assert main(words(results, name)) == 0
    out, err = capsysbinary.readouterr()
    assert out.decode() == f"{path}: 6 cells\n"
    assert err.decode() == "3 records are left out: 1 failed, 1 timeout, 1 wrong\n"
    assert main(words(results, name, f"OUTPUT={results / 'other'}")) == 0
    assert (results / "other").read_bytes() == path.read_bytes()
    capsysbinary.readouterr()
    assert main(words(results, name, "OUTPUT=-")) == 0
    assert capsysbinary.readouterr().out == path.read_bytes()


def test_a_scale_factor_selects_cells(results, capsys):
    assert main(words(results, "bencher", "SF=0.1", "OUTPUT=-")) == 0
    out, err = capsys.readouterr()
    assert [" sf0.1 " in cell for cell in bencher_benchmarks(out)] == [True]
    assert err == ""
    assert "SF=10; make bench SF=10" in error_line(capsys, words(results, "csv", "SF=10"))


def test_the_reference_records_are_exported_to_asv(tmp_path, capsys):
    output = tmp_path / "a" / "b"
    reference = ["export", "FORMAT=asv", f"RESULTS={ROOT / 'results'}", "MACHINE=spark", f"OUTPUT={output}"]
    code = main(reference)
    captured = capsys.readouterr()
    if code:
        assert "of no commit of the repository" in captured.err
        pytest.skip("the history of the repository does not reach back to the records")
    asv_files({str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*.json")})
    assert captured.out == f"{output}: 88 cells\n"
    error = error_line(capsys, [*reference[:-1], "OUTPUT=-"])
    assert "a directory does not fit into standard output: -; name one: OUTPUT=DIR" in error


def test_errors_say_what_to_do(results, capsys):
    assert "did you mean parquet" in error_line(capsys, words(results, "parqet"))
    assert "write FORMAT=NAME, one of github-action-benchmark, bencher" in error_line(capsys, ["export"])
    error = error_line(capsys, words(results, "csv", f"OUTPUT={results / 'none' / 'x'}"))
    assert f"cannot read or write: {results / 'none' / 'x'}: No such file or directory" in error
    (results / "file").touch()
    error = error_line(capsys, words(results, "csv", f"OUTPUT={results / 'file' / 'x'}"))
    assert f"{results / 'file' / 'x'}: Not a directory" in error
    assert f"nothing is measured: {results / 'none' / 'm'}; make bench" in error_line(
        capsys, words(results / "none", "csv")
    )


@pytest.mark.parametrize("name", EXPORTS)
def test_records_without_numbers_alone_are_an_error(tmp_path, capsys, name):
    with store.writing(tmp_path / "m") as writer:
        writer.add([changed(record, commit="unknown") for record in WITHOUT_NUMBERS])
    error = error_line(capsys, words(tmp_path, name))
    assert f"no cell has numbers to export: {tmp_path / 'm'}, 1 failed, 1 timeout, 1 wrong; make bench" in error
    assert not (tmp_path / "m" / EXPORTS[name].target).exists()
