"""The 13 queries of the Star Schema Benchmark, as text.

O'Neil, O'Neil, Chen: Star Schema Benchmark, revision 3, 2009. Flight 1 restricts lineorder itself; flight 2 compares
revenue by brand, flight 3 by cities or nations, flight 4 compares profit by year.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TEXTS: Mapping[str, str] = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("q*.sql"))
}
"""The texts by the names of the queries: q1.1 to q4.3."""
