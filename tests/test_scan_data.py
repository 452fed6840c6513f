"""Recurrences whose steps read data: arrays of integers select what a step reads or changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import in_c
import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate

n, m, T = td.indices("n m T")
i = td.indices("i")
k = sympy.Symbol("k", real=True)
p, M, E = td.TensorSymbol("p", n), td.TensorSymbol("M", (n, n)), td.TensorSymbol("E", (n, m))
A, x0, y = td.TensorSymbol("A", (m, n, n)), td.TensorSymbol("x0", n), td.TensorSymbol("y", (T, n))
seen = td.TensorSymbol("seen", T, dtype=int, below=m)
games = td.TensorSymbol("games", (T, 2), dtype=int, below=n)
SEEN, GAMES = np.array([0, 1, 1, 0]), np.array([[0, 1], [2, 0], [0, 2], [1, 2]])
SIZES = {n: 3, m: 2, T: 4}


def markov() -> Any:
    """The log-likelihood of a hidden Markov model with observed numbers."""
    last = td.scan(lambda a, o: td.logsumexp(a[:, None] + M, axis=0) + E[:, o], p, seen, last=True)
    return [p, M, E, seen], td.logsumexp(last)


def switching() -> Any:
    """A dynamical system whose matrix data select."""
    step = lambda x, z, y: (td.tanh(A[z] @ x), td.sum((td.tanh(A[z] @ x) - y) ** 2))  # noqa: E731
    return [A, x0, y, seen], td.scan(step, {"x": x0}, {"z": seen, "y": y}, total=True)[1]


def elo() -> Any:
    """Ratings of players: data select the entries of the state that a step reads and changes."""

    def step(r: Any, game: Any) -> Any:
        chance = td.sigmoid(r[game[0]] - r[game[1]])
        change = sympy.KroneckerDelta(i, game[0]) - sympy.KroneckerDelta(i, game[1])
        return td.TensorComprehension(r[i] + k * (1 - chance) * change, (i, n)), td.log(chance)

    return [k, x0, games], td.scan(step, x0, games, total=True)[1]


PROGRAMS = {"markov": markov, "switching": switching, "elo": elo}


def point(args: Any) -> list[Any]:
    rng = np.random.default_rng(1)
    known = {k: 0.3, seen: SEEN, games: GAMES}
    return [
        known[a] if a in known else rng.normal(size=tuple(int(sympy.sympify(s).subs(SIZES)) for s in a.shape))
        for a in args
    ]


def by_hand(name: str, arrays: Any) -> Any:
    if name == "markov":
        a, move, emit, _ = arrays
        for o in SEEN:
            a = np.log(np.exp(a) @ np.exp(move)) + emit[:, o]
        return np.log(np.exp(a).sum())
    total = 0.0
    if name == "switching":
        matrices, x, rows, _ = arrays
        for z, row in zip(SEEN, rows, strict=True):
            x = np.tanh(matrices[z] @ x)
            total += ((x - row) ** 2).sum()
        return total
    factor, r, _ = arrays
    for w, lost in GAMES:
        chance = 1 / (1 + np.exp(r[lost] - r[w]))
        r = r + 0 * factor  # a copy, complex where the factor is
        r[w], r[lost] = r[w] + factor * (1 - chance), r[lost] - factor * (1 - chance)
        total += np.log(chance)
    return total


def exprs_of(name: str) -> Any:
    args, loss = PROGRAMS[name]()
    wrt = tuple(a for a in args if a not in (seen, games, y))
    return args, wrt, (loss, *td.gradient(loss, wrt))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(
    ("name", "backend"), [*((name, b) for name in PROGRAMS for b in ("numpy", "llvm")), ("elo", "numba")]
)
def test_values_and_gradients_are_those_of_loops(name: str, backend: str) -> None:
    args, wrt, exprs = exprs_of(name)
    arrays, rng = point(args), np.random.default_rng(2)
    value, *slopes = td.lambdify(args, exprs, backend)(*arrays)
    np.testing.assert_allclose(value, by_hand(name, arrays), rtol=1e-13)
    for one, slope in zip(wrt, slopes, strict=True):
        along = rng.normal(size=slope.shape)
        moved = [a + 1e-30j * along if arg == one else a for arg, a in zip(args, arrays, strict=True)]
        found = by_hand(name, moved).imag / 1e-30
        np.testing.assert_allclose((slope * along).sum(), found, rtol=1e-12)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreter_and_products_with_hessians(name: str) -> None:
    args, wrt, exprs = exprs_of(name)
    arrays = point(args)
    found = td.lambdify(args, exprs)(*arrays)
    for own, expected in zip(found, evaluate(exprs, dict(zip(args, arrays, strict=True))), strict=True):
        np.testing.assert_allclose(own, np.asarray(expected).astype(float), rtol=1e-10)
    along = [td.TensorSymbol(f"d{a}", getattr(a, "shape", ())) for a in wrt]
    rng = np.random.default_rng(3)
    given = [rng.normal(size=np.shape(a)) for a, arg in zip(arrays, args, strict=True) if arg in wrt]
    second = td.lambdify([*args, *along], td.hvp(exprs[0], wrt, tuple(along)))(*arrays, *given)
    gradient = td.lambdify(args, exprs[1:])
    steps = dict(zip(wrt, given, strict=True))
    sides = [[a + s * 1e-5 * steps[arg] if arg in wrt else a for a, arg in zip(arrays, args, strict=True)]
             for s in (1, -1)]  # fmt: skip
    for own, up, down in zip(second, gradient(*sides[0]), gradient(*sides[1]), strict=True):
        np.testing.assert_allclose(own, (up - down) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.in_turns(8)
@pytest.mark.skipif(in_c.COMPILER is None, reason="there is no compiler of C")
@pytest.mark.parametrize("name", PROGRAMS)
def test_c_computes_the_same(name: str, tmp_path: Path) -> None:
    args, _, exprs = exprs_of(name)
    arrays = point(args)
    library = in_c.build({"scan": td.generate_code(args, exprs, "c", name="scan")}, tmp_path)
    found = in_c.Function(library, "scan", build_program(args, exprs))(*arrays)
    for own, expected in zip(found, td.lambdify(args, exprs, "numpy")(*arrays), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)


def test_rows_that_data_select_are_selected_before_the_loop() -> None:
    """So derivatives with respect to the tensor are scattered once, and the recursion reads as with given rows."""
    _, loss = markov()
    rows = "TensorComprehension(E[i, seen[t]], (t, T), (i, n))"
    assert str(loss) == f"logsumexp(scan(lambda a, E: E + logsumexp(M + a[:, None], axis=0), p, {rows}, last=True))"
    assert r"E_{t} = \left[E_{i, \mathrm{seen}_{t}}\right]_{i < n}" in td.latex(loss)
    args, _ = markov()
    assert "scatter: add to result[q, seen[" in td.lambdify(args, td.gradient(loss, E)).plan


def test_blocks_of_steps_read_data() -> None:
    """Blocks of checkpoints read ``w[2*block + t]`` where other data select the entry that changes."""
    q = td.indices("q")
    w = td.TensorSymbol("w", 2 * q, dtype=int, below=n)
    found = []
    for checkpoint in (None, 2):
        step = lambda a, w: td.tanh(M @ a) + td.TensorComprehension(sympy.KroneckerDelta(i, w) * a[w], (i, n))  # noqa: E731
        loss = td.sum(td.scan(step, p, w, last=True, reverse=True, checkpoint=checkpoint))
        function = td.lambdify([p, M, w], (loss, *td.gradient(loss, (p, M))))
        found.append(function(np.ones(3), np.arange(9).reshape(3, 3) / 9, GAMES[:, 0]))
    for own, expected in zip(*found, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)


def test_state_of_one_name_needs_no_tuple() -> None:
    one = td.scan(lambda h, x: (h / 2 + x, h * x), {"h": 1}, {"x": td.TensorSymbol("s", T)})
    two = td.scan(lambda h, x: ((h / 2 + x,), h * x), {"h": 1}, {"x": td.TensorSymbol("s", T)})
    assert one == two and len(one[0]) == 1
    assert td.scan(lambda h: h / 2, {"h": 1}, length=3) == td.scan(lambda h: (h / 2,), {"h": 1}, length=3)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_ranges_that_steps_rely_on_are_checked_in_the_call(backend: str) -> None:
    chosen = td.TensorSymbol("chosen", n, dtype=int)
    step = lambda h, x: td.TensorComprehension(h[chosen[i]] + x[i], (i, n))  # noqa: E731
    scan, q = td.scan(step, x0, y), td.TensorSymbol("q", m)
    function = td.lambdify([y, x0, chosen], scan, backend)
    found = function(np.ones((2, 3)), np.array([1.0, 2.0, 4.0]), np.array([2, 0, 1]))
    assert (found == [[5, 2, 3], [4, 6, 3]]).all()
    for wrong in (3, -1):
        with pytest.raises(td.errors.DataIndexError, match=rf"chosen\[1\] is {wrong}"):
            function(np.ones((2, 3)), np.ones(3), np.array([2, wrong, 1]))
    other = td.IndexedSum(q[chosen[i]], (i, 0, n - 1))
    with pytest.raises(
        UnsupportedError, match="chosen selects entries in a scan and elsewhere, of axes of the lengths"
    ):
        td.lambdify([y, x0, chosen, q], (scan, other), backend)


def test_data_without_range_and_of_other_lengths_are_refused() -> None:
    free = td.TensorSymbol("free", T, dtype=int)
    with pytest.raises(UnsupportedError, match=r"data of free may lead a read out of its tensor.*declare a range"):
        td.lambdify([p, free], td.scan(lambda a, z: a * a[z], p, free))
    with pytest.raises(ShapeError, match="the sequence seen of a scan has T rows, but the scan has 3 steps"):
        td.scan(lambda a, z: a * a[z], p, seen, length=3)
    with pytest.raises(td.errors.DataIndexError, match=r"seen\[1\] is 5"):
        td.lambdify(*markov())(np.ones(2), np.ones((2, 2)), np.ones((2, 3)), np.array([0, 5]))
