"""Results: records, their store, published numbers, and the description of the machine."""
