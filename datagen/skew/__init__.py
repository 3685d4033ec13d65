"""Skewed data: the keys of orders and lines follow Zipf's law, and the rest of the data is TPC-H's."""
