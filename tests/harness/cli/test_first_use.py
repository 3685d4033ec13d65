"""Kernels are compiled with a report of progress, unless this machine has compiled them before."""

from __future__ import annotations

import pytest

from deltamark.harness.console import progress as compilation


@pytest.mark.parametrize("before", [True, False])
def test_kernels_are_compiled_once(monkeypatch, capsys, before):
    calls = []

    def compile_kernels(report):
        calls.append(1)
        report(0, 2)
        report(2, 2)

    monkeypatch.setattr(compilation, "compiled_before", lambda: before)
    monkeypatch.setattr(compilation, "is_writable", lambda: True)
    monkeypatch.setattr(compilation, "compile_kernels", compile_kernels)
    compilation.ensure_compiled()
    assert len(calls) == (not before)
    assert ("compiling kernels, once on this machine" in capsys.readouterr().err) == (not before)


def test_kernels_that_cannot_be_stored_are_not_compiled_beforehand(monkeypatch):
    monkeypatch.setattr(compilation, "compiled_before", lambda: False)
    monkeypatch.setattr(compilation, "is_writable", lambda: False)
    monkeypatch.setattr(compilation, "compile_kernels", None)
    compilation.ensure_compiled()
