"""Ingestion on Spark: Spark's data source, stage 0, and the wire format between stages."""
