"""Functions of published practice, written as their authors would: value and gradients together, compared with JAX."""
