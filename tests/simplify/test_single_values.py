"""Variables with one value: when the rows of all variables together are looked at, and when not."""

import pytest

from sympy_tensordiff.integer import values
from sympy_tensordiff.integer.affine import Affine, Constraint

P, A, B, C = (Affine({v: 1}) for v in range(4))


def between(low, form, high):
    return (Constraint("ge", form - low), Constraint("ge", high - form))


@pytest.mark.parametrize("rest", range(8))
def test_projections_are_made_where_one_value_is_left(rest, monkeypatch):
    """``12*a + 4*b + 2*c <= p <= 12*a + 4*b + 2*c + rest`` for b and c in 0, 1 leaves one a up to rest = 5."""
    made = []
    project = values.project
    monkeypatch.setattr(values, "project", lambda *given, **named: made.append(1) or project(*given, **named))
    rows = (*between(0, B, 1), *between(0, C, 1), *between(0, P - 12 * A - 4 * B - 2 * C, rest))
    found = values.unique_value([1, 2, 3], rows)
    if rest > 5:
        assert found is None
        assert not made  # out of many variables that takes long
    else:
        points = [(a, p) for a in range(9) for p in range(12 * a, 12 * a + 7 + rest)]
        value = found[0]
        if rest > 1:
            assert made
            assert value.keys() == {1}
            assert all(value[1].evaluate({0: p}) == a for a, p in points)
