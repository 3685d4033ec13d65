"""Planning for Spark: a plan is divided into stages, with an exchange between them."""
