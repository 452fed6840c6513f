"""The table of functions: its claims against SymPy and sampled values, and the texts that accept its functions."""

import math

import mpmath
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.functions.table import RealFunction, by_name, readable_functions, record_of
from sympy_tensordiff.reference import evaluate

n = td.indices("n")
u, v = td.TensorSymbol("u", n), td.TensorSymbol("v", n)
RECORDS = {record.name: record for record in readable_functions().values()} | {
    name: by_name(name) for name in ("gamma", "loggamma", "factorial", "exp2", "erf2", "fma")
}
POINTS = (-700.25, -30.5, -2.25, -1.0, -0.5, 0.0, 0.25, 0.75, 1.0, 3.5, 40.125, 650.0)

every_record = every("record", RECORDS)


def value(record: RealFunction, point: float) -> mpmath.mpf | None:
    """Return the value of a function of one operand at ``point`` in 30 digits; None if it has none."""
    applied = record.function(sympy.Rational(point))
    found = sympy.N(applied, 30)
    if not found.is_Number:  # a function of the package
        found = sympy.N(applied.rewrite(sympy.exp), 30)
    return mpmath.mpf(str(found)) if found.is_finite and found.is_real else None


@every_record
def test_claims_hold_at_sampled_points(record):
    assert record_of(record.function) is record
    if record.operands[0] > 1 or record.name in ("maximum", "minimum"):
        return
    for point in POINTS:
        if (found := value(record, point)) is None:
            assert not record.is_defined or record.name == "cbrt", point  # SymPy's root is complex
            continue
        low, high, _ = record.values
        assert low is None or found >= float(low), point
        assert high is None or found <= float(high), point
        assert not record.is_positive or found > 0 or abs(point) > 20
        assert not record.is_finite or math.isfinite(float(found)), point
        if record.is_exact:
            exact = record.function(sympy.Rational(point))
            assert exact == sympy.Rational(float(exact)), point
        if record.parity:
            assert mpmath.almosteq(value(record, -point), record.parity * found, 1e-20), point


@every_record
def test_values_in_python_and_reciprocals(record):
    other = record_of(record.reciprocal_of)
    for point in (0.5, 1.25) if record.operands == (1, 1) else ():
        found = value(record, point)
        if found is not None and record.numeric is not None:
            assert record.numeric(point) == pytest.approx(float(found), rel=1e-14)
        if record.reciprocal_of is not None:
            assert mpmath.almosteq(found * value(other, point), 1, 1e-14)


@every_record
def test_public_functions_print_by_name(record):
    assert record.is_public == hasattr(td, record.name)
    if record.is_public and record.name not in ("clip", "square", "entr", "logaddexp"):
        operands = (u, v)[: max(record.operands[0], 1 + (record.operands[1] > 1))]
        assert str(td.elementwise(record.function, *operands)) == f"{record.name}({', '.join(map(str, operands))})"


@every("name", sorted(readable_functions()))
def test_every_text_language_reads_it(name):
    """Index notation, matrix formulas of vectors and of numbers, and LaTeX by `operatorname`."""
    record = by_name(name)
    count = max(record.operands[0], 2 if record.operands[1] > 2 else record.operands[0])
    vectors = ", ".join(("u", "v", "w")[:count])
    entries = ", ".join(f"{letter}[i]" for letter in vectors.split(", "))
    declared = "declare " + ", ".join(f"{letter}[n]" for letter in vectors.split(", "))
    texts = (
        f"{declared} r = sum({name}({entries}), i) derivative wrt u",
        f"{declared} sum({name}({vectors})) derivative wrt u",
    )
    given = {"u": [0.25, 0.5, 0.75], "v": [0.125, 0.25, 0.375], "w": [0.5, 0.6, 0.7]}
    results = []
    for text in texts:
        expr = td.parse(text).expression if "[i]" not in text else td.parse_indexed(text).expression
        symbols = {s: given[s.name] for s in expr.free_symbols if s.name in given}
        results.append(complex(evaluate(expr, {**symbols, n: 3})).real if name not in UNDEFINED else str(expr))
    if name not in UNDEFINED:
        assert results[0] == pytest.approx(results[1], rel=1e-14)


UNDEFINED = {name for name, r in readable_functions().items() if r.name in ("acosh", "acoth", "asec", "acsc")}
"""Functions without a real value between 0 and 1."""


@every(
    "text",
    ["sum(where(greater(u, 0), u, v))", "sum(clip(u, 0, 1)) + std(v)", "var(u)", "std(u)", "prod(u)", "sum(cumsum(u))"],
)
def test_matrix_formulas_read_words_of_numpy(text):
    expr = td.parse(f"declare u[n], v[n] {text}").expression
    names = {name: getattr(td, name) for name in td.__all__} | {"u": u, "v": v}
    expected = eval(text, names)
    given = {s: [1.5, -0.25, 0.75] for s in (u, v)} | {n: 3}
    assert float(evaluate(expr, given)) == pytest.approx(float(evaluate(expected, given)), rel=1e-14)


def test_names_of_new_functions_are_free_for_tensors():
    assert str(td.parse("declare var[n], std[n] var'*std").expression) == "var.T @ std"
    with pytest.raises(ParseError, match=r"var is a function: write var\(…\), or take another name"):
        td.parse("declare var[n], x[n] var'*x*var(x)")


@every(
    "text", ["square(" * 40 + "10" + ")" * 40, "expm1(10**9*log(10))", "logaddexp(10**9*log(10), 1)", "gamma(10**9)"]
)
def test_numbers_of_any_length_are_refused(text):
    for prefix in ("declare x ", "declare x[n] s = "):
        with pytest.raises(ParseError, match=r"digits|double|is not a function"):
            td.parse(f"{prefix}{text}*x") if prefix == "declare x " else td.parse_indexed(
                f"{prefix}{text} + x[0] derivative wrt x"
            )
