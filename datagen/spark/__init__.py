"""Spark sessions, and the Java runtime that they need."""
