"""Index notation as text: what it means, what it refuses, and that what is printed can be read again."""

import contextlib
import random
import string

import cases
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, ParseError, TensorDiffError
from sympy_tensordiff.parsing.indexed.api import MAX_DEPTH, MAX_INPUT
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid

i, j, k, m, n, p = td.indices("i j k m n p")
A, x, y = td.TensorSymbol("A", (m, n)), td.TensorSymbol("x", n), td.TensorSymbol("y", n)
a, idx = td.TensorSymbol("a", ()), td.TensorSymbol("idx", m, dtype=int)

DECLARED = "declare A[m, n], x[n], y[n], a, int idx[m], int p "


def table(body, *axes):
    return td.TensorComprehension(body, *axes)


MEANINGS = {
    "f[i] = sum(A[i, j]*x[j], j)": table(td.IndexedSum(A[i, j] * x[j], (j, 0, n - 1)), (i, m)),
    "s = sum(x[j]*y[k], (j, 0, k), (k, 0, n - 1))": td.IndexedSum(x[j] * y[k], (j, 0, k), (k, 0, n - 1)),
    "f[i] = prod(A[i, j], j) - IndexedMax(A[i, j], j)": table(
        td.IndexedProduct(A[i, j], (j, 0, n - 1)) - td.IndexedMax(A[i, j], (j, 0, n - 1)), (i, m)
    ),
    "f[i] = x[i]**2**-1": table(sympy.sqrt(x[i]), (i, n)),
    "f[i] = -x[i]^2 - 2*x[i]/a/4 + .5e1": table(-(x[i] ** 2) - x[i] / a / 2 + 5, (i, n)),
    "f[i] = where(0 <= i < p | ~(i != 4), x[i], 0)": table(
        sympy.Piecewise((x[i], ((i >= 0) & (i < p)) | sympy.Eq(i, 4)), (0, True)), (i, n)
    ),
    "f[i] = where(x[i] > 0 and not i < 2 or i == 0, x[i], a)": table(
        sympy.Piecewise((x[i], ((x[i] > 0) & (i >= 2)) | sympy.Eq(i, 0)), (a, True)), (i, n)
    ),
    "f[i] = sigmoid(x[i])*max(x[i], y[i], a)*relu(x[i])": table(
        sigmoid(x[i]) * sympy.Max(x[i], y[i], a) * sympy.Max(x[i], 0), (i, n)
    ),
    "s = sum(y[idx[k]]*delta(k, p), k)": td.IndexedSum(y[idx[k]] * sympy.KroneckerDelta(k, p), (k, 0, m - 1)),
    "f[i] = TensorComprehension(x[j]**2, (j, n))[n - 1 - i]*x[i]": table(
        table(x[j] ** 2, (j, n))[n - 1 - i] * x[i], (i, n)
    ),
    "f[i] = x[i//2]*y[-i % 3] + A[2*i//3*2 % m, i % 2*2//3]*i/2*x[i]": table(
        x[sympy.floor(i / 2)] * y[sympy.Mod(-i, 3)]
        + A[sympy.Mod(2 * sympy.floor(2 * i / 3), m), sympy.floor(2 * sympy.Mod(i, 2) / 3)] * i / 2 * x[i],
        (i, n),
    ),
    "f[i] = x[i]//2 + x[i] % a**2": table(sympy.floor(x[i] / 2) + sympy.Mod(x[i], a**2), (i, n)),
    "s = x[7//2 - 2]*(7 % 4)//1.5": sympy.floor(2 * x[1]),
    "s = x[0]*E*pi  # the end = here": x[0] * sympy.E * sympy.pi,
    "s = ln(x[0])": sympy.log(x[0]),
    "s = sinc(x[0])*jn(1, x[1])": sympy.sinc(x[0]) * sympy.jn(1, x[1]),
    "s = ((a)); ": a,
}


@every("text", [*MEANINGS])
def test_meaning(text) -> None:
    parsed = td.parse_indexed(f"{DECLARED}\n{text}\nderivative wrt x")
    assert parsed.expression == MEANINGS[text]
    assert parsed.arguments == (x,)
    assert list(parsed.tensors) == ["A", "x", "y", "a", "idx"]


RELATIONS = {"greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!="}


@every("name", [*RELATIONS])
def test_comparisons_by_name(name) -> None:
    """A call is the condition in `where`, and the function of the package, 1 or 0, as a number."""
    for read in ("x[i]", "i"):
        by_name, by_sign = (
            td.parse_indexed(f"{DECLARED} f[i] = where({condition}, x[i], a)").expression
            for condition in (f"{name}({read}, y[i])", f"{read} {RELATIONS[name]} y[i]")
        )
        assert by_name == by_sign
    number = td.parse_indexed(f"{DECLARED} f[i] = 2*{name}(x[i], y[i])").expression
    assert number == table(2 * getattr(td, name)(x[i], y[i]), (i, n))


def test_operations_on_conditions_by_name() -> None:
    """They join conditions by sign and by name; the value of the whole is 1 or 0."""
    for by_name, by_sign in {
        "logical_and(i < 2, less(y[i], x[i]))": "i < 2 and y[i] < x[i]",
        "logical_or(greater(x[i], 0), not i < 2)": "x[i] > 0 or not i < 2",
        "logical_not(logical_and(x[i] > 0, equal(i, 1)))": "not (x[i] > 0 and i == 1)",
        "equal(1, 1)": "True",
    }.items():
        for form in ("where({}, x[i], a)", "where({}, 1, 0)"):
            expected = td.parse_indexed(f"{DECLARED} f[n] f[i] = {form.format(by_sign)}").expression
            assert td.parse_indexed(f"{DECLARED} f[n] f[i] = {form.format(by_name)}").expression == expected
        assert td.parse_indexed(f"{DECLARED} f[n] f[i] = {by_name}*x[i]/x[i]").expression == expected


def test_a_comparison_of_comparisons() -> None:
    """Each is 1 or 0; the cases of nested ones are not compared one by one, which would take minutes."""
    depth = 30
    nested = td.parse_indexed(f"declare a, b s = {'greater(' * depth}a{', b)' * depth}")
    first, second = nested.tensors.values()
    for values in ((2, 0.5), (0.2, 0.5), (0.2, -1)):
        expected = values[0]
        for _ in range(depth):
            expected = float(expected > values[1])
        assert td.evaluate(nested.expression, dict(zip((first, second), values, strict=True))) == expected
    thesis = td.parse(f"declare a 0 b 0 expression {'greater(' * depth}a{', b)' * depth}")
    assert td.evaluate(thesis.expression, dict(zip(thesis.tensors.values(), (0.2, 0.5), strict=True))) == 0


REFUSED = {
    "declare x[n] s = less(x[0]) derivative wrt x": "less takes 2 arguments, and 1 are given",
    "declare x[n] s = logical_or(x[0] > 1) derivative wrt x": "logical_or takes 2 arguments, and 1 are given",
    "declare x[n] s = logical_not(x[0]) derivative wrt x": "a condition is expected here, such as i < j",
    "declare x[n] s = less(x[0] < 1, 1) derivative wrt x": "a number is expected here, not a condition",
    "": "the input is empty",
    "declare x[n] f[i] = x[i] + derivative wrt x": "`derivative` is not expected here, but an operand",
    "declare x[n] f[i] = x[i] @ x[i] derivative wrt x": "'@' does not belong to index notation; .* sum",
    "declare x[n] f[i] = __import__(1) derivative wrt x": "'_' does not belong .* names begin with a letter",
    "declare x[n] s = x'*x derivative wrt x": r"\"'\" does not belong .*; a transpose is .* A\[j, i\]",
    "declare x[n] s = x.T derivative wrt x": "'.' does not belong .*; a number has a digit",
    "declare x[n] f[i] = x_{i} derivative wrt x": "'{' does not belong .*; indices are in brackets",
    "declare x[n] f[i] = 2·x[i] derivative wrt x": r"'·' does not belong .*; the product is `\*`",
    "declare x[n] f[i] = 2\u2212x[i] derivative wrt x": "does not belong .*; the difference is `-`",
    "declare x[n] f[i] = x[i]² derivative wrt x": r"'²' does not belong .*; powers are written with `\^`",
    "declare x[n] f[i] = where(i ≤ 2, x[i], 0) derivative wrt x": "'≤' does not belong .*; write `<=`",
    "declare α[n] s = α[0] derivative wrt α": "'α' does not belong .*; names and operators .* ASCII",
    "declare A[m, n], x[n] f[i] = sum(A[i, j] x[j], j) derivative wrt x": r"`x` follows an operand; .* `\*`",
    "declare x[n] f[i] = 2x[i] derivative wrt x": "`x` follows an operand; write a product with",
    "declare x[n] s = x[0] t = x[1] derivative wrt x": "`t` follows an operand; .* after the only definition",
    "sum(x[i], i)": '`sum` is not expected here, but `declare`; an input reads "declare A',
    "declare x 1 expression x derivative wrt x": r"`1` is not a shape; shapes are in brackets, as in x\[n\]",
    "declare A[n, n] s = A[i, j] derivative wrt A": r"i is neither .* sum, as in sum\(x\[i\], i\), everything else",
    "declare x[n] s = x(0) derivative wrt x": r"x is a tensor; its indices are in brackets, as in x\[i\]",
    "declare x[n] f[i] = x[i] derivative wrt f": "f is what is defined; take a declared name: x",
    "declare x[n] f[i] = y[i] derivative wrt x": "y is not a declared tensor; take a declared name: x",
    "declare x[n] f[i] = q derivative wrt x": "q is neither declared nor an index here; .*int q",
    "declare x[n] f[i] = x*2 derivative wrt x": r"x has 1 axes: read an entry, x\[i\]",
    "declare x[n] f[i] = x[i, i] derivative wrt x": "1",
    "declare x[n] f[i] = x[i/2] derivative wrt x": "i",
    "declare x[n] f[i] = x[i] derivative wrt z": "takes a declared tensor, and z is not one; take a declared name: x",
    "declare = 1 derivative wrt z": "`=` is not expected here, but a name",
    "declare a s = 1 derivative wrt z": "take a declared name: a",
    "declare int a s = 1 derivative wrt z": "z is not one; declare a tensor first: there is none",
    "declare int x[n] s = 1 derivative wrt x": "x is a tensor of integers, which has no derivative",
    "declare x[n] x[m] s = 1 derivative wrt x": "x is declared twice",
    "declare x[n] y[x] s = 1 derivative wrt x": "x is a tensor, but is used in a shape",
    "declare lambda[n] s = 1 derivative wrt lambda": "lambda is a word of Python, .*; take another name, e.g. lambda1",
    "declare x[n] f[x] = 1 derivative wrt x": "x is a tensor, so no index has this name",
    "declare x[n] f[n] = 1 derivative wrt x": "n is a size, so no index has this name",
    "declare x[n] f[i, i] = x[i] derivative wrt x": "indices with different names",
    "declare x[n] f[i + 1] = x[i] derivative wrt x": "the left side has indices",
    "declare x[n], f[n, n] f[i] = x[i] derivative wrt x": "f is declared with 2 axes and defined with 1",
    "declare x[n] f[i] = x[2*i] derivative wrt x": "no axis tells how far i runs",
    "declare x[n], y[m] s = sum(x[i]*y[i], i) derivative wrt x": "i runs to n along x .* and i runs to m along y",
    "declare x[n] s = sum(x[i]) derivative wrt x": "sum takes a body and one range or more",
    "declare x[n] s = sum(x[i], (i, 3)) derivative wrt x": r"a range is \(k, first, last\), or a name alone",
    "declare x[n] s = TensorComprehension(x[i], (i, 0, 3))[2] derivative wrt x": r"a range is \(i, extent\)",
    "declare x[n] s = sin(x[0], 1) derivative wrt x": "sin takes 1 arguments, and 2 are given",
    "declare x[n] s = Heaviside(x[0], 1, 2) derivative wrt x": "takes 1 to 2 arguments, and 3",
    "declare x[n] s = system(x[0]) derivative wrt x": "system is not a function; the functions are exp, .*delta, Kron",
    "declare X[n, n] s = log(det(X)) derivative wrt X": r"det is a function of whole .* `declare X\[n, n\] det\(X\)",
    "declare x[n] s = x[0](1) derivative wrt x": r"`\(` follows an operand",
    "declare x[n] s = (x[0] + 1)[0] derivative wrt x": r"\(x\[0\] \+ 1\) is not a declared tensor",
    "declare x[n] s = sin(1)[0] derivative wrt x": "only a tensor has entries",
    "declare x[n] s = (1, 2) derivative wrt x": "several values in parentheses",
    "declare x[n] s = 1 < 2 derivative wrt x": "a number is expected here, not a condition",
    "declare x[n] s = 1 + (x[0] < 2) derivative wrt x": "a number is expected here, not a condition",
    "declare x[n] s = where(1, 2, 3) derivative wrt x": "a condition is expected here",
    "declare x[n] s = where(x[0] < 1, 2) derivative wrt x": "where takes a condition and two values",
    "declare x[n] s = Piecewise(1) derivative wrt x": "Piecewise takes pairs",
    "declare x[n] s = 1 + TensorComprehension(x[i], i) derivative wrt x": "not a tensor with 1 axes: read an entry",
    "declare x[n] s = x[0]/0 derivative wrt x": "this divides by 0",
    "declare x[n] s = Mod(3, 0) derivative wrt x": "this divides by 0",
    "declare x[n] s = x[0 % 0] derivative wrt x": "this divides by 0",
    "declare x[n] s = x[n // (1 - 1)] derivative wrt x": "this divides by 0",
    "declare x[n] s = 0**(-1) derivative wrt x": "is not a finite real number in the range of a double",
    "declare x[n] s = sqrt(-1) derivative wrt x": "is not a finite real number in the range of a double",
    "declare x[n] s = log(0) derivative wrt x": "is not a finite real number in the range of a double",
    "declare x[n] s = 9**9**9 derivative wrt x": "more than 1,000 digits",
    "declare x[n] s = exp(9**9*log(7)) derivative wrt x": "more than 1,000 digits",
    "declare x[n] s = 1e999 derivative wrt x": "the number 1e999 is too large for a double, whose range",
    f"declare x[n] s = {'9' * 2000} derivative wrt x": "the number has 2,000 characters, and at most 1,000 are read",
    f"declare x[n] s = {'(' * 5}{'sin(' * MAX_DEPTH}1{')' * MAX_DEPTH}{')' * 5} derivative wrt x": "levels inside",
    f"declare x[n] s = {'1+' * MAX_INPUT}1 derivative wrt x": "at most 20,000 are read",
    "declare x[0] s = x[0] derivative wrt x": "0",
    "declare x[n] s = x[-1] derivative wrt x": "-1",
}


@every("text", [*REFUSED], ids=range(len(REFUSED)))
def test_refused(text) -> None:
    with pytest.raises(ParseError, match=REFUSED[text]) as caught:
        td.parse_indexed(text)
    assert 1 <= caught.value.column <= len(caught.value.text) + 1


def test_the_variable_may_be_missing() -> None:
    parsed = td.parse_indexed("declare x[n] s = sum(x[i]**2, i)")
    assert parsed.arguments == () and str(parsed.derivative(wrt="x")) == "TensorComprehension(2*x[p], (p, n))"
    assert td.parse(td.to_text(parsed, "index")) == parsed
    two = td.parse("declare x 1 y 1 expression x *(i,i->) y")
    assert td.parse(td.to_text(two)) == two
    with pytest.raises(td.errors.ArgumentError, match="the text does not say what to differentiate with respect to"):
        two.derivative()


def test_no_text() -> None:
    with pytest.raises(ArgumentTypeError, match="the input of parse_indexed is a text, not int"):
        td.parse_indexed(3)


UNREAD = {
    "H5_mirror_image", "clamp_mirror_image", "map_pixel_unshuffle",  # SymPy writes their remainders in another form
    "choice_exclusive_or",  # ^ is a power
    "choice_domain_of_a_choice",  # a value that is not finite, in a case that never holds
}  # fmt: skip


@every("name", [name for name in cases.names() if name not in UNREAD], turns=10)
def test_what_is_printed_can_be_read_again(name) -> None:
    case = cases.build(name)
    tensors = {t.name: t for t in case.function.atoms(td.TensorSymbol)}
    tensors |= {v.name: v for v in case.variables if isinstance(v, td.TensorSymbol)}
    scalars = {s for s in case.function.free_symbols - {*tensors.values()} if not s.is_integer}
    sizes = {s for tensor in tensors.values() for extent in tensor.shape for s in extent.free_symbols}
    integers = {s for s in case.function.free_symbols - {*tensors.values()} if s.is_integer} - sizes
    declared = [
        "int " * (tensor.dtype is int) + tensor.name + f"[{', '.join(map(str, tensor.shape))}]" * bool(tensor.shape)
        for tensor in tensors.values()
    ]
    declared += [str(scalar) for scalar in scalars] + [f"int {integer}" for integer in integers]
    wrt = next(v for v in case.variables if getattr(v, "dtype", float) is float)
    parsed = td.parse_indexed(f"declare {' '.join(declared)}\nresult = {case.function}\nderivative wrt {wrt}")
    expected = case.function.subs({s: td.TensorSymbol(str(s), ()) for s in scalars})
    # A product of entries that are written out is read as one product.
    assert parsed.expression == expected or parsed.expression.doit().expand() == expected.doit().expand()


def test_no_text_gives_another_error_than_ours() -> None:
    generator = random.Random(5)
    pieces = [*"()[]+-*/^,<>=&|~ijknx0123456789.e", "x[", "sum(", "where(", "**", "derivative wrt x", "declare x[n] "]
    pieces += ["f[i] = x[i]", "Mod(", "prod(x[i], i)", "IndexedMax(", "(i, 0, n)", " or ", " not ", "Piecewise((", "1e"]
    for _ in range(300):
        middle = "".join(generator.choices(pieces + list(string.printable), k=generator.randrange(1, 12)))
        text = f"declare x[n], y[n, n] f[i] = x[i]{middle}*y[i, 0] derivative wrt x"
        with contextlib.suppress(TensorDiffError):
            td.parse_indexed(text).derivative()
