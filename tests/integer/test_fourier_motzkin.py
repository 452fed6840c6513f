"""Elimination compared with the projection of the points, by enumeration."""

from random import Random

import pytest
from every import every
from fuzz.systems import points, random_form

from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.fourier_motzkin import eliminate, project_exactly

pytestmark = pytest.mark.quick

H, J, K, N, P = (Affine.variable(v) for v in ("h", "j", "k", "n", "p"))


def ge(form):
    return Constraint("ge", form)


@every("seed", range(50))
def test_projections_hold_exactly_where_integers_complete_them(seed):
    random = Random(seed)
    box = {v: range(-3, 4) for v in ("p", "j", "k")}
    rows = [row for v in ("j", "k") for row in (ge(Affine({v: 1}, 2)), ge(Affine({v: -1}, 2)))]
    rows += [Constraint("eq" if random.random() < 0.2 else "ge", random_form(random, [*box], 2)) for _ in range(2)]
    exact = project_exactly(rows, ["j", "k"])
    assert exact is not None or seed > 9  # some are refused
    shadow = {*points(rows, box, {})[:, 0].tolist()}
    for p in box["p"] if exact is not None else ():
        assert all(row.holds({"p": p}) for row in exact) == (p in shadow)


def test_hidden_variables_are_refused():
    with pytest.raises(ValueError, match="congruence"):
        eliminate([Constraint("mod", H + J, 2)], "h")
    with pytest.raises(ValueError, match="quotient"):
        eliminate([ge(2 * quotient(H + 1, 2) - 3 * J)], "h")
