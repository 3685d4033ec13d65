"""Sealed JSON files: an object whose key `digest` holds the BLAKE2 digest of all its other keys.

A sealed file that was edited is refused. The functions below then check the structure of the content; each of them
takes `at`, the place of a value in the file, and raises a ValueError that names it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from deltamark.errors import refused

DIGEST = "digest"
MAX_QUOTED = 100
"""The number of characters of a value that an error quotes."""


class UnsealedError(ValueError):
    """Raised if the content of a file does not have the digest in the file."""


def digest_of(content: Mapping[str, object]) -> str:
    """Return the digest of an object's canonical JSON without the key of the digest."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def write_sealed(path: Path, content: Mapping[str, object]) -> None:
    """Write an object as JSON, and its digest as the last key."""
    path.write_text(json.dumps({**content, DIGEST: digest_of(content)}, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, object]:
    """Read a JSON object; raise FileNotFoundError without a file, and ValueError for other content."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refused(error, path) or error from error
    if not isinstance(raw, dict):
        raise ValueError(_not("the whole", raw, "an object"))  # noqa: TRY004 (one class for all malformed content)
    return raw


def check_seal(raw: Mapping[str, object]) -> None:
    """Raise UnsealedError unless an object has the digest that it contains."""
    expected, actual = raw.get(DIGEST), digest_of(raw)
    if expected != actual:
        raise UnsealedError(f"its digest is {actual}, not {_quoted(expected)}")


def keyed(raw: object, keys: Sequence[str], at: str) -> dict[str, object]:
    """Check that a value is an object with exactly these keys; return it."""
    if not isinstance(raw, dict) or set(raw) != set(keys):
        actual = sorted(raw) if isinstance(raw, dict) else raw
        raise ValueError(_not(at, actual, f"an object with the keys {', '.join(sorted(keys)) or '(none)'}"))
    return raw


def listed(raw: object, at: str) -> list[object]:
    """Check that a value is a list with at least one element; return it."""
    if not isinstance(raw, list) or not raw:
        raise ValueError(_not(at, raw, "a list that is not empty"))
    return raw


def whole(raw: object, low: int, high: int, at: str) -> int:
    """Check that a value is an integer from `low` to `high`; return it."""
    if type(raw) is not int or not low <= raw <= high:
        raise ValueError(_not(at, raw, f"a whole number from {low} to {high}"))
    return raw


def text(raw: object, at: str) -> str:
    """Check that a value is a string; return it."""
    if not isinstance(raw, str):
        raise ValueError(_not(at, raw, "a string"))  # noqa: TRY004
    return raw


def exactly(raw: object, expected: object, at: str) -> None:
    """Check that a value has the expected type and is equal to the expected value."""
    if type(raw) is not type(expected) or raw != expected:
        raise ValueError(_not(at, raw, repr(expected)))


def _not(at: str, raw: object, expected: str) -> str:
    return f"{at} is {_quoted(raw)}, not {expected}"


def _quoted(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
