"""Index notation: index expressions, entries, sums over index ranges, tensors given by their entries."""
