"""Planning for Spark: a plan is divided into stages with exchanges between them, before any row is read."""
