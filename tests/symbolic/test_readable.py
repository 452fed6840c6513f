"""Index expressions as a person writes them: the same value, in an order that reads well."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Min, Mod, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.symbolic.printing.index_printing import arranged

i, k, p = td.indices("i k p")


@st.composite
def index_expressions(draw):
    def linear():
        numbers = st.integers(-7, 7)
        return sum((draw(numbers) * s for s in (i, k, p)), sympy.Integer(draw(numbers)))

    total = linear()
    for _ in range(draw(st.integers(0, 2))):
        inner, divisor = linear(), draw(st.integers(2, 5))
        rounded = draw(st.sampled_from((floor, ceiling)))(inner / divisor)
        times = draw(st.integers(-6, 6))
        total += times * (inner - divisor * rounded) if draw(st.booleans()) else times * rounded
    return draw(st.sampled_from((Max, Min)))(total, linear()) if draw(st.booleans()) else total


@pytest.mark.in_turns(4)
@settings(max_examples=25, deadline=None)
@given(index_expressions(), st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_the_value_stays(index, values):
    numbers = dict(zip((i, k, p), values, strict=True))
    again = sympy.sympify(str(arranged(index)), locals={"i": i, "k": k, "p": p})
    assert again.subs(numbers) == index.subs(numbers)
    assert isinstance(arranged(index), Mod) or arranged(index).subs(numbers) == index.subs(numbers)
