"""Functions of published practice, written as their authors would: value and gradients together, beside JAX."""
