"""The cells of external engines whose times are not plausible, each with the reasons."""

from __future__ import annotations

from deltamark.harness.console.formatting import counted
from deltamark.harness.report.charts.marks import data, keys_of, tag
from deltamark.harness.report.document import Section
from deltamark.harness.report.tooltip import command, title
from deltamark.harness.results.plausibility import doubt_of
from deltamark.harness.tables.lookup import Lookup


def plausibility(lookup: Lookup) -> Section | None:
    """List the cells whose times are not plausible, if there are any."""
    doubts = [(record, doubt) for record in lookup.records if (doubt := doubt_of(record))]
    if not doubts:
        return None
    items = [
        tag("li", title(record), tag("pre", doubt), tag("code", command(record)), **data(keys_of(record)))
        for record, doubt in doubts
    ]
    external = sum(record.external is not None and record.has_numbers for record in lookup.records)
    verb = "is" if len(doubts) == 1 else "are"
    return Section(
        "plausibility", "Times that are not plausible",
        f"Of {counted(external, 'cell')} of external engines, the times of {len(doubts)} {verb} not plausible.",
        "An external engine reports its own time, or works where no clock runs. These times contradict the time that "
        "the harness saw, or the CPU time of the engine. Charts show them like all others; tables mark them with ~.",
        [tag("ul", items, class_="problems")],
    )  # fmt: skip
