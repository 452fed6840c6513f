"""Functions for other libraries: JAX, PyTorch and SciPy's optimisers, with the derived derivatives."""
