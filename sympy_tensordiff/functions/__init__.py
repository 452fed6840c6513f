"""The table of functions of real numbers."""
