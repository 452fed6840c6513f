"""Operations on whole tensors: einsum products, elementwise operations, functions as in NumPy, operators."""
