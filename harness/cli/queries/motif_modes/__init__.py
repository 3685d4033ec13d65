"""The modes of the command `motif`: while edges change, in a static graph, on virtual shards, on Spark."""
