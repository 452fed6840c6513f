"""The pushforward: examples that can be read, deep graphs, its laws in composition, bad input."""

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from sympy_tensordiff.graph.nodes import reachable

i, j, k, p, n = td.indices("i j k p n")
x, dx, ex = (td.TensorSymbol(name, 6) for name in ("x", "dx", "ex"))
w, dw = td.TensorSymbol("w", (2, 3)), td.TensorSymbol("dw", (2, 3))
y, dy, dz = td.TensorSymbol("y", n), td.TensorSymbol("dy", n), td.TensorSymbol("dz", n)
z = td.TensorSymbol("z", ())
r, dr = sympy.symbols("r dr", real=True)
f = td.TensorComprehension(td.IndexedSum(x[2 * i + k] * w[i, k] ** 2, (k, 0, 2)), (i, 2))
s = td.IndexedSum(sympy.sin(f[i]) * x[i] + r * x[5 - i] ** 3, (i, 0, 1))


def test_a_kernel_of_value_and_tangent():
    pair = td.lambdify(
        (y, dy),
        (td.TensorComprehension(y[i] ** 2, (i, n)), td.jvp(td.TensorComprehension(y[i] ** 2, (i, n)), y, dy)),
        "numpy",
    )
    value, tangent = pair(np.arange(3.0), np.array([1.0, 2.0, 3.0]))
    assert value.tolist() == [0, 1, 4] and tangent.tolist() == [0, 4, 12]


def count(depth):
    """The nodes of the tangent of a chain of comprehensions that read their predecessor twice."""
    table = x
    for _ in range(depth):
        table = td.TensorComprehension(table[i] * table[5 - i] + x[i], (i, 6))
    work = Differentiation(table, dx)
    return len(reachable(work.pushforward([work.leaf(x)], work.inputs)))


@pytest.mark.in_turns(8)
def test_deep_chains_are_linear():
    """Neither is there a recursion over the graph, nor is a table written out at each of its reads."""
    first, second, third = (count(depth) for depth in (50, 100, 1000))
    assert third - second == 18 * (second - first)


BAD = {
    "shape": (lambda: td.jvp(f, x, dw), ShapeError, r"the tangent has shape \(2, 3\), but \(6,\) is needed: .* of x"),
    "cotangent for a tangent": (lambda: td.jvp(f, x, f), ShapeError, r"the tangent has shape \(2,\), but \(6,\)"),
    "scalar for a tensor": (lambda: td.jvp(f, x, 1), ShapeError, r"the tangent has shape \(\), but \(6,\)"),
    "tensor for a scalar": (lambda: td.jvp(s, r, dx), ShapeError, r"shape \(6,\), but \(\) is needed: the shape of r"),
    "another size": (lambda: td.jvp(y[0], y, dx), ShapeError, r"shape \(6,\), but \(n,\)"),
    "second of two": (lambda: td.jvp(f, (x, w), (dx, dx)), ShapeError, r"shape \(6,\), but \(2, 3\) .* of w"),
    "too few": (lambda: td.jvp(f, (x, w), (dx,)), ArgumentError, r"2 variables \(x, w\) need as many tangents, not 1"),
    "too many": (lambda: td.jvp(f, [x], [dx, dw]), ArgumentError, r"1 variables \(x,\) need as many tangents, not 2"),
    "one for two": (lambda: td.jvp(f, (x, w), dx), ArgumentTypeError, r"must both be tuples, .* not \(x, w\) and dx"),
    "tuple for one": (
        lambda: td.jvp(f, x, (dx,)),
        ArgumentTypeError,
        r"must both be tuples, or none of them, not x and",
    ),
    "text": (lambda: td.jvp(f, x, "dx"), ArgumentTypeError, "the tangent must be a SymPy expression .* not 'dx'"),
    "nothing": (lambda: td.jvp(f, x, None), ArgumentTypeError, "the tangent must be .* not None"),
    "text as an expression": (lambda: td.jvp("f", x, dx), ArgumentTypeError, "the expression must be .* not 'f'"),
    "by an index": (lambda: td.jvp(f, i, 1), ArgumentTypeError, "cannot differentiate with respect to i"),
    "by an entry": (lambda: td.jvp(f, x[i], dx[i]), ArgumentTypeError, r"cannot differentiate with respect to x\[i\]"),
    "by a comprehension": (
        lambda: td.jvp(f, f, f),
        UnsupportedError,
        "cannot differentiate with respect to .* it is an expression",
    ),
    "complex": (lambda: td.jvp(r, r, sympy.I), UnsupportedError, "the constant I is not a finite"),
}


@every("call, kind, message", list(BAD.values()), ids=list(BAD))
def test_bad_input(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert caught.type is kind
