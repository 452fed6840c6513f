"""The twelve evals of GradBench in this package's notation.

`EVALS` has the functions of each eval by name. A function takes the ``input`` of a message of the board's protocol and
returns a call without arguments, which is timed, and a function that makes its result plain lists and numbers.
The formulas are those of the board's statements. Loops whose end depends on data run step by step first; what is
differentiated is the recurrence (`td.scan`) of as many steps.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import sympy
from sympy import Eq, exp, log, pi, sign, sqrt

import sympy_tensordiff as td

Call = tuple[Callable[[], Any], Callable[[Any], Any]]
Function = Callable[[Mapping[str, Any]], Call]
tensor, total, table = td.TensorSymbol, td.IndexedSum, td.TensorComprehension
a, b, c, d, i, j, k, l, m, n, p, r, s = td.indices("a b c d i j k l m n p r s")


def array(values: Any) -> Any:
    return np.array(values, dtype=float)


def plain(value: Any) -> Any:
    """Return an array as lists of numbers."""
    return np.asarray(value).tolist()


def kernel(arguments: Any, result: Any) -> Callable[..., Any]:
    return td.lambdify(arguments, result, parallel=False)


# ---------------------------------------------------------------------------- single formulas


@cache
def squares() -> SimpleNamespace:
    x = sympy.Symbol("x", real=True)
    return SimpleNamespace(square=kernel([x], x**2), double=kernel([x], sympy.diff(x**2, x)))


@cache
def least_squares() -> SimpleNamespace:
    """A polynomial against the sign function, at points given by their number."""
    x = tensor("x", m)
    t = 2 * i / (n - 1) - 1
    value = total((sign(t) - total(x[j] * t**j, (j, 0, m - 1))) ** 2, (i, 0, n - 1)) / 2
    return SimpleNamespace(primal=kernel([x, n], value), gradient=kernel([x, n], td.gradient(value, x)))


@cache
def log_sum() -> SimpleNamespace:
    x = tensor("x", n)
    value = td.log(td.sum(td.exp(x)))
    return SimpleNamespace(primal=kernel([x], value), gradient=kernel([x], td.gradient(value, x)))


@cache
def clusters() -> SimpleNamespace:
    """The sum of squared distances to the nearest centroid, and the direction of Newton's method."""
    points, centroids = tensor("P", (n, d)), tensor("C", (m, d))
    distance = total((centroids[j, a] - points[i, a]) ** 2, (a, 0, d - 1))
    cost = total(td.IndexedMin(distance, (j, 0, m - 1)), (i, 0, n - 1))
    slope = td.gradient(cost, centroids)
    curvature = table(td.diff(slope[k, c], centroids[k, c]), (k, m), (c, d))
    return SimpleNamespace(cost=kernel([points, centroids], cost), dir=kernel([points, centroids], slope / curvature))


@cache
def mixture() -> SimpleNamespace:
    """The logarithm of the posterior of a mixture of Gaussians, without its constant; L is strictly triangular."""
    alpha, mu, q, x = tensor("alpha", m), tensor("mu", (m, d)), tensor("q", (m, d)), tensor("x", (n, d))
    L = tensor("L", (m, d, d))
    gamma, freedom = sympy.symbols("gamma m_prior", real=True)
    offset = x[i, b] - mu[k, b]
    root = exp(q[k, a]) * (x[i, a] - mu[k, a]) + total(L[k, a, b] * offset, (b, 0, a - 1))
    score = alpha[k] - total(root**2, (a, 0, d - 1)) / 2 + total(q[k, a], (a, 0, d - 1))
    data = total(log(total(exp(score), (k, 0, m - 1))), (i, 0, n - 1))
    lengths = total(exp(2 * q[k, a]) + total(L[k, a, b] ** 2, (b, 0, a - 1)), (a, 0, d - 1), (k, 0, m - 1))
    prior = freedom * td.sum(q) - gamma**2 / 2 * lengths
    value = data - n * (d * log(2 * pi) / 2 + td.logsumexp(alpha)) + prior
    arguments = [alpha, mu, q, L, x, gamma, freedom]
    return SimpleNamespace(
        objective=kernel(arguments, value), jacobian=kernel(arguments, td.gradient(value, (alpha, mu, q, L)))
    )


@cache
def bundle() -> SimpleNamespace:
    """The projection errors of points in cameras, and the errors of their weights."""
    cameras, points, weights = tensor("cameras", (n, 11)), tensor("points", (m, 3)), tensor("w", p)
    image = tensor("image", (p, 2))
    by, of = tensor("by", p, dtype=int, below=n), tensor("of", p, dtype=int, below=m)
    turn = [cameras[by[i], a] for a in range(3)]
    offset = [points[of[i], a] - cameras[by[i], 3 + a] for a in range(3)]
    angle = sqrt(sum(part**2 for part in turn))
    axis = [part / angle for part in turn]
    along = sum(u * v for u, v in zip(axis, offset, strict=True)) * (1 - sympy.cos(angle))
    cross = [axis[a - 2] * offset[a - 1] - axis[a - 1] * offset[a - 2] for a in range(3)]
    seen = [offset[a] * sympy.cos(angle) + cross[a] * sympy.sin(angle) + axis[a] * along for a in range(3)]
    u, v = seen[0] / seen[2], seen[1] / seen[2]
    squared = u**2 + v**2
    stretch = 1 + cameras[by[i], 9] * squared + cameras[by[i], 10] * squared**2
    errors = [
        weights[i] * (part * stretch * cameras[by[i], 6] + cameras[by[i], 7 + a] - image[i, a])
        for a, part in enumerate((u, v))
    ]
    errors = td.stack([table(error, (i, p)) for error in errors], axis=1)
    penalties = table(1 - weights[i] ** 2, (i, p))
    arguments = [cameras, points, weights, by, of, image]
    unknowns = (cameras, points, weights)
    return SimpleNamespace(
        objective=kernel(arguments, (errors, penalties)),
        jacobian=td.structured_jacobian(arguments, [errors, penalties], unknowns),
    )


# ---------------------------------------------------------------------------- recurrences


@cache
def minors() -> SimpleNamespace:
    """A determinant by expansion along the last row; minors of the same columns are computed once.

    State ``M[S]`` is the minor of the first rows with the columns of the set S, or 0 if their numbers differ.
    """
    A, first = tensor("A", (l, l)), tensor("first", s)
    signs, before = tensor("signs", (s, l)), tensor("before", (s, l), dtype=int, below=s)

    def expand(minor: Any, row: Any) -> Any:
        return table(total(signs[a, c] * row[c] * minor[before[a, c]], (c, 0, l - 1)), (a, s))

    value = td.scan(expand, first, A, last=True)[s - 1]
    arguments = [A, first, signs, before]
    return SimpleNamespace(primal=kernel(arguments, value), gradient=kernel(arguments, td.gradient(value, A)))


@cache
def runge_kutta() -> SimpleNamespace:
    x = tensor("x", n)
    h = sympy.S(2) / s

    def slope(y: Any) -> Any:
        return table(sympy.Piecewise((x[i], Eq(i, 0)), (x[i] * y[i - 1], True)), (i, n))

    def step(y: Any) -> Any:
        one = slope(y)
        two = slope(y + h / 2 * one)
        three = slope(y + h / 2 * two)
        four = slope(y + h * three)
        return y + h / 6 * (one + 2 * two + 2 * three + four)

    y = td.scan(step, td.zeros(n), length=s, last=True)
    return SimpleNamespace(primal=kernel([x, s], y), gradient=kernel([x, s], td.gradient(y[n - 1], x)))


@cache
def memory(layers: int) -> SimpleNamespace:
    """The mean loss of a recurrent network whose matrices are diagonal."""
    main, extra = tensor("main", (2 * layers, 4 * b)), tensor("extra", (3, b))
    state, now, new = tensor("state", (2 * layers, b)), tensor("now", (n, b)), tensor("new", (n, b))

    def step(states: Any, row: Any) -> Any:
        hidden, cells, gold = list(states[:layers]), list(states[layers:]), row[1]
        x = row[0] * extra[0]
        for layer in range(layers):
            weight = [main[2 * layer, part * b : (part + 1) * b] for part in range(4)]
            bias = [main[2 * layer + 1, part * b : (part + 1) * b] for part in range(4)]
            forget = td.sigmoid(x * weight[0] + bias[0])
            ingate = td.sigmoid(hidden[layer] * weight[1] + bias[1])
            outgate = td.sigmoid(x * weight[2] + bias[2])
            change = td.tanh(hidden[layer] * weight[3] + bias[3])
            cells[layer] = cells[layer] * forget + ingate * change
            x = hidden[layer] = outgate * td.tanh(cells[layer])
        y = x * extra[1] + extra[2]
        return (*hidden, *cells), td.sum(gold * (y - td.log(2 + td.sum(td.exp(y)))))

    init = tuple(state[2 * layer + part] for part in range(2) for layer in range(layers))
    *_, loss = td.scan(step, init, (now, new), last=True, total=True)
    value = -loss / (n * b)
    arguments = [main, extra, state, now, new]
    return SimpleNamespace(
        objective=kernel(arguments, value), jacobian=kernel(arguments, td.gradient(value, (main, extra)))
    )


@cache
def hand(complicated: bool) -> SimpleNamespace:
    """The distances of measured points from a hand posed by its bones, each relative to its parent."""
    theta, relative, inverse = tensor("theta", 26), tensor("relative", (n, 4, 4)), tensor("inverse", (n, 4, 4))
    vertices, weights, points = tensor("vertices", (m, 4)), tensor("weights", (m, n)), tensor("points", (p, 3))
    mirror = sympy.Symbol("mirror", real=True)
    us = tensor("us", (p, 2))
    parents = tensor("parents", n, dtype=int, below=n + 1)
    bend, spread = tensor("bend", n, dtype=int, below=27), tensor("spread", n, dtype=int, below=27)
    angles = td.concatenate([theta, td.zeros(1)])
    (cx, sx), (cz, sz) = [
        (table(sympy.cos(angles[of[i]]), (i, n)), table(sympy.sin(angles[of[i]]), (i, n))) for of in (bend, spread)
    ]
    rows = [[cz, -sz * cx, sz * sx, 0], [sz, cz * cx, -cz * sx, 0], [0, sx, cx, 0], [0, 0, 0, 1]]
    turns = td.stack([td.stack([entry + td.zeros(n) for entry in row], axis=1) for row in rows], axis=1)
    moved = td.einsum("nij,njk->nik", relative, turns)

    def step(bones: Any, row: Any, t: Any) -> Any:
        """Row n is the identity, of bones without a parent."""
        own, parent = row
        new = total(bones[parent, i, k] * own[k, j], (k, 0, 3))
        return table(sympy.Piecewise((new, Eq(r, t)), (bones[r, i, j], True)), (r, n + 1), (i, 4), (j, 4))

    start = table(sympy.KroneckerDelta(r, n) * sympy.KroneckerDelta(i, j), (r, n + 1), (i, 4), (j, 4))
    absolute = td.scan(step, start, (moved, parents), last=True)[:n]
    transforms = td.einsum("nij,njk->nik", absolute, inverse)
    skinned = td.einsum("nij,vj,vn->vi", transforms, vertices, weights)[:, :3]
    placed = td.einsum("vi,ki->vk", td.concatenate([mirror * skinned[:, :1], skinned[:, 1:]], axis=1), _rotation(theta))
    placed = placed + theta[None, 3:6]
    if complicated:
        corners = [tensor(f"corner{number}", p, dtype=int, below=m) for number in range(3)]
        shares = (us[i, 0], us[i, 1], 1 - us[i, 0] - us[i, 1])
        on_hand = sum(share * placed[corner[i], k] for share, corner in zip(shares, corners, strict=True))
    else:
        corners = [tensor("corner", p, dtype=int, below=m)]
        on_hand = placed[corners[0][i], k]
    error = table(points[i, k] - on_hand, (i, p), (k, 3))
    arguments = [theta, *([us] if complicated else []), relative, inverse, vertices, weights, points, mirror, parents]
    arguments += [bend, spread, *corners]
    own = [table(td.diff(error[i, k], us[i, r]), (i, p), (k, 3), (r, 2))] if complicated else []
    return SimpleNamespace(
        objective=kernel(arguments, error), jacobian=kernel(arguments, (*own, td.jacobian(error, theta)))
    )


def _rotation(theta: Any) -> Any:
    """The rotation about an axis by its length, by Rodrigues' formula; the unit matrix for tiny angles."""
    x, y, z = (theta[part] for part in range(3))
    angle = sqrt(x**2 + y**2 + z**2)
    x, y, z = x / angle, y / angle, z / angle
    s, c = sympy.sin(angle), sympy.cos(angle)
    rows = [
        [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
        [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
        [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
    ]
    unit = [[int(row == column) for column in range(3)] for row in range(3)]
    entries = [
        sympy.Piecewise((entry, angle >= sympy.Rational(1, 10000)), (one, True))
        for entry, one in zip(reduce(operator.iadd, rows, []), reduce(operator.iadd, unit, []), strict=True)
    ]
    return td.reshape(td.stack(entries), (3, 3))


# ---------------------------------------------------------------------------- minima by descent


def descend(value: Callable[[Any], float], slope: Callable[[Any], Any], x: Any) -> tuple[Any, list[float]]:
    """Return the minimum by gradient descent as the board states it, and the steps that were taken."""
    least, step, gains, steps = value(x), 1e-5, 0, []
    gradient = slope(x)
    while np.linalg.norm(gradient) > 1e-5:
        if gains == 10:
            step, gains = 2 * step, 0
            continue
        new = x - step * gradient
        if np.linalg.norm(new - x) <= 1e-5:
            break
        found = value(new)
        if found < least:
            x, least, gains = new, found, gains + 1
            gradient = slope(x)
            steps.append(step)
        else:
            step, gains = step / 2, 0
    return x, steps


def derivative(value: Any, wrt: Any, mode: str) -> Any:
    """Return the gradient of a number, by the reverse ("r") or the forward ("f") mode."""
    if mode == "r":
        return td.gradient(value, wrt)
    extent = wrt.shape[0]
    return td.stack([td.jvp(value, wrt, table(sympy.KroneckerDelta(i, part), (i, extent))) for part in range(extent)])


@cache
def saddle(outer: str, inner: str) -> SimpleNamespace:
    """A function of x and y; its greatest value over y by ascent, in as many steps as given."""
    x, y, first, steps = tensor("x", 2), tensor("y", 2), tensor("first", 2), tensor("steps", n)

    def f(x: Any, y: Any) -> Any:
        return x[0] ** 2 + x[1] ** 2 - (y[0] ** 2 + y[1] ** 2)

    slope = derivative(f(x, y), y, inner)
    end = td.scan(lambda y_now, step: y_now + step * slope.subs(y, y_now), first, steps, last=True)
    return SimpleNamespace(
        value=kernel([x, y], f(x, y)), slope=kernel([x, y], slope),
        outer=kernel([x, first, steps], derivative(f(x, end), x, outer)),
    )  # fmt: skip


@cache
def particle(outer: str, inner: str) -> SimpleNamespace:
    """A charged particle in the field of two fixed charges, by Euler's method in as many steps as given."""
    w, h = sympy.Symbol("w", real=True), sympy.Rational(1, 10)
    x, v = tensor("x", 2), tensor("v", 2)
    potential = 1 / td.norm(x - td.stack([10, 10 - w])) + 1 / td.norm(x - td.stack([10, 0]))
    force = -derivative(potential, x, inner)

    def step(state: Any) -> Any:
        x_now, v_now = state
        return x_now + h * v_now, v_now + h * force.subs(x, x_now)

    x_end, v_end = td.scan(step, (td.stack([0, 8]), td.stack([sympy.Rational(3, 4), 0])), length=n, last=True)
    squared = (x_end[0] - x_end[1] / v_end[1] * v_end[0]) ** 2  # on the axis, by interpolation
    rate = td.gradient(squared, w) if outer == "r" else td.jvp(squared, w, 1)
    return SimpleNamespace(
        step=kernel([x, v, w], (x + h * v, v + h * force)), value=kernel([w, n], squared), slope=kernel([w, n], rate)
    )


# ---------------------------------------------------------------------------- functions of the board


def evaluated(function: Callable[..., Any], *arguments: Any, result: Callable[[Any], Any] = plain) -> Call:
    return lambda: function(*arguments), result


def _clusters(name: str) -> Function:
    return lambda given: evaluated(getattr(clusters(), name), array(given["points"]), array(given["centroids"]))


def expansion(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of `minors`: sets of columns are numbers, whose bits are the columns."""
    length = given["ell"]
    sets, columns = np.arange(2**length), np.arange(length)
    has = sets[:, None] >> columns & 1
    later = has.sum(1, keepdims=True) - has.cumsum(1)
    signs, before = np.where(has, (-1.0) ** later, 0.0), sets[:, None] & ~(1 << columns)
    return array(given["A"]).reshape(length, length), np.where(sets == 0, 1.0, 0.0), signs, before


def _expansion(name: str) -> Function:
    def result(value: Any) -> Any:
        return plain(np.ravel(value)) if name == "gradient" else plain(value)

    return lambda given: evaluated(getattr(minors(), name), *expansion(given), result=result)


def _mixture(name: str) -> Function:
    def prepare(given: Mapping[str, Any]) -> Call:
        size, number = given["d"], given["k"]
        columns, rows = np.triu_indices(size, 1)  # below the diagonal, column by column
        alpha, mu, q, flat, x = (array(given[field]) for field in ("alpha", "mu", "q", "l", "x"))
        flat = flat.reshape(number, -1)
        freedom, gamma = float(given["m"]), float(given["gamma"])
        halves = size + given["m"] + 1
        constant = halves * size * math.log(gamma / math.sqrt(2)) - size * (size - 1) / 4 * math.log(math.pi)
        constant = number * (constant - sum(math.lgamma((halves - place) / 2) for place in range(size)))
        function = getattr(mixture(), name)

        def call() -> Any:
            lower = np.zeros((number, size, size))
            lower[:, rows, columns] = flat
            found = function(alpha, mu, q, lower, x, gamma, freedom)
            return found + constant if name == "objective" else (*found[:3], found[3][:, rows, columns])

        def result(found: Any) -> Any:
            if name == "objective":
                return plain(found)
            return dict(zip(("alpha", "mu", "q", "l"), map(plain, found), strict=True))

        return call, result

    return prepare


def _bundle(name: str) -> Function:
    def prepare(given: Mapping[str, Any]) -> Call:
        n, m, p = (given[size] for size in "nmp")
        numbers = np.arange(p)
        arguments = [
            *(np.tile(array(given["cam"]), (n, 1)), np.tile(array(given["x"]), (m, 1)), np.full(p, float(given["w"]))),
            *(numbers % n, numbers % m, np.tile(array(given["feat"]), (p, 1))),
        ]
        if name == "objective":
            return evaluated(bundle().objective, *arguments, result=lambda found: _repeated(*found))
        function = bundle().jacobian
        return evaluated(lambda *own: function(*own).tocsr(), *arguments, result=lambda found: _first_rows(found, n, m))

    return prepare


def _repeated(errors: Any, penalties: Any) -> Any:
    """Return the first of the errors and how many there are, as the board wants them."""
    return {
        "reproj_error": {"elements": plain(errors[0]), "repeated": len(errors)},
        "w_err": {"element": float(penalties[0]), "repeated": len(penalties)},
    }


def _first_rows(matrix: Any, n: int, m: int) -> Any:
    """Return the first two rows and the last entry of a sparse matrix; the board stores some zeros, too."""
    columns = [*range(11), 11 * n, 11 * n + 1, 11 * n + 2, 11 * n + 3 * m]
    values = [float(value) for row in matrix[:2, columns].toarray() for value in row]
    count = matrix.shape[0] // 3
    rows = [15 * row if row <= 2 * count else 30 * count + row - 2 * count for row in (*range(30), 3 * count)]
    return {"rows": rows, "cols": [*columns * 2, matrix.shape[1] - 1], "vals": [*values, float(matrix.data[-1])]}


def _hand(name: str) -> Function:
    def prepare(given: Mapping[str, Any]) -> Call:
        data, model = given["data"], given["data"]["model"]
        bones, chosen = len(model["bone_names"]), np.array(data["correspondences"])
        parents = np.array(model["parents"])
        bend, spread = np.full(bones, 26), np.full(bones, 26)
        for finger in range(5):  # the first of three joints has two angles
            place, first = 6 + 4 * finger, 2 + 4 * finger
            bend[first : first + 3], spread[first] = (place, place + 2, place + 3), place + 1
        us = array(given["us"]).reshape(-1, 2)
        corners = list(np.array(model["triangles"])[chosen].T) if len(us) else [chosen]
        arguments = [
            *(array(given["theta"]), *([us] if len(us) else [])),
            *(
                array(model[field])
                for field in ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
            ),
            *(array(data["points"]), -1.0 if model["is_mirrored"] else 1.0, np.where(parents < 0, bones, parents)),
            *(bend, spread, *(np.ascontiguousarray(corner) for corner in corners)),
        ]
        function = getattr(hand(bool(len(us))), name)
        if name == "objective":
            return evaluated(function, *arguments, result=lambda found: plain(np.ravel(found)))
        return evaluated(
            lambda *own: np.concatenate(function(*own), axis=2), *arguments,
            result=lambda found: plain(found.reshape(-1, found.shape[-1])),
        )  # fmt: skip

    return prepare


def _memory(name: str) -> Function:
    def prepare(given: Mapping[str, Any]) -> Call:
        main, extra, state, sequence = (
            array(given[field]) for field in ("main_params", "extra_params", "state", "sequence")
        )
        function = getattr(memory(len(main) // 2), name)

        def result(found: Any) -> Any:
            return plain(found) if name == "objective" else plain(np.concatenate([np.ravel(part) for part in found]))

        return evaluated(function, main, extra, state, sequence[:-1], sequence[1:], result=result)

    return prepare


def _saddle(modes: str) -> Function:
    functions = [saddle(*pair) for pair in (modes, modes[0] * 2)]

    def prepare(given: Mapping[str, Any]) -> Call:
        start = array(given["start"])

        def greatest(x: Any, kernels: Any) -> tuple[Any, list[float]]:
            return descend(lambda y: -kernels.value(x, y), lambda y: -kernels.slope(x, y), start)

        def slope(x: Any) -> Any:
            return functions[0].outer(x, start, np.array(greatest(x, functions[0])[1] or [0.0]))

        def call() -> Any:
            x, _ = descend(lambda x: functions[0].value(x, greatest(x, functions[0])[0]), slope, start)
            return np.concatenate([x, greatest(x, functions[1])[0]])

        return call, plain

    return prepare


def _particle(modes: str) -> Function:
    kernels = particle(*modes)

    def prepare(given: Mapping[str, Any]) -> Call:
        def steps(w: float) -> int:
            """Return the number of steps that end above the axis."""
            x, v, count = np.array([0.0, 8.0]), np.array([0.75, 0.0]), 0
            while True:
                x, v = kernels.step(x, v, w)
                if x[1] <= 0:
                    return count
                count += 1

        def call() -> Any:
            def value(w: Any) -> float:
                return float(kernels.value(float(w[0]), steps(float(w[0]))))

            def slope(w: Any) -> Any:
                return np.reshape(kernels.slope(float(w[0]), steps(float(w[0]))), 1)

            return descend(value, slope, np.array([float(given["w"])]))[0][0]

        return call, plain

    return prepare


def _simple(name: str, kernels: Callable[[], Any], fields: Sequence[str]) -> Function:
    """A function whose arguments are fields of the input."""

    def prepare(given: Mapping[str, Any]) -> Call:
        arguments = [array(given[field]) if isinstance(given[field], list) else given[field] for field in fields]
        return evaluated(getattr(kernels(), name), *arguments)

    return prepare


def _hello(name: str) -> Function:
    return lambda given: evaluated(getattr(squares(), name), float(given))  # type: ignore[arg-type]


def _functions(make: Callable[..., Function], *names: str, **options: Any) -> dict[str, Callable[[], Function]]:
    return {name: partial(make, name, **options) for name in names}


VALUE = ("primal", "gradient")
LOSS = ("objective", "jacobian")
MODES = ("ff", "fr", "rf", "rr")
EVALS: dict[str, dict[str, Callable[[], Function]]] = {
    "hello": _functions(_hello, "square", "double"),
    "llsq": _functions(_simple, *VALUE, kernels=least_squares, fields=("x", "n")),
    "lse": _functions(_simple, *VALUE, kernels=log_sum, fields=("x",)),
    "ode": _functions(_simple, *VALUE, kernels=runge_kutta, fields=("x", "s")),
    "det": _functions(_expansion, *VALUE),
    "kmeans": _functions(_clusters, "cost", "dir"),
    "gmm": _functions(_mixture, *LOSS),
    "ba": _functions(_bundle, *LOSS),
    "ht": _functions(_hand, *LOSS),
    "lstm": _functions(_memory, *LOSS),
    "saddle": _functions(_saddle, *MODES),
    "particle": _functions(_particle, *MODES),
}
"""The makers of the functions of each eval."""
