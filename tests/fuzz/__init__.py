"""Random plans on every engine: `make fuzz SECONDS=60`."""
