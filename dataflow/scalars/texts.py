"""Functions of texts: their terms, and their values in Python for constants and the words of codes.

Characters are code points, as in DuckDB. A function of a code and of constants is a table; others are kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import groupby

from deltamark.dataflow.plan import terms
from deltamark.dataflow.plan.letters import cased
from deltamark.dataflow.plan.regular import automaton
from deltamark.dataflow.plan.terms import (
    FALSE,
    LONGEST_CHAIN,
    TRUE,
    Constant,
    IsNull,
    Less,
    Lookup,
    Match,
    Ratio,
    Substring,
    Table,
    Term,
    TextCall,
    negative,
    number,
    rescaled,
    shifted,
)
from deltamark.dataflow.scalars.expressions import Call, Function, SqlType
from deltamark.dataflow.scalars.problems import unsupported
from deltamark.dataflow.scalars.values import (
    Truth,
    Value,
    chosen,
    constant,
    either,
    kind_of,
    nullable_term,
    text_term,
    value_of,
)
from deltamark.dataflow.types import (
    BOOL,
    FIRST_DAY,
    LAST_DAY,
    SHORT_BYTES,
    TEXT,
    Type,
    code_type,
    integer,
    unpack_short,
)
from deltamark.errors import DeltamarkError

MOST_CHARACTERS = 2**31 - 1
"""The most characters of a text, and the count of a substring without an end."""

MOST_PADDED = 1 << 20
"""The most characters up to which texts are padded by a constant."""

CHARACTERS = integer(0, MOST_CHARACTERS)
NO_ESCAPE = -1
SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""The characters that `trim` removes if it is given no others."""


def _substring(text: str, first: int, count: int) -> str:
    low = first - 1 if first >= 0 else len(text) + first
    low, high = min(low, low + count), max(low, low + count)
    return text[max(low, 0) : max(high, 0)]


def _like(text: str, pattern: str, escape: int) -> bool:
    """Match a text with a pattern. escape: the code of the character that makes the next one literal, or NO_ESCAPE."""
    parts = {"%": ".*", "_": "."}
    regex = "".join(
        parts.get(each, re.escape(each[-1])) for each in _tokens(pattern, chr(escape) if escape >= 0 else "")
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _tokens(pattern: str, escape: str) -> list[str]:
    """Split a pattern into characters, of which an escaped one has the escape before it."""
    return re.findall(f"{re.escape(escape)}.|." if escape else ".", pattern, re.DOTALL)


MEANINGS: Mapping[str, Callable[..., str | int | bool]] = {
    "length": len,
    "strlen": lambda text: len(text.encode()),
    "position": lambda text, piece: text.find(piece) + 1,
    "like": _like,
    "regexp_matches": lambda text, expression: automaton(expression).matches(text),
    "substring": _substring,
    "ltrim": lambda text, characters: text.lstrip(characters) if characters else text,
    "rtrim": lambda text, characters: text.rstrip(characters) if characters else text,
    "concat": lambda *parts: "".join(parts),
    "concat_ws": lambda separator, *parts: separator.join(parts),
    "upper": lambda text: text.translate(cased("upper")),
    "lower": lambda text: text.translate(cased("lower")),
    "replace": lambda text, piece, other: text.replace(piece, other) if piece else text,
    "padding": lambda text, count, by: (by * max(count - len(text), 0))[: max(count - len(text), 0)],
}
"""The functions in Python, by the names of terms."""


def text_call(name: str, *arguments: Term, type_: Type = TEXT) -> Term:
    """Return a function of texts and numbers."""
    codes = [each for each in arguments if not isinstance(each, Constant)]
    is_listed = all(each.type.kind == "code" for each in codes) and len(codes) <= 1
    if name not in MEANINGS or not is_listed:
        texts = tuple(each if each.type.kind == "int" else text_term(each) for each in arguments)
        may_be_null = type_ == TEXT and any(each.type.nullable for each in texts if each.type.kind == "text")
        return TextCall(name, texts, type_.or_null() if may_be_null else type_)
    values = [_python_value(each) for each in arguments]
    if not codes:
        return _constant(MEANINGS[name](*values))
    place, code = arguments.index(codes[0]), codes[0]
    made = [MEANINGS[name](*values[:place], word, *values[place + 1 :]) for word in code.type.words]
    return _of_words(code, made, type_)


def _python_value(term: Term) -> str | int:
    """Return the value of a constant, and something for other terms."""
    if not isinstance(term, Constant):
        return ""
    return int(term.value) if term.type.kind == "int" else word_of(term)


def _constant(value: str | int) -> Term:
    match value:
        case bool():
            return TRUE if value else FALSE
        case int():
            return number(value)
    return Constant(value, TEXT)


def _of_words(code: Term, made: Sequence[str | int | bool], type_: Type) -> Term:
    """Return a function of a code. made: its value for each word."""
    match type_.kind:
        case "bool":
            return Lookup(code, tuple(map(bool, made)))
        case "int":
            numbers = tuple(map(int, made))
            return Table(code, 0, numbers, integer(min(numbers, default=0), max(numbers, default=0)))
    words = tuple(sorted(set(map(str, made))))
    return Table(code, 0, tuple(words.index(str(each)) for each in made), code_type(words))


def word_of(literal: Constant) -> str:
    """Return the text of a constant, which may have taken the type of a column."""
    match literal.type.kind:
        case "short":
            return unpack_short(int(literal.value))
        case "code":
            return literal.type.words[int(literal.value)]
    return str(literal.value)


def of_condition(condition: Term) -> Term:
    """Return the word of a condition, as a code."""
    return Table(condition, 0, (0, 1), code_type(condition.type.words))


def _text(of: Call[object], value: Value) -> Term:
    """Return a text, which may be a code or a constant."""
    if isinstance(value.term, Ratio) or value.term.type.kind not in ("text", "code", "short"):
        actual = f"an argument of {of.name} is {kind_of(value)}"
        raise DeltamarkError("not of type code or text", actual, "use a value of type code or text")
    term = value.term
    if isinstance(term, Constant) and not term.type.nullable:
        return Constant(word_of(term), TEXT)
    return text_term(term) if term.type.kind == "short" else term


def _whole(of: Call[object], value: Value) -> Term:
    """Return a whole number."""
    if isinstance(value.term, Ratio) or value.term.type.kind != "int" or value.term.type.scale:
        actual = f"an argument of {of.name} is {kind_of(value)}"
        raise DeltamarkError("not a whole number", actual, "use a whole number")
    return value.term


def _missing(*values: Value) -> Term | None:
    return reduce(either, (each.null for each in values))


def _null(type_: Type) -> Value:
    return value_of(constant(SqlType("VARCHAR" if type_ == TEXT else "BIGINT"), None))


Arguments = Callable[..., Term]
"""Makes the term of a function from the terms of its arguments."""


def _strict(kinds: str, make: Arguments, type_: Type = TEXT) -> Callable[..., Value]:
    """Return a function that is NULL if an argument is. kinds: for each argument whether it is a text or a number."""

    def compute(of: Call[object], *values: Value) -> Value:
        missing = _missing(*values)
        if missing is TRUE:
            return _null(type_)
        kind = {"t": _text, "n": _whole}
        return Value(make(*(kind[each](of, value) for each, value in zip(kinds, values, strict=False))), missing)

    return compute


def _named(name: str, type_: Type = TEXT) -> Arguments:
    return lambda *arguments: text_call(name, *arguments, type_=type_)


def _ends(text: Term, characters: Term) -> Term:
    return text_call("rtrim", text_call("ltrim", text, characters), characters)


def _cut(text: Term, first: Term, count: Term | None = None) -> Term:
    """Take characters from a place on. Few characters of a column become a short text, which is stored as a number."""
    count = number(MOST_CHARACTERS) if count is None else count
    match first, count:
        case Constant(int(start)), Constant(int(length)) if (
            text.type.kind == "text"
            and not isinstance(text, Constant | TextCall)
            and start >= 1
            and 1 <= length <= SHORT_BYTES
        ):
            return Substring(text, start, length)
    return text_call("substring", text, first, count)


def _left(text: Term, count: Term) -> Term:
    """Take the first characters, or all but the last if the count is negative."""
    if count.type.low >= 0:
        return _cut(text, number(1), count)
    rest = terms.total(text_call("length", text, type_=CHARACTERS), count)
    known = chosen(_is_negative(rest), number(0), rest)
    return _cut(text, number(1), chosen(_is_negative(count), known, count))


def _right(text: Term, count: Term) -> Term:
    """Take the last characters, or all but the first if the count is negative."""
    if isinstance(count, Constant):
        places = int(count.value)
        first, taken = (-places, places) if places >= 0 else (1 - places, MOST_CHARACTERS)
        return text_call("substring", text, number(first), number(taken))
    back, skipped = negative(count), shifted(negative(count), 1)
    is_negative = _is_negative(count)
    taken_count = chosen(is_negative, number(MOST_CHARACTERS), count)
    return text_call("substring", text, chosen(is_negative, skipped, back), taken_count)


def _is_negative(term: Term) -> Term:
    if isinstance(term, Constant):
        return TRUE if int(term.value) < 0 else FALSE
    return Less(term, number(0))


def _padded(*, is_before: bool) -> Arguments:
    """Return a function that cuts a text to a number of characters, or adds a padding until it has as many."""

    def pad(text: Term, count: Term, by: Term) -> Term:
        if not isinstance(by, Constant) or not by.value:
            raise unsupported("a padding that is no constant, or empty")
        if isinstance(count, Constant) and int(count.value) > MOST_PADDED:
            raise unsupported(f"a padding to more than {MOST_PADDED} characters")
        parts = [text_call("padding", text, count, by), text_call("substring", text, number(1), count)]
        return _concatenated(*(parts if is_before else parts[::-1]))

    return pad


def _concatenated(*parts: Term) -> Term:
    """Write texts one behind another."""
    flat = [each for part in parts for each in _parts_of(part)]
    flat = flat if len(flat) <= LONGEST_CHAIN else list(parts)
    joined: list[Term] = []
    for is_constant, group in groupby(flat, lambda each: isinstance(each, Constant)):
        some = list(group)
        joined += [text_call("concat", *some)] if is_constant else some
    return text_call("concat", *joined)


def _parts_of(text: Term) -> tuple[Term, ...]:
    return text.arguments if isinstance(text, TextCall) and text.function == "concat" else (text,)


def _joined(of: Call[object], separator: Value, *values: Value) -> Value:
    """Write texts one behind another with a separator between them, without those that are NULL."""
    if separator.null is TRUE:
        return _null(TEXT)
    parts = [nullable_term(text_term(_text(of, each)), each.null) for each in values if each.null is not TRUE]
    return Value(text_call("concat_ws", _text(of, separator), *parts), separator.null)


def _concat(of: Call[object], *values: Value) -> Value:
    return _joined(of, Value(Constant("", TEXT)), *values)


def _split_part(of: Call[object], text: Value, separator: Value, place: Value) -> Value:
    """Return a part between separators, NULL if there is none with this number."""
    missing = _missing(text, separator, place)
    if missing is TRUE:
        return _null(TEXT)
    texts = (text_term(_text(of, each)) for each in (text, separator))
    part = TextCall("split_part", (*texts, _whole(of, place)), TEXT.or_null())
    return Value(part, either(missing, IsNull(part)))


def matches(pattern_of: Callable[[str], tuple[str, ...]]) -> Callable[..., Truth]:
    """Return a test whether a text consists of the pieces that a constant stands for, with any text between them."""

    def compute(of: Call[object], text: Value, word: Value) -> Truth:
        if TRUE in (text.null, word.null):
            return Truth(None, None, total=False)
        if not isinstance(word.term, Constant):
            raise unsupported("a pattern that is no constant")
        return Truth.of(_matched(_text(of, text), pattern_of(word_of(word.term))), text.null)

    return compute


def _matched(text: Term, pieces: Sequence[str]) -> Term:
    """Return the condition that a text consists of pieces, with any text between them."""
    if text.type.kind == "text" and not isinstance(text, Constant):
        return Match(text, tuple(pieces))
    pattern = "%".join(re.sub(r"([\\%_])", r"\\\1", each) for each in pieces)
    return text_call("like", text, Constant(pattern, TEXT), number(ord("\\")), type_=BOOL)


def like(of: Call[object], text: Value, pattern: Value, escape: Value | None = None) -> Truth:
    """Match a text with a pattern, in which % stands for any text and _ for any character."""
    missing = _missing(text, pattern)
    if missing is TRUE or (escape is not None and escape.null is TRUE):
        return Truth(None, None, total=False)
    of_text, of_pattern = _text(of, text), _text(of, pattern)
    return Truth.of(_like_term(of_text, of_pattern, _escape(of, of_pattern, escape)), missing)


def _escape(of: Call[object], pattern: Term, escape: Value | None) -> str:
    """Return the character that escapes others in a pattern, or no text."""
    if escape is None:
        return ""
    character = _text(of, escape)
    if not isinstance(character, Constant) or not isinstance(pattern, Constant):
        raise unsupported("ESCAPE with a pattern or a character that is no constant")
    found, tokens = str(character.value), _tokens(str(pattern.value), str(character.value))
    if len(found) > 1 or not found.isascii() or (found and found in tokens):
        raise unsupported("ESCAPE with other than an ASCII character, or at the end of a pattern")
    return found


def _like_term(text: Term, pattern: Term, escape: str) -> Term:
    if isinstance(pattern, Constant):
        tokens = _tokens(str(pattern.value), escape)
        if "_" not in tokens:
            pieces = ["".join(each[-1] for each in group) for group in _split(tokens)]
            return _matched(text, pieces)
    byte = number(ord(escape) if escape else NO_ESCAPE)
    return text_call("like", text, pattern, byte, type_=BOOL)


def _split(tokens: Sequence[str]) -> list[list[str]]:
    """Split the characters of a pattern at each %."""
    groups: list[list[str]] = [[]]
    for each in tokens:
        if each == "%":
            groups.append([])
        else:
            groups[-1].append(each)
    return groups


def _ilike(of: Call[object], text: Value, pattern: Value, escape: Value | None = None) -> Truth:
    """Match a text with a pattern, whatever the case of letters."""
    lower = _strict("t", _named("lower"))
    return like(of, lower(of, text), lower(of, pattern), escape)


def _regular(written: str) -> Callable[..., Truth]:
    """Return the test whether a part of a text matches a regular expression. written: with the given one as `{}`."""

    def compute(of: Call[object], text: Value, expression: Value, options: Value | None = None) -> Truth:
        missing = _missing(text, expression, *([] if options is None else [options]))
        if missing is TRUE:
            return Truth(None, None, total=False)
        given = [_text(of, each) for each in (expression, *([] if options is None else [options]))]
        if not all(isinstance(each, Constant) for each in given):
            raise unsupported(f"{of.name} with an expression or options that are no constants")
        words = [str(each.value) for each in given if isinstance(each, Constant)]
        flags = set("".join(words[1:])) - {"c"}
        if flags - {"i", "s"}:
            raise unsupported(f"{of.name} with options other than i, s and c")
        pattern = (f"(?{''.join(sorted(flags))})" if flags else "") + written.format(words[0])
        automaton(pattern)  # one that is not supported is an error
        return Truth.of(text_call("regexp_matches", _text(of, text), Constant(pattern, TEXT), type_=BOOL), missing)

    return compute


def number_text(term: Term, scale: int, *, has_whole: bool = True) -> Term:
    """Return a decimal as a text. has_whole: whether there is a digit before the point."""
    if scale > term.type.scale:
        term = rescaled(term, scale)
    return text_call("number", term, number(term.type.scale), number(int(has_whole)))


def date_text(day: Term) -> Term:
    """Return a date as a text."""
    if not FIRST_DAY <= day.type.low <= day.type.high <= LAST_DAY:
        raise unsupported("a cast of a date that may lie outside the years 1 to 9999 to VARCHAR")
    return TextCall("date", (day,), TEXT)


LIKE, ILIKE = Function("like", like), Function("ilike", _ilike)
PREFIX = Function("starts_with", matches(lambda text: (text, "")))
SPLIT_PART = Function("split_part", _split_part)

_BLANKS = Constant(SPACES, TEXT)
_OTHERS = (
    Function("ends_with", matches(lambda text: ("", text))), Function("contains", matches(lambda text: ("", text, ""))),
    Function("substring", _strict("tnn", _cut)), Function("left", _strict("tn", _left)),
    Function("right", _strict("tn", _right)), Function("upper", _strict("t", _named("upper"))),
    Function("lower", _strict("t", _named("lower"))),
    Function("trim", _strict("tt", lambda text, characters=_BLANKS: _ends(text, characters))),
    Function("ltrim", _strict("tt", lambda text, characters=_BLANKS: text_call("ltrim", text, characters))),
    Function("rtrim", _strict("tt", lambda text, characters=_BLANKS: text_call("rtrim", text, characters))),
    Function("replace", _strict("ttt", _named("replace"))), Function("||", _strict("t" * 99, _concatenated)),
    Function("lpad", _strict("tnt", _padded(is_before=True))),
    Function("rpad", _strict("tnt", _padded(is_before=False))), Function("concat", _concat),
    Function("concat_ws", _joined), Function("length", _strict("t", _named("length", CHARACTERS), CHARACTERS)),
    Function("strlen", _strict("t", _named("strlen", CHARACTERS), CHARACTERS)),
    Function("regexp_matches", _regular("{}")), Function("regexp_full_match", _regular("^(?:{})$")),
    Function("position", _strict("tt", _named("position", CHARACTERS), CHARACTERS)), SPLIT_PART,
)  # fmt: skip
_ALIASES = {
    "suffix": "ends_with", "substr": "substring", "ucase": "upper", "lcase": "lower", "len": "length",
    "char_length": "length", "character_length": "length", "instr": "position", "strpos": "position",
}  # fmt: skip

_BY_NAME = {each.name: each for each in _OTHERS}
TEXT_FUNCTIONS: Mapping[str, Function] = {
    **_BY_NAME, **{name: _BY_NAME[of] for name, of in _ALIASES.items()},
    **dict.fromkeys(("~~", "like_escape"), LIKE), **dict.fromkeys(("~~*", "ilike_escape"), ILIKE),
    **dict.fromkeys(("prefix", "starts_with", "^@"), PREFIX),
}  # fmt: skip
"""The functions of texts by their names in SQL."""
