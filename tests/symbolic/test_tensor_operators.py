"""Operators on whole tensors, and SymPy's own sums, products and powers of them: entry by entry."""
# ruff: noqa: SIM300, B002

import pytest
import sympy
from every import every
from sympy import Add, Lambda, Mul, Pow, Rational, S, Symbol

import sympy_tensordiff as td
from sympy_tensordiff import FilledTensor, TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.errors import ShapeError

i, j, n, m = td.indices("i j n m")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m))
C = td.TensorSymbol("C", (m, n))
x, y = td.TensorSymbol("x", m), td.TensorSymbol("y", n)
T = td.TensorSymbol("T", (2, 3, 4))
s = td.TensorSymbol("s", ())
X = td.TensorSymbol("X", (n, n))
c = Symbol("c", real=True)
t0, t1 = sympy.symbols("t0 t1", real=True)
SCALARS = [2, 2.5, Rational(1, 3), sympy.pi, c, c + 1, x[0], s, td.det(X), td.IndexedSum(x[i], (i, 0, m - 1)), n]


@every("scalar", SCALARS, ids=str)
def test_scalars_on_either_side(scalar):
    whole = sympy.sympify(scalar)
    assert A + scalar == scalar + A == TensorAdd(A, whole) == Add(A, scalar) == Add(scalar, A)
    assert A - scalar == TensorAdd(A, -whole) and scalar - A == TensorAdd(whole, TensorMul(-1, A))
    assert A * scalar == scalar * A == TensorMul(whole, A) == Mul(scalar, A) == Mul(A, scalar)
    assert A / scalar == TensorMul(1 / whole, A)
    assert scalar / A == TensorMul(whole, TensorPow(A, -1))
    assert A**scalar == TensorPow(A, whole) == Pow(A, scalar)
    assert scalar**A == TensorPow(whole, A) == Pow(scalar, A)
    for result in (A + scalar, scalar * A, A**scalar, scalar**A, A % scalar, scalar // A):
        assert result.shape == (n, m) and result.rank == 2 and not result.is_scalar


def test_tensors_of_one_shape():
    assert A + B == B + A == TensorAdd(A, B) == Add(A, B) == Add(B, A)
    assert A - B == TensorAdd(A, TensorMul(-1, B)) == Add(A, -B)
    assert A * B == B * A == TensorMul(A, B) == Mul(A, B) == Mul(B, A) == Mul(A, B, evaluate=False)
    assert A / B == TensorMul(A, TensorPow(B, -1)) == Mul(A, 1 / B) and 1 / A == TensorPow(A, -1)
    assert A**B == TensorPow(A, B) == Pow(A, B) != B**A
    assert hash(A + B) == hash(B + A) and A + B is B + A
    assert sum([A, B, A]) == A + B + A and A + A == TensorAdd(A, A)
    assert sympy.prod([A, B]) == A * B


def test_unary_operators():
    assert -A == TensorMul(-1, A) == Mul(-1, A) and +A is A
    assert abs(A) == sympy.Abs(A) == td.abs(A) == TensorFunction(Lambda(t0, sympy.Abs(t0)), A)
    assert sympy.sqrt(A) == A ** Rational(1, 2)


def test_numbers_are_merged():
    assert -(-A) is A and 2 * (3 * A) == 6 * A and (6 * A) / 6 is A and 2 * (A * B / 2) == A * B
    assert (2 * A) * (3 * B) == TensorMul(6, A, B) and 0.5 * (4 * A) == TensorMul(2.0, A)
    assert A + 0 is A and 0 + A is A and A - 0 is A and A * 1 is A and A / 1 is A and A**1 is A
    assert 0 * A == FilledTensor(0, (n, m)) == td.zeros((n, m)) == 0 / A and A**0 == td.ones((n, m))
    assert (c * A).operands == (c, A) and (A * c * 2).operands == (S(2), c * A)


def test_rounding_and_remainders():
    floor = td.floor(A / 2)
    assert A // 2 == floor and A % 2 == A - 2 * floor and divmod(A, 2) == (A // 2, A % 2)
    assert 2 // A == td.floor(2 / A) and 2 % A == 2 - A * td.floor(2 / A) and divmod(2, A) == (2 // A, 2 % A)
    assert A % B == A - B * td.floor(A / B) and (A**2) % 3 == pow(A, 2, 3)


def test_zeros_do_not_stay_in_sums_and_products():
    zero = td.zeros((n, m))
    assert A + zero is A and zero + A is A and Add(A, zero) is A and zero + zero == zero
    assert A * zero == zero and 0.0 * A == zero and c * zero == zero and Mul(c, zero, A) == zero
    assert zero + c == td.FilledTensor(c, (n, m)) and td.zeros(()) + A != A


def test_functions_that_select_an_operand_are_it():
    assert td.elementwise(lambda a: a, A) is A and td.maximum(A) is A and td.elementwise(lambda a, b: b, A, B) is B
    assert td.elementwise(lambda a, b: a, c, x).shape == (m,)
    assert td.elementwise(lambda a, b: b, A, x).shape == (n, m)
    with pytest.raises(ShapeError, match="elementwise: axis 1 of operand 0"):
        td.elementwise(lambda a, b: a, A, y)


REFUSED = {
    "sum": (lambda: A + C, r"operator \+: axis 0 of operand 0 \(A\) has extent n, .* 1 \(C\) has extent m"),
    "rank": (lambda: A + y, r"axis 1 of operand 0 \(A\) has extent m, axis 0 of operand 1 \(y\) has .*td\.ones\(m\)"),
    "product": (lambda: 2 * A * C, r"operator \*: axis 0 of operand 0 \(A\) has extent n"),
    "power": (lambda: A**C, r"TensorPow: axis 0 of operand 0 \(A\) has extent n"),
    "numbers": (lambda: td.TensorSymbol("a", 2) * td.TensorSymbol("b", 3), "has extent 2, that of .* has extent 3"),
    "function": (lambda: td.elementwise(sympy.atan2, A, C), r"elementwise: axis 0 of operand 0 \(A\) has extent n"),
    "native": (lambda: Add(A, C), r"operator \+: axis 0 of operand 0 \(A\)"),
    "native product": (lambda: Mul(A, y), r"operator \*: axis 1 of operand 0 \(A\) has extent m"),
    "scalars": (lambda: TensorAdd(1, c), r"TensorAdd\(1, c\) has no operand of rank > 0: SymPy's own scalar nodes"),
    "scalar power": (lambda: TensorPow(c, 2), r"TensorPow\(c, 2\) has no operand of rank > 0"),
    "nothing": (lambda: TensorMul(), r"TensorMul\(\) has no operand"),
    "matrix product": (lambda: A @ B, "label j is axis 1 of operand 0 with extent m, and axis 0 of operand 1 with"),
    "vector and three axes": (lambda: x @ T, "label i is axis 0 of operand 0 with extent m, and axis 1 of operand"),
    "scalar factor": (lambda: A @ 2, r"A @ \(2\): a scalar is not a matrix; the product with a scalar is \*"),
    "scalar in front": (lambda: c @ A, "a scalar is not a matrix"),
    "transpose": (lambda: T.T, r"T.T: the transpose is that of a matrix, .* rank 3; .* td.transpose\(T, \(2, 1, 0\)\)"),
    "native transpose": (lambda: sympy.transpose(T), "the transpose is that of a matrix"),
    "transpose of some": (lambda: td.transpose(T, (0, 1)), r"transpose: \(0, 1\) does not name all axes of T"),
}  # fmt: skip


@every("what", [*REFUSED])
def test_shapes_that_do_not_fit(what):
    build, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message):
        build()


def test_conditions_in_which_sympy_has_no_end():
    """The loss of a quantile: SymPy's own choice between such sides evaluates itself for ever."""
    u, v = td.TensorSymbol("u", n), td.TensorSymbol("v", n)
    loss = td.sum(td.maximum(9 * (u - v), v - u))
    entry = td.gradient(loss, u)[0].doit(deep=False)
    again = td.parse(f"declare u[n], v[n] s = {td.to_text(entry, language='index')} derivative wrt u")
    theirs, values = again.tensors, ([2.0, 0.0], [1.0, 1.0])
    assert td.evaluate(entry, dict(zip((u, v), values, strict=True))) == 9
    assert td.evaluate(again.expression, dict(zip((theirs["u"], theirs["v"]), values, strict=True))) == 9
