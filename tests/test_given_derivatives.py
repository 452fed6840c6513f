"""Derivatives that the sources of the cases give, and what issues of SymPy ask for, literally."""

import numpy as np
import sympy
from cases import build
from cases_functions import GROUPS
from cases_peers import convolution
from every import every
from fuzz.equality import assert_equal
from sympy import And, Eq, KroneckerDelta, Max, Min, Mod, Piecewise, S, diff, exp, floor

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    hessian,
    indices,
    lambdify,
    simplify_deltas,
    vjp,
)
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.reference.duals import CONTEXT, multiply
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import shape_of

i, j, k, l, m, p, q = indices("i j k l m p q")
n, c, y, x, a, b = indices("n c y x a b")


def zero_unless(condition, value):
    return Piecewise((value, condition), (0, True))


def cotangent_of(name):
    return TensorSymbol("df", shape_of(build(name).function))


# ------------------------------------------------------------- by entry, from the papers and tests


def _expected_t10():
    function = build("T10").function
    a_, b_, c_, d_ = build("T10").variables
    df = cotangent_of("T10")
    by_a = IndexedSum(-df[p, j] * function[p, j] * c_[p, p] * 2 * (a_[p, q] + b_[j, q]), (j, 0, 3))
    by_b = IndexedSum(-df[i, p] * function[i, p] * c_[i, i] * 2 * (a_[i, q] + b_[p, q]), (i, 0, 2))
    square = -((a_[q, k] + b_[j, k]) ** 2) * df[q, j] * function[q, j]
    by_c = KroneckerDelta(p, q) * IndexedSum(square, (k, 0, 4), (j, 0, 3))
    cubic = -df[p - k, j] * function[p - k, j] * 3 * d_[p] ** 2
    by_d = IndexedSum(cubic, (j, 0, 3), (k, Max(0, p - 2), Min(4, p)))
    return {a_: by_a, b_: by_b, c_: by_c, d_: by_d}


def _expected():
    df = {name: cotangent_of(name) for name in ("T2", "T3", "T4", "T9", "D1", "D2", "D3", "P6", "P7", "V4", "V5")}
    for name in ("V6", "V7"):
        df[name] = cotangent_of(name)

    def x_of(name):
        return build(name).variables[0]

    rows = IndexedSum(df["T2"][floor(p / 2), q, k], (k, 0, 4))
    yield "T2", x_of("T2"), zero_unless(And(Eq(Mod(p, 2), 0), p < 6), rows)
    yield "T3", x_of("T3"), zero_unless(q <= 6, df["T3"][p])
    yield "T4", x_of("T4"), zero_unless(And(p >= 2, p <= 8), df["T4"][p - 2])
    yield "T9", x_of("T9"), zero_unless(p < 30, 2 * x_of("T9")[p] * df["T9"][floor(p / 10), Mod(p, 10)])
    for variable, expected in _expected_t10().items():
        yield "T10", variable, expected
    yield "D1", x_of("D1"), KroneckerDelta(p, q) * 2 * df["D1"][p]
    yield "D1", build("D1").variables[1], KroneckerDelta(p, 0) * df["D1"][q]
    yield "D2", x_of("D2"), 2 * df["D2"][q]
    columns = df["D3"].shape[1]
    yield "D3", x_of("D3"), KroneckerDelta(p, q) * IndexedSum(2 * df["D3"][p, l], (l, 0, columns - 1))
    yield "P6", x_of("P6"), IndexedSum(df["P6"][p, j] * 2 * x_of("P6")[p], (j, 0, 3))
    read = IndexedSum(df["P7"][i, p - i] * exp(x_of("P7")[p]), (i, Max(0, p - 3), Min(2, p)))
    yield "P7", x_of("P7"), read
    for name in ("V4", "V5", "V6", "V7"):
        yield name, x_of(name), S.Zero


@every("name, wrt, entry", list(_expected()), ids=lambda part: str(part)[:12])
def test_pullbacks_are_those_of_the_sources(name, wrt, entry):
    case, weights = build(name), cotangent_of(name)
    values = random_values((case.function, wrt, weights), case.sizes, 3, low=-1, high=1)
    expected = TensorComprehension(entry, *zip((p, q), wrt.shape, strict=False))
    assert_equal(evaluate(vjp(case.function, wrt, weights), values), evaluate(expected, values), name)


def test_a_convolution_of_stride_1_is_pulled_back_as_tensor_comprehensions_does():
    case = convolution(5, 3, 1, 1)
    image, kernel = case.variables
    dout = TensorSymbol("dO", case.function.shape)
    inside = And(y >= a, y - a <= 2, x >= b, x - b <= 2)
    shifted = zero_unless(inside, dout[n, m, y - a, x - b] * kernel[m, c, a, b])
    by_image = IndexedSum(shifted, (b, 0, 2), (a, 0, 2), (m, 0, 1))
    by_kernel = IndexedSum(dout[n, m, y, x] * image[n, c, y + a, x + b], (x, 0, 2), (y, 0, 2), (n, 0, 0))
    expected = (
        TensorComprehension(by_image, (n, 1), (c, 2), (y, 5), (x, 5)),
        TensorComprehension(by_kernel, (m, 2), (c, 2), (a, 3), (b, 3)),
    )
    values = random_values((case.function, dout), seed=2)
    results = vjp(case.function, case.variables, dout)
    for got, exact in zip(evaluate(results, values), evaluate(expected, values), strict=True):
        assert_equal(got, exact, "convolution")


def test_the_pullback_of_a_matrix_product():
    left, right = TensorSymbol("A", (4, 3)), TensorSymbol("B", (3, 5))
    total = IndexedSum(left[i, k] * right[k, j], (k, 0, 2), (i, 0, 3), (j, 0, 4))
    by_left, by_right = gradient(total, (left, right))
    assert by_left == TensorComprehension(IndexedSum(right[q, j], (j, 0, 4)), *by_left.limits)
    assert by_right == TensorComprehension(IndexedSum(left[i, p], (i, 0, 3)), *by_right.limits)


def test_no_table_of_ones_and_no_copy_of_another_tensor():
    left, right, df = TensorSymbol("A", (4, 3)), TensorSymbol("B", (3, 5)), TensorSymbol("df", (5, 4))
    own = TensorComprehension(IndexedSum(left[i, k] * right[k, j], (k, 0, 2)), (i, 4), (j, 5))
    by_left = gradient(IndexedSum(own[i, j], (i, 0, 3), (j, 0, 4)), left)
    assert by_left == TensorComprehension(IndexedSum(right[q, j], (j, 0, 4)), (p, 4), (q, 3))
    turned = vjp(TensorComprehension(own[j, i], (i, 5), (j, 4)), left, df)
    assert turned == TensorComprehension(IndexedSum(right[q, i] * df[i, p], (i, 0, 4)), (p, 4), (q, 3))
    # A table that the user wrote and that is read once is written out, too.
    ones = TensorComprehension(1, (i, 4), (j, 5))
    assert vjp(own, left, ones) == by_left


def test_the_second_order_of_a_convolution_that_halide_gives():
    # loss_0 = sum (conv - target)**2; loss_1 = sum over the gradient of loss_0 by the input; by conv.
    length = 7
    source, smoothed = TensorSymbol("in_", length), TensorSymbol("conv", length)
    target = TensorSymbol("target", length)
    read = zero_unless(And(i + k >= 1, i + k <= length), source[i + k - 1])
    function = TensorComprehension(IndexedSum(read, (k, 0, 2)), (i, length))
    slope = TensorComprehension(2 * (smoothed[i] - target[i]), (i, length))
    by_source = vjp(function, source, slope)
    second = gradient(IndexedSum(by_source[i], (i, 0, length - 1)), smoothed)
    assert evaluate(second, {}).tolist() == [4, 6, 6, 6, 6, 6, 4]


# ------------------------------------------------------------- scalar functions in closed form


@every("group, row", [(g, n) for g in GROUPS for n in range(len(GROUPS[g]))], turns=8)
def test_functions_have_their_derivatives_in_closed_form(group, row):
    case, scalar = build(f"H9_{group}"), GROUPS[group][row]
    weights = cotangent_of(f"H9_{group}")
    values = {**random_values(weights), **case.values}
    points = list(zip(*scalar.points, strict=True))
    for wrt, slope in zip(case.variables, scalar.partials, strict=False):
        expected = [multiply(w, slope(*map(CONTEXT.mpf, at))) for w, at in zip(values[weights], points, strict=True)]
        assert_equal(evaluate(vjp(case.function, wrt, weights), values)[row], expected, f"{scalar.name} by {wrt}")
        jacobian = differentiate(case.function, wrt, values)
        known = [multiply(values[weights][n], jacobian[n, row, n]) for n in range(len(points))]
        assert_equal(known, expected, f"the oracle's {scalar.name} by {wrt}")


# ------------------------------------------------------------- issues of SymPy


def test_sympy_12751_the_derivative_of_a_sum_by_one_entry_is_one():
    size = sympy.Symbol("N", integer=True, positive=True)
    X = TensorSymbol("X", size + 1)
    total = IndexedSum(X[i], (i, 1, size))
    assert diff(total, X[1]) == 1
    assert diff(total, X[0]) == 0
    assert diff(total, X[p]) == Piecewise((1, p >= 1), (0, True))
    assert diff(IndexedSum(X[i] ** 2, (i, 1, size)), X[1]) == 2 * X[1]
    assert diff(IndexedSum(X[i] ** 2, (i, 1, size)), X[1], X[1]) == 2


def test_sympy_9185_half_a_square_by_an_entry_of_the_same_tensor():
    size = sympy.Symbol("N", integer=True, positive=True)
    h = TensorSymbol("h", size)
    assert diff(h[j] * h[j] / 2, h[i]) == KroneckerDelta(i, j) * h[j]
    half = IndexedSum(h[j] * h[j] / 2, (j, 0, size - 1))
    assert diff(half, h[i]) == h[i]
    # ... where i is bound as well: nothing is captured.
    assert diff(half, h[j]) == h[j]
    assert diff(half, h[i], h[j]) == KroneckerDelta(i, j)
    assert hessian(half, h).body == KroneckerDelta(*hessian(half, h).indices)


def test_sympy_12191_the_derivative_by_a_numbered_entry():
    a_ = TensorSymbol("a", 3)
    assert (2 * a_[0]).diff(a_[0]) == 2
    assert (2 * a_[0]).diff(a_[1]) == 0
    assert (a_[0] ** 2 * a_[1]).diff(a_[0], a_[1]) == 2 * a_[0]
    assert diff(IndexedSum(a_[i] ** 2, (i, 0, 2)), a_[0]) == 2 * a_[0]


def test_sympy_28950_a_delta_contracts_a_product_to_a_vector():
    size = sympy.Symbol("n", integer=True, positive=True)
    A, B = TensorSymbol("A", size), TensorSymbol("B", size)
    total = IndexedSum(KroneckerDelta(i, j) * A[j] * B[j], (j, 0, size - 1))
    vector = simplify_deltas(TensorComprehension(total, (i, size)))
    assert vector == TensorComprehension(A[i] * B[i], (i, size))
    kernel = lambdify((A, B), vector, backend="numpy")
    assert kernel(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])).tolist() == [4, 10, 18]
    df = TensorSymbol("df", size)
    by_a = vjp(TensorComprehension(total, (i, size)), A, df)
    (r,) = by_a.indices
    assert by_a.body == B[r] * df[r]
    assert diff(total, A[p], B[q]).subs({size: 3, i: 1, p: 1, q: 1}) == 1


def test_sympy_13994_a_product_of_all_entries():
    # SymPy's own derivative of it was wrong.
    X = TensorSymbol("X", 4)
    slope = vjp(sympy.Product(X[i], (i, 0, 3)), X, S.One)
    assert evaluate(slope, {X: [2, 0, 3, 5]}).tolist() == [0, 30, 0, 0]
