"""``rewrite(sympy.Sum)``: the same values in SymPy's own notation, where Karr's convention never shows."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy
from every import every
from fuzz import random_function
from native_values import entries_of, native_value
from sympy import Idx, Indexed, IndexedBase, KroneckerDelta, Max, Min, Piecewise, Rational, Sum, Symbol, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values

i, j, k, n, m, p, q = td.indices("i j k n m p q")
x, y, A = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("A", (n, m))
d, s = td.TensorSymbol("d", 12), td.TensorSymbol("s", ())
I = Idx("i", n)
row = td.TensorComprehension(td.IndexedSum(A[i, j] * d[j], (j, 0, m - 1)) ** 2, (i, n))
SUMS = {
    "whole axis": td.IndexedSum(x[i] * y[i], (i, 0, n - 1)),
    "may be empty": td.IndexedSum(x[i] ** 2, (i, 1, n - 2)),
    "free bounds": td.IndexedSum(d[i], (i, p, q)),
    "always reversed": td.IndexedSum(d[i], (i, 5, 2)),
    "triangle": td.IndexedSum(A[i, j] * d[j], (j, 0, Min(i, m - 1)), (i, 0, n - 1)),
    "shrinking": td.IndexedSum(d[i] * d[j], (j, i + 3, q), (i, p, 4)),
    "max and min": td.IndexedSum(d[p - k + 4] ** 3, (k, Max(0, p - 2), Min(q, p))),
    "rounded": td.IndexedSum(d[2 * k], (k, ceiling((p - 3) / 2), floor(q / 2))),
    "nested": td.IndexedSum(x[i] * td.IndexedSum(d[j] * x[i] ** 2, (j, i, p)) ** 2, (i, 0, n - 1)),
    "one name twice": td.IndexedSum(x[i] * td.IndexedSum(d[i] ** 2, (i, 2, p)), (i, 0, n - 1)),
    "idx": td.IndexedSum(x[I] * p, I),
    "entry": row[n - 1],
    "entries in a sum": td.IndexedSum(row[i] * row[n - 1 - i], (i, 0, p)),
    "condition": td.IndexedSum(Piecewise((d[i - p], i >= p), (-1, True)), (i, 0, q)),
    "delta": td.IndexedSum(KroneckerDelta(2 * i, p) * d[i], (i, 0, 11)),
    "rank 0": s**2 * td.IndexedSum(x[i] * s, (i, 0, p)),
    "rank 0 comprehension": td.TensorComprehension(s + td.IndexedSum(d[i], (i, 1, p))),
}
SUMS |= {
    "product": td.IndexedProduct(x[i] + y[i], (i, 0, n - 1)),
    "product that may be empty": td.IndexedProduct(d[i] * d[j], (j, i + 3, q), (i, p, 4)),
    "product in a product": td.IndexedProduct(x[i] + td.IndexedProduct(d[i] - 1, (i, 2, p)), (i, 0, n - 1)),
    "product of a product": td.IndexedProduct(td.IndexedProduct(d[i] - i - j, (j, 2, p)), (i, 0, n - 1)),
    "product of sums": td.IndexedProduct(td.IndexedSum(d[i + j], (j, 0, p)), (i, 0, n - 1)),
    "sum of products": td.IndexedSum(td.IndexedProduct(d[i + j] + i, (j, 1, p)), (i, 0, n - 1)),
}
padded = Piecewise((x[i + k - 1] * d[k], (i + k >= 1) & (i + k <= n)), (d[k], sympy.Ne(k, i)), (0, True))
SUMS["conditions in a sum inside of a sum"] = td.IndexedSum(td.IndexedSum(padded, (k, 0, 2)) ** 2, (i, 0, n - 1))
SUMS["conditions in a product inside of a sum"] = td.IndexedSum(td.IndexedProduct(padded, (k, 0, 2)), (i, 0, n - 1))
SIZES = {n: (1, 2, 4), m: (1, 3), p: (0, 1, 3), q: (-2, 0, 5)}


def assignments(expr):
    """All chosen sizes with arrays of distinct fractions, for the interpreter and for native values."""
    symbols = [symbol for symbol in SIZES if symbol in expr.free_symbols]
    for chosen in itertools.product(*(SIZES[symbol] for symbol in symbols)):
        sizes = dict(zip(symbols, chosen, strict=True))
        values = random_values(expr, sizes, seed=len(symbols))
        arrays = {t.name: np.asarray(v).tolist() for t, v in values.items() if isinstance(t, td.TensorSymbol)}
        yield sizes, values, arrays


@every("expr", SUMS)
def test_values_for_all_sizes(expr):
    native = expr.rewrite(Sum)
    assert not native.has(td.IndexedSum, td.IndexedProduct, td.TensorEntry, td.TensorComprehension, td.TensorSymbol)
    lifted, compared = td.lift(native), 0
    for sizes, values, arrays in assignments(expr):
        try:
            expected = evaluate(expr, values, sizes)
        except IndexError:  # these sizes do not fit
            continue
        scalar = {Symbol("s", real=True): arrays.get("s", 0)}
        assert native_value(native, entries_of(arrays), {**sizes, **scalar}) == expected
        remaining = {t: v for t, v in values.items() if t in lifted.free_symbols}
        remaining |= {t: v for t, v in scalar.items() if t in lifted.free_symbols}
        assert evaluate(lifted, remaining, {t: v for t, v in sizes.items() if t in lifted.free_symbols}) == expected
        compared += 1
    assert compared


@pytest.mark.parametrize(
    "expr", [SUMS[name] for name in ("may be empty", "free bounds", "max and min", "nested")], ids=str
)
def test_sympy_itself_comes_to_the_same(expr):
    """Native evaluation at numeric sizes, empty ranges included."""
    empty = 0
    for sizes, values, arrays in assignments(expr):
        try:
            expected = evaluate(expr, values, sizes)
        except IndexError:
            continue
        written = expr.rewrite(Sum).xreplace({symbol: sympy.Integer(v) for symbol, v in sizes.items()}).doit()
        entries = {}
        for entry in written.atoms(Indexed):
            number = Fraction(arrays[entry.base.name][int(entry.indices[0])])
            entries[entry] = Rational(number.numerator, number.denominator)
        assert written.xreplace(entries) == Rational(expected.numerator, expected.denominator)
        empty += expected == 0
    assert empty or expr == SUMS["nested"]


@pytest.mark.parametrize(
    "name",
    [
        "whole axis",
        "may be empty",
        "triangle",
        "max and min",
        "nested",
        "delta",
        "product",
        "product of sums",
    ],
)
def test_forms_survive_the_round_trip(name):
    assert td.lift(SUMS[name].rewrite(Sum)) == SUMS[name]


def test_only_ranges_that_may_be_empty_have_guards():
    assert SUMS["whole axis"].rewrite(Sum).limits == ((i, 0, n - 1),)
    assert td.IndexedSum(d[j], (j, 0, i), (i, 0, 4)).rewrite(Sum).limits == ((j, 0, i), (i, 0, 4))
    assert SUMS["may be empty"].rewrite(Sum).limits == ((i, 1, Max(0, n - 2)),)
    assert td.lift(SUMS["rounded"].rewrite(Sum)).limits == ((k, floor(p / 2) - 1, floor(q / 2)),)
    assert SUMS["always reversed"].rewrite(Sum).limits == ((i, 5, 4),)
    natural = Symbol("N", integer=True, nonnegative=True)
    assert td.IndexedSum(1, (i, 0, natural - 1)).rewrite(Sum).limits == ((i, 0, natural - 1),)
    # The same summand, proven for one range only.
    inner = td.IndexedSum(d[j], (j, 0, i))
    both = td.IndexedSum(inner**2, (i, 0, 3)) + td.IndexedSum(inner**2, (i, -3, 3))
    guards = {total.limits[0][2] for total in both.rewrite(Sum).atoms(Sum) if total.variables == [j]}
    assert guards == {i, Max(-1, i)}


def test_tensors_become_indexed_bases():
    assert A.rewrite(Sum) == IndexedBase("A", shape=(n, m), real=True)
    assert A[p, q].rewrite(Sum) == IndexedBase("A", shape=(n, m), real=True)[p, q]
    assert td.lift(A.rewrite(Sum)) == A
    assert s.rewrite(Sum) == Symbol("s", real=True)
    assert sympy.Abs(x[p].rewrite(Sum)).diff(x[p].rewrite(Sum)) == sympy.sign(x[p].rewrite(Sum))
    expr = sympy.sin(SUMS["whole axis"]) + x[p]
    assert not expr.rewrite(Sum).has(td.IndexedSum, td.TensorEntry) and td.lift(expr.rewrite(Sum)) == expr


@pytest.mark.parametrize(("cls", "name"), [(td.IndexedMax, "Max"), (td.IndexedMin, "Min")])
def test_maxima_over_ranges_have_no_native_form(cls, name):
    with pytest.raises(UnsupportedError, match=f"Indexed{name} has no form in SymPy's .* write sympy.{name} of the en"):
        td.IndexedSum(cls(A[i, j], (j, 0, m - 1)), (i, 0, n - 1)).rewrite(Sum)


def test_rewriting_as_a_product_is_that_into_the_same_notation():
    assert SUMS["product"].rewrite(sympy.Product) == SUMS["product"].rewrite(Sum)
    assert isinstance(SUMS["product"].rewrite(sympy.Product), sympy.Product)


def test_what_has_no_native_form():
    with pytest.raises(UnsupportedError, match=r"a whole comprehension has no form .* rewrite an entry of it, T\[i\]"):
        row.rewrite(Sum)
    with pytest.raises(UnsupportedError, match="nested too deeply"):
        deep = td.TensorComprehension(d[i], (i, 12))
        for _ in range(400):
            deep = td.TensorComprehension(sympy.sin(deep[i]), (i, 12))
        deep[0].rewrite(Sum)


def test_conditions_that_sympy_would_carry_out_of_a_sum():
    native = SUMS["conditions in a sum inside of a sum"].rewrite(Sum)
    assert native.free_symbols.isdisjoint({i, k}) and not native.has(Piecewise)
    # A condition on values is not a range.
    on_values = td.IndexedSum(Piecewise((d[i + k], d[i + k] > 0), (0, True)), (k, 0, 2))
    assert on_values.rewrite(Sum).has(Piecewise)
    with pytest.raises(UnsupportedError, match="condition on values with k, an index of a sum inside of a sum"):
        td.IndexedSum(on_values**2, (i, 0, 3)).rewrite(Sum)
    no_default = td.IndexedSum(Piecewise((d[i + k], i + k > 0), (0, i > 7)), (k, 0, 2))
    with pytest.raises(UnsupportedError, match=r"without a default .* add \(0, True\)"):
        td.IndexedSum(no_default**2, (i, 0, 3)).rewrite(Sum)


@pytest.mark.parametrize("seed", range(5))
def test_random_functions(seed):
    function = random_function(seed, "tables", depth=4).function
    values = random_values(function, {}, seed)
    arrays = {t.name: np.asarray(v).tolist() for t, v in values.items() if isinstance(t, td.TensorSymbol)}
    scalars = {t: v for t, v in values.items() if not isinstance(t, td.TensorSymbol)}
    scalars |= {Symbol(t.name, real=True): v.item() for t, v in values.items() if not getattr(t, "shape", (1,))}
    axes = td.indices("u v w")[: function.rank]
    native = function[axes].rewrite(Sum)
    lifted = td.TensorComprehension(td.lift(native), *zip(axes, function.shape, strict=True))
    expected, again = evaluate(function, values), evaluate(lifted, {**values, **scalars})
    for place in np.ndindex(expected.shape):
        env = {**scalars, **dict(zip(axes, place, strict=True))}
        assert native_value(native, entries_of(arrays), env) == expected[place] == again[place]
