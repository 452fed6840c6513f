"""The functions of the project's table in blocks on Dask, on uneven chunks."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from cases import names, small

import sympy_tensordiff as td
from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError

pytest.importorskip("dask")

from test_distributed import assert_single


def run_of_table(name: str) -> bool:
    """A function of the project's table in blocks of half of each size, or of each axis; False where it is refused."""
    case = small(name)
    others = case.function.atoms(td.TensorSymbol) - {*case.variables}
    variables = [*case.variables, *sorted(others, key=str)]
    tensors = [one for one in variables if isinstance(one, td.TensorSymbol)]
    symbols = {s for one in tensors for extent in one.shape for s in sympy.sympify(extent).free_symbols}
    blocks = {size: max(1, value // 2) for size, value in case.sizes.items() if size in symbols}
    if not blocks and isinstance(case.function, td.TensorComprehension):
        blocks = {index: max(1, int(extent) // 2) for index, extent in case.function.args[1:]}
    free = [size for size in case.sizes if size not in symbols]
    args = [*variables, *free]
    try:
        function = td.lambdify(args, case.function, "dask-numpy", blocks=blocks)
    except (UnsupportedError, IndexExpressionError):
        return False
    rng = np.random.default_rng(0)
    arrays = []
    for one in variables:
        shape = tuple(int(sympy.sympify(n).subs(case.sizes)) for n in getattr(one, "shape", ()))
        drawn = rng.uniform(case.low, case.high, shape)
        arrays.append(np.array(case.values[one], float) if one in case.values else drawn)
    assert_single(function, args, case.function, [*arrays, *(case.sizes[size] for size in free)])
    return True


BY_USERS = ("X11", "V34", "L8", "H8")
"""Their functions need an implementation by the user."""


def test_functions_of_the_table() -> None:
    assert sum(map(run_of_table, names()[::6])) >= 50


@pytest.mark.thorough
def test_all_functions_of_the_table() -> None:
    assert sum(run_of_table(name) for name in names() if name not in BY_USERS) >= 340
