"""Counts of what examples had, which child processes send to their parent."""

from __future__ import annotations

from collections import Counter

MOST_DETAILS = 250
"""The details of a subject that are shown: more than there are constructs."""

TALLY: Counter[str] = Counter()
"""Counts of the examples of this process since it last sent them. Names have a subject, a colon and a detail."""


def taken() -> Counter[str]:
    """Return the counts, and begin anew."""
    found = Counter(TALLY)
    TALLY.clear()
    return found


def written(tally: Counter[str]) -> str:
    """Return a line for each subject, with its most frequent details."""
    subjects = dict.fromkeys(name.partition(": ")[0] for name in sorted(tally))
    lines = []
    for subject in subjects:
        details = [
            (count, name.partition(": ")[2])
            for name, count in tally.most_common()
            if name.partition(": ")[0] == subject
        ]
        shown = ", ".join(f"{detail} {count:,}".strip() for count, detail in details[:MOST_DETAILS])
        more = f", and {len(details) - MOST_DETAILS:,} others" if len(details) > MOST_DETAILS else ""
        lines.append(f"  {subject}: {shown}{more}")
    return "\n".join(lines)
