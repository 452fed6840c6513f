"""Quotients like ``acos(c)/sqrt(1 - c**2)`` have their limits at the ends, also in sums of products of an angle."""

from __future__ import annotations

import numpy as np
import sympy
from every import every

import sympy_tensordiff as td

n, i = td.indices("n i")
x, a, b = (td.TensorSymbol(name, n) for name in "xab")
s, p, q = sympy.symbols("s p q", real=True)
ANGLE, OTHER = sympy.acos(s), sympy.pi - sympy.acos(s)
FACTORS = {
    "one": p,
    "two": p * sympy.exp(q),
    "a sum": p + sympy.sin(q),
    "with the variable": p + sympy.sin(s),
}


@every("name", [*FACTORS])
def test_slopes_of_squared_angles(name):
    """The slope of ``(k*angle)**2`` is ``-2*k**2`` where the angle is 0, and ``2*k**2`` where it is the other one."""
    factor = FACTORS[name]
    weights, shifts = np.array([2.0, 0.7]), np.array([0.5, -0.3])
    for angle, end, sign in ((ANGLE, 1.0, -2), (OTHER, -1.0, 2)):
        for written in (factor * angle, sympy.expand(factor * angle))[: 2 if angle is ANGLE else 1]:
            entry = (written**2).subs({s: x[i], p: a[i], q: b[i]}, simultaneous=True)
            slope = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), x)
            got = td.lambdify([x, a, b], slope, "numpy")(np.array([end, 0.3]), weights, shifts)
            square = sympy.lambdify((s, p, q), factor**2)(end, weights[0], shifts[0])
            inside = sympy.lambdify((s, p, q), sympy.diff((factor * angle) ** 2, s))(0.3, weights[1], shifts[1])
            np.testing.assert_allclose(got, [sign * square, inside], rtol=1e-12, err_msg=str(written))
