"""Formulas in LaTeX: index notation, matrix formulas and mixtures of both, as printed and as typed in papers."""
