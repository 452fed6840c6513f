"""The paper's own functions: its example of section 6, f1 to f5, and the lattices of figures 3 and 4."""

import pytest
import sympy
from derivative_forms import (
    conditions,
    congruences,
    entries_read,
    guards,
    same_form,
    sums_with,
)
from sympy import Eq, KroneckerDelta, Max, Min, Mod, exp, sin

from sympy_tensordiff import IndexedSum, TensorComprehension, TensorSymbol, indices, vjp

i, j, k, p, q = indices("i j k p q")
I, J, K, N, M = indices("I J K N M")


class Section6:
    """``f[i, j] = exp(-Sum_k((a[i, k] + b[j, k])**2*c[i, i] + d[i + k]**3))`` and its derivatives."""

    def __init__(self, rows, columns, terms):
        self.sizes = rows, columns, terms
        self.a, self.b = TensorSymbol("a", (rows, terms)), TensorSymbol("b", (columns, terms))
        self.c, self.d = TensorSymbol("c", (rows, rows)), TensorSymbol("d", rows + terms - 1)
        self.df = TensorSymbol("df", (rows, columns))
        self.exponent = IndexedSum(
            (self.a[i, k] + self.b[j, k]) ** 2 * self.c[i, i] + self.d[i + k] ** 3, (k, 0, terms - 1)
        )
        self.f = TensorComprehension(exp(-self.exponent), (i, rows), (j, columns))
        self.da, self.db, self.dc, self.dd = vjp(self.f, (self.a, self.b, self.c, self.d), self.df)

    def at(self, row, column):
        """The function written out at one entry, with the whole of its sum."""
        return self.f[row, column].doit()


NUMERIC = Section6(3, 4, 5)
SYMBOLIC = Section6(I, J, K)
both = pytest.mark.parametrize("example", [NUMERIC, SYMBOLIC], ids=["numeric", "symbolic"])


@both
def test_the_four_derivatives_read_as_a_person_writes_them(example):
    rows, columns, terms = example.sizes
    a, b, c, d, df, f = example.a, example.b, example.c, example.d, example.df, example.at
    da = -2 * c[p, p] * IndexedSum((a[p, q] + b[j, q]) * f(p, j) * df[p, j], (j, 0, columns - 1))
    db = -2 * IndexedSum((a[i, q] + b[p, q]) * f(i, p) * c[i, i] * df[i, p], (i, 0, rows - 1))
    dc = IndexedSum((a[p, k] + b[j, k]) ** 2 * f(p, j) * df[p, j], (k, 0, terms - 1), (j, 0, columns - 1))
    run = (k, Max(0, p - rows + 1), Min(terms - 1, p))
    dd = -3 * d[p] ** 2 * IndexedSum(f(p - k, j) * df[p - k, j], (j, 0, columns - 1), run)
    assert same_form(example.da, TensorComprehension(da, (p, rows), (q, terms)))
    assert same_form(example.db, TensorComprehension(db, (p, columns), (q, terms)))
    assert same_form(example.dc, TensorComprehension(-KroneckerDelta(p, q) * dc, (p, rows), (q, rows)))
    assert same_form(example.dd, TensorComprehension(dd, (p, rows + terms - 1)))


def texts():
    derivatives = [d for example in (NUMERIC, SYMBOLIC) for d in (example.da, example.db, example.dc, example.dd)]
    derivatives += [vjp(function, x, TensorSymbol("df", function.shape)) for function, x in FUNCTIONS.values()]
    return list(map(str, derivatives))


def test_the_text_does_not_depend_on_the_hash_seed(elsewhere):
    here = texts()
    assert elsewhere(texts) == here
    assert sum(text.count("TensorComprehension") for text in here) > 8


# ------------------------------------------------------- the introductory examples of the paper

x, y = TensorSymbol("x", N), TensorSymbol("y", (N, M))
X, Y = TensorSymbol("x", (N, K)), TensorSymbol("y", (K, M))
square, flat, long = TensorSymbol("x", (N, N)), TensorSymbol("x", 12), TensorSymbol("x", N + M - 1)
f1 = TensorComprehension(sin(x[i]), (i, N))
f2 = TensorComprehension(x[i] * y[i, j], (i, N), (j, M))
f3 = TensorComprehension(square[i, i] ** 3, (i, N))
f4 = TensorComprehension(IndexedSum(X[i, k] * Y[k, j], (k, 0, K - 1)), (i, N), (j, M))
f5 = TensorComprehension(exp(flat[4 * i + j]), (i, 3), (j, 4))
f6 = TensorComprehension(x[i] ** 2, (i, N), (j, M))
f7 = TensorComprehension(exp(long[i + j]), (i, N), (j, M))
FUNCTIONS = {
    "f1": (f1, x),
    "f2 by x": (f2, x),
    "f2 by y": (f2, y),
    "f3": (f3, square),
    "f4 by x": (f4, X),
    "f4 by y": (f4, Y),
    "f5": (f5, flat),
    "f6": (f6, x),
    "f7": (f7, long),
}


def df_of(function):
    return TensorSymbol("df", function.shape)


# ------------------------------------------------------- the lattices of figures 3 and 4


def brute_force(function, variable):
    """The index tuples of a function that reads one entry, by that entry."""
    (read,) = {entry for entry in function.body.atoms(type(variable[0])) if entry.tensor == variable}
    found = {entry: [] for entry in range(int(variable.shape[0]))}
    for point in sympy.utilities.iterables.cartes(*(range(extent) for extent in function.shape)):
        found[int(read.indices[0].subs(dict(zip(function.indices, point, strict=True))))].append(point)
    return found


def lattice(coefficients, offset, extents, length):
    variable = TensorSymbol("x", length)
    axes = (i, j, k)[: len(extents)]
    read = sum((c * axis for c, axis in zip(coefficients, axes, strict=True)), sympy.Integer(offset))
    return TensorComprehension(variable[read], *zip(axes, extents, strict=True)), variable


FIGURE_3 = lattice((1, -2), 4, (6, 3), 10)
FIGURE_4 = lattice((1, -2, -2), 20, (5, 5, 7), 25)


@pytest.mark.parametrize(("function", "variable"), [FIGURE_3, FIGURE_4], ids=["figure 3", "figure 4"])
def test_the_sums_run_over_the_points_of_the_lattice(function, variable):
    result = vjp(function, variable, df_of(function))
    for entry, expected in brute_force(function, variable).items():
        found = entries_read(result, df_of(function), (entry,))
        assert sorted(found) == expected, entry
    assert not guards(result)


def test_figure_3_has_three_points_on_its_line():
    # The paper counts from 1: A = (1 -2), beta = -1, and alpha = (beta + 2 z, z) for 1 <= z <= 3.
    function, variable = FIGURE_3
    result = vjp(function, variable, df_of(function))
    points = [(a + 1, b + 1) for a, b in entries_read(result, df_of(function), (4,))]
    assert all(a - 2 * b == -1 for a, b in points)
    assert points == [(-1 + 2 * z, z) for z in (1, 2, 3)]
    (total,) = sums_with(result, df_of(function))
    assert len(total.limits) == 1


def test_a_congruence_where_the_read_jumps_over_entries():
    variable = TensorSymbol("x", 9)
    function = TensorComprehension(variable[2 * i - 4 * j + 4], (i, 3), (j, 2))
    result = vjp(function, variable, df_of(function))
    (axis,) = result.indices
    assert congruences(result) == {Eq(Mod(axis, 2), 0)} == conditions(result)
    for entry, expected in brute_force(function, variable).items():
        if entry % 2 == 0:
            assert sorted(entries_read(result, df_of(function), (entry,))) == expected
