"""The canonical form: what differs in names of bound indices only becomes one expression."""

import random

import pytest
import sympy
from every import every
from sympy import Abs, Dummy, Idx, KroneckerDelta, Piecewise, Symbol, Tuple

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices

i, j, k, n, m, p = indices("i j k n m p")
q, awkward, worse = indices("_0 _1 __0")
A = TensorSymbol("A", (n, n))
x = TensorSymbol("x", n)
y = TensorSymbol("y", n)
I = Idx("i", n)


def total(body, index, high=n - 1):
    return IndexedSum(body, (index, 0, high))


ROW = total(A[i, j] * x[j], j)
EXPRESSIONS = {
    "sum": ROW,
    "side by side": total(x[j], j) * total(y[j] ** 2, j) + total(x[k], k, p),
    "nested": total(ROW**2 + x[i] * ROW + y[i], i),
    "shadowed": total(x[j] * total(x[j] ** 2, j) + x[j], j),
    "three deep": total(x[i] * total(A[i, j] * total(A[j, k] * A[k, i] * x[p], k, j), j, i), i),
    "dependent": IndexedSum(A[i, j] * j, (j, 0, i), (i, 0, p)),
    "normal forms": total(total(Abs(x[i] - x[j]) * sympy.sin(x[j] - x[i]) * KroneckerDelta(i, j), i), j),
    "guards": total(Piecewise((x[i - 1], (i > 0) & (i <= p)), (y[i], sympy.Eq(i, 0)), (0, True)), i),
    "idx": IndexedSum(A[I, j] * total(A[j, I] * A[I, k], k), I),
    "comprehension": TensorComprehension(ROW * x[k], (i, n), (k, n)),
    "entry": TensorComprehension(total(A[i, j] * x[j], j), (i, n))[p] * total(x[j], j),
    "rank 0": total(TensorComprehension(ROW) * x[i], i) + TensorComprehension(total(x[i], i)),
    "entry in a sum": total(TensorComprehension(A[i, k], (i, n))[k] * x[k], k),
    "free names that look canonical": total(A[i, q] * total(A[q, j] * A[i, awkward], j), i),
    "native": sympy.exp(-ROW) * ROW + 2 * total(x[j], j),
}
VALUES = {A: [[1, 2, 3], [4, 5, -6], [7, 8, 9]], x: [2, 3, 5], y: [7, -11, 13]}
NUMBERS = {i: 1, j: 2, k: 0, p: 2, q: 1, awkward: 2, I: 1}


def renamed(expr, pick):
    """The expression with every bound index renamed to one that ``pick`` takes from the names not free there."""
    if isinstance(expr, (Symbol, Idx)) or not expr.args:
        return expr
    args = [renamed(arg, pick) for arg in expr.args]
    if isinstance(expr, (IndexedSum, TensorComprehension)):
        for position, (old, *_) in enumerate(args[1:], start=1):
            used = {s.name for s in set().union(*(arg.free_symbols for arg in args)) if hasattr(s, "name")}
            used |= {symbol.name for arg in args for symbol in arg.atoms(Symbol)}
            new = pick([name for name in ("i", "j", "k", "q", "_0", "_1", "_2", "__0", "__1", "z") if name not in used])
            args = [arg.xreplace({old: Symbol(new, integer=True)}) for arg in args]
            assert args[position][0].name == new
    return expr.func(*args)


@every("expr", EXPRESSIONS.values(), ids=EXPRESSIONS, turns=4)
def test_names_do_not_matter(expr):
    form = td.canonical(expr)
    assert td.canonical(form) == form and form.free_symbols == expr.free_symbols
    rng = random.Random(1)
    twins = [renamed(expr, rng.choice) for _ in range(2)] + [renamed(renamed(expr, min), max)]
    assert any(twin != expr for twin in twins)
    for twin in twins:
        assert td.canonical(twin) == form and hash(td.canonical(twin)) == hash(form)
        assert str(td.canonical(twin)) == str(form)
        assert twin.dummy_eq(expr) and expr.dummy_eq(twin)
    values = VALUES | {symbol: NUMBERS[symbol] for symbol in expr.free_symbols if symbol in NUMBERS}
    original, same = (evaluate(e, values, {n: 3}) for e in (expr, form))
    assert (original == same).all() if hasattr(original, "shape") else abs(original - same) < 1e-20


@every(
    "left, right",
    [
        (ROW, total(A[j, k] * x[k], k)),
        (ROW, total(A[k, i] * x[k], k)),
        (total(x[i] * total(y[j], j), i), total(x[i] * total(y[i], j), i)),
        (IndexedSum(A[i, j], (i, 0, 2), (j, 0, p)), IndexedSum(A[i, j], (j, 0, 2), (i, 0, p))),
        (TensorComprehension(A[i, j], (i, n), (j, n)), TensorComprehension(A[i, j], (j, n), (i, n))),
        (total(x[i], i), total(x[i], i, n - 2)),
        (x[i], x[j]),
    ],
)
def test_different_expressions_stay_different(left, right):
    assert left.canonical() != right.canonical() and not left.dummy_eq(right)


def test_terms_that_differ_in_names_are_one():
    assert td.canonical(total(x[i], i) + total(x[j], j)) == 2 * total(x[k], k).canonical()
    assert td.canonical(total(x[i], i) - total(x[j], j)) == 0
    # What vanishes takes no names.
    assert td.canonical(total(x[k] + total(x[i], i) - total(x[j], j), k)) == total(x[i], i).canonical()


def test_labels_of_einsum_products_do_not_matter():
    first = td.einsum("ab,b,c->ca", A, TensorComprehension(x[j], (j, n)), y)
    second = td.einsum("kj,j,i->ik", A, TensorComprehension(x[p], (p, n)), y)
    assert first != second
    assert td.canonical(first) == td.canonical(second)
    assert td.canonical(first).subscripts == "ij,j,k->ki"
    assert td.canonical(td.einsum("ab,b,c->ac", A, x, y)) != td.canonical(first)


def test_how_it_looks():
    assert (
        str(total(ROW * y[i], i).canonical())
        == "IndexedSum(y[_1]*IndexedSum(A[_1, _0]*x[_0], (_0, 0, n - 1)), (_1, 0, n - 1))"
    )
    assert str(total(A[i, q], i).canonical()) == "IndexedSum(A[__0, _0], (__0, 0, n - 1))"
    dummy = Dummy("i", integer=True)
    assert total(x[dummy], dummy).canonical() == total(x[i], i).canonical() == IndexedSum(x[I], I).canonical()
    for leaf in (x, x[i], TensorSymbol("s", ())):
        assert leaf.canonical() is leaf and leaf.dummy_eq(leaf)


def test_as_dummy_and_dummy_eq_as_sympy_has_them():
    assert ROW.as_dummy() == ROW.canonical() == total(A[i, k] * x[k], k).as_dummy()
    assert sympy.sin(ROW).dummy_eq(sympy.sin(total(A[i, k] * x[k], k)))
    d = Dummy("d", integer=True)
    assert total(A[d, j] * x[j], j).dummy_eq(total(A[i, k] * x[k], k), i)
    assert not ROW.dummy_eq(0) and ROW.dummy_eq(ROW)
    assert Tuple(ROW, i).dummy_eq(Tuple(total(A[i, k] * x[k], k), i))


@pytest.mark.in_turns(4)
def test_deep_chains_do_not_recurse():
    def chain(names):
        tensor = x
        for level in range(1100):
            index = names[level % len(names)]
            tensor = TensorComprehension(TensorEntry._trusted(tensor, (index,)) + 1, (index, n))
        return tensor

    assert chain([i, j, k]).canonical() == chain([k, k, j, p]).canonical()
