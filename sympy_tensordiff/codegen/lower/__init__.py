"""From the tensor graph to loop nests: what becomes an array, and the loops that fill it."""
