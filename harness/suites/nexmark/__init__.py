"""The Nexmark suite: queries over the events of an auction house, maintained from their texts of SQL."""
