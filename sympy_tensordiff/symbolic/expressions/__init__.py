"""The base class of all expressions, and the ways through expressions: traversal, replacement, canonical forms."""
