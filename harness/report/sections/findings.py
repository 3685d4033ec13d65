"""The findings in words: the fastest engines, those that recompute, and the cells without a right number."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.harness.report.charts.marks import Markup, data, tag
from deltamark.harness.report.document import Section
from deltamark.harness.tables.findings import MARGIN, ScopeFindings, findings
from deltamark.harness.tables.lookup import Lookup


def finding_sentences(lookup: Lookup) -> Section | None:
    """List the sentences over all queries and those of each query, if there are several engines."""
    found = findings(lookup.measured, lookup.sf)
    if found is None:
        return None
    return Section(
        "findings", "Findings", found.headline,
        "Cells are compared if several engines have the same query in its default dataflow, data, workload, number of "
        f"workers and batch size (L x P). An engine is faster if its fastest run is more than {MARGIN:.0%} faster, and "
        "its slowest run beats the fastest one of the other; otherwise they tie. Wrong, failed and refused cells, and "
        "times that are not plausible, never win. The tables named findings have the same facts.",
        [_list(tag("li", text) for text in found.summary), *(each for scope in found.scopes for each in _scope(scope))],
    )  # fmt: skip


def _scope(found: ScopeFindings) -> list[Markup]:
    keys = {"workload": found.scope.workload}
    queries = [tag("li", text, **data({"query": query, **keys})) for query, text in found.queries.items()]
    summary = [tag("li", text, **data(keys)) for text in found.summary]
    return [tag("h3", found.scope.name, **data(keys)), _list(summary), _list(queries)]


def _list(items: Iterable[Markup]) -> Markup:
    return tag("ul", items, class_="sentences")
