"""A simulation of the load that BiGJoin and BiGJoin-S put on virtual shards."""
