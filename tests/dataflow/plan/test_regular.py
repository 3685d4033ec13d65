"""Automata of regular expressions accept what DuckDB matches."""

from __future__ import annotations

from functools import cache

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamark.dataflow.plan.regular import automaton
from deltamark.errors import DeltamarkError

EXPRESSIONS = (
    "", "a.b", "^abc", "c$", "^$", "$^", "a|b|", "[a-cé]+x", "[^a]", "^[^a]$", r"\d+", r"\w\s", r"\S\W", "a{2}",
    "a{2,}", "a{1,3}b$", "(ab)*c", "(?:a|b){2}$", "^a*$", "x*?y", "(?i)É+a", "(?i)k", "(?i)straße", "(?i)\u017f",
    "(?s)a.b", r"[\d_]", "[]a]", "[a-]", r"\.", r"\x41", r"\x{e9}",
    "^(a|ab)(c|bcd)$", "a^b", "(^a|b$)", r"[^\d]", "^.$", "^..$",
    "[\u03b1-\u03c9]", "(?i)[\u03b1-\u03c9]", "(?i)[^k]", "a{,2}", r"[\]a]", "(?P<n>a)b", r"a\nb",
    "[\U0001f600-\U0001f602]", r"[\w-]x", "[a-b]-[^-]", "(a*)*b", "(a|b)*abb", "((a?){3}){2}$", "(|a)+",
)  # fmt: skip
REFUSED = (
    r"\bx", r"\pL", "[[:alpha:]]", "(?=a)", "a(", "a)", "[a", "(?m)^a", "[z-a]", r"\Aa", "(a{1000}){1000}", ".*a.{12}",
)  # fmt: skip


@cache
def _connection():
    return duckdb.connect(config={"threads": 1})


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(texts=st.lists(st.text("ab cxyékKK1_\n]-.AÉßẞ\u017fsS\u03c9Ω\U0001f600\U0001f601{,2}", max_size=6), min_size=1))
def test_an_automaton_accepts_what_duckdb_matches(expression, texts):
    matched = _connection().execute("SELECT regexp_matches(unnest(?::VARCHAR[]), ?)", [texts, expression]).fetchall()
    assert [(automaton(expression).matches(text),) for text in texts] == matched


@pytest.mark.parametrize("expression", REFUSED)
def test_other_expressions_are_refused(expression):
    with pytest.raises(DeltamarkError, match="this part of a regular expression"):
        automaton(expression)
