"""From what a sweep leaves to sums over polyhedra: deltas eliminated, guards and ranges made tight."""
