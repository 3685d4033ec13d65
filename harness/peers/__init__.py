"""Engines of others: their manifests, and their set-up."""
