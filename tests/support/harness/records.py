"""Changes of records by the names of their attributes, whether they are fields, parameters or figures."""

from __future__ import annotations

from msgspec import structs

from deltamark.harness.results.record import SPREAD, Record

FIELDS = Record.__struct_fields__
PARAMETERS = {"query", "sf", "variant", "is_default", "workload", "engine", "logical", "physical", "workers", "sample"}
PARAMETERS |= {"benchmark", "dataset", "table", "row"}


def changed(record, **changes):
    """Return a record, or another value, with changes. A figure that is 0 or empty is removed."""
    if not isinstance(record, Record):
        return structs.replace(record, **changes)
    params, figures = dict(record.params), dict(record.figures)
    fields = {name: changes.pop(name) for name in FIELDS if name in changes}
    params |= {name: changes.pop(name) for name in PARAMETERS & changes.keys()}
    if "external" in changes:
        external = changes.pop("external")
        params = {name: value for name, value in params.items() if not name.startswith("engine_")}
        params |= external.parameters if external else {}
    if "latency" in changes:
        latency = changes.pop("latency")
        figures |= {name: [latency[name]] if name in latency else [] for name in SPREAD}
    if "trace" in changes:
        trace = changes.pop("trace")
        figures |= {"trace_rows": [rows for rows, _ in trace], "trace_seconds": [seconds for _, seconds in trace]}
    if "fully_timed" in changes:
        changes["sampled"] = int(not changes.pop("fully_timed"))
    figures |= {name: value if isinstance(value, list) else [value] * bool(value) for name, value in changes.items()}
    known = {name: values for name, values in figures.items() if values}
    return structs.replace(record, **({"params": params, "figures": known} | fields))
