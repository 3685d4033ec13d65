"""The ways of the command `motif` to find a motif: while edges change, in a static graph, on shards, on Spark."""
