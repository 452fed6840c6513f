"""SymPy and pickle treat deep or heavily shared expressions in linear time, or a message refuses them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy
from sympy import sin

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.binders import Binder

i, k, n = td.indices("i k n")
x, w, y = (td.TensorSymbol(name, n) for name in "xwy")


def chain(depth, w=w, size=n):
    """``h[i]`` becomes ``sin(h[i]) + h[i]*w[i]``."""
    h = x if size == n else td.TensorSymbol("x", size)
    for _ in range(depth):
        h = td.TensorComprehension(sin(h[i]) + h[i] * w[i], (i, size))
    return h


def shared(depth, w=w):
    """Each layer reads the two before."""
    a, b = x, w
    for _ in range(depth):
        a, b = b, td.TensorComprehension(sin(a[i]) * b[i] + w[i], (i, n))
    return b


FAMILIES = [lambda w=w: chain(400, w), lambda w=w: shared(60, w)]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("family", FAMILIES, ids=["deep", "shared"])
def test_walks_are_linear(family):
    f = family()
    total = td.IndexedSum(f[k], (k, 0, n - 1))
    for expr in (f, total, sin(total) + f[1]):
        assert expr.has(w) and not expr.has(y) and expr.has(sympy.sin) and not expr.has(sympy.cos)
        assert expr.free_symbols == {x, w, n}
        replaced = expr.xreplace({w: y})
        assert replaced.free_symbols == {x, y, n} and replaced == expr.subs(w, y)
        assert replaced.xreplace({y: w}) == expr and expr.subs(y, x) == expr
    assert f.subs(w, y) is family(y) and f.xreplace({w: y}) is family(y)
    assert f.atoms(sympy.Symbol) == {i, n} and total.atoms(td.TensorSymbol) == {x, w}
    assert f.has_free(w, n) and not f.has_free(y, i) and f.has_free(n)
    assert total.simplify() == total and f.canonical().dummy_eq(f)


def test_sizes_and_indices_are_put_in():
    w5 = td.TensorSymbol("w", 5)
    assert chain(300).subs(n, 5) is chain(300, w5, sympy.Integer(5))
    outer = td.TensorComprehension(chain(300)[i] * k, (i, n))
    moved = outer.subs(k, i)  # renamed, not captured
    assert moved.free_symbols == {x, w, n, i} and moved.variables != (i,)


def test_each_node_is_asked_once(monkeypatch):
    asked = []
    replaced = Binder._replaced
    monkeypatch.setattr(Binder, "_replaced", lambda node, rule: asked.append(node) or replaced(node, rule))
    for family, depth in ((chain, 400), (shared, 200)):
        asked.clear()
        family(depth).xreplace({w: y})
        assert depth <= len(asked) <= 2 * depth


@pytest.mark.parametrize("family", FAMILIES, ids=["deep", "shared"])
def test_what_visits_every_path_is_refused(family):
    f = family()
    total = td.IndexedSum(f[k], (k, 0, n - 1))
    for expr in (f, total, sin(total) + f[1]):
        for walk in (
            sympy.count_ops,
            lambda e: e.doit(),
            lambda e: list(sympy.preorder_traversal(e)),
            lambda e: list(sympy.postorder_traversal(e)),
            lambda e: e.replace(sympy.sin, sympy.cos),
            lambda e: e.find(sympy.sin),
        ):
            with pytest.raises(UnsupportedError, match=r"of depth [\d,]+ with .*: that is too much for what visits"):
                walk(expr)
    with pytest.raises(UnsupportedError, match="has_free of a TensorComprehension of depth"):
        f.has_free(sin(n))


def test_pickles_are_flat():
    for family in FAMILIES:
        f = family()
        total = sin(td.IndexedSum(f[k], (k, 0, n - 1))) + f[1]
        assert pickle.loads(pickle.dumps(f)) is f
        assert pickle.loads(pickle.dumps((total, f))) == (total, f)
    assert len(pickle.dumps(chain(600))) < 2.2 * len(pickle.dumps(chain(300)))


def walked(f):
    return f, f._eval_is_zero()


def test_pickles_go_to_other_processes(elsewhere):
    f = td.IndexedSum(chain(300)[k] + shared(30)[k], (k, 0, n - 1))
    assert elsewhere(walked, f)[0] is f


def test_values_that_share_native_nodes():
    """A value of exponential size without a comprehension: sums that are read in many places."""
    sums = [td.IndexedSum(sin((t + 1) * x[k]), (k, 0, n - 1)) for t in range(6)]
    for _ in range(8):
        sums = [sin(s * sums[t - 1] + sums[t - 2]) for t, s in enumerate(sums)]
    assert td.gradient(sympy.Add(*sums), x).shape == (n,)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("size", [3, n])  # reads are checked at construction where sizes are numbers
def test_shared_parts_of_sympys_own_nodes_are_visited_once(size):
    levels = 40  # 2**40 paths: a walk of the tree would never end
    x, y = td.TensorSymbol("x", size), td.TensorSymbol("y", size)
    entry = x[i]
    for _ in range(levels):
        entry = sympy.sin(entry, evaluate=False) * sympy.cos(entry, evaluate=False) + x[i]
    layers = td.TensorComprehension(entry, (i, size))
    evaluate = td.lambdify((x, y), (layers, td.vjp(layers, x, y)), "numpy")
    start, cotangent = np.array([0.3, -1.2, 0.7]), np.array([1.0, 2.0, -0.5])
    value, slope = start, np.ones(3)
    for _ in range(levels):
        value, slope = np.sin(value) * np.cos(value) + start, np.cos(2 * value) * slope + 1
    got, pulled = evaluate(start, cotangent)
    np.testing.assert_allclose(got, value, rtol=1e-12)
    np.testing.assert_allclose(pulled, slope * cotangent, rtol=1e-12)
