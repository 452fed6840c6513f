"""Matrix formulas in the notation of MATLAB or NumPy; orders and sizes of names are inferred."""
