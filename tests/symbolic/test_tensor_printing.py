"""Up to which depth whole tensors are printed. What is printed is in printed.txt."""

import pytest
from every import every
from sympy import latex, pretty, sin, srepr

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.depth import MAX_PRINTED_DEPTH, measures

n = td.indices("n")
A, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n)
ein = td.einsum

STEPS = {
    "functions": td.sin,
    "sums": lambda e: td.cos(e) + x,
    "products": lambda e: e * x,
    "matrix products": lambda e: A @ e,
    "signs": lambda e: -(td.cos(e) + x),
    "scalars of SymPy's": lambda e: sin(ein("i,i->", e, x)) * x,
    "inverses": lambda e: td.inv(td.diag(e)) @ x,
    "index notation": lambda e: ein("i,jk,k,kj->i", e, A, x, A),
}


def last_printable(step):
    expr = x
    while measures(step(expr)).depth <= MAX_PRINTED_DEPTH:
        expr = step(expr)
    return expr


@every("name", [*STEPS], turns=8)
def test_the_deepest_that_is_printed(name):
    """No printer overflows the stack below the depth at which all refuse."""
    expr = last_printable(STEPS[name])
    for printer in (str, latex, pretty, srepr):
        assert len(printer(expr)) > 70
    taller = STEPS[name](STEPS[name](expr))
    text = str(taller)
    assert "too much to print" in text or text.startswith("t0 = ")
    for printer in (latex, pretty, srepr):
        with pytest.raises(UnsupportedError, match="that is too much to print"):
            printer(taller)


def test_shared_graphs_are_not_written_out():
    expr = x
    for _ in range(40):
        expr = td.sin(expr) * td.cos(expr) + expr
    assert "nodes as a tree, too much to print" in f"{expr}"
    assert "too much to print" in str(2 * td.sum(expr))
    for printer in (latex, pretty, srepr):
        with pytest.raises(UnsupportedError, match="that is too much to print"):
            printer(td.sum(expr) ** 2)
