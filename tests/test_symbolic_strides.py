"""Strides and extents that are symbols: ``x[M*i + j]``, shapes ``N*M``, quotients by sizes."""

import pickle
import random
from itertools import product

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact
from sympy import Mod, Symbol, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, IndexExpressionError, LoopBoundError, UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, quotient
from sympy_tensordiff.integer.implication import is_empty, is_implied, remove_redundant
from sympy_tensordiff.integer.nests import bounds
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient, product_rows, quotient_by, slope, times
from sympy_tensordiff.integer.rows import normalise
from sympy_tensordiff.reference import evaluate

i, j, k, p, q, r, L, N, M, K = td.indices("i j k p q r L N M K")
x, u, v, w = (td.TensorSymbol(n, s) for n, s in (("x", N * M), ("u", (N, M)), ("v", N), ("w", M)))
x3, t = td.TensorSymbol("x3", L * N * M), td.TensorSymbol("t", (L, N, M))
y, taps = td.TensorSymbol("y", M * (N - 1) + K), td.TensorSymbol("taps", K)
wide, square, block = (
    td.TensorSymbol("wide", N * (M + 2)),
    td.TensorSymbol("square", N**2),
    td.TensorSymbol("g", (K, L)),
)

# name -> function, its tensors (and some that only give a size), the gradient by the first as a person writes it
CASES = {
    "flat": (
        td.TensorComprehension(x[M * i + j] ** 2 * u[i, j], (i, N), (j, M)),
        (x, u),
        "TensorComprehension(2*df[floor(p/M), Mod(p, M)]*u[floor(p/M), Mod(p, M)]*x[p], (p, M*N))",
    ),
    "rows": (
        td.TensorComprehension(td.IndexedSum(x[M * i + j] * w[j], (j, 0, M - 1)), (i, N)),
        (x, w),
        "TensorComprehension(df[floor(p/M)]*w[Mod(p, M)], (p, M*N))",
    ),
    "columns": (
        td.TensorComprehension(td.IndexedSum(x[M * i + j] ** 2 * v[i], (i, 0, N - 1)), (j, M)),
        (x, v, w),
        "TensorComprehension(2*df[Mod(p, M)]*v[floor(p/M)]*x[p], (p, M*N))",
    ),
    "three levels": (
        td.TensorComprehension(sympy.sin(x3[(i * N + j) * M + k]) * t[i, j, k], (i, L), (j, N), (k, M)),
        (x3, t),
        "TensorComprehension(cos(x3[p])*df[floor(p/(M*N)), Mod(floor(p/M), N), Mod(p, M)]"
        "*t[floor(p/(M*N)), Mod(floor(p/M), N), Mod(p, M)], (p, L*M*N))",
    ),
    "scalar": (
        td.IndexedSum(x[M * i + j] ** 3 * u[i, j], (j, 0, M - 1), (i, 0, N - 1)),
        (x, u),
        "TensorComprehension(3*u[floor(p/M), Mod(p, M)]*x[p]**2, (p, M*N))",
    ),
    "convolution of symbolic stride": (
        td.TensorComprehension(td.IndexedSum(y[M * i + k] * taps[k], (k, 0, K - 1)), (i, N)),
        (y, taps, v, w),
        None,
    ),
    "from the end": (
        td.TensorComprehension(x[N * M - 1 - p] ** 2, (p, N * M)),
        (x, v, w),
        "TensorComprehension(2*df[M*N - q - 1]*x[q], (q, M*N))",
    ),
    "transpose of a flat matrix": (
        td.TensorComprehension(x[N * Mod(p, M) + floor(p / M)] ** 2, (p, N * M)),
        (x, v, w),
        None,
    ),
    "offset": (
        td.TensorComprehension(x[M * i + j + 1] ** 2, (i, N - 1), (j, M)),
        (x, v, w),
        None,
    ),
    "rows with margins": (
        td.TensorComprehension(wide[(M + 2) * i + j + 1] ** 2, (i, N), (j, M)),
        (wide, v, w),
        None,
    ),
    "two maps": (td.TensorComprehension(square[N * i + j] * square[N * j + i], (i, N), (j, N)), (square, v), None),
    "Kronecker product": (
        td.TensorComprehension(u[floor(p / K), floor(q / L)] * block[Mod(p, K), Mod(q, L)], (p, N * K), (q, M * L)),
        (u, block),
        "TensorComprehension(IndexedSum(df[K*r + p, L*s + q]*g[p, q], (q, 0, L - 1), (p, 0, K - 1)), (r, N), (s, M))",
    ),
}
SIZES = [{N: 3, M: 2, L: 2, K: 2}, {N: 2, M: 4, L: 3, K: 3}, {N: 2, M: 1, L: 1, K: 1}, {N: 4, M: 3, L: 1, K: 5}]


def derivatives(name):
    f, tensors, _ = CASES[name]
    if not getattr(f, "shape", ()):
        return f, tensors, None, td.gradient(f, tensors)
    df = td.TensorSymbol("df", f.shape)
    return f, tensors, df, td.vjp(f, tensors, df)


def directional(value, arrays, cotangent, generator):
    """Random directions, and by central differences how <cotangent, value> changes along each."""
    for n, array in enumerate(arrays):
        direction = generator.standard_normal(array.shape)
        ends = [value(*arrays[:n], array + h * direction, *arrays[n + 1 :]) for h in (1e-5, -1e-5)]
        yield direction, np.sum(cotangent * (ends[0] - ends[1])) / 2e-5


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients_at_random_sizes(name):
    f, tensors, df, gradients = derivatives(name)
    value = td.lambdify(tensors, f, backend="numpy")
    kernel = td.lambdify((*tensors, *([df] if df else [])), gradients, backend="numpy")
    generator = np.random.default_rng(0)
    for sizes in SIZES:
        arrays = [generator.standard_normal([int(e.subs(sizes)) for e in tensor.shape]) for tensor in tensors]
        result = np.asarray(value(*arrays))
        cotangent = generator.standard_normal(result.shape) if df else 1.0
        got = kernel(*arrays, *([cotangent] if df else []))
        for gradient, (direction, expected) in zip(got, directional(value, arrays, cotangent, generator), strict=True):
            assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-6, abs=1e-7), sizes


@every("name", [*CASES])
def test_values_are_those_of_plain_loops(name):
    f, tensors, _ = CASES[name]
    sizes = SIZES[0]
    generator = np.random.default_rng(1)
    arrays = {tensor: generator.integers(-4, 5, [int(e.subs(sizes)) for e in tensor.shape]) for tensor in tensors}
    expected = evaluate(f, arrays)
    got = td.lambdify(tensors, f, backend="numpy")(*arrays.values())
    assert np.allclose(np.asarray(got), np.asarray(expected, dtype=float))


@every("name", [name for name in CASES if CASES[name][2]])
def test_gradients_read_as_a_person_writes_them(name):
    assert str(derivatives(name)[3][0]) == CASES[name][2]


@pytest.mark.parametrize("name", ["flat", "columns", "three levels", "convolution of symbolic stride"])
def test_jacobians(name):
    f, tensors, _ = CASES[name]
    assert td.check_derivative(f, tensors[0], sizes={L: 2, N: 3, M: 2, K: 2}) < 1e-6


def test_every_backend_prints_the_strides():
    _, tensors, df, gradients = derivatives("convolution of symbolic stride")
    for backend in ("numpy", "numba", "cuda"):
        assert "//M" in td.generate_code((*tensors, df), gradients, backend).replace(" ", "")
    kernel = td.lambdify((*tensors, df), gradients[0], backend="numba")
    arrays = [np.arange(7.0), np.array([1.0, 10.0, 100.0]), np.ones(3), np.ones(2), np.array([1.0, 2.0, 3.0])]
    assert kernel(*arrays).tolist() == [1.0, 10.0, 102.0, 20.0, 203.0, 30.0, 300.0]


def test_sizes_are_read_off_products():
    kernel = td.lambdify((x, w), CASES["rows"][0], backend="numpy")
    assert kernel(np.arange(6.0), np.ones(3)).tolist() == [3.0, 12.0]
    with pytest.raises(ArgumentError, match="argument x has length 7 on axis 0, which is not M\\*N for any integer N"):
        kernel(np.arange(7.0), np.ones(3))
    counted = td.lambdify((x, N, M), CASES["from the end"][0], backend="numpy")
    with pytest.raises(ArgumentError, match=r"M is -3 .*, but an extent is a multiple of it: give a positive one"):
        counted(np.arange(6.0), -2, -3)


def test_refusals():
    with pytest.raises(
        IndexExpressionError, match=r"x\[M\*i\]: M\*i multiplies .* coefficient 1, as in x\[M\*i \+ j\]"
    ):
        x[M * i]
    with pytest.raises(IndexExpressionError, match=r"i\*j \+ k is not linear in its indices"):
        td.gradient(td.IndexedSum(x[i * j + k], (i, 0, 2), (j, 0, 2), (k, 0, 1)), x)
    with pytest.raises(IndexExpressionError, match=r"floor\(p/i\) divides by an index in a range"):
        td.gradient(td.IndexedSum(v[floor(p / i)], (i, 1, 2), (p, 0, N - 1)), v)
    with pytest.raises(UnsupportedError, match="divided by K, which is not known to be positive"):
        td.gradient(td.IndexedSum(v[floor(i / K)], (i, 0, N - 1)), v)
    with pytest.raises(
        UnsupportedError, match="not known to be positive: it must be an extent of a tensor, or made of"
    ):
        td.lambdify((v, K), td.IndexedSum(v[floor(i / K)], (i, 0, N - 1)))
    rows = [
        Constraint("ge", times(Affine.variable("M"), Affine.variable("i")) - 1),
        Constraint("ge", 5 - Affine.variable("i")),
    ]
    with pytest.raises(LoopBoundError, match="the sign of its coefficient is not known, or i occurs in it twice"):
        bounds(rows, ["i"])
    assert bounds(rows, ["i"], [Constraint("ge", Affine.variable("M") - 1)])[0][0].range({"M": 3}) == range(1, 6)
    assert x[N * M - 1] is not None  # sizes of the shape, not indices


def test_conditions_that_no_loops_express_are_shown_in_the_names_of_the_indices():
    scaled = sympy.Piecewise((x[i] * v[j], K * i <= p * j), (0, True))
    with pytest.raises(
        LoopBoundError, match=r"the condition -K\*i \+ j\*p >= 0 gives no bounds of a loop over i: the sign"
    ):
        td.simplify_deltas(td.IndexedSum(scaled, (i, 0, N - 1), (j, 0, N - 1)))
    inner = sympy.Dummy("i", integer=True)
    with pytest.raises(LoopBoundError, match=r"-K\*i_1 \+ i\*p >= 0|-K\*i \+ i_1\*p >= 0"):
        scaled = sympy.Piecewise((x[i] * v[inner], K * i <= p * inner), (0, True))
        td.simplify_deltas(td.IndexedSum(scaled, (i, 0, N - 1), (inner, 0, N - 1)))
    error = LoopBoundError("no bounds over {} express {}", 3, Constraint("ge", Affine({3: 1})))
    again = pickle.loads(pickle.dumps(error.named(str)))
    assert str(error) == str(again) == "no bounds over 3 express 3 >= 0"


def test_a_number_is_divided_by_a_size():
    first = td.IndexedSum(sympy.Piecewise((x[i] * w[0], M * i >= 3), (0, True)), (i, 0, N - 1))
    assert str(td.simplify_deltas(first)) == "w[0]*IndexedSum(x[i], (i, ceiling(3/M), N - 1))"
    last = td.IndexedSum(sympy.Piecewise((x[i] * w[0], M * i <= 3), (0, True)), (i, 0, N - 1))
    assert str(td.simplify_deltas(last)) == "w[0]*IndexedSum(x[i], (i, 0, Min(N - 1, floor(3/M))))"
    below = sympy.Piecewise((v[i] * v[p] * w[0], sympy.And(M * i >= 3, i <= p)), (0, True))
    inner = td.IndexedSum(below, (i, 0, N - 1), (p, -3, N - 1))  # only i >= 0 bounds p from below
    text = "w[0]*IndexedSum(v[i]*v[p], (i, ceiling(3/M), p), (p, 0, N - 1))"
    assert str(td.simplify_deltas(inner)) == text
    for sizes in ({N: 4, M: 1}, {N: 3, M: 2}, {N: 2, M: 5}):
        assert_derivative_exact(first, x, sizes, backends=())
        assert_derivative_exact(last, x, sizes, backends=())
        assert_derivative_exact(inner, v, sizes, backends=())


def test_the_index_of_a_flat_matrix_may_be_split():
    rows = td.TensorComprehension(x[M * i + j], (i, N))
    first = rows.subs(j, 0)
    assert str(first) == "TensorComprehension(x[M*i], (i, N))"
    kernel = td.lambdify((x, v, td.TensorSymbol("c", N)), td.vjp(first, x, td.TensorSymbol("c", N)), backend="numpy")
    assert kernel(np.zeros(6), np.zeros(2), np.array([5.0, 7.0])).tolist() == [5.0, 0.0, 0.0, 7.0, 0.0, 0.0]


# ---------------------------------------------------------------------------- the integer layer


VALUES = {"M": (1, 2, 3, 5), "N": (1, 2, 4), "i": range(-3, 6), "p": range(-7, 12)}


def random_form(generator, depth=2):
    form = Affine({v: generator.randint(-3, 3) for v in "MNip"}, generator.randint(-5, 5))
    if depth and generator.random() < 0.5:
        form = form + generator.choice((-1, 1)) * times(
            Affine.variable(generator.choice("MN")), random_form(generator, depth - 1)
        )
    if depth and generator.random() < 0.4:
        divisor = Affine.variable(generator.choice("MN")) + generator.choice((0, 0, 1))
        form = form + generator.choice((-2, -1, 1)) * quotient_by(random_form(generator, depth - 1), divisor)
    return form


def points(generator, count):
    return [{v: generator.choice(list(values)) for v, values in VALUES.items()} for _ in range(count)]


@every("seed", range(12))
def test_arithmetic_agrees_with_integers(seed):
    generator = random.Random(seed)
    for _ in range(3):
        a, b = random_form(generator), random_form(generator)
        divisor = Affine.variable("M") + generator.choice((0, 2))
        row = Constraint(generator.choice(("ge", "eq")), a)
        reduced = normalise(row)
        replacement = {"i": Affine({"p": 2}, 1), "N": Affine({"M": 1}, 1)}
        for at in points(generator, 12):
            assert times(a, b).evaluate(at) == a.evaluate(at) * b.evaluate(at)
            assert quotient_by(a, divisor).evaluate(at) == a.evaluate(at) // divisor.evaluate(at)
            assert (reduced if isinstance(reduced, bool) else reduced.holds(at)) == row.holds(at)
            moved = {**at, "i": 2 * at["p"] + 1, "N": at["M"] + 1}
            assert a.substitute(replacement).evaluate(at) == a.evaluate(moved)
            parts = slope(a, "i")
            if parts is not None:
                assert parts[0].evaluate(at) * at["i"] + parts[1].evaluate(at) == a.evaluate(at)
        assert pickle.loads(pickle.dumps(a)) == a


@every("seed", range(12), turns=8)
def test_proofs_are_sound(seed):
    generator = random.Random(1000 + seed)
    positive = [Constraint("ge", Affine.variable(v) - 1) for v in "MN"]
    for _ in range(4):
        rows = [*positive, *(Constraint("ge", random_form(generator, 1)) for _ in range(3))]
        claim = Constraint("ge", random_form(generator, 1))
        inside = [at for at in points(generator, 150) if all(row.holds(at) for row in rows)]
        if is_empty(rows):
            assert not inside
        elif is_implied(claim, rows):
            assert all(claim.holds(at) for at in inside)
        needed = remove_redundant(rows, positive)
        assert all(
            all(row.holds(at) for row in needed) == all(row.holds(at) for row in rows) for at in points(generator, 60)
        )
        derived = product_rows([row.form for row in rows])
        assert all(form.evaluate(at) >= 0 for form in derived for at in inside)


def test_what_is_proved_about_flat_indices():
    forms = {v: Affine.variable(v) for v in "MNip"}
    box = [Constraint("ge", form) for form in (forms["M"] - 1, forms["N"] - 1, forms["i"], forms["N"] - 1 - forms["i"])]
    flat = times(forms["M"], forms["i"]) + forms["p"]
    inside = [*box, Constraint("ge", forms["p"]), Constraint("ge", forms["M"] - 1 - forms["p"])]
    assert is_implied(Constraint("ge", flat), inside)
    assert is_implied(Constraint("ge", times(forms["M"], forms["N"]) - 1 - flat), inside)
    assert not is_implied(Constraint("ge", times(forms["M"], forms["N"]) - 2 - flat), inside)
    assert quotient_by(flat, forms["M"]) == forms["i"] + quotient_by(forms["p"], forms["M"])
    row = quotient_by(forms["p"], forms["M"])
    assert is_implied(
        Constraint("ge", forms["N"] - 1 - row), [*box, Constraint("ge", times(forms["M"], forms["N"]) - 1 - forms["p"])]
    )
    assert [type(c) for c in sorted(flat.compounds() | row.compounds())] == [IndexProduct, SymbolicQuotient]
    assert isinstance(next(iter(quotient(forms["p"], 3).compounds())), Quotient)
    assert repr(row) == "floor((p)/(M))" and Symbol("M") != row


# ---------------------------------------------------------------------------- several digits by numbers

z, b, even, digits, image = (
    td.TensorSymbol(n, s) for n, s in (("z", 5), ("b", 5), ("x", 2 * N), ("x", 48), ("y", (4 * N, 3, 5)))
)
SINGLE = {
    "three digits": (
        td.TensorComprehension(digits[(i * 4 + j) * 6 + k] ** 2, (i, 2), (j, 4), (k, 6)),
        digits,
        "TensorComprehension(2*df[floor(p/24), Mod(floor(p/6), 4), Mod(p, 6)]*x[p], (p, 48))",
    ),
    "pixel shuffle": (
        td.TensorComprehension(
            image[4 * i + 2 * Mod(j, 2) + Mod(k, 2), floor(j / 2), floor(k / 2)], (i, N), (j, 6), (k, 10)
        ),
        image,
        "TensorComprehension(df[floor(p/4), 2*q + Mod(floor(p/2), 2), 2*r + Mod(p, 2)], (p, 4*N), (q, 3), (r, 5))",
    ),
    "circulant": (
        td.TensorComprehension(td.IndexedSum(z[Mod(i - j, 5)] * b[j], (j, 0, 4)), (i, 5)),
        z,
        "TensorComprehension(IndexedSum(b[j]*df[Mod(j + p, 5)], (j, 0, 4)), (p, 5))",
    ),
    "rotated": (
        td.TensorComprehension(z[Mod(2 * p + 1, 5)] ** 2, (p, 5)),
        z,
        "TensorComprehension(2*df[Mod(3*q + 2, 5)]*z[q], (q, 5))",
    ),
    "neighbours in pairs": (
        td.IndexedSum(even[p] * even[p + 1 - 2 * Mod(p, 2)], (p, 0, 2 * N - 1)),
        even,
        "TensorComprehension(2*x[q - 2*Mod(q, 2) + 1], (q, 2*N))",
    ),
}


@every("name", [*SINGLE])
def test_sums_over_one_value_are_that_value(name):
    f, variable, text = SINGLE[name]
    shape = getattr(f, "shape", ())
    assert str(td.vjp(f, variable, td.TensorSymbol("df", shape)) if shape else td.gradient(f, variable)) == text
    td.check_derivative(f, variable, sizes={N: 2})


def test_remainders_by_sums_of_sizes_are_written():
    """SymPy 1.14 recurses for ever on ``Mod(p - 2, N + 1)``, where sizes are positive."""
    rows, columns = sympy.symbols("M N", integer=True, positive=True)
    z = td.TensorSymbol("z", (columns + 1) * rows + 2)
    body = z[(columns + 1) * i + j + 2] ** 2 * (j + 1)
    total = td.IndexedSum(body, (j, 0, columns), (i, 0, rows - 1))
    assert "Mod(p - 2, N + 1)" in str(td.gradient(total, z))
    assert_derivative_exact(total, z, {rows: 2, columns: 3})


def test_what_is_divided_by_is_positive_outside_of_the_loop_too():
    """Bounds divide by N**2 - 1, which is 0 for N = 1: there the rows of the loop have no point, and no number."""
    m, n = sympy.symbols("M N", integer=True, positive=True)
    z = td.TensorSymbol("z", n)
    digits = n * Mod(5 - i, n) + floor((5 - i) / n)
    total = td.IndexedSum(z[i] ** 2 * sympy.KroneckerDelta(n - m, digits - 4), (i, 0, n - 1))
    simplified = td.simplify_deltas(total)
    assert "N**2 - 1" in str(simplified)
    for columns in range(1, 7):
        for rows in range(1, 9):
            values = {z: [3**k for k in range(columns)], m: rows}
            assert evaluate(simplified, values) == evaluate(total, values)
            assert_derivative_exact(total, z, {n: columns, m: rows})


def test_a_sum_whose_bounds_divide_by_0_is_no_sum_without_terms():
    """``3 <= j <= M - 1`` says that ``2*M - 2`` is positive: where it is not, no bound is computed either."""
    m, n = sympy.symbols("M N", integer=True, positive=True)
    y, z, g = td.TensorSymbol("y", ()), td.TensorSymbol("z", ()), td.TensorSymbol("g", m)
    delta = sympy.KroneckerDelta(m + n + 2 * j + 6 * i - 6, floor(sympy.Abs(2 * j - 6) / m))
    inner = td.IndexedSum(delta * y, (i, -1, 0))
    total = td.IndexedSum(g[j] * (inner - z) ** 2, (j, 0, m - 1))
    derivatives = {(one, two): td.gradient(td.gradient(total, one), two) for one in (y, z) for two in (y, z)}
    assert "2*M - 2" in str(derivatives[y, z])
    for rows, columns in product(range(1, 6), range(1, 7)):
        values = {g: [3**k for k in range(rows)], n: columns, y: 2, z: 5}
        slopes = [
            {y: sum(rows + columns + 2 * at + 6 * step - 6 == abs(2 * at - 6) // rows for step in (-1, 0)), z: -1}
            for at in range(rows)
        ]
        for (one, two), found in derivatives.items():
            by_hand = sum(2 * weight * slope[one] * slope[two] for weight, slope in zip(values[g], slopes, strict=True))
            assert evaluate(found, values) == by_hand


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("otherwise", [0, 1])
def test_a_choice_by_sizes_keeps_what_it_divides_by_positive(otherwise):
    """For ``M = 1`` the other branch is meant: cases are not joined by it, and calls count no work behind it."""
    m, n = sympy.symbols("M N", integer=True, positive=True)
    x, y = td.TensorSymbol("x", m), td.TensorSymbol("y", n)
    ends = j, floor(n / (m - 1)), floor((n - 1) / (m - 1)) + 1
    total = sympy.Piecewise((sympy.exp(td.IndexedSum(y[j], ends)) + x[0], m >= 2), (otherwise * y[0] ** 2, True))
    function = td.lambdify([x, y], [total, td.gradient(total, y)], "numba")
    for rows, columns in ((1, 2), (3, 4), (4, 3)):
        values = {x: np.arange(1.0, rows + 1), y: np.linspace(0.5, 1, columns)}
        if rows == 1:
            expected = otherwise * 0.25, otherwise * np.eye(columns)[0]
        else:
            chosen = np.zeros(columns)
            chosen[columns // (rows - 1) : (columns - 1) // (rows - 1) + 2] = 1
            power = np.exp(chosen @ values[y])
            expected = power + 1, power * chosen
        for found, value in zip(function(*values.values()), expected, strict=True):
            np.testing.assert_allclose(found, value)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("of_products", [False, True])
def test_sizes_of_the_variable_and_of_the_arguments_are_positive(of_products):
    """A derivative of first order, or an entry of the second, need not hold what it divides by as a size any more."""
    z = td.TensorSymbol("z", K)
    index = Mod(3 * k, N) if of_products else Mod(k, N)
    total = td.IndexedSum(z[k] * v[index] ** 2, (k, 0, K - 1))
    again = sympy.diff(total, v[p], v[q])
    nested = sympy.diff(sympy.diff(sympy.sin(total), v[p]), v[q])
    values = {z: [1, -2, 3, 5, 7, 2, 1], v: [2, 3, 4], p: 1}
    read = [3 * n % 3 if of_products else n % 3 for n in range(7)]
    for second in range(3):
        expected = 2 * sum(weight for weight, place in zip(values[z], read, strict=True) if place == 1 == second)
        assert evaluate(again, values | {q: second}) == expected
    kernel = td.lambdify((v, z, p, q), again, "numpy")
    weight = sum(weight for weight, place in zip(values[z], read, strict=True) if place == 1)
    assert kernel(values[v], values[z], 1, 1) == 2 * weight
    assert sympy.Derivative(total, v[p], v[q]).doit() == again
    slope = [
        2 * values[v][at] * sum(w for w, place in zip(values[z], read, strict=True) if place == at) for at in (1, 2)
    ]
    value = sum(weight * values[v][place] ** 2 for weight, place in zip(values[z], read, strict=True))
    found = td.lambdify((v, z, p, q), nested, "numpy")(values[v], values[z], 1, 2)
    assert found == pytest.approx(-np.sin(value) * slope[0] * slope[1])
    assert td.gradient(td.hessian(total, v)[p, q].doit(), v) == td.TensorComprehension(0, (r, N))
