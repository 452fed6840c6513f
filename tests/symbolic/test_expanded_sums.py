"""Sums under `sympy.expand`: term by term, constants outside, and an empty range still sums to 0."""

import itertools

import sympy
from every import every
from sympy import IndexedBase, Max, Min, Rational, Sum

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import IndexedSum, TensorSymbol

i, j, k, p, m, N = td.indices("i j k p m N")
n = sympy.symbols("n", integer=True, positive=True)
a, b, c, mu = sympy.symbols("a b c mu")
y, w, z, r = TensorSymbol("y", N), TensorSymbol("w", N), TensorSymbol("z", n), TensorSymbol("r", ())

EXPANDED = [
    (IndexedSum(y[i] * (y[i] + 1), (i, 0, 2)), IndexedSum(y[i], (i, 0, 2)) + IndexedSum(y[i] ** 2, (i, 0, 2))),
    (IndexedSum(y[i] - mu, (i, 0, N - 1)), IndexedSum(y[i], (i, 0, N - 1)) - N * mu),
    (IndexedSum(y[i] - mu, (i, 1, N - 1)), IndexedSum(y[i], (i, 1, N - 1)) - Max(0, N - 1) * mu),
    (IndexedSum(z[i] + r, (i, 0, n - 1)), IndexedSum(z[i], (i, 0, n - 1)) + n * r),
    (IndexedSum(c, (i, p, m)), c * Max(0, m - p + 1)),
    (IndexedSum(c, (i, 0, Min(m, N - 1)), (j, 0, 3)), 4 * c * Max(0, 1 + Min(m, N - 1))),
    (IndexedSum(c + 1, (j, 0, i), (i, 0, m), (k, 1, m)), (c + 1) * Max(0, m) * IndexedSum(1, (j, 0, i), (i, 0, m))),
    (IndexedSum(y[i] - y[j], (i, 0, N - 1), (j, 0, N - 1)), 0),
    # What may have no value stays where an empty range keeps it from being asked for.
    (IndexedSum(y[p], (k, 0, m)), IndexedSum(y[p], (k, 0, m))),
    (IndexedSum(y[i], (i, 0, m), (k, m, p)), IndexedSum(y[i], (i, 0, m), (k, m, p))),
    (IndexedSum(c / m, (k, 1, m)), c * IndexedSum(1 / m, (k, 1, m))),
    (IndexedSum(z[p] / m, (k, 1, n)), n * z[p] / m),
]  # fmt: skip


@every("total, expected", EXPANDED)
def test_sums_are_expanded_term_by_term(total, expected):
    result = sympy.expand(total)
    assert sympy.expand(result - sympy.expand(expected)) == 0
    assert sympy.expand(result) == result
    assert sympy.expand(total, basic=False, mul=False, multinomial=False) == total


def test_values_stay_also_where_ranges_are_empty():
    inner = IndexedSum(y[j] + c, (j, i, N))
    body = (y[i] - mu) ** 2 * (inner + y[p] + 1) + IndexedSum(mu + y[k], (k, 0, N - 1))
    for limits in ([(i, 1, m)], [(i, 0, N - 1)], [(i, 0, Min(m, N - 1)), (k, m, N)], [(i, k, m), (k, 0, N - 1)]):
        total = IndexedSum(body, *limits)
        assert sympy.expand(total) != total
        for sizes in itertools.product(range(3), repeat=3):
            # Reads outside of the tensor are 0 here.
            values = {y: [Rational(7, 3), 5, Rational(-1, 2)][: sizes[1]], mu: 11, c: Rational(2, 13)}
            values |= dict(zip((m, N, p), sizes, strict=True))
            assert evaluate(total, values, total=True) == evaluate(sympy.expand(total), values, total=True)


def test_what_may_have_no_value_stays_in_its_range():
    assert sympy.expand(IndexedSum(c / m, (k, 1, m))) == c * IndexedSum(1 / m, (k, 1, m))
    for total in (IndexedSum(y[p] * y[k], (k, 0, m)), IndexedSum(y[k] / m, (k, 1, m)), IndexedSum(y[p], (k, 0, m))):
        assert sympy.expand(total) == total


def test_solve_finds_the_mean():
    x, s = IndexedBase("x"), sympy.Symbol("s", integer=True)
    slope = td.diff(Sum((x[s] - mu) ** 2, (s, 1, n)), mu)
    (mean,) = sympy.solve(sympy.expand(slope), mu)
    assert mean == td.lift(Sum(x[s], (s, 1, n))) / n
    assert slope == 2 * td.lift(Sum(mu - x[s], (s, 1, n)))  # nothing is expanded unasked


def test_solve_finds_weighted_means_and_lines():
    def total(body):
        return IndexedSum(body, (i, 0, N - 1))

    weighted = sympy.expand(td.diff(total(w[i] * (y[i] - mu) ** 2), mu))
    assert sympy.solve(weighted, mu) == [total(w[i] * y[i]) / total(w[i])]
    slopes = td.gradient(total((y[i] - a * w[i] - b) ** 2), (a, b))
    line = sympy.solve([sympy.expand(slope) for slope in slopes], [a, b])
    expected = (N * total(w[i] * y[i]) - total(w[i]) * total(y[i])) / (N * total(w[i] ** 2) - total(w[i]) ** 2)
    assert sympy.simplify(line[a] - expected) == 0


def test_solve_finds_the_deviation():
    # SymPy puts a positive number in the place of each free symbol that may be one (`sympy.posify`).
    s, ones = sympy.Symbol("sigma"), TensorSymbol("v", n)
    loss = IndexedSum((y[i] - mu) ** 2 / (2 * s**2) + sympy.log(s), (i, 0, N - 1))
    negative, deviation = sympy.solve(sympy.expand(td.diff(loss, s)), s)
    total = sympy.expand(IndexedSum((y[i] - mu) ** 2, (i, 0, N - 1)))
    assert sympy.expand(deviation**2 - total / N) == 0 and negative == -deviation
    assert ones.is_positive is False and r.is_positive is None
    assert sympy.posify(td.sum(ones))[0] == td.sum(ones)
