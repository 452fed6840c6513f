"""The classes of operations on whole tensors: shapes, attributes, and what is refused at construction."""

# ruff: noqa: E501

import pickle

import pytest
import sympy
from every import every
from sympy import Integer, Lambda, Piecewise, S, Symbol
from sympy.core.symbol import Str

import sympy_tensordiff as td
from sympy_tensordiff import (
    DeltaTensor,
    EinsumProduct,
    FilledTensor,
    TensorAdd,
    TensorCofactor,
    TensorFunction,
    TensorLogSumExp,
)
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, n, m, k = td.indices("i j n m k")
A, B, X = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, k)), td.TensorSymbol("X", (n, n))
x, s = td.TensorSymbol("x", m), td.TensorSymbol("s", ())
T = td.TensorSymbol("T", (2, 3, 4))
c = Symbol("c", real=True)
t, u = sympy.symbols("t u")

# ---------------------------------------------------------------------------- shapes

SHAPES = {
    "product": (lambda: EinsumProduct("ij,jk->ik", A, B), (n, k)),
    "no arrow": (lambda: EinsumProduct("kj,ji", A, B), (k, n)),
    "an ellipsis": (lambda: EinsumProduct("...i,i->...", T, td.ones(4)), (2, 3)),
    "two ellipses": (lambda: EinsumProduct("...i, ...i", T, td.ones((3, 4))), (2, 3)),
    "blanks": (lambda: EinsumProduct(" ij, jk -> ki ", A, B), (k, n)),
    "capitals": (lambda: EinsumProduct("Ij,jK->KI", A, B), (k, n)),
    "summed in one operand": (lambda: EinsumProduct("ij,jk->k", A, B), (k,)),
    "hadamard": (lambda: EinsumProduct("ij,ij->ij", A, A), (n, m)),
    "outer": (lambda: EinsumProduct("i,j->ji", x, x), (m, m)),
    "trace": (lambda: EinsumProduct("ii->", X), ()),
    "diagonal": (lambda: EinsumProduct("ii->i", X), (n,)),
    "scalars": (lambda: EinsumProduct(",,i,->i", 2, c, x, s), (m,)),
    "one operand": (lambda: EinsumProduct("ijk->kij", T), (4, 2, 3)),
    "nothing but numbers": (lambda: EinsumProduct(",->", 2, 3), ()),
    "delta": (lambda: DeltaTensor((n, 2)), (n, 2, n, 2)),
    "delta of one axis": (lambda: DeltaTensor(n), (n, n)),
    "delta of none": (lambda: DeltaTensor(()), ()),
    "filled": (lambda: FilledTensor(c, [2, n + 1]), (2, n + 1)),
    "cofactors": (lambda: TensorCofactor(3, X), (n,) * 6),
    "no cofactors": (lambda: TensorCofactor(0, X), ()),
    "log-sum-exp": (lambda: TensorLogSumExp(T, (0, -1)), (3,)),
    "mean": (lambda: td.mean(T, (0, 2)), (3,)),
    "mean of all": (lambda: td.mean(A), ()),
    "sum": (lambda: td.sum(T, -2), (2, 4)),
    "softmax": (lambda: td.softmax(T, (0, 1)), (2, 3, 4)),
    "softmax of all": (lambda: td.softmax(T, None), (2, 3, 4)),
    "outer product": (lambda: td.outer(T, A), (2, 3, 4, n, m)),
    "diagonal matrix": (lambda: td.diag(x), (m, m)),
    "through the whole expression": (lambda: td.inv(A @ A.T + td.diag(td.sum(A, 1))) @ td.exp(A) - 2 / A, (n, m)),
    "of a comprehension": (lambda: td.TensorComprehension(x[j] * i, (i, 3), (j, m)) @ x, (3,)),
}  # fmt: skip


@every("what", [*SHAPES])
def test_shapes(what):
    build, shape = SHAPES[what]
    result = build()
    assert result.shape == shape and result.rank == len(shape) and result.is_scalar == (not shape)
    assert build() is result and result.func(*result.args) is result and pickle.loads(pickle.dumps(result)) is result
    assert sympy.sympify(result) is result
    if shape:
        assert result[(0,) * len(shape)].tensor is result


def test_attributes():
    product = EinsumProduct("ij, jk -> ik", A, B)
    assert product.subscripts == "ij,jk->ik" and product.inputs == ("ij", "jk") and product.output == "ik"
    assert product.operands == (A, B) and product.args == (Str("ij,jk->ik"), A, B)
    assert EinsumProduct(Str("ij,jk->ik"), A, B) is product is td.einsum("ij,jk->ik", A, B)
    assert FilledTensor(c, 2).value == c and td.zeros(2) == FilledTensor(0, (2,)) and td.ones((2, 3)).value == 1
    assert (A**c).base == A and (A**c).exponent == c
    assert td.inv(X).matrix == td.det(X).matrix == td.adj(X).matrix == TensorCofactor(2, X).matrix == X
    assert TensorCofactor(2, X).order == 2 and TensorCofactor(Integer(2), X) is TensorCofactor(2, X)
    assert td.logsumexp(T, (2, 0)).axes == (0, 2) and td.logsumexp(T, -1).tensor == T
    assert td.logsumexp(T).axes == (0, 1, 2)


def test_functions_of_scalars_are_scalars():
    for function in (td.sum, td.mean, td.logsumexp, td.transpose):
        assert function(s) == s and function(c) == c and function(3) == 3
    assert td.norm(s) == sympy.Abs(s) and td.norm(-3) == 3
    assert td.exp(c) == sympy.exp(c) and td.relu(s) == sympy.Max(0, s) and td.sqrt(4) == 2
    assert td.maximum(c, 2) == sympy.Max(c, 2) and td.minimum(3, 4) == 3 and td.abs(-2) == 2
    assert td.elementwise(lambda a, b: a * b + 1, c, 3) == 3 * c + 1 and td.elementwise(
        sympy.Function("g"), s
    ).args == (s,)
    assert td.sigmoid(0) == S.Half and td.softplus(c).diff(c) == td.sigmoid(c)
    assert td.norm(A, 1) == td.sum(td.abs(A)) and td.norm(T) == sympy.sqrt(td.einsum("ijk,ijk->", T, T))


# ---------------------------------------------------------------------------- templates


def test_what_is_free_in_a_function_becomes_an_operand():
    applied = td.elementwise(lambda a: sympy.exp(-c * a) + x[i] * s, A)
    assert applied.template.free_symbols == set() and applied.operands[0] == A
    assert set(applied.operands[1:]) == {c, x[i], s} and applied.shape == (n, m)
    assert applied.free_symbols == {A, c, x, s, i, n, m}
    assert applied.applied(2, *applied.operands[1:]) == sympy.exp(-2 * c) + x[i] * s
    w = sympy.IndexedBase("w")
    assert td.elementwise(lambda a: a * w[0] + w[i], A).operands[1:] in ((w[0], w[i]), (w[i], w[0]))
    taken = Symbol("t0", real=True)  # the name of a variable of templates
    own = td.elementwise(lambda a: a - 2 * taken, A)
    assert own.operands == (A, taken) and own.applied(3, 5) == -7
    assert own.subs(taken, c) == td.elementwise(lambda a: a - 2 * c, A) == own.xreplace({taken: c})
    assert td.elementwise(lambda a: a + total, A).operands == (A, total)


total = td.IndexedSum(x[j], (j, 0, m - 1))


def test_templates_are_substituted_as_functions():
    g, h = sympy.Function("g"), sympy.Function("h")
    applied = td.elementwise(lambda a: g(a) + c, A)
    assert applied.subs(g, h) == td.elementwise(lambda a: h(a) + c, A) == applied.replace(g, h)
    assert applied.subs(c, 2 * A) == td.elementwise(lambda a, b: g(a) + b, A, 2 * A)
    assert applied.has(g) and not applied.has(h) and applied.subs(Symbol("t0", real=True), 5) is applied
    both = applied.subs({c: s, s: c}, simultaneous=True)
    assert both == td.elementwise(lambda a: g(a) + s, A)


# ---------------------------------------------------------------------------- refusals

EIGHT = td.TensorSymbol("E", (2,) * 27)
REFUSED = {
    "no subscripts": (lambda: EinsumProduct(A, B), ArgumentTypeError, "the first argument must be the subscripts"),
    "a label": (lambda: EinsumProduct("i1->i", A), ArgumentError, "'1' is not a label: labels are letters a-z and A-Z$"),
    "an ellipsis": (lambda: EinsumProduct("..i->i", A), ArgumentError, "'.' is not a label: labels are letters a-z and A-Z$"),
    "two results": (lambda: EinsumProduct("ij->i,j", A), ArgumentError, 'there is one result, after the only "->"'),
    "two arrows": (lambda: EinsumProduct("ij->i->j", A), ArgumentError, "there is one result, after the only"),
    "too few operands": (lambda: EinsumProduct("ij,jk->ik", A), ArgumentError, "name 2 operands, but 1 is given; numbers and"),
    "no label": (lambda: EinsumProduct("", A), ShapeError, r"operand 0 has rank 2 .* so it needs 2 labels, not 0"),
    "a function": (lambda: EinsumProduct(",i->i", Lambda(n, n), x), ArgumentTypeError, r"real scalar, not Lambda\S* \S* \(I\w+\)$"),
    "a tuple": (lambda: td.sum((x, x)), ArgumentTypeError, r"a tensor or a real scalar, not \(x, x\) \(Tuple\)$"),
    "namesakes": (
        lambda: td.ones(n) + td.ones(Symbol("n", integer=True, positive=True)),
        ShapeError,
        "the extents must be equal, or one of them 1; they are named alike, but differ in their assumptions: make the symbol of the size",
    ),
    "namesakes of a label": (
        lambda: td.dot(td.ones(n), td.ones(Symbol("n", integer=True, positive=True))),
        ShapeError,
        "the extents must be equal; they are named alike",
    ),
    "a derivative": (
        lambda: td.sum(sympy.Derivative(td.sum(x**2), x)),
        UnsupportedError,
        "is a whole tensor that has no shape yet: evaluate the derivative first, with .doit",
    ),
    "a factor that is a derivative": (lambda: x * sympy.Derivative(x**2, x), UnsupportedError, "has no shape yet"),
    "no operands": (lambda: EinsumProduct("->"), ArgumentError, "name 1 operand, but 0 are given"),
    "too few labels": (lambda: EinsumProduct("i->i", A), ShapeError, r'operand 0 has rank 2 .* so it needs 2 labels, not 1 \("i"\)'),
    "labels of a number": (lambda: EinsumProduct("i,ij->j", 2, A), ShapeError, "operand 0 has rank 0"),
    "two extents": (lambda: EinsumProduct("ij,ij->", A, B), ShapeError, "the label i is axis 0 of operand 0 with extent n, .*; the extents must be equal"),
    "a diagonal": (lambda: td.trace(A), ShapeError, "label i is axis 0 of operand 0 with extent n, and axis 1 of operand 0 with extent m"),
    "numbers": (lambda: EinsumProduct("i,i->", td.ones(2), td.ones(3)), ShapeError, "with extent 2, and axis 0 of operand 1 with extent 3"),
    "repeated in the result": (
        lambda: EinsumProduct("j,i->ii", x, x),
        ArgumentError,
        r'repeated in the result, which is a diagonal: write td.einsum\("j,i,ik->ik", …, td.DeltaTensor\(\(m,\)\)\)',
    ),
    "not in an operand": (
        lambda: EinsumProduct("i->ij", x),
        ArgumentError,
        r'the label j of the result is in no operand, .* td.einsum\("i,j->ij", …, td.ones\(n\)\)',
    ),
    "extent": (lambda: DeltaTensor((n, 0)), ShapeError, "DeltaTensor has the extent 0: an extent must be a positive"),
    "value": (lambda: FilledTensor(x, 3), ArgumentTypeError, r"the value of a FilledTensor must be a scalar, not x of shape"),
    "square": (lambda: td.inv(A), ShapeError, "TensorInverse needs a square matrix, but axis 0 of A has extent n and axis 1"),
    "matrix": (lambda: td.det(x), ShapeError, "TensorDeterminant needs a square matrix, but x has rank 1"),
    "order": (lambda: TensorCofactor(-1, X), ArgumentTypeError, "the order of a TensorCofactor must be a number, 0, 1, 2"),
    "order as a symbol": (lambda: TensorCofactor(n, X), ArgumentTypeError, "the order of a TensorCofactor"),
    "axis": (lambda: td.sum(A, 2), ShapeError, r"sum: A of shape \(n, m\) has no axis 2"),
    "axis as text": (lambda: td.mean(A, "0"), ArgumentTypeError, "mean: an axis must be an int, not '0'"),
    "axis twice": (lambda: td.softmax(A, (0, -2)), ShapeError, r"softmax: an axis is named twice in \(0, -2\)"),
    "no axis": (lambda: TensorLogSumExp(A, ()), ShapeError, "needs an axis to sum over; over none it is the tensor itself"),
    "norm": (lambda: td.norm(A, "nuc"), UnsupportedError, r"norm: ord must be a positive number, infinity or .fro., not .nuc.; a norm of sing"),
    "diagonal of": (lambda: td.diag(T), ShapeError, "diag needs a vector or a square matrix, but T has rank 3"),
    "template": (lambda: TensorFunction(sympy.exp, A), ArgumentTypeError, "the template must be a sympy.Lambda of symbols, not exp"),
    "open template": (
        lambda: TensorFunction(Lambda(t, c * t), A),
        ArgumentError,
        r"holds \['c'\], which its variables are not: give them as operands",
    ),
    "arguments": (lambda: TensorFunction(Lambda(t, t), A, A), ArgumentError, "is a function of 1 arguments, but 2 operands are given"),
    "no function": (lambda: td.elementwise(3, A), ArgumentTypeError, "the first argument must be a function, e.g. sympy.sin, not 3"),
    "too many": (lambda: td.elementwise(sympy.sin, A, A), ArgumentTypeError, r"sin cannot be called with 2 scalar expressions \("),
    "function of numbers": (lambda: td.elementwise(len, A), ArgumentTypeError, "it is called with symbols, so use SymPy's functions"),
    "into a tensor": (
        lambda: td.elementwise(lambda a: td.sum(x * a), A),
        ArgumentError,
        "elementwise: the function puts its argument into .*; give other tensors as operands, .* or write a td.TensorComprehension",
    ),
    "nothing to compare": (lambda: td.maximum(), ArgumentTypeError, "maximum: there is nothing to compare"),
    "complex": (lambda: td.elementwise(lambda a: sympy.I * a, A), UnsupportedError, "is not a finite real number"),
    "labels": (lambda: td.outer(EIGHT, EIGHT), ArgumentError, "outer: 54 axes are more than the 52 labels a-z and A-Z"),
    "axes of NumPy": (lambda: td.TensorSymbol("E", (2,) * 65), ShapeError, "tensor E has 65 axes, and arrays of NumPy"),
    "axes": (lambda: td.sum(td.TensorSymbol("E", (2,) * 53)), ArgumentError, "has 53 axes, more than the 52 labels"),
    "broadcast": (lambda: TensorAdd(A, td.ones(n)), ShapeError, r"axes meet from the last one on, as in NumPy: for others write the broadcast, "),
    "axes differ": (lambda: TensorAdd(A, A.T), ShapeError, r"axis 0 of operand \d \(A\) has extent n, .*; the extents must be equal, or one of them 1"),
    "matrix of SymPy": (
        lambda: td.inv(sympy.MatrixSymbol("M", 2, 2)),
        UnsupportedError,
        r"M is SymPy's own MatrixSymbol, which is lifted first: write td.lift\(M\) in its place",
    ),
    "truth": (lambda: td.sum(c > 0), ArgumentTypeError, "an operand must be a tensor or a real scalar, not c > 0"),
}  # fmt: skip


@every("what", [*REFUSED])
def test_refusals(what):
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        build()


# ---------------------------------------------------------------------------- substitution


def test_sizes_are_put_in_everywhere():
    expr = td.exp(A) @ td.einsum("ij,jk,kl->il", A.T, td.inv(X), A) + td.softmax(A) * td.det(X)
    fixed = expr.subs({n: 3, m: 4})
    assert fixed.shape == (3, 4) and fixed.free_symbols == {td.TensorSymbol("A", (3, 4)), td.TensorSymbol("X", (3, 3))}
    assert fixed is expr.subs({n: 3, m: 4}, simultaneous=True) is expr.xreplace({n: S(3), m: S(4)})
    assert expr.subs(n, m).shape == (m, m) and expr.subs({n: m, m: n}, simultaneous=True).shape == (m, n)


@pytest.mark.parametrize("build", [lambda a: a + A, lambda a: a @ x, lambda a: a * A, lambda a: A**a])
def test_shapes_are_checked_again(build):
    other = td.TensorSymbol("other", (n, m))
    expr = build(other)
    for replace in (
        *(lambda: expr.subs(other, B), lambda: expr.xreplace({other: B}), lambda: expr.replace(other, B)),
        *(lambda: expr.subs(m, 3).subs(other.subs(m, 3), A), lambda: expr.subs({other: B, c: s}, simultaneous=True)),
    ):
        with pytest.raises(ShapeError, match="extent"):
            replace()
    assert expr.subs(other, td.sin(A)) == build(td.sin(A))


def test_scalars_and_tensors_are_put_in():
    expr = TensorAdd(c * A, td.sin(A) ** c) * td.det(X) + s
    assert expr.subs(c, 2) == TensorAdd(2 * A, td.sin(A) ** 2) * td.det(X) + s
    assert expr.subs(td.sin(A), A) == TensorAdd(c * A, A**c) * td.det(X) + s
    assert expr.subs(td.det(X), 5).has(td.TensorDeterminant) is False and expr.subs(A, A) is expr
    swapped = expr.subs({c: s, s: c}, simultaneous=True)
    assert swapped.subs({c: s, s: c}, simultaneous=True) is expr
    with pytest.raises(ShapeError, match="no operand of rank > 0"):
        (A + c).subs(A, 2)


def test_matching():
    w = sympy.Wild("w")
    assert (A + 1).match(w) == {w: A + 1} and A.match(w) == {w: A}
    assert (A + 1).match(A + 1) == {} and (A + 1).match(c) is None


# ---------------------------------------------------------------------------- entries

F, G = td.TensorSymbol("F", (2, 3)), td.TensorSymbol("G", (3, 3))
v = td.TensorSymbol("v", 3)
NUMBERS = {
    F: [[1, 2, 3], [2, -1, 4]],
    G: [[2, 1, 0], [-1, 1, 3], [1, 3, -1]],
    v: [3, 2, 1],
    s: 2,
    c: 3,
    i: 1,
    j: 2,
    k: 0,
}
WRITTEN = {
    "product": (F @ G)[i, j],
    "product of names taken": td.einsum("ij,jk,k->i", F, G, v * v[k])[i],
    "diagonal": td.einsum("ii->i", G)[j],
    "inner sums": td.einsum("i,ij,j->i", F @ v, F, v)[i] * td.sum(G, 0)[j],
    "delta": td.DeltaTensor((2, 3))[i, j, 1, k + 2],
    "filled": td.FilledTensor(c + v[k], 3)[j],
    "operators": (2 * F**2 / (F.T.T + 9) - s)[i, j],
    "functions": td.elementwise(lambda a, b: Piecewise((a * c, a > b), (b**2, True)), F, s)[i, j] + td.relu(F)[1, 1],
    "inside": sympy.Max((F @ v)[0], (v + 1)[j]) ** 2,
    "of a comprehension": (td.TensorComprehension(F[i, j] * j, (i, 2), (j, 3)) @ v)[i],
}


@every("what", [*WRITTEN])
def test_entries_are_written_out(what):
    expr = WRITTEN[what]
    written = expr.doit()
    assert evaluate(written, NUMBERS) == evaluate(expr, NUMBERS) and written.doit() == written
    assert not written.atoms(td.EinsumProduct, td.TensorAdd, td.TensorMul, td.TensorPow, TensorFunction, DeltaTensor)
    assert td.inv(G)[i, j].doit() == td.inv(G)[i, j]
