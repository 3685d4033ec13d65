"""Plan nodes, and bound expressions; `passes` are the steps of the compiler that take and return plans."""
