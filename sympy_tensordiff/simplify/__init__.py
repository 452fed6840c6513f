"""Deltas eliminated, guards and ranges made tight."""
