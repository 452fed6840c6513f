"""The array libraries that `arrays` prints for, as tables: names, imports, helpers.

All of them follow NumPy where they can; a dialect lists the differences. Functions of a pure dialect never write into
an array, so that the library can trace, differentiate, batch and compile them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sympy_tensordiff.codegen.emit.array_helpers import HELPERS, JAX_HELPERS, MATRIX_HELPERS, TORCH_HELPERS
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES
from sympy_tensordiff.codegen.ir.scalars import ELEMENTARY, Reduction


@dataclass(frozen=True)
class Dialect:
    """An array library (NumPy, CuPy, JAX, PyTorch) and how generated code for it differs from NumPy.

    ``module`` is the name under which texts use it. ``is_pure``: results are returned, no array is changed.
    ``is_fused``: a compiler fuses a reduction with the computation of its terms, so that no blocks are needed.
    ``own`` are functions that have other names, or are helpers, by the names of `ELEMENTARY`, ``max`` and ``min``.
    ``other_helpers`` replace those of all libraries.
    """

    backend: str
    title: str
    module: str
    imports: tuple[str, ...]
    is_pure: bool = True
    is_fused: bool = False
    is_differentiated: bool = False
    """Whether the library differentiates programs, so that masked entries must have finite derivatives."""
    positive_part: str = ""
    """The function ``max(x, 0)`` whose derivative at 0 is 0, as this package has it, and not one half."""
    own: Mapping[str, str] = field(default_factory=dict)
    other_helpers: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[Reduction, str] = field(default_factory=dict)
    """The methods of reductions whose names differ from NumPy's."""
    transpose: str = "transpose"
    reverse: str = "[::-1]"
    """The text behind a vector that reverses it."""
    extrema: str = "np.{}imum"
    """The function of the greater or lesser one of two integers, one of which is an array."""
    negation: str = "np.logical_not"
    condition: str = "{}"
    """The condition of ``where`` that is true if a Python bool is."""
    correlation: str = "np."
    """The text in front of ``correlate`` and ``convolve``."""
    arange: str = "np.arange"
    sums_rows_by_products: bool = True
    """Whether ``einsum`` computes sums such as ``Sum_k a[i, k]*b[i, k]`` at least as fast as ``(a*b).sum(1)``."""
    block: int = 1 << 16
    """The number of entries computed at once if a sum is cut into blocks: the constant ``BLOCK`` of modules.

    For NumPy, half of it takes up to 1.15 of the time of the benchmarks, twice as many entries take 0.95 to 0.99. For
    PyTorch, twice as many take 0.94 of the time of functions of practice, and eight times as many 1.1.
    """
    selection: str = ""
    """The helper that reads entries at an index that data contain. PyTorch's compiler would have to know such an
    index in square brackets, and on a GPU it would wait for it."""
    reduces_several: bool = True
    """Whether a method reduces several axes at once, for all reductions."""
    barrier: str = ""
    """The function whose argument the library's compiler computes once only, so that equal values stay equal."""
    computed_first: str = ""
    """The function whose argument the library's compiler computes before it reduces it, not in the same loop."""
    optimize: str = ""
    """The option of ``einsum`` that makes it a matrix product."""
    integers: str = "np.asarray({}, int)"
    """The conversion of an array of integers."""
    preamble: Mapping[str, str] = field(default_factory=dict)
    """The objects that ``compute`` makes for the other functions of a module, which have them as parameters."""

    def text(self, text: str) -> str:
        """Return `text` with NumPy's module name replaced by the library's.

        >>> DIALECTS["jax"].text("np.exp(x)")
        'jnp.exp(x)'
        """
        return text if self.module == "np" else re.sub(r"(?<![\w.])np\.", f"{self.module}.", text)

    @cached_property
    def functions(self) -> dict[str, str]:
        """The library's functions for scalar operations, by the names of the operations."""
        plain = {name: f"np.{name}" for name in ELEMENTARY} | {"max": "np.maximum", "min": "np.minimum"}
        return {name: self.own.get(name, text) for name, text in plain.items()}

    @cached_property
    def helpers(self) -> dict[str, str]:
        """The texts of helper functions, by name. A module contains those that it uses, each before the functions that
        call it.
        """
        if not self.is_pure:
            return NUMPY_HELPERS | LIBRARY_HELPERS
        own = dict(self.other_helpers)
        texts = own | HELPERS | MATRIX_HELPERS | own  # helpers that all libraries lack come before their callers
        return {name: self.text(text) for name, text in texts.items()}

    @property
    def own_names(self) -> frozenset[str]:
        """The names that modules of this dialect define or import; programs must not use them."""
        if not self.is_pure:
            return frozenset({"real", "BLOCK", *NUMPY_HELPERS, *LIBRARY_NAMES})
        modules = re.findall(r"\w+", " ".join(self.imports))
        return frozenset({"real", "arange", "BLOCK", "dtype", "device", "itertools", *modules, *self.helpers})


_CALLED = {name: name for name in ("heaviside", "logistic_density", "sigmoid", "softplus", "spherical_bessel")}
"""The functions that are helpers of the same name."""

_SPECIAL = {"erf": "special.erf", "erfc": "special.erfc", "gamma": "special.gamma", "lgamma": "special.gammaln"}

DIALECTS = {
    dialect.backend: dialect
    for dialect in (
        Dialect(
            "numpy", "NumPy", "np", ("import numpy as np",), is_pure=False, optimize=", optimize=True",
            own={name: name for name in NUMPY_HELPERS},
        ),
        Dialect(
            "cupy", "CuPy", "cp", ("import cupy as cp", "from cupyx.scipy import special"), optimize=", optimize=True",
            own=_SPECIAL | _CALLED,
            integers="cp.asarray({}, int)", preamble={"real": "functools.partial(cp.asarray, dtype=dtype)"},
        ),
        Dialect(
            "jax", "JAX", "jnp", ("import jax", "import jax.numpy as jnp", "from jax.scipy import linalg, special"),
            is_fused=True, is_differentiated=True, positive_part="jax.nn.relu",
            barrier="computed_once({})", computed_first="computed_first({})", other_helpers=JAX_HELPERS,
            own=_SPECIAL | _CALLED | {"cosh": "cosh", "sigmoid": "jax.nn.sigmoid", "softplus": "jax.nn.softplus"},
            integers="jnp.asarray({}, int)", preamble={"real": "functools.partial(jnp.asarray, dtype=dtype)"},
        ),
        Dialect(
            "torch", "PyTorch", "torch", ("import torch",), is_differentiated=True, other_helpers=TORCH_HELPERS,
            positive_part="torch.relu",
            own=_CALLED | {
                "gamma": "gamma", "cbrt": "cbrt", "sigmoid": "torch.sigmoid",
            },
            methods={"max": "amax", "min": "amin"}, transpose="permute", reverse=".flip(0)", extrema="{}imum",
            negation="logical_not", condition="real({}) != 0", arange="arange", correlation="",
            sums_rows_by_products=False, reduces_several=False, block=1 << 17, selection="selected",
            integers="torch.as_tensor({}, device=device).to(torch.int64)",
            preamble={
                "real": "functools.partial(torch.as_tensor, dtype=dtype, device=device)",
                "arange": "functools.partial(torch.arange, device=device)",
            },
        ),
    )
}  # fmt: skip
"""The dialects by the names of their backends."""

PURE = tuple(name for name, dialect in DIALECTS.items() if dialect.is_pure)
"""The backends whose functions return arrays of their library."""
