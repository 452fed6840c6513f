"""From the result of a sweep to sums over polyhedra: deltas eliminated, guards and ranges made tight."""
