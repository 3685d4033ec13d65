"""Engines that are other programs: see docs/protocol.md."""
