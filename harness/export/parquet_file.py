"""The flat table as Parquet."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet

from deltamark.harness.export.flat_table import flat_table
from deltamark.harness.export.source import Encoded, ExportFormat, ExportSource


def _encode(source: ExportSource) -> Encoded:
    table, left_out = flat_table(source)
    output = pa.BufferOutputStream()
    pa.parquet.write_table(table, output)
    return Encoded(output.getvalue().to_pybytes(), table.num_rows, left_out)


PARQUET = ExportFormat("cells.parquet", _encode)
