"""Kernels on Dask: blocks, the parts of arguments that they read, partial results, stages."""
