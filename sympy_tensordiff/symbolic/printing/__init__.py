"""Printing as text, LaTeX and two-dimensional form."""
