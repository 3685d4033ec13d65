"""Sources on Spark: reading a batch, stage 0, and the wire format between stages."""
