"""The reverse sweep, the table of pullback rules, and the public ways to differentiate."""
