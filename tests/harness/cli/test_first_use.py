"""Kernels are compiled with a report of progress, unless this machine has compiled them before."""

from __future__ import annotations

import pytest

from deltamark.dataflow import kernels
from deltamark.dataflow.interpreter import compilation
from deltamark.harness.console.progress import ensure_compiled


@pytest.mark.parametrize("before", [True, False])
def test_kernels_are_compiled_once(monkeypatch, capsys, before):
    calls = []

    def compile_kernels(report):
        calls.append(1)
        report(0, 2)
        report(2, 2)

    monkeypatch.setattr(kernels, "compiled_before", lambda: before)
    monkeypatch.setattr(kernels, "is_writable", lambda: True)
    monkeypatch.setattr(compilation, "compile_kernels", compile_kernels)
    ensure_compiled()
    assert len(calls) == (not before)
    assert ("compiling kernels, once on this machine" in capsys.readouterr().err) == (not before)


def test_kernels_that_cannot_be_stored_are_not_compiled_beforehand(monkeypatch):
    monkeypatch.setattr(kernels, "compiled_before", lambda: False)
    monkeypatch.setattr(kernels, "is_writable", lambda: False)
    monkeypatch.setattr(compilation, "compile_kernels", None)
    ensure_compiled()
