"""Sparse and structured Jacobians and Hessians: terms, index points, sparsity patterns, operators, solvers."""
