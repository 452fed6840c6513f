"""Entries, index notation, einsum products and SymPy's matrices: each rewritten into the others, of equal value."""

import numpy as np
import pytest
import sympy
from every import every
from fuzz import random_tensors
from fuzz.equality import assert_equal
from sympy import DiagMatrix, HadamardProduct, Inverse, KroneckerDelta, MatrixExpr, MatrixSymbol, Piecewise, Trace
from test_printed import entries

import sympy_tensordiff as td
from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.whole_tensors.operations import TensorOperation
from sympy_tensordiff.testing import random_values

i, j, k, l, p, q, n, m = td.indices("i j k l p q n m")
c = sympy.Symbol("c", real=True)
t, u = sympy.symbols("t u", real=True)
A, B, X, Y = (
    td.TensorSymbol("A", (n, m)),
    td.TensorSymbol("B", (m, n)),
    td.TensorSymbol("X", (n, n)),
    td.TensorSymbol("Y", (n, n)),
)
x, y, z, s = td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("z", n), td.TensorSymbol("s", ())
R = td.TensorSymbol("R", (n, m, 2))
column = td.TensorSymbol("v", (n, 1))
SIZES = {n: 3, m: 2, p: 1, q: 0, i: 0, j: 1, k: 2}


def ein(subscripts, *operands):
    return td.EinsumProduct(subscripts, *operands)


def values(*exprs):
    free = set().union(*(expr.free_symbols for expr in exprs))
    sizes = {symbol: value for symbol, value in SIZES.items() if symbol in free}
    return random_values(exprs, sizes, seed=1), sizes


def assert_same(first, second):
    given, sizes = values(first, second)
    assert_equal(evaluate(second, given, sizes), evaluate(first, given, sizes), f"{first} and {second}")


# ------------------------------------------------------------------ entries

product = ein("ij,jk->ik", A, B)
ENTRIES = {
    product[i, k]: td.IndexedSum(A[i, j] * B[j, k], (j, 0, m - 1)),
    product[p, q]: td.IndexedSum(A[p, j] * B[j, q], (j, 0, m - 1)),
    product[j, j]: td.IndexedSum(A[j, i] * B[i, j], (i, 0, m - 1)),
    product[j + 1, 0]: td.IndexedSum(A[j + 1, i] * B[i, 0], (i, 0, m - 1)),
    ein(",ij,j->i", c, A, y)[p]: c * td.IndexedSum(A[p, j] * y[j], (j, 0, m - 1)),
    ein("ij->ji", A)[p, q]: A[q, p],
    ein("ii->i", X)[p]: X[p, p],
    ein("i,j->ij", x, y)[p, q]: x[p] * y[q],
    ein("ij,jk->ik", ein("ij,jk->ik", A, B), X)[p, q]: td.IndexedSum(
        td.IndexedSum(A[p, i] * B[i, j], (i, 0, m - 1)) * X[j, q], (j, 0, n - 1)
    ),
    ein("ij,jk->ik", ein("ik->ki", column), X)[0, q]: td.IndexedSum(column[j, 0] * X[j, q], (j, 0, n - 1)),
    ein("ij,jk->ik", column, ein("ij->ji", column))[p, q]: column[p, 0] * column[q, 0],
    td.DeltaTensor((n, m))[i, j, p, q]: KroneckerDelta(i, p) * KroneckerDelta(j, q),
    td.FilledTensor(c, (n, m))[p, q]: c,
    td.TensorAdd(X, Y, 2)[p, q]: X[p, q] + Y[p, q] + 2,
    td.TensorMul(3, X, Y)[p, q]: 3 * X[p, q] * Y[p, q],
    td.TensorPow(2, X)[p, q]: 2 ** X[p, q],
    td.TensorFunction(sympy.Lambda((t, u), sympy.sin(t) * u), x, s)[p]: sympy.sin(x[p]) * s,
    td.logsumexp(A, 0)[p]: sympy.log(td.IndexedSum(sympy.exp(A[i, p]), (i, 0, n - 1))),
    td.TensorAdd(x, td.TensorComprehension(x[n - 1 - i], (i, n)))[p]: x[p] + x[n - 1 - p],
    td.inv(X)[p, q]: td.inv(X)[p, q],
    td.adj(X)[p, q]: td.adj(X)[p, q],
    td.TensorCofactor(2, X)[p, q, p, q]: td.TensorCofactor(2, X)[p, q, p, q],
}


@every("entry, written", ENTRIES.items(), ids=map(str, ENTRIES))
def test_entries(entry, written):
    assert isinstance(entry, td.TensorEntry)
    assert entry.doit() == written
    assert_same(entry, written)


# ------------------------------------------------------------------ index notation and back


# What the graph simplifies on the way.
SHORTER = {"2*inv(3*X)": "2*inv(X)/3"}


@every("whole", lambda: [entry.value for entry in entries("Whole tensors in index notation")])
def test_there_and_back(whole):
    written = whole.rewrite(td.IndexedSum)
    assert_same(whole, written)
    assert str(written.rewrite(td.EinsumProduct)) == SHORTER.get(str(whole), str(whole))
    assert whole.rewrite(td.EinsumProduct) == whole
    assert written.rewrite(td.IndexedSum) == written


def test_sharing_is_kept():
    """Forty levels of a function of itself are written in as many comprehensions."""
    whole = x
    for _ in range(40):
        whole = td.TensorAdd(td.TensorMul(td.sin(whole), td.cos(whole)), whole)
    written = whole.rewrite(td.IndexedSum)
    assert len([node for node in nodes_in([written]) if isinstance(node, td.TensorComprehension)]) <= 40
    back = written.rewrite(td.EinsumProduct)
    assert not any(isinstance(node, td.TensorComprehension) for node in nodes_in([back]))
    assert len(nodes_in([back])) < 1000


@pytest.mark.in_turns(4)
def test_deep_chains():
    whole = td.TensorSymbol("x", 4)
    for _ in range(500):
        whole = td.TensorAdd(td.sin(whole), 1)
    written = whole.rewrite(td.IndexedSum)
    assert isinstance(written, td.TensorComprehension)
    assert written.rewrite(td.EinsumProduct) == whole


# ------------------------------------------------------------------ index notation as einsum products

WRITTEN = {
    td.IndexedSum(A[i, j] * B[j, k], (j, 0, m - 1)): product[i, k],
    td.IndexedSum(A[p, j] * B[j, q], (j, 0, m - 1)): ein("pj,jq->pq", A, B)[p, q],
    td.IndexedSum(A[p, j] * y[j] * p, (j, 0, m - 1)): p * ein("j,j->", y, td.TensorComprehension(A[p, j], (j, m))),
    td.IndexedSum(x[i] ** 3, (i, 0, n - 1)): ein("i->", td.TensorPow(x, 3)),
    td.IndexedSum(x[i], (i, 0, n - 1), (j, 0, n - 1)): n * ein("i->", x),
    td.IndexedSum(x[i] + y[j], (i, 0, n - 1), (j, 0, m - 1)): m * ein("i->", x) + n * ein("j->", y),
    td.IndexedSum(2 * c * x[i] * z[i], (i, 0, n - 1)): 2 * c * ein("i,i->", x, z),
    td.IndexedSum(x[i] * td.IndexedSum(y[i], (i, 0, m - 1)), (i, 0, n - 1)): ein("i->", x) * ein("i->", y),
    td.IndexedSum(td.IndexedSum(X[i, j] * x[i], (i, 0, n - 1)) * x[j], (j, 0, n - 1)): ein(
        "j,j->", x, ein("ij,i->j", X, x)
    ),
    td.TensorComprehension(td.IndexedSum(product[i, k] * x[k], (k, 0, n - 1)), (i, n)): ein("ik,k->i", product, x),
    td.TensorComprehension(x[i] + A[i, j], (i, n), (j, m)): td.TensorAdd(ein("i,j->ij", x, td.ones(m)), A),
    td.TensorComprehension(sympy.exp(x[i]) / c, (i, n)): td.TensorMul(1 / c, td.exp(x)),
    td.TensorComprehension(sympy.Max(x[i], 0) + sympy.Abs(z[i]), (i, n)): td.TensorAdd(td.relu(x), td.abs(z)),
    td.TensorComprehension(X[i, i] * KroneckerDelta(i, j), (i, n), (j, n)): ein("ij,ii->ij", td.DeltaTensor(n), X),
    td.TensorComprehension(td.IndexedSum(KroneckerDelta(i, k) * x[k], (k, 0, n - 1)), (i, n)): x,
    td.TensorComprehension(x[i] * z[n - 1 - i], (i, n)): td.TensorMul(x, td.TensorComprehension(z[n - 1 - i], (i, n))),
    td.TensorComprehension(td.IndexedSum(X[i, j] * z[n - 1 - j] * x[i], (j, 0, n - 1)), (i, n)): ein(
        "i,ij,j->i", x, X, td.TensorComprehension(z[n - 1 - j], (j, n))
    ),
    td.IndexedSum(i * x[i], (i, 0, n - 1)): ein("i,i->", x, td.TensorComprehension(i, (i, n))),
    td.TensorComprehension(x[i] * td.IndexedSum(y[j], (j, 0, p)), (i, n)): td.TensorMul(
        td.IndexedSum(y[j], (j, 0, p)), x
    ),
    td.TensorComprehension(x[i] * td.IndexedSum(z[j], (j, 0, i)), (i, n)): td.TensorMul(
        x, td.TensorComprehension(td.IndexedSum(z[j], (j, 0, i)), (i, n))
    ),
    td.TensorComprehension(x[i] * td.IndexedMax(A[p, i], (i, 0, m - 1)), (i, n)): td.TensorMul(
        td.IndexedMax(A[p, i], (i, 0, m - 1)), x
    ),
    td.IndexedSum(x[i] * td.IndexedProduct(A[i, j], (j, 0, m - 1)), (i, 0, n - 1)): ein(
        "i,i->", x, td.TensorComprehension(td.IndexedProduct(A[i, j], (j, 0, m - 1)), (i, n))
    ),
    td.TensorComprehension(Piecewise((x[i], z[i] > 0), (c, True)), (i, n)): td.elementwise(
        lambda b, a, d: Piecewise((a, b > 0), (d, True)), z, x, c
    ),
    td.TensorComprehension(td.TensorComprehension(x[i] * x[j], (j, n))[k], (i, n), (k, n)): ein("i,k->ik", x, x),
    td.TensorComprehension(s * x[i], (i, n)): td.TensorMul(s, x),
    td.TensorComprehension(column[i, 0] * column[j, 0], (i, n), (j, n)): ein("ik,jl->ij", column, column),
}


@every("written, whole", WRITTEN.items(), ids=map(str, WRITTEN))
def test_index_notation_that_is_whole_tensors(written, whole):
    result = written.rewrite(td.EinsumProduct)
    assert str(result) == str(whole)
    assert_same(written, result)


KEPT = [
    td.IndexedSum(x[i] * x[i + 1], (i, 0, n - 2)),
    td.IndexedSum(x[i] * A[i, j], (j, 0, i), (i, 0, n - 1)),
    td.IndexedSum(x[i], (i, 0, p)),
    td.TensorComprehension(x[n - 1 - i] ** 2, (i, n)),
    td.TensorComprehension(i + j, (i, n), (j, m)),
    td.TensorComprehension(Piecewise((x[i - 1], i > 0), (0, True)), (i, n)),
    # The delta guards the read.
    td.TensorComprehension(KroneckerDelta(i, 2) * x[i] * z[3 - i], (i, n)),
    # The inner sum depends on an index that runs over a part of the axis.
    td.IndexedSum(sympy.exp(i * td.IndexedSum(sympy.cos(x[j] * i), (j, 0, n - 1))), (i, 0, p)),
    td.IndexedProduct(x[i], (i, 0, n - 1)),
    td.IndexedMax(A[i, j] * x[i], (j, 0, m - 1), (i, 0, n - 1)),
    A[p, q],
    x[0] * c,
]


@every("written", KEPT, ids=str)
def test_index_notation_that_stays(written):
    assert written.rewrite(td.EinsumProduct) == written


def test_parts_of_what_stays_are_rewritten():
    outer = td.IndexedSum(x[i] * td.IndexedSum(X[i, j] * z[j], (j, 0, n - 1)), (i, 0, p))
    assert outer.rewrite(td.EinsumProduct) == td.IndexedSum(x[i] * ein("ij,j->i", X, z)[i], (i, 0, p))
    least = td.IndexedMin(x[i] * td.IndexedSum(X[i, j] * z[j], (j, 0, n - 1)), (i, 0, n - 1))
    assert least.rewrite(td.EinsumProduct) == td.IndexedMin(x[i] * ein("ij,j->i", X, z)[i], (i, 0, n - 1))
    total = sympy.sin(td.IndexedSum(x[i], (i, 0, n - 1)))
    assert (total + x[p]).rewrite(td.EinsumProduct) == sympy.sin(ein("i->", x)) + x[p]


# ------------------------------------------------------------------ SymPy's sums


def test_native_sums():
    entry = ein("ij,jk->ik", A, td.exp(B))[p, q].rewrite(sympy.Sum)
    a, b = A.rewrite(sympy.Sum), B.rewrite(sympy.Sum)
    assert entry == sympy.Sum(a[p, j] * sympy.exp(b[j, q]), (j, 0, m - 1))
    assert td.trace(X).rewrite(sympy.Sum) == sympy.Sum(X.rewrite(sympy.Sum)[i, i], (i, 0, n - 1))
    for refused in (td.det(X) * td.trace(X), td.inv(X)[p, q], td.adj(X)[p, q]):
        with pytest.raises(UnsupportedError, match=r"has no form as a sum: .*; rewrite\(sympy.MatrixExpr\) has"):
            refused.rewrite(sympy.Sum)
    with pytest.raises(UnsupportedError, match="rewrite an entry of it"):
        product.rewrite(sympy.Sum)


# ------------------------------------------------------------------ SymPy's matrices


@every("expr", lambda: [entry.value for entry in entries("Whole tensors as matrices of SymPy")])
def test_matrices(expr):
    result = expr.rewrite(MatrixExpr)
    assert sympy.latex(result)
    assert not result.has(td.TensorEntry, TensorOperation, td.IndexedSum)
    given, sizes = values(expr)
    assert_as_matrices(expr, result, {**given, **sizes})


def test_matrices_are_sympys_own():
    a, b, square = MatrixSymbol("A", n, m), MatrixSymbol("B", m, n), MatrixSymbol("X", n, n)
    assert product.rewrite(MatrixExpr) == a * b
    assert ein("i,ij->ij", x, X).rewrite(MatrixExpr) == DiagMatrix(MatrixSymbol("x", n, 1)) * square
    assert td.TensorMul(X, Y).rewrite(MatrixExpr) == HadamardProduct(square, MatrixSymbol("Y", n, n))
    assert td.trace(td.inv(X)).rewrite(MatrixExpr) == Trace(Inverse(square))


REFUSED = {
    R: "TensorSymbol has no form as a matrix of SymPy's: R; it has rank 3",
    ein("ij,ik,il->jkl", A, A, A): "it has rank 3, and a matrix has rank 2",
    ein("ai,bi,ci,ab,bc,ca->", X, X, X, Y, Y, Y): "three matrices share an index that is summed",
    td.adj(X): "TensorAdjugate has no form .* where the matrix is not singular, it is",
    td.TensorCofactor(1, X): "TensorCofactor has no form .* where the matrix is not singular, it is",
    td.TensorFunction(sympy.Lambda((t, u), t * sympy.exp(u)), x, z): "SymPy applies functions of one matrix only",
    td.TensorPow(X, Y): "SymPy transposes powers of one matrix by another wrongly",
    td.IndexedSum(
        x[i + 1] * x[i], (i, 0, n - 2)
    ): "IndexedSum has no form .* it is not a sum of products over whole axes",
    td.IndexedMax(x[i], (i, 0, n - 1)): "IndexedMax has no form .* only sums over whole axes have one",
    ein("ij,j->i", X, td.TensorComprehension(x[n - 1 - j], (j, n))): "TensorComprehension has no form",
}


@every("expr, message", REFUSED.items(), ids=map(str, REFUSED))
def test_what_is_no_matrix(expr, message):
    with pytest.raises(UnsupportedError, match=message):
        expr.rewrite(MatrixExpr)


def test_one_name_for_a_vector_and_a_column():
    vector = td.TensorSymbol("v", n)
    with pytest.raises(ShapeError, match="would both be the MatrixSymbol v of shape"):
        ein("i,ij->j", vector, column).rewrite(MatrixExpr)


# ------------------------------------------------------------------ random programs


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("block", range(3))
def test_random_programs(block):
    for seed in range(20 * block, 20 * block + 20):
        kind = "smooth" if seed % 3 == 0 else "rational"
        random = random_tensors(seed, kinks=seed % 2 == 0, kind=kind)
        program = random.function
        given = random_values((program, *random.variables), random.sizes, seed)
        expected = evaluate(program, given)
        written = program.rewrite(td.IndexedSum)
        left = [node for node in nodes_in([written]) if isinstance(node, TensorOperation) and node.has_index_form]
        assert not left, (seed, left)
        for other in (written, program.rewrite(td.EinsumProduct), written.rewrite(td.EinsumProduct)):
            assert_equal(evaluate(other, given), expected, f"{seed}: {other}")


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("block", range(2))
def test_random_programs_as_matrices(block):
    """As far as they are matrices."""
    found = 0
    for seed in range(30 * block, 30 * block + 30):
        random = random_tensors(seed, rank=seed % 3, depth=2, kind="smooth" if seed % 2 else "rational")
        given = random_values((random.function, *random.variables), random.sizes, seed)
        try:
            matrices = random.function.rewrite(MatrixExpr)
        except UnsupportedError:
            continue
        found += 1
        assert_as_matrices(random.function, matrices, given)
    assert found > 5


def assert_as_matrices(expr, matrices, given):
    """The value of an expression is that of its matrices, where vectors are columns."""
    expected = evaluate(expr, given)
    given = dict(given)
    for tensor, value in list(given.items()):
        if isinstance(tensor, td.TensorSymbol) and tensor.rank < 2:
            name = td.TensorSymbol(tensor.name, (*tensor.shape, 1)) if tensor.rank else sympy.Symbol("s", real=True)
            array = np.array(value, dtype=object)
            given[name] = array.reshape(-1, 1) if tensor.rank else array.item()
    result = evaluate(td.lift(matrices), given)
    assert_equal(np.reshape(result, np.shape(expected)), expected, str(matrices))
