"""Operators on whole tensors, and SymPy's own sums, products and powers of them: entry by entry."""
# ruff: noqa: SIM300, B002

import operator

import numpy as np
import pytest
import sympy
from every import every
from sympy import Add, Lambda, Mul, Pow, Rational, S, Symbol

import sympy_tensordiff as td
from sympy_tensordiff import DeltaTensor, EinsumProduct, FilledTensor, TensorAdd, TensorFunction, TensorMul, TensorPow
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


def test_powers_of_e_are_exponentials():
    assert sympy.E**A == sympy.exp(1) ** A == td.exp(A) == TensorFunction(Lambda(t0, sympy.exp(t0)), A)


def test_rounding_and_remainders():
    floor = td.floor(A / 2)
    assert A // 2 == floor and A % 2 == A - 2 * floor and divmod(A, 2) == (A // 2, A % 2)
    assert 2 // A == td.floor(2 / A) and 2 % A == 2 - A * td.floor(2 / A) and divmod(2, A) == (2 // A, 2 % A)
    assert A % B == A - B * td.floor(A / B) and (A**2) % 3 == pow(A, 2, 3)


def test_sympys_own_nodes_collect_first():
    assert Add(A, A) == 2 * A and Mul(A, A) == A**2 and Mul(2, c, A, x[0], 3) == (6 * c * x[0]) * A
    assert Add(1, A, c, -1) == A + c and Add(A, 1, B, c) == TensorAdd(c + 1, A, B)
    assert Mul(A, 1 / A) == A / A  # not the scalar 1
    assert Add(A, -A) == A - A  # not the scalar 0
    assert sympy.expand(c * (A + B)).shape == (n, m)
    assert (2 * c).subs(c, A) == 2 * A and (c + 1).xreplace({c: A}) == A + 1 and (c**2).subs(c, A) == A**2
    assert Lambda(c, c * B + 1)(A) == A * B + 1


PRODUCTS = {
    "matrices": (A, C, "ij,jk->ik", (n, n)),
    "matrix and vector": (A, x, "ij,j->i", (n,)),
    "vector and matrix": (y, A, "i,ij->j", (m,)),
    "vectors": (x, x, "i,i->", ()),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_matrix_products(product):
    left, right, subscripts, shape = PRODUCTS[product]
    assert left @ right == EinsumProduct(subscripts, left, right) and (left @ right).shape == shape
    assert left @ (2 * right) == EinsumProduct(subscripts, left, 2 * right)


def test_transposes():
    assert A.T == EinsumProduct("ij->ji", A) == sympy.transpose(A) == sympy.adjoint(A) == td.transpose(A)
    assert A.T.shape == (m, n) and A.T.T.shape == (n, m)
    assert x.T is x and s.T is s and (A.T @ A).shape == (m, m)
    assert td.transpose(T).shape == (4, 3, 2) and td.transpose(T, (0, -1, 1)).shape == (2, 4, 3)
    assert td.transpose(T, (0, 1, 2)) is T and td.transpose(s) is s


def test_zeros_do_not_stay_in_sums_and_products():
    zero = td.zeros((n, m))
    assert A + zero is A and zero + A is A and Add(A, zero) is A and zero + zero == zero
    assert A * zero == zero and 0.0 * A == zero and c * zero == zero and Mul(c, zero, A) == zero
    assert zero + c == td.FilledTensor(c, (n, m)) and td.zeros(()) + A != A


def test_zeros_of_derivatives_do_not_stay():
    # SymPy's rule of a power takes the logarithm of the base, which there may be none of.
    u, v = td.TensorSymbol("u", 3), td.TensorSymbol("v", 3)
    for expr in (td.sum(v) ** td.sum(u), sympy.atan2(td.sum(v), td.sum(u))):
        assert not any(getattr(node, "value", None) == 0 for node in sympy.diff(expr, v).atoms(td.FilledTensor))
        assert not sympy.diff(expr, v).has(sympy.log)


def test_functions_that_select_an_operand_are_it():
    assert td.elementwise(lambda a: a, A) is A and td.maximum(A) is A and td.elementwise(lambda a, b: b, A, B) is B
    assert td.elementwise(lambda a, b: a, c, x).shape == (m,)
    assert td.elementwise(lambda a, b: b, A, x).shape == (n, m)
    with pytest.raises(ShapeError, match="elementwise: axis 1 of operand 0"):
        td.elementwise(lambda a, b: a, A, y)


def test_axes_are_whatever_counts():
    assert td.sum(A, np.int64(1)) == td.sum(A, sympy.Integer(1)) == td.sum(A, -1)


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
    "scalar factor": (lambda: A @ 2, r"A @ \(2\): a scalar is no matrix; the product with a scalar is \*"),
    "scalar in front": (lambda: c @ A, "a scalar is no matrix"),
    "transpose": (lambda: T.T, r"T.T: the transpose is that of a matrix, .* rank 3; .* td.transpose\(T, \(2, 1, 0\)\)"),
    "native transpose": (lambda: sympy.transpose(T), "the transpose is that of a matrix"),
    "transpose of some": (lambda: td.transpose(T, (0, 1)), r"transpose: \(0, 1\) does not name all axes of T"),
}  # fmt: skip


@every("what", [*REFUSED])
def test_shapes_that_do_not_fit(what):
    build, message = REFUSED[what]
    with pytest.raises(ShapeError, match=message):
        build()


def test_extents_are_compared_as_expressions():
    left, right = td.TensorSymbol("a", 2 * (n + 1)), td.TensorSymbol("b", 2 * n + 2)
    assert (left + right).shape in (left.shape, right.shape) and (left @ right).shape == ()


@every("operation", [operator.add, operator.mul, operator.sub, operator.truediv, operator.pow])
def test_every_kind_of_tensor_is_an_operand(operation):
    square = td.TensorComprehension(x[i] * y[j], (j, n), (i, m))
    kinds = [A, square, C.T, y[0] * A, td.sin(A), td.ones((n, m)), td.einsum("i,j->ij", y, x), A - B, td.softmax(A)]
    for left in kinds:
        for right in kinds:
            assert operation(left, right).shape == (n, m)
    assert DeltaTensor(n) @ A == EinsumProduct("ij,jk->ik", DeltaTensor(n), A)
    assert np.float64(2) * A == TensorMul(2.0, A)


def test_conditions_in_which_sympy_has_no_end():
    """The loss of a quantile: SymPy's own choice between such sides evaluates itself for ever."""
    u, v = td.TensorSymbol("u", n), td.TensorSymbol("v", n)
    loss = td.sum(td.maximum(9 * (u - v), v - u))
    entry = td.gradient(loss, u)[0].doit(deep=False)
    again = td.parse(f"declare u[n], v[n] s = {td.to_text(entry, language='index')} derivative wrt u")
    theirs, values = again.tensors, ([2.0, 0.0], [1.0, 1.0])
    assert td.evaluate(entry, dict(zip((u, v), values, strict=True))) == 9
    assert td.evaluate(again.expression, dict(zip((theirs["u"], theirs["v"]), values, strict=True))) == 9
