"""Values of expressions by the NumPy backend, and arrays to compute them from."""

import numpy as np

import sympy_tensordiff as td


def arrays(tensors, length=2, seed=0, low=0.2):
    """An array for each tensor, all axes of one length, with entries up to 0.9; of both signs where ``low`` is not."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, tensor in tensors.items():
        shape = (length,) * tensor.rank
        sign = rng.choice([-1, 1], shape) if low < 0 else 1
        found[name] = np.asarray(rng.uniform(abs(low), 0.9, shape) * sign)
    return found


def computed(expr, tensors, values, length=2):
    """The value of an expression; sizes that no tensor fixes are ``length`` as well."""
    fixed = {symbol for tensor in tensors.values() for extent in tensor.shape for symbol in extent.free_symbols}
    extents = {symbol for extent in getattr(expr, "shape", ()) for symbol in extent.free_symbols}
    inside = {symbol for symbol in expr.free_symbols if symbol.is_integer}
    sizes = sorted((extents | inside) - fixed, key=str)
    function = td.lambdify([*tensors.values(), *sizes], expr, backend="numpy")
    return function(*(values[name] for name in tensors), *(length for _ in sizes))
