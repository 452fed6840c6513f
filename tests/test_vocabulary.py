"""The words that people know from NumPy: each with its value, its gradient and its kernels, in one table."""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import TensorDiffError

n, m = td.indices("n m")
SIZES = {n: 3, m: 4}
A, B, S = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m)), td.TensorSymbol("S", (n, n))
x, y, b = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("b", m)
row, column = td.TensorSymbol("row", (1, m)), td.TensorSymbol("column", (n, 1))
u, v = td.TensorSymbol("u", 3), td.TensorSymbol("v", 3)
INDICES = {str(index): index for index in td.indices("i j k l p q i_1")}
SYMBOLS = [A, B, S, x, y, b, row, column, u, v]

# By NumPy's names, for `f` being the package and for NumPy: of the tensors of a namespace.
WORDS = {
    "a bias": lambda f, t: t.S @ t.A + t.b,
    "matrices in stacks": lambda f, t: f.einsum("ij,k->kij", t.A, t.x) @ f.einsum("ij,k->kji", t.B, t.x) @ t.A,
    "a stack of one": lambda f, t: (
        f.einsum("ij,k->kij", t.A, t.x) @ t.B.T[None] @ t.x + t.y @ f.einsum("ij,k->kij", t.S, t.x)
    ),
    "a row and a column": lambda f, t: t.row * t.column - t.b,
    "quotient and power": lambda f, t: (t.A / t.column) ** t.row,
    "extrema": lambda f, t: f.minimum(f.maximum(t.A, t.b), t.column),
    "max": lambda f, t: f.max(t.A),
    "max of rows": lambda f, t: f.max(t.A, axis=1, keepdims=True) * t.A,
    "min of columns": lambda f, t: f.min(t.A, axis=0),
    "prod": lambda f, t: f.prod(t.A, axis=-1),
    "prod of all": lambda f, t: f.prod(t.A),
    "cumsum": lambda f, t: f.cumsum(t.A, axis=1),
    "cumsum of all": lambda f, t: f.cumsum(t.A),
    "cumprod": lambda f, t: f.cumprod(t.A, axis=0),
    "square": lambda f, t: f.square(t.A),
    "clip": lambda f, t: f.clip(t.A, 0.8, 1.4),
    "clip by tensors": lambda f, t: f.clip(t.A, t.b, None),
    "var": lambda f, t: f.var(t.A),
    "var of rows": lambda f, t: f.var(t.A, axis=1, keepdims=True, ddof=1),
    "std": lambda f, t: f.std(t.A, axis=0),
    "normalized": lambda f, t: (t.A - f.mean(t.A, axis=1, keepdims=True)) / f.std(t.A, axis=1, keepdims=True),
    "sum kept": lambda f, t: t.A / f.sum(t.A, axis=0, keepdims=True),
    "where": lambda f, t: f.where(f.greater(t.A, t.B), t.A**2, t.b),
    "where not 0": lambda f, t: f.where(f.less(t.A, 1) * f.less(t.B, 1), t.A, 3),
    "where equal": lambda f, t: f.where(f.equal(t.S, t.x), t.S, t.x),
    "norm": lambda f, t: f.norm(t.x, 3) + f.norm(t.A, "fro") + f.norm(t.x, np.inf),
    "einsum": lambda f, t: f.einsum("...j,ij", t.S, t.S) + f.einsum("ij,ki", t.S, t.S),
    "logdet": lambda f, t: f.logdet(t.S @ t.S.T),
    "solve": lambda f, t: f.solve(t.S, t.x),
    "reshape": lambda f, t: f.reshape(t.A, (t.m, -1)) * t.B.T,
    "ravel": lambda f, t: f.ravel(t.A) ** 2,
    "moveaxis": lambda f, t: f.moveaxis(f.einsum("ij,k->ijk", t.A, t.x), 2, 0),
    "flip": lambda f, t: f.flip(t.A) * t.A,
    "flip an axis": lambda f, t: f.flip(t.A, 1),
    "roll": lambda f, t: f.roll(t.A, 1, axis=1) * t.A,
    "roll two axes": lambda f, t: f.roll(t.A, (-2, 1), axis=(0, 1)),
    "roll all": lambda f, t: f.roll(t.A, 2),
    "tril": lambda f, t: f.tril(t.S) @ t.A,
    "triu": lambda f, t: f.triu(t.S, 1) @ t.A,
    "stack": lambda f, t: f.stack((t.x, t.y, t.x * t.y)),
    "stack last": lambda f, t: f.stack([t.A, t.B], axis=-1),
    "concatenate": lambda f, t: f.concatenate((t.x, t.b)),
    "concatenate columns": lambda f, t: f.concatenate((t.S, t.A, t.column), axis=1),
    "kron": lambda f, t: f.kron(t.A, t.S),
    "kron of vectors": lambda f, t: f.kron(t.x, t.b),
    "pad": lambda f, t: f.pad(t.A, 1),
    "pad by pairs": lambda f, t: f.pad(t.A, ((0, 2), (1, 0)), constant_values=5),
    "a row": lambda f, t: t.A[1] * t.A,
    "a column": lambda f, t: t.A[:, 0],
    "the last row": lambda f, t: t.A[-1] * t.A[-2:] + t.A[1, ...],
    "the last column but one": lambda f, t: t.A[:, -2] + t.A[..., -1],
    "the last of three": lambda f, t: f.stack((t.u, t.v))[-1] * t.u,
    "inner entries": lambda f, t: t.A[1:-1, 1:] * t.A[2:, 1:],
    "every second": lambda f, t: t.A[..., ::2] ** 2,
    "backwards": lambda f, t: t.A[::-1, -2::-1],
    "a new axis": lambda f, t: t.x[:, None] * t.b[None],
    "of three": lambda f, t: t.u[-2:] * t.v[:2],
    "cross": lambda f, t: f.cross(t.u, t.v),
}
NUMPY = SimpleNamespace(
    **vars(np), solve=np.linalg.solve, norm=np.linalg.norm, logdet=lambda a: np.linalg.slogdet(a)[1]
)
TENSORS = SimpleNamespace(n=n, m=m, **{symbol.name: symbol for symbol in SYMBOLS})


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(5)
    return {
        symbol.name: rng.uniform(0.5, 2, [int(sympy.sympify(extent).subs(SIZES)) for extent in symbol.shape])
        for symbol in SYMBOLS
    }


def by_numpy(word, arrays):
    return WORDS[word](NUMPY, SimpleNamespace(n=SIZES[n], m=SIZES[m], **arrays))


@pytest.mark.usefixtures("uncompiled")
@every("word", list(WORDS), turns=8)
def test_value_gradient_and_kernels(word, arrays, thorough):
    """In NumPy's kernels and Numba's as plain Python, by turns."""
    expr, expected = WORDS[word](td, TENSORS), by_numpy(word, arrays)
    used = [symbol for symbol in SYMBOLS if symbol in expr.free_symbols]
    shape = getattr(expr, "shape", ())
    weights = td.TensorSymbol("weights", shape)
    fixed = np.random.default_rng(7).uniform(-1, 1, expected.shape)
    results = (expr, *td.vjp(expr, tuple(used), weights if shape else 1))
    slopes = [differences(word, arrays, symbol.name, fixed if shape else 1) for symbol in used]
    for backend in ("numpy", "numba") if thorough else (("numpy", "numba")[[*WORDS].index(word) % 2],):
        kernel = td.lambdify((*used, *([weights] if shape else [])), results, backend=backend)
        value, *gradients = kernel(*(arrays[symbol.name] for symbol in used), *([fixed] if shape else []))
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-13)
        for gradient, slope in zip(gradients, slopes, strict=True):
            np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    assert sympy.latex(expr)
    names = {**vars(sympy), **vars(td), **INDICES, **vars(TENSORS)}
    assert getattr(eval(str(expr), names), "shape", ()) == shape


@every("word", list(WORDS), turns=8)
def test_values_of_the_least_sizes_in_float32_and_in_the_order_of_fortran(word):
    """A call computes what NumPy does, or is refused because an axis is empty or a slice is longer than its axis."""
    expr = WORDS[word](td, TENSORS)
    used = [symbol for symbol in SYMBOLS if symbol in expr.free_symbols]
    run = td.lambdify(used, expr, "numpy")
    rng = np.random.default_rng(3)
    for lengths in ({n: 1, m: 2}, {n: 2, m: 2}, {n: 4, m: 5}, {n: 0, m: 2}):
        shapes = {t.name: [int(sympy.sympify(extent).subs(lengths)) for extent in t.shape] for t in SYMBOLS}
        given = {name: rng.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items()}
        try:
            value = run(*(np.asfortranarray(given[symbol.name]) for symbol in used))
        except TensorDiffError as error:
            assert lengths[n] == 0 or (lengths[n] == 1 and ("read outside" in str(error) or "length -1" in str(error)))
            continue
        if "a row" in word and lengths[n] == 0:
            assert value.shape == (0, 2)  # no entry reads the row that there is not, for which NumPy raises
            continue
        expected = WORDS[word](NUMPY, SimpleNamespace(n=lengths[n], m=lengths[m], **given))
        assert value.dtype == np.float32 and value.shape == np.shape(expected)
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=1e-6)


def differences(word, arrays, name, weights):
    """Central differences of the sum of weights times the value."""
    result = np.zeros_like(arrays[name])
    for at in np.ndindex(result.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = arrays[name].copy()
            moved[at] += step
            sides.append(np.sum(weights * by_numpy(word, {**arrays, name: moved})))
        result[at] = (sides[0] - sides[1]) / 2e-5
    return result


REFUSED = {
    "entries": (lambda: td.reshape(A, (n, n)), r"reshape: \(n, m\) and \(n, n\) have different numbers of entries"),
    "places": (lambda: td.moveaxis(A, (0, 1), 0), "moveaxis: 2 axes cannot go to 1 places; name one for each"),
    "triangle": (lambda: td.tril(x), "tril needs matrices along the last two axes, but x has rank 1"),
    "no axis": (lambda: td.stack([x, y], axis=2), "stack: the result has rank 2, so it has no axis 2"),
    "extents": (lambda: td.stack([x, b]), r"; extents must be equal along all axes but 0"),
    "nothing": (lambda: td.stack([]), r"stack: give a list of at least one tensor, stack\(\[A, B\]\)"),
    "pairs": (lambda: td.pad(A, ((1, 1),)), r"pad: \(\(1, 1\),\) has no pair of widths for each axis of A"),
    "mixed pairs": (lambda: td.pad(A, ((1, 1), 2)), "has no pair of widths for each axis of A"),
    "no widths": (lambda: td.pad(x, ()), r"pad: \(\) has no pair of widths for each axis of x"),
    "a negative width": (
        lambda: td.pad(x, -1),
        r"pad: -1 has a negative width; a slice, A\[1:-1\], takes",
    ),
    "a symbol as diagonal": (lambda: td.tril(A, m), "tril: k must be an int, not m"),
    "half a place": (lambda: td.roll(x, 1.5), "roll: a shift must be an int, not 1.5"),
    "shifts": (lambda: td.roll(A, (1, 2, 3), (0, 1)), "roll: 3 shifts are not for 2 axes; give one shift for each"),
    "no number": (lambda: td.stack([x, y], axis=None), "stack: an axis must be an int, not None"),
    "axes of a scan": (lambda: td.cumsum(A, (0, 1)), r"cumsum: an axis must be an int, not \(0, 1\)"),
    "an array of axes": (lambda: td.sum(A, np.ones(2)), r"sum: an axis must be an int, not array\(\[1., 1.\]\)"),
    "degrees of freedom": (lambda: td.var(A, ddof=None), "var: ddof must be a SymPy expression or a number, not None"),
    "step": (lambda: x[::1.5], "the step of a slice must be an int, not 1.5"),
    "three": (lambda: td.cross(x, y), r"cross: the shapes must be equal and end in 3, not \(n,\) and \(n,\)"),
}


@every("what", list(REFUSED))
def test_refusals(what):
    build, message = REFUSED[what]
    with pytest.raises(TensorDiffError, match=message):
        build()


def test_ties_share_and_numbers_win():
    tied = td.gradient(td.max(x), x), td.gradient(td.sum(td.clip(x, 1, 2)), x)
    shared, clipped = td.evaluate(tied, {x: [1, 2, 2]})
    assert shared.tolist() == [0, 0.5, 0.5] and clipped.tolist() == [0, 0, 0]
