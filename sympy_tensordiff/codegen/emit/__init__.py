"""One printer per backend: the text of a module from the loop nests."""
