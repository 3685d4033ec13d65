"""Examples of several plans in one dataflow."""
