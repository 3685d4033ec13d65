"""Random plans for everything that runs plans, as many a second as can be: `make fuzz SECONDS=60`."""
