"""Values that are needed at several shifts are computed once, periodic ones too."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Mod, Rational, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import loads, scalars
from sympy_tensordiff.codegen.lower import shifts
from sympy_tensordiff.codegen.program import build_program

n, m = sympy.symbols("n m", integer=True, positive=True)
i, j, k = td.indices("i j k")
v, w, e = (td.TensorSymbol(name, n) for name in "vwe")
u, z = td.TensorSymbol("u", (n, m)), td.TensorSymbol("z", (n, n, n))
nu = sympy.Symbol("nu", positive=True)
residual = v[i - 1] - 2 * v[i] + v[i + 1] - w[i]
laplacian = sum(z[i + a, j, k] + z[i, j + a, k] + z[i, j, k + a] for a in (-1, 1)) - 6 * z[i, j, k]
flux = sqrt(
    (u[i + 1, j] - u[i, j]) ** 2 + (u[i, j + 1] - u[i, j]) ** 2 + (u[i + 1, j + 1] - u[i, j]) ** 2 / 2 + Rational(1, 10)
)


def at(x, s):
    return x[Mod(i + s, n)]


burgers = w[i] - v[i] + (at(v, 1) ** 2 - at(v, -1) ** 2) / 4 - nu * (at(v, 1) - 2 * v[i] + at(v, -1))
biharmonic = at(v, 2) - 4 * at(v, 1) + 6 * v[i] - 4 * at(v, -1) + at(v, -2) - w[i]
torus = (
    u[Mod(i + 1, n), j] + u[Mod(i - 1, n), j] + u[i, Mod(j + 1, m)] + u[i, Mod(j - 1, m)] - 4 * u[i, j] + u[i, j] ** 3
)


def roll(x, s, axis=0):
    return np.roll(x, -s, axis)


def value_of_burgers(v, w, nu):
    r = w - v + (roll(v, 1) ** 2 - roll(v, -1) ** 2) / 4 - nu * (roll(v, 1) - 2 * v + roll(v, -1))
    return (r**2).sum()


def value_of_laplacian(z):
    inner = slice(1, -1)
    r = -6 * z[inner, inner, inner]
    for a in (slice(2, None), slice(None, -2)):
        r = r + z[a, inner, inner] + z[inner, a, inner] + z[inner, inner, a]
    return (r**2).sum()


def value_of_flux(u):
    a, b, c = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1], u[1:, 1:] - u[:-1, :-1]
    return np.sqrt(a**2 + b**2 + c**2 / 2 + 0.1).sum()


def value_of_torus(u):
    r = roll(u, 1) + roll(u, -1) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u + u**3
    return np.sqrt(1 + r**2).sum()


def value_of_biharmonic(v, w):
    r = roll(v, 2) - 4 * roll(v, 1) + 6 * v - 4 * roll(v, -1) + roll(v, -2) - w
    return np.log(1 + r**2).sum()


CASES = {
    # arguments, value, by which variable, the value in NumPy, shapes, reads of arguments for one entry
    "second differences": (
        [v, w], td.IndexedSum(residual**2, (i, 1, n - 2)), v,
        lambda v, w: ((v[:-2] - 2 * v[1:-1] + v[2:] - w[1:-1]) ** 2).sum(), [{n: 3}, {n: 4}, {n: 8}], 4,
    ),
    "laplacian": ([z], td.IndexedSum(laplacian**2, (i, 1, n - 2), (j, 1, n - 2), (k, 1, n - 2)), z,
                  value_of_laplacian, [{n: 3}, {n: 4}, {n: 6}], 7),
    "diffusion": ([u], td.IndexedSum(flux, (i, 0, n - 2), (j, 0, m - 2)), u,
                 value_of_flux, [{n: 2, m: 3}, {n: 5, m: 4}], None),
    "burgers": ([v, w, nu], td.IndexedSum(burgers**2, (i, 0, n - 1)), v,
               value_of_burgers, [{n: 1}, {n: 2}, {n: 3}, {n: 9}], None),
    "torus": ([u], td.IndexedSum(sqrt(1 + torus**2), (i, 0, n - 1), (j, 0, m - 1)), u,
             value_of_torus, [{n: 1, m: 2}, {n: 3, m: 2}, {n: 5, m: 7}], None),
    "biharmonic": ([v, w], td.IndexedSum(sympy.log(1 + biharmonic**2), (i, 0, n - 1)), v,
                  value_of_biharmonic, [{n: 1}, {n: 4}, {n: 70}], None),
}  # fmt: skip


ALSO_OF_BOTH = {"torus"}
"""The value uses a part of what its derivative uses at several shifts: both are stored."""


def stored(args, expressions):
    """The temporaries of a program, and the entries of arguments that each kernel reads for one entry."""
    program = build_program(args, expressions)
    given = {str(arg) for arg in args}
    reads = [len({p for p in scalars(s.body) if isinstance(p, Load) and p.array in given}) for s in program.nests]
    return [array.name for array in program.temporaries], reads


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", CASES)
def test_a_value_at_several_shifts_has_one_array(name):
    args, value, by, _, _, reads = CASES[name]
    names, found = stored(args, (value, td.gradient(value, by)))
    assert len(names) == (2 if name in ALSO_OF_BOTH else 1)
    if reads is not None:  # nothing but the kernel of the residual reads the arguments
        assert sorted(found) == [0, 0, reads]


def test_products_with_a_stored_value_are_not_stored():
    """They take one operation, whatever the stored value takes."""
    halves = ((at(x, 1) ** 2 - at(x, -1) ** 2) / 8 - nu * (at(x, 1) - 2 * x[i] + at(x, -1)) / 2 for x in (v, w))
    value = td.IndexedSum((w[i] / nu - v[i] / nu + sum(halves)) ** 2, (i, 0, n - 1))
    assert len(stored([v, w, nu], (value, *td.gradient(value, (v, w))))[0]) == 1


def test_one_square_root_for_each_entry_of_a_grid():
    args, value, by, *_ = CASES["diffusion"]
    source = td.lambdify(args, td.gradient(value, by), "numba").source
    assert source.count("sqrt(") == 1


@pytest.mark.in_turns(8)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, backend):
    args, value, by, oracle, sizes, _ = CASES[name]
    fn = td.lambdify(args, (value, td.gradient(value, by)), backend)
    place = args.index(by)
    rng = np.random.default_rng(0)
    for size in sizes:
        values = [
            rng.normal(size=[int(sympy.sympify(s).subs(size)) for s in getattr(arg, "shape", ())]) for arg in args
        ]
        got, slope = fn(*values)
        np.testing.assert_allclose(got, oracle(*values), rtol=1e-12, atol=1e-12)
        direction = rng.normal(size=values[place].shape)
        steps = [[*values[:place], values[place] + s * 1e-5 * direction, *values[place + 1 :]] for s in (1, -1)]
        numeric = (oracle(*steps[0]) - oracle(*steps[1])) / 2e-5
        np.testing.assert_allclose((slope * direction).sum(), numeric, rtol=2e-6, atol=1e-6)


def test_differences_are_computed_again():
    """Two reads and a subtraction take no longer than a table of them."""
    value = td.IndexedSum((v[i + 1] - v[i]) ** 4, (i, 0, n - 2))
    assert not stored([v], td.gradient(value, v))[0]


def test_functions_that_may_be_undefined_are_stored():
    """A root or a quotient outside of its domain is not a number in the array as it was in the loops."""
    part = sqrt(v[i]) / w[i] + w[i] * v[i]
    value = td.IndexedSum((part - 2 * part.subs(i, i + 1) + part.subs(i, i + 2)) ** 4, (i, 0, n - 3))
    source = td.lambdify([v, w], value, "numba").source
    assert source.count("math.sqrt(") == 1


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_entries_that_are_no_numbers_stay_where_they_are(backend):
    value = td.IndexedSum(sqrt(v[i] + v[i + 1]) * w[i] * sqrt(v[i + 1] + v[i + 2]), (i, 0, n - 3))
    fn = td.lambdify([v, w], (value, td.gradient(value, w)), backend)
    x, y = np.array([1.0, 2.0, -5.0, 3.0, 4.0, 6.0, 1.0]), np.arange(7.0)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x[:-1] + x[1:])
    got, slope = fn(x, y)
    assert np.isnan(got)
    np.testing.assert_allclose(slope, [*(root[:-1] * root[1:]), 0, 0])
    np.testing.assert_array_equal(np.isnan(slope), [True, True, True, False, False, False, False])


def test_values_and_derivatives_share_functions():
    """One exponential for each entry, although three loops use it."""
    value = td.IndexedSum(sympy.exp(v[i] * w[i]) * v[i], (i, 0, n - 1))
    source = td.lambdify([v, w], (value, *td.gradient(value, (v, w))), "numba").source
    loops = source[source.index("def fill_") :]
    assert loops.count("exp(") == 1


def test_multiples_of_a_product_are_one_value():
    part = v[i] * w[i] / (1 + v[i] ** 2 + w[i] ** 2)
    value = td.IndexedSum((3 * part - 2 * part.subs(i, i + 1) + 5 * part.subs(i, i + 2)) ** 2, (i, 0, n - 3))
    source = td.lambdify([v, w], value, "numba").source
    loops = source[source.index("def fill_") :]
    assert loops.count("/") == 1


def test_values_in_edges_are_shared_by_sums_and_scatters():
    src, dst = (td.TensorSymbol(name, m, dtype=int, below=n) for name in ("src", "dst"))
    value = td.IndexedSum(sympy.exp(-((v[src[j]] - v[dst[j]]) ** 2)), (j, 0, m - 1))
    source = td.lambdify([v, src, dst], (value, td.gradient(value, v)), "numba").source
    loops = source[source.index("def fill_") :]
    assert loops.count("exp(") == 1


def test_without_temporaries_nothing_is_stored():
    args, value, by, *_ = CASES["second differences"]
    assert not build_program(args, td.gradient(value, by), temporaries=False).temporaries


def test_remainders_are_needed_at_the_ends_only():
    args, value, by, *_ = CASES["burgers"]
    source = td.lambdify(args, td.gradient(value, by), "numba").source
    loops = source.split("for ")
    assert any("//" not in text and "t[at(p - 2)]" in text for text in loops)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("layers", [8, 20, 40])
def test_values_of_deep_formulas_are_stored_in_linear_time(layers, monkeypatch):
    """Each layer is used twice, and is stored; each use of a value is looked at a fixed number of times."""
    asked = []
    instance = shifts.Shifts._instance
    monkeypatch.setattr(shifts.Shifts, "_instance", lambda self, *args: asked.append(1) or instance(self, *args))
    c = td.TensorSymbol("c", n)
    entry = v[i]
    for layer in range(layers):
        entry = sympy.sin(entry) * sympy.Rational(layer + 1, 3) + sympy.cos(entry)
    table = td.TensorComprehension(entry, (i, n))
    program = build_program((v, c), (table, td.vjp(table, v, c)))
    assert len(program.temporaries) >= layers
    assert len(asked) < 20 * layers


h, speed = sympy.symbols("h speed", positive=True)
q = td.TensorSymbol("q", (n, m))


def curvature(a):
    return (a[i + 1, j] + a[i - 1, j] + a[i, j + 1] + a[i, j - 1] - 4 * a[i, j]) / h**2


@pytest.mark.parametrize(
    ("residual", "wrt", "count"),
    [
        (curvature(u) + q[i, j], (u, q), 1),
        (curvature(u) - (u[i, j] ** 3 - u[i, j]) / speed**2, (u,), 1),
        (curvature(u) * q[i, j] / speed - curvature(q) * u[i, j], (u, q), 2),
    ],
    ids=["Poisson", "Allen-Cahn", "Wronski"],
)
def test_multiples_by_what_is_the_same_in_all_iterations_are_not_stored(residual, wrt, count):
    """``r[i, j]/h**2`` is one product more than ``r[i, j]``: only residuals and curvatures are arrays."""
    energy = td.IndexedSum(residual**2, (j, 1, m - 2), (i, 1, n - 2))
    results = energy, *td.gradient(energy, wrt)
    assert len(build_program([*wrt, h, speed], results, rows=True).temporaries) == count


def test_arrays_of_equal_extents_share_a_loop():
    """Two residuals over ``1 <= i <= n - 2`` have the extent ``Max(n - 2, 0)``, which is one size and one loop."""
    one = sqrt(1 + (v[i + 1] - v[i - 1]) ** 2)
    two = sympy.exp(w[i + 1] - 2 * w[i] + w[i - 1])
    energy = td.IndexedSum(one * two, (i, 1, n - 2))
    program = build_program([v, w], (energy, *td.gradient(energy, (v, w))), rows=True)
    arrays = [array for array in program.temporaries if array.shape]
    assert len(arrays) > 1
    assert len({array.shape for array in arrays}) == len(program.sizes) == 1


@pytest.mark.parametrize("order", [0, 1])
def test_stored_values_have_axes_in_the_order_of_reads(order):
    """Whichever term of the residual comes first, the value and both gradients read one array."""
    wave, speed, force = td.TensorSymbol("wave", (n, m)), td.TensorSymbol("speed", m), td.TensorSymbol("force", m)
    curvature = wave[i, j + 1] - 2 * wave[i, j] + wave[i, j - 1]
    residual = wave[i + 1, j] - wave[i, j] - speed[j] ** 2 * curvature - force[j]
    limits = ((i, 0, n - 2), (j, 1, m - 2))
    energy = td.IndexedSum(residual**2, *(limits[::-1] if order else limits))
    program = build_program([wave, speed, force], (energy, td.gradient(energy, wave)), rows=True)
    (remaining,) = (array.name for array in program.temporaries if len(array.shape) == 2)
    nests = [nest for nest in program.nests if nest.array.startswith("result")]
    assert all(any(part.array == remaining for part in loads(nest.body)) for nest in nests)


def test_values_of_two_vectors_are_stored_where_a_tensor_is_as_large():
    """Item response: one logistic function for each person and item, as there is an answer for each."""
    theta, beta, answers = td.TensorSymbol("theta", n), td.TensorSymbol("beta", m), td.TensorSymbol("Y", (n, m))
    odds = 1 / (1 + sympy.exp(-(theta[i] - beta[j])))
    chance = odds / 2 + sympy.Rational(1, 4)
    value = td.IndexedSum(answers[i, j] * sympy.log(chance), (i, 0, n - 1), (j, 0, m - 1))
    results = value, *td.gradient(value, (theta, beta))
    assert {
        array.shape for array in build_program([theta, beta, answers], results, rows=True).temporaries if array.shape
    }
    source = td.lambdify([theta, beta, answers], results, "llvm").source
    loops = source[source.index("def fill_") :]
    assert loops.count("sigmoid(") <= 3
    spread = td.IndexedSum(sympy.log(chance), (i, 0, n - 1), (j, 0, m - 1))
    none = build_program([theta, beta], (spread, *td.gradient(spread, (theta, beta))))
    assert not any(len(array.shape) > 1 for array in none.temporaries)


def flow_residual(row, column, pressure, resistance):
    """The flow into a cell from its four neighbours, through harmonic means of conductivities.

    `pressure` and `resistance` are functions of a row and a column.
    """

    def flow(*other):
        return (pressure(*other) - pressure(row, column)) / (resistance(row, column) + resistance(*other))

    return flow(row + 1, column) + flow(row - 1, column) + flow(row, column + 1) + flow(row, column - 1)


@pytest.mark.parametrize("sizes", [(3, 4), (7, 5), (4, 9)])
def test_arrays_for_parts_of_stored_values_read_known_arrays(sizes):
    y = td.TensorSymbol("y", (n, m))
    residual = flow_residual(i, j, lambda a, b: u[a, b], lambda a, b: sympy.exp(-y[a, b]))
    f = td.IndexedSum(residual**2, (i, 1, n - 2), (j, 1, m - 2)) / 2
    results = [f, td.gradient(f, u)]
    program = build_program([u, y], results, rows=True, norms=True)
    calls = [part for step in program.nests for part in scalars(step.body) if getattr(part, "function", "") == "exp"]
    assert len(calls) == 1  # one array for all places
    generator = np.random.default_rng(1)
    values, logs = generator.normal(size=(2, *sizes))

    def value(values):
        rows, columns = np.arange(1, sizes[0] - 1)[:, None], np.arange(1, sizes[1] - 1)
        own = flow_residual(rows, columns, lambda *at: values[at], lambda *at: np.exp(-logs[at]))
        return (own**2).sum() / 2

    slope = np.empty(sizes)
    for place in np.ndindex(*sizes):
        step = values.astype(complex)
        step[place] += 1e-30j
        slope[place] = value(step).imag / 1e-30
    found = td.lambdify([u, y], results, "llvm")(values, logs)
    np.testing.assert_allclose(found[0], value(values), rtol=1e-12)
    np.testing.assert_allclose(found[1], slope, rtol=1e-11, atol=1e-12)


def test_a_value_inside_of_one_with_a_larger_range_has_that_range():
    """The number of least entries of a row, and its reciprocal: both are stored for parts of the rows at first, and the
    range that serves all uses of the reciprocal is larger than that of the number.
    """
    A, T = td.TensorSymbol("A", (n, m)), td.TensorSymbol("T", (n, m))
    least = td.min(A, axis=-1)
    product = td.hvp(td.prod(least[1:] - least[:-1], axis=-1), A, T)
    plain = td.lambdify([A, T], product, "numpy", temporaries=False)
    for backend in ("numpy", "llvm"):
        function = td.lambdify([A, T], product, backend)
        for shape in ((2, 3), (4, 3), (7, 2)):
            values = np.random.default_rng(shape[0]).normal(size=(2, *shape))
            np.testing.assert_allclose(function(*values), plain(*values), rtol=1e-12, atol=1e-12)
