"""Recurrences over time: `td.scan`."""
