"""Loop nests in the order in which a processor runs them."""
