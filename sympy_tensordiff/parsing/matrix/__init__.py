"""Matrix formulas as text, in the notation of MATLAB or of NumPy; orders and sizes of names are inferred."""
