"""Index expressions as a person writes them: the same value, in an order that reads well."""

import sympy
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Min, Mod, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.symbolic.readable import arranged

i, k, p, q, N, K = td.indices("i k p q N K")
x = td.TensorSymbol("x", 99)

TEXTS = {
    -i + p: "p - i",
    p - 2 * i + 1: "p - 2*i + 1",
    9 - p: "9 - p",
    -p - 1: "-p - 1",
    N - 1 - p: "N - p - 1",
    floor((p + 1) / 2): "floor((p + 1)/2)",
    ceiling((p - K + 1) / 2) - 3: "ceiling((p - K + 1)/2) - 3",
    floor((9 - p) / 2): "floor((9 - p)/2)",
    p - 4 * floor(p / 4): "Mod(p, 4)",
    1 + 2 * p - 8 * floor(p / 4): "2*(Mod(p, 4)) + 1",
    q - p + 4 * floor(p / 4): "q - Mod(p, 4)",
    p - 3 * floor(p / 4): "Mod(p, 4) + floor(p/4)",
    p + 1 - 5 * floor((p + 1) / 5): "Mod(p + 1, 5)",
    floor((N - p + 1) / (2 * N)): "floor((N - p + 1)/(2*N))",
    -floor((p + 2) / (2 * N)): "-floor((p + 2)/(2*N))",
    p + 2 * N * q - 2 * N: "2*N*q + p - 2*N",
    Max(0, 1 - K + p): "Max(0, p - K + 1)",
    Min(N - 1, floor(p / 2)): "Min(N - 1, floor(p/2))",
}


@every("index, text", TEXTS.items(), ids=TEXTS.values())
def test_texts(index, text):
    low, high = (0, index) if index.has(Min) else (index, 99)
    total = td.IndexedSum(1, (k, low, high))
    assert str(total) == f"IndexedSum(1, (k, {text if index is low else low}, {text if index is high else high}))"
    if not index.has(Max, Min):
        assert str(x[index]) == f"x[{text}]"


def test_latex_and_pictures():
    total = td.IndexedSum(x[k], (k, ceiling((p - K + 1) / 2), 9 - p))
    assert sympy.latex(total) == (r"\sum_{k=\left\lceil{\frac{p - K + 1}{2}}\right\rceil}^{9 - p} x_{k}")
    assert sympy.latex(x[p - 4 * floor(p / 4)]) == r"x_{p \bmod 4}"
    assert sympy.latex(x[-floor((p + 2) / (2 * N))]) == r"x_{- \left\lfloor{\frac{p + 2}{2 N}}\right\rfloor}"
    assert sympy.pretty(x[p - k + 1]) == "x[p - k + 1]"


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


@settings(max_examples=25, deadline=None)
@given(index_expressions(), st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_the_value_stays(index, values):
    numbers = dict(zip((i, k, p), values, strict=True))
    again = sympy.sympify(str(arranged(index)), locals={"i": i, "k": k, "p": p})
    assert again.subs(numbers) == index.subs(numbers)
    assert isinstance(arranged(index), Mod) or arranged(index).subs(numbers) == index.subs(numbers)


def test_what_is_rounded_has_one_denominator_all_over_a_body():
    """SymPy has ``floor(p/3 + 2/3)``; in conditions and in front of tensors it reads as in indices and bounds."""
    halves = floor((p + 1) / 2) ** 2 * x[floor((p + 2) / 3)]
    body = sympy.Piecewise((halves, p >= floor((p + 2) / 3) + ceiling((N - p) / 2)), (0, True))
    table = td.TensorComprehension(body, (p, 5))
    assert str(table) == (
        "TensorComprehension(Piecewise((floor((p + 1)/2)**2*x[floor((p + 2)/3)], "
        "p >= ceiling((N - p)/2) + floor((p + 2)/3)), (0, True)), (p, 5))"
    )
    assert r"\left\lfloor{\frac{p + 1}{2}}\right\rfloor^{2}" in sympy.latex(table)
    assert "p + 1" in sympy.pretty(table)
    assert str(body.args[0][0]) == "floor(p/2 + 1/2)**2*x[floor((p + 2)/3)]"  # SymPy's own product
