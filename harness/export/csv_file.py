"""The flat table as CSV: a header, commas, and nothing between them for an unknown value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv

from deltamark.harness.export.flat_table import flat_table
from deltamark.harness.export.source import Encoded, ExportFormat, ExportSource


def _encode(source: ExportSource) -> Encoded:
    table, left_out = flat_table(source)
    output = pa.BufferOutputStream()
    pa.csv.write_csv(table, output)
    return Encoded(output.getvalue().to_pybytes(), table.num_rows, left_out)


CSV = ExportFormat("cells.csv", _encode)
