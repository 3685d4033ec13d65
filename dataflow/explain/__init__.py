"""Explanations: plans and programs as text for users."""
