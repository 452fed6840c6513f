"""The reverse and the forward sweep, the table of pullback rules, and the public ways to differentiate."""
