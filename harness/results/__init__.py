"""Results: records, their store, and the description of the machine."""
