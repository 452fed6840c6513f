"""Exact algebra over the integers: affine forms, Smith normal form, Fourier-Motzkin elimination, loop bounds."""
