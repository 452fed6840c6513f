"""SymPy's own notation into ours: values against plain loops with Karr's sums, names, refusals."""

import itertools

import pytest
import sympy
from every import every
from native_values import entries_of, native_value
from sympy import (
    Dummy,
    Idx,
    IndexedBase,
    Integral,
    KroneckerDelta,
    Max,
    Min,
    Piecewise,
    Product,
    Rational,
    Sum,
    Symbol,
    floor,
    oo,
)

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexExpressionError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.reference import evaluate

i, j, k, n, m, p, q = td.indices("i j k n m p q")
I, J, K, t = sympy.symbols("i j k t")
x, y = IndexedBase("x"), IndexedBase("y")
A = IndexedBase("A", shape=(n, m))
n_x = Symbol("n_x", integer=True, positive=True)
X = td.TensorSymbol("x", n_x)
TA = td.TensorSymbol("A", (n, m))


def filled(extents, seed=1):
    """An array of distinct fractions."""
    numbers = (Rational(3 * number * number + seed * number + 1, 7) for number in itertools.count())

    def fill(rest):
        return [fill(rest[1:]) for _ in range(rest[0])] if rest else next(numbers)

    return fill(list(extents))


ARRAYS = {"x": filled([9]), "y": filled([9], 2), "A": filled([5, 6]), "c": filled([5, 5, 5], 3)}
VALUED = [
    Sum(x[I] * y[I], (I, 0, n - 1)),
    Sum(A[I, J] * x[J], (J, 0, I), (I, 0, n - 1)),
    Sum(A[I, J] * Sum(x[K] ** 2, (K, J, m)) / 3, (J, 0, I), (I, 0, p)),
    Sum(x[2 * I + 1] - t, (I, 0, n - 2)) ** 2 / (1 + Sum(y[I] ** 2, (I, 0, 2))),
    Sum(x[I], (I, 5, 2)) + Sum(x[I], (I, 2, 1)) + Sum(y[I], (I, p, p - 2)),
    Sum(x[I] * Sum(y[I] + p, (I, 0, p)), (I, 6, 2)),
    Sum(Sum(x[I], (I, 0, I)), (I, 0, p)),
    Sum(Sum(x[I] + y[J], (J, 5, 1)), (I, 4, 0)),
    Sum(x[i] * Sum(A[i, I] * y[i], (I, 0, p)), (i, 0, n - 1)),
    Sum(KroneckerDelta(2 * I, p) * x[I], (I, 0, n)),
    Sum(KroneckerDelta(I, p, (1, n)) * x[p], (I, 0, 4)) + KroneckerDelta(p, q, (1, 2)),
    Sum(Piecewise((x[I - 1] * p, I > 0), (-1, True)), (I, 0, n)),
    Sum(Max(x[I], y[I]) * floor(x[I]), (I, Max(0, p - 1), Min(n, 4))),
    Sum(x[I], (I, 0, Max(n - 1, -1))) + Sum(y[I], (I, p, Max(n, p - 1))),
    Sum(IndexedBase("c")[I, J, I], (I, 0, 2), (J, I, 4)).subs(I, 1),
    Sum(x[Idx("k", n)] * y[Idx("k", n)], Idx("k", n)),
    Sum(A[Idx("k", (1, n - 1)), Idx("l", m)], Idx("k", (1, n - 1)), Idx("l", m)),
    Product(1 + x[I], (I, 0, n - 1)) / Product(y[I], (I, 5, 2)),
    Product(x[I] + A[I, J], (J, 0, I), (I, 0, n - 1)),
    Product(A[I, 2] * Product(x[K] + A[J, 1], (K, J, 6), (J, 4, 2)), (I, 3, 0)),
    Sum(x[I] * Product(y[J] - I, (J, I, p)), (I, 0, p)) ** 2,
    Product(Sum(x[I] * A[J, I], (I, 0, J)) + p, (J, 0, n - 1)),
    Product(Product(x[I] + 1, (I, 0, I)), (I, 0, p)),
    Product(Piecewise((x[I - 1] * p, I > 0), (-1, True)), (I, 0, n)),
    Product(x[Idx("k", n)] - 3, Idx("k", n)),
    Sum(td.TensorSymbol("z", 4)[i] * x[i] + td.IndexedSum(x[j], (j, 0, i)), (i, 0, 3)),
    # Conditions with an index that no sum in a branch binds.
    Sum(Sum(Piecewise((x[J], x[I] <= x[J]), (1, True)), (J, 0, 3)), (I, 0, 3)),
    Sum(x[I] * Sum(Piecewise((x[J], x[I] > 4), (y[J], True)), (J, 0, I)), (I, 0, 3)),
    Sum(x[I] * Sum(Piecewise((x[J], n > 1), (y[J], True)), (J, 0, n)), (I, 0, n)),
    Piecewise((Sum(x[J], (J, 0, 3)), Sum(y[J], (J, 0, 2)) > 1), (0, True)),
    Sum(Piecewise((x[J], x[J] > 4), (0, True)) * y[J], (J, 0, 3)) * Sum(x[J], (J, 0, 1)),
]
SIZES = {n: (1, 3, 5), m: (1, 6), p: (0, 1, 3), q: (1, 3)}


@every("expr", VALUED, ids=str)
def test_values(expr):
    """Wherever no range of symbolic length is reversed, both sides mean the same."""
    lifted = td.lift(expr)
    assert not lifted.atoms(Sum, Product, sympy.Indexed, IndexedBase)
    symbols = [s for s in SIZES if s in expr.free_symbols | lifted.free_symbols]
    compared = 0
    for chosen in itertools.product(*(SIZES[s] for s in symbols)):
        env = dict(zip(symbols, chosen, strict=True)) | {t: Rational(5, 3)}
        arrays = dict(ARRAYS, A=filled([env.get(n, 5), env.get(m, 6)]), z=[2, 3, 5, 7])
        values = {tensor: arrays[tensor.name] for tensor in lifted.atoms(td.TensorSymbol)}
        extents = {s: v for s, v in env.items() if s != t and s in lifted.free_symbols}
        try:
            expected = native_value(native_parts(expr), entries_of(arrays), env)
        except IndexError:  # the sizes do not fit the expression
            continue
        values |= {t: env[t]} if t in lifted.free_symbols else {}
        assert evaluate(lifted, values, extents) == expected
        compared += 1
    assert compared


def native_parts(expr):
    """The same in SymPy's notation alone, for the oracle."""
    z = td.TensorSymbol("z", 4)
    return expr.xreplace({z[i]: IndexedBase("z")[i], td.IndexedSum(x[j], (j, 0, i)): Sum(x[j], (j, 0, i))})


def test_classes_of_ours_stay():
    ours = td.TensorComprehension(td.IndexedSum(TA[i, j], (j, 0, m - 1)), (i, n))
    assert td.lift(ours) is ours
    assert td.lift((ours, Sum(x[I], (I, 0, 1)))) == (ours, td.IndexedSum(X[i], (i, 0, 1)))
    assert td.lift([ours[p] + 1]) == [ours[p] + 1]
    mixed = td.TensorComprehension(Sum(x[J] * A[i, J], (J, 0, i)), (i, n))
    assert td.lift(mixed) == td.TensorComprehension(td.IndexedSum(X[j] * TA[i, j], (j, 0, i)), (i, n))


def test_native_bodies_of_ours():
    total = td.IndexedSum(A[i, p] * Sum(x[j], (j, 0, i)), (i, 0, n - 1))
    assert not any(s.has(i) for s in total.free_symbols)
    assert td.lift(total) == td.IndexedSum(TA[i, p] * td.IndexedSum(X[j], (j, 0, i)), (i, 0, n - 1))
    # The index of the sum inside is not the j that the entry puts in.
    shifted = td.TensorComprehension(Sum(x[i + j], (j, 0, 2)), (i, n))[j].rewrite(Sum)
    assert td.canonical(td.lift(shifted)) == td.canonical(td.IndexedSum(X[j + k], (k, 0, 2)))
    with pytest.raises(ShapeError, match="two different tensors are called x"):
        td.lift(td.IndexedSum(td.TensorSymbol("x", 3)[i] * x[i], (i, 0, 2)))


def test_lifting_is_local():
    a, b = Sum(x[I], (I, 0, n)), Sum(A[I, p] * x[I] ** 2, (I, 0, n))
    assert td.lift(a) + td.lift(b) == td.lift(a + b)
    assert td.lift(sympy.sin(a) * b) == sympy.sin(td.lift(a)) * td.lift(b)
    assert td.lift(td.lift(a)) == td.lift(a)
    dummy = Dummy("d")
    assert td.lift(Sum(x[dummy], (dummy, 0, 3))) == td.lift(Sum(x[dummy], (dummy, 0, 3)))


HALF = Symbol("h", integer=False)
REFUSED = {
    "infinite product": (Product(x[i], (i, 0, oo)), ArgumentError, "IndexedProduct: the upper bound of i is oo"),
    "integral": (
        Integral(x[i] * t, (t, 0, 1)),
        UnsupportedError,
        "Integral is not supported.*only Sum and Product are",
    ),
    "infinite": (Sum(x[i], (i, 0, oo)), ArgumentError, "the upper bound of i is oo; a finite range is needed"),
    "free index": (
        x[HALF + 1],
        IndexExpressionError,
        r"x\[h \+ 1\]: h is declared not to be an integer: use td.indices",
    ),
    "free delta": (
        KroneckerDelta(Symbol("h", complex=True), j) * t,
        IndexExpressionError,
        "h is declared not to be an integer",
    ),
    "delta range": (KroneckerDelta(i, j, (0, HALF)), IndexExpressionError, "h is declared not to be an integer"),
    "bound": (
        Sum(x[i], (i, 0, HALF - 1)),
        IndexExpressionError,
        "upper bound of i: h is declared not to be an integer",
    ),
    "size": (
        IndexedBase("x", shape=(HALF,))[i],
        ShapeError,
        "extent h: h is declared not to be an integer: use",
    ),
    "whole": (x + 1, ShapeError, r"x as a whole has no known rank: give it a shape, IndexedBase\('x', shape=\(n,\)\)"),
    "offset": (IndexedBase("x", offset=2)[i], UnsupportedError, "the offset 2 and the strides None.*leave them out"),
    "strides": (IndexedBase("x", strides=(1,))[i], UnsupportedError, r"the strides \(1,\)"),
    "ranks": (x[i] * x[i, j], ShapeError, r"two different.*x\[i\] of shape \(n_x,\) and x\[i, j\] of shape \(n_x_0"),
    "shapes": (A[i, j] + IndexedBase("A")[i, j], ShapeError, r"shape \(n, m\).*shape \(n_A_0, n_A_1\)|n_A_0.*\(n, m\)"),
    "ours": (td.TensorSymbol("x", 3)[i] + x[i], ShapeError, r"two different tensors are called x"),
    "imaginary": (IndexedBase("x", imaginary=True)[i], UnsupportedError, "declared not to be real"),
    "data": (Sum(x[IndexedBase("c")[i]], (i, 0, 3)), IndexExpressionError, "no entry of one of integers"),
    "noninteger": (
        Sum(x[Symbol("u", integer=False)], (Symbol("u", integer=False), 0, 3)),
        IndexExpressionError,
        "u is",
    ),
    "sign": (Sum(t, (Symbol("u", positive=True), 0, 3)), ArgumentError, "declared positive.*td.indices"),
    "a text": ("x", ArgumentTypeError, "must be a SymPy expression"),
}


@every("expr, kind, message", REFUSED.values(), ids=REFUSED)
def test_refusals(expr, kind, message):
    with pytest.raises(TensorDiffError, match=message) as caught:
        td.lift(expr)
    assert isinstance(caught.value, kind)


def test_deep_chains_of_ours_are_walked_without_recursion():
    T = td.TensorComprehension(Sum(x[i + J], (J, 0, 1)), (i, 3))
    for _ in range(80):
        T = td.TensorComprehension(T[i] ** 2, (i, 3))
    lifted = td.lift(T)
    assert not lifted.body.has(Sum) and lifted.shape == (3,)


def test_simplify_eliminates_deltas():
    total = td.IndexedSum(KroneckerDelta(i, p) * TA[i, 0] * (sympy.sin(t) ** 2 + sympy.cos(t) ** 2), (i, 0, n - 1))
    guard = (p >= 0) & (p <= n - 1)
    assert sympy.simplify(total) == Piecewise((TA[p, 0], guard), (0, True))
    table = td.TensorComprehension(
        td.IndexedSum(KroneckerDelta(2 * i, j) * TA[i, k], (i, 0, n - 1)), (j, 2 * n), (k, m)
    )
    simple = sympy.simplify(table)
    assert simple.shape == table.shape and not simple.has(td.IndexedSum, KroneckerDelta)
    assert simple.body == Piecewise((TA[floor(j / 2), k], sympy.Eq(sympy.Mod(j, 2), 0)), (0, True))
    assert sympy.simplify(table[p, q]) == simple[p, q]
    # What cannot be read, and deltas between free indices, stay.
    unknown = td.IndexedSum(KroneckerDelta(i, p) * Integral(X[i] ** t, (t, 0, 1)), (i, 0, 3))
    assert sympy.simplify(unknown).has(KroneckerDelta, td.IndexedSum)
    unit = td.TensorComprehension(KroneckerDelta(i, j) * X[i], (i, n_x), (j, n_x))
    assert sympy.simplify(unit) == unit


MOVED = {
    "values": (Piecewise((x[J], x[I] <= x[J]), (0, True)), r"the condition x\[i\] <= x\[j\] contains j"),
    "indices": (Piecewise((x[J], I <= J), (0, True)), "the condition i <= j contains j"),
    "own entries": (Piecewise((X[j], X[i] <= X[j]), (0, True)), r"the condition x\[i\] <= x\[j\] contains j"),
    "two conditions": (Piecewise((x[J], (J > 1) & (x[I] > 0)), (0, True)), "the condition j > 1 contains j"),
    "later branch": (Piecewise((0, x[I] > x[J]), (x[J], True)), r"the condition x\[i\] > x\[j\] contains j"),
    "Idx": (Piecewise((x[Idx("b", 4)], x[Idx("a", 4)] <= x[Idx("b", 4)]), (0, True)), "contains b, the index of"),
}
OUTSIDE = {
    "product with a sum": lambda value, a, b: Sum(x[a] * Sum(value, (b, 0, 3)), (a, 0, 3)),
    "function of a sum": lambda value, a, b: Sum(x[a] * sympy.log(Sum(value, (b, 0, 3))), (a, 0, 3)),
    "product": lambda value, a, b: Sum(x[a] * Product(value, (b, 0, 3)), (a, 0, 3)),
    "in a product": lambda value, a, b: Product(x[a] + Sum(value, (b, 0, 3)), (a, 0, 3)),
    "two sums outside": lambda value, a, b: Sum(K * Sum(x[a] * Sum(value, (b, 0, 3)), (a, 0, 3)) ** 2, (K, 0, 3)),
    "under the own index": lambda value, a, b: Sum(x[b] * Sum(x[a] * Sum(value, (b, 0, 3)), (a, 0, 3)), (b, 0, 3)),
    "in a sum of ours": lambda value, a, b: td.IndexedSum(Sum(x[a] / Sum(value, (b, 0, 3)), (a, 0, 3)), (q, 0, 3)),
    "in a matrix": lambda value, a, b: sympy.Matrix([[1, Sum(x[a] * Sum(value, (b, 0, 3)), (a, 0, 3))]]),
}


@every("value, message", MOVED.values(), ids=MOVED)
def test_conditions_that_sympy_has_moved_out_of_a_sum(value, message):
    for label, written in OUTSIDE.items():
        a, b = (Idx("a", 4), Idx("b", 4)) if "b," in message else (i, j) if value.has(X) else (I, J)
        moved = written(value, a, b)
        name = "Product" if label == "product" else "Sum"
        advice = rf"SymPy moves .* write td\.Indexed{name}\(Piecewise\(…\), \({b}, 0, 3\)\) for the inner one"
        for call in (td.lift, lambda e: td.gradient(e, X)) if label != "in a matrix" else (td.lift,):
            with pytest.raises(UnsupportedError, match=f"{message}.*{advice}"):
                call(moved)


def test_moved_conditions_in_a_body_or_an_operand():
    """A node of this package is not lifted but read, and an operand is checked before that."""
    value = Piecewise((X[j], X[i] <= X[j]), (0, True))
    moved = Sum(X[i] * sympy.log(Sum(value, (j, 0, 3))), (i, 0, 3))
    body = td.IndexedSum(moved.function, (i, 0, 3))
    both = Sum(X[i] * Sum(value * X[k], (k, 0, 1), (j, 0, 3)), (i, 0, 3))
    for call in (
        lambda: td.gradient(body, X),
        lambda: td.lambdify([X], body),
        lambda: td.evaluate(body, {X: [1.0, 2.0, 3.0, 4.0]}),
        lambda: td.sum(moved * X),
    ):
        with pytest.raises(UnsupportedError, match=r"x\[i\] <= x\[j\] contains j, the index of Sum\(x\[j\], \(j, 0, 3"):
            call()
    with pytest.raises(UnsupportedError, match=r"td\.IndexedSum\(Piecewise\(…\), \(k, 0, 1\), \(j, 0, 3\)\) for"):
        td.lift(both)


def test_sums_of_ours_keep_their_conditions():
    """SymPy does not move them, so that the index of the sum may be free in a condition outside."""
    values = [Rational(v) for v in (3, 1, 2, 5)]
    four = td.TensorSymbol("x", 4)
    total = td.IndexedSum(four[j], (j, 0, 3))
    chosen = td.TensorComprehension(Piecewise((total, four[j] > 2), (0, True)), (j, 4))
    assert list(evaluate(td.lift(chosen), {four: values})) == [11, 0, 0, 11]
    at_least = td.IndexedSum(Piecewise((four[j], four[i] <= four[j]), (0, True)), (j, 0, 3))
    loss = Sum(four[i] * at_least, (i, 0, 3))
    assert evaluate(td.lift(loss), {four: values}) == sum(a * sum(b for b in values if a <= b) for a in values)
