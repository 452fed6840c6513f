"""Choices on values: conditions of every kind, nested, mixed with indices, at ties and outside of domains."""

from __future__ import annotations

from fractions import Fraction

from cases import Case, case
from sympy import (
    ITE,
    Abs,
    And,
    Eq,
    Equivalent,
    Heaviside,
    Implies,
    Max,
    Min,
    Ne,
    Not,
    Or,
    Piecewise,
    Symbol,
    Xor,
    exp,
    log,
    sign,
    sin,
    sqrt,
)

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k = indices("i j k")
x, y, z = (TensorSymbol(name, 6) for name in "xyz")
alpha = Symbol("alpha", real=True)
logs = Tensor(log(x[j]), (j, 6))
waves = Tensor(sin(logs[j]) + sqrt(x[j]), (j, 6))
VALUES = {
    x: [-1, 0, Fraction(1, 2), 2, 1, -3],
    y: [1, -1, Fraction(1, 2), 2, 0, -3],
    z: [2, 1, -1, Fraction(3, 2), -2, Fraction(1, 4)],
}
"""With ties, zeros and numbers of both signs."""

X, Y, Z = x[i], y[i], z[i]
RAMP = Piecewise((X, X > 0), (0, True))
MIXED = Piecewise((X, And(Z > 0, Ne(i, 3))), (i, Eq(Y, 0)), (0, True))
CHOSEN = Sum(Piecewise((x[k], And(Or(x[k] > 1, Z > 0), Or(Y < 1, Z > 0))), (Y, True)), (k, i, 5))
BODIES = {
    "and": Piecewise((X * Y, And(X > 0, Y > 0)), (Z, True)),
    "or": Piecewise((X**2, Or(X > Y, Z < 0)), (Y * Z, True)),
    "not": Piecewise((X**2 * Z, Not(And(X > 0, Z > 0))), (Y, True)),
    "if_then_else": Piecewise((X * Z, ITE(X > 0, Y > 0, Z > 0)), (X + Y, True)),
    "exclusive_or": Piecewise((X * Z, Xor(X > 0, Z > 0)), (Y**2, True)),
    "equivalent": Piecewise((X * Z, Equivalent(X > 0, Z > 0)), (Y**2, True)),
    "implied": Piecewise((X * Z, Implies(X > 0, Z > 0)), (Y**2, True)),
    "equal": Piecewise((X * Z, Eq(X, Y)), (Y * X**2, True)),
    "unequal": Piecewise((X * Z, Ne(X, Y)), (Y * X**2, True)),
    "chained": Piecewise((X**2, X < -2), (X * Y, X < 0), (Z, X <= 1), (X**3, True)),
    "nested": Piecewise((Piecewise((X**2, Y > 0), (X * Z, True)), X > -2), (Y, True)),
    "condition_of_a_choice": Piecewise((X, Piecewise((X, Y > 0), (Z, True), evaluate=False) > 0), (Y * Z, True)),
    "index_and_value": Piecewise((X * x[i - 1], And(i > 0, Y > 0)), (Z**2, Or(i < 4, Z > 0)), (X, True)),
    "in_a_function": sin(Piecewise((X * Y, X > 0), (Z, True))) ** 2,
    "in_a_sum": Sum(Piecewise((x[k] * Y, x[k] > Z), (x[k] ** 2, k < 2), (0, True)), (k, 0, i)),
    "of_a_sum": Piecewise((Sum(x[k] * y[k], (k, 0, i)), Sum(x[k], (k, 0, i)) > 0), (Z * X, True)),
    "max_of_four": Max(X, Y, Z, 1) * Min(X, Y, Z),
    "max_of_choices": Max(Piecewise((X, Y > 0), (Z, True)), Y),
    "heaviside": Heaviside(X) * Y**2 + Heaviside(X - Y, 0) * X,
    "sign": sign(X) * X * Y + Abs(X * Z) + Abs(Abs(X) - 1),
    "scalar_threshold": Piecewise((X**2, alpha < X), (alpha * X, True)),
    "tuned": Piecewise((X**2 / 2, Abs(X) <= 1), (Abs(X) - Y, True)),
    "if_then_never": Piecewise((X * Y, ITE(X > 0, ITE(Ne(i, 1), Y > 0, False), Eq(i, 2))), (Z**2, True)),
    "max_of_a_constant_entry": Max(2 * Piecewise((x[2], x[2] > 0), (Y, True)), Y) * Z,
    # What would not be a number, or warn, where the branch is not taken.
    "domain_of_log": Piecewise((log(X) * Y, X > 0), (X**2, True)),
    "domain_of_root": Piecewise((sqrt(X) * Z, X > 0), (0, True)) * Y,
    "domain_of_quotient": Piecewise((Y / X, Ne(X, 0)), (Z, True)),
    "domain_in_a_sum": Sum(Piecewise((log(x[k]) * Y, x[k] > 0), (0, True)), (k, 0, 5)),
    "domain_of_two": Piecewise((Piecewise((log(X * Y), Y > 0), (Z, True)) * Z + 1, X > 0), (Y, True)),
    # One logarithm under two conditions, so that its cotangent is an addition, or a sum, of choices.
    "domain_of_either": Piecewise((log(X), X > 0), (0, True)) + Piecewise((log(X) * Y, X > 1), (0, True)),
    "domain_of_neither": Piecewise((1 / Y, X > 5), (log(X) / Y, And(X > 0, Ne(Y, 0))), (0, True)),
    "domain_of_some": Sum(Piecewise((log(X) * x[k], And(X > 0, x[k] > Y)), (0, True)), (k, 0, 5)),
    "domain_of_three": Piecewise((Piecewise((sqrt(Y) / (X - 2 * Y), X > 2 * Y), (0, True)) * Z, Y > 0), (X, True)),
    "domain_of_a_tensor": Piecewise((waves[i] * Y, X > 0), (0, True))
    + Piecewise((logs[5 - i], x[5 - i] > 1), (0, True)),
    # What SymPy makes of these: 1/0 in a branch that is never taken, and choices between conditions.
    "domain_of_a_choice": Piecewise((1 / RAMP, RAMP > 0), (Z, True)) * Y,
    "domain_of_an_index": Piecewise((1 / (MIXED + X), Ne(MIXED + X, 0)), (Y, True)),
    "domain_of_nothing": Piecewise((Y / Sum(x[k], (k, 3, 2)), X > 5), (Z, True)),
    "domain_of_a_sum": Piecewise((1 / CHOSEN, Ne(CHOSEN, 0)), (X, True)),
    "domain_of_exponent": Piecewise((z[5 - i] ** Abs(i) * Y, And(X < 2, Ne(i, 4))), (0, True)) + Y ** Abs(i - 4),
    "domain_of_exp": Piecewise((exp(1000 * X), X < -2), (X, True)),
    "domain_of_power": Piecewise((X ** (Y + 4), X > 0), (Y**2, True)),
}
for name, body in BODIES.items():
    variables = tuple(v for v in (x, y, z, alpha) if body.has(v))
    case(f"choice_{name}")(
        lambda body=body, variables=variables: Case(
            Tensor(body, (i, 6)), variables, values={**VALUES, alpha: Fraction(1, 2)}
        )
    )
case("choice_without_default")(
    lambda: Case(Sum(Piecewise((x[k] ** 2, x[k] > 0), (y[k] * x[k], x[k] <= 0)), (k, 0, 5)), (x, y), values=VALUES)
)
