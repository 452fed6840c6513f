"""The hash-consed graph of tensors and scalars, and the ways from and to SymPy."""
