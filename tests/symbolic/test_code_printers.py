"""SymPy's code printers know no ranges and guards: each refuses and points to ours, none prints something else."""

import importlib
import pkgutil

import pytest
import sympy
import sympy.printing
from every import every
from sympy import Matrix, Piecewise
from sympy.printing.printer import Printer

from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.printing.mixins import METHODS

i, j, n, m, p = indices("i j n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", m)
s = TensorSymbol("s", ())
S = IndexedSum(A[i, j] * x[j], (j, 0, m - 1))
T = TensorComprehension(S, (i, n))
NODES = [S, x[i], x, T, T[p], TensorComprehension(S), sympy.exp(S) * S + 2, Piecewise((S, n > 3), (0, True))]
FOR_PEOPLE = {"_sympystr", "_sympyrepr", "_latex", "_pretty"}
PRINTERS = (
    *("ccode", "cxxcode", "fcode", "jscode", "julia_code", "octave_code", "mathematica_code", "rust_code", "pycode"),
    *("glsl_code", "rcode", "maple_code", "mathml", "smtlib_code"),
)


def every_printer():
    """The classes of all printers that SymPy has, apart from those that need another package."""
    for module in pkgutil.iter_modules(sympy.printing.__path__):
        if module.name not in ("tests", "llvmjitcode", "aesaracode", "theanocode"):
            importlib.import_module(f"sympy.printing.{module.name}")
    stack, found = [Printer], set()
    while stack:
        kinds = set(stack.pop().__subclasses__()) - found
        found |= kinds
        stack.extend(kinds)
    return sorted((kind for kind in found if kind.__module__.startswith("sympy.")), key=lambda kind: kind.__qualname__)


def test_the_list_of_printers_is_complete():
    asked = {kind().printmethod for kind in every_printer()} - FOR_PEOPLE - {None}
    assert asked <= set(METHODS) and len(asked) > 15


@every("name", PRINTERS)
def test_code_printers_refuse(name):
    printer = getattr(sympy, name, None) or getattr(sympy.printing, name)
    for node in NODES[:-1]:  # not every language has cases
        # SMT-LIB looks for the type of every symbol first.
        with pytest.raises((KeyError, UnsupportedError)) as raised:
            printer(node)
        assert name == "smtlib_code" or "td.generate_code(arguments, expression, backend)" in str(raised.value)


@every("options", [{}, {"modules": "numpy"}, {"modules": "math"}, {"modules": "sympy"}, {"cse": True}])
def test_lambdify_of_sympy_points_to_ours(options):
    for node in (*NODES, [S, S**2], Matrix([S])):
        with pytest.raises(
            UnsupportedError, match=r"td\.lambdify\(arguments, expression\) in place of sympy\.lambdify"
        ):
            sympy.lambdify([A, x, i, n, m, p], node, **options)


def test_what_works():
    assert sympy.lambdify([s], s**2 + 1)(3) == 10 and sympy.ccode(2 * s) == "2*s"
    assert sympy.lambdify([x[i]], x[i] ** 2 + 1)(3) == 10
    with pytest.raises(ArgumentTypeError, match=r"puts dummies in the place of tensors: use td\.lambdify"):
        sympy.lambdify([A, x, i, m], S, dummify=True)
