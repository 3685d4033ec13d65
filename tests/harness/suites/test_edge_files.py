"""Files of edges: their formats, and errors that name the file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamark.datagen.graphs.edge_file import read_edges
from deltamark.errors import DeltamarkError

TABLE = pa.table({"src": [1, 2, 2], "dst": [2, 3, 3]})


def test_files_of_edges_are_read_in_every_format(tmp_path):
    texts = {"a.txt": "# from to\n1 2\n2 3\n2 3\n", "b.csv": "1,2\n2,3\n2,3\n", "c.tsv": "1\t2\n2\t3\n2\t3"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    pq.write_table(TABLE, tmp_path / "d.parquet")
    with pa.OSFile(str(tmp_path / "e.arrow"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    for path in tmp_path.iterdir():
        assert read_edges(path).equals(TABLE), path


NO_EDGES = {
    "words.txt": "a b\n", "one.txt": "1\n2\n", "three.txt": "1 2 3\n", "half.txt": "1 2\n3\n", "real.txt": "1 2.5\n",
    "empty.txt": "", "comments.txt": "# nothing\n",
}  # fmt: skip


@pytest.mark.parametrize("name", NO_EDGES)
def test_an_invalid_list_of_edges_is_an_error_that_names_the_file(tmp_path, name):
    (tmp_path / name).write_text(NO_EDGES[name])
    with pytest.raises(DeltamarkError, match=f"not a list of edges.*{name}"):
        read_edges(tmp_path / name)


def test_columns_that_are_no_integers_are_an_error(tmp_path):
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "x.parquet")
    with pytest.raises(DeltamarkError, match="src string"):
        read_edges(tmp_path / "x.parquet")
