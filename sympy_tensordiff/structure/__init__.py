"""Sparse and structured Jacobians and Hessians: terms, their points, the pattern, the operator and its solves."""
