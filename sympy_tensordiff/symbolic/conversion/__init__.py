"""Conversion from SymPy's own notation (lifting), and to it."""
