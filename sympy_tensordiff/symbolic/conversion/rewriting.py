"""Conversion of tensors to other notations: SymPy's matrices, and index notation to be computed or read.

The passes are bottom-up (``expr.rewrite(sympy.MatrixExpr)``, ``expr.rewrite(td.IndexedSum)``). In index notation, an
operand that is read once is written out in place; one that would be computed repeatedly, or is long, stays a
comprehension, so that the text grows linearly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import sympy
from sympy import Expr, Lambda, S, Symbol
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.hadamard import HadamardPower
from sympy.matrices.expressions.matexpr import MatrixElement

from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.base import TensorNode
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.misplaced_tensors import is_whole
from sympy_tensordiff.symbolic.expressions.traversal import EMPTY, BoundIndices, Recursion, Rewriting, Rules, rebound
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tabulate import fresh_indices, inline_entry, tabulate
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorComprehension, TensorSymbol, in_full
from sympy_tensordiff.symbolic.printing.matrix_notation import einsum_notation
from sympy_tensordiff.symbolic.printing.notation import (
    Call,
    Chain,
    Constant,
    Diagonal,
    Einsum,
    Leaf,
    Outer,
    Product,
    RowVector,
)
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.whole_tensors.operations import TensorOperation
from sympy_tensordiff.symbolic.whole_tensors.subscripts import LETTERS


def to_matrices(expr: Any) -> Any:
    """Convert the vectors and matrices in ``expr`` to SymPy's own matrices.

    A vector becomes a column, a matrix of shape ``(n, 1)``; a scalar is made of traces, determinants, and entries
    ``[0, 0]`` of products that have one entry. Names are kept. Raise `UnsupportedError` for a part without a form as a
    matrix, and `ShapeError` if two tensors, a vector and a matrix of one column, would be one `sympy.MatrixSymbol`.
    """
    return _ToMatrices().run(hooks.rewritten(in_full(expr), EinsumProduct))


OF_ONE: Rules = {TensorInverse: sympy.Inverse, TensorDeterminant: sympy.Determinant}


class _ToMatrices(Rewriting):
    """The traversal of `to_matrices`: each tensor becomes a SymPy matrix, each scalar a SymPy scalar. Sums over indices
    and comprehensions are refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[Any, TensorSymbol] = {}

    def visit(self, expr: Any, bound_indices: BoundIndices = EMPTY) -> Recursion[Any]:
        """Return ``expr`` in terms of SymPy matrices; raise `UnsupportedError` for a tensor with more than two axes."""
        if is_whole(expr) and expr.rank > 2:
            raise refusal(expr, f"it has rank {expr.rank}, and a matrix has rank 2; td.einsum can sum axes")
        return super().visit(expr, bound_indices)

    def rebuilt(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return a scalar operation of SymPy's whose arguments are written with SymPy's matrices; raise
        `UnsupportedError` for a node of this package that has no rule.
        """
        if isinstance(expr, TensorNode):
            raise refusal(expr, OTHERWISE.get(type(expr).__name__, "only whole matrices and vectors have one"))
        return expr if isinstance(expr, Lambda) else (yield super().rebuilt(expr, bound_indices))

    def visit_tensor_symbol(self, expr: TensorSymbol, bound_indices: BoundIndices) -> Any:
        """Convert a tensor symbol to a `MatrixSymbol`, or to a `Symbol` if it has no axes. Raise `ShapeError` if two
        different tensors would become equal symbols.
        """
        shape = (*expr.shape, S.One)[:2]
        result = sympy.MatrixSymbol(expr.name, *shape) if expr.shape else Symbol(expr.name, real=True)
        other = self.symbols.setdefault(result, expr)
        if other != expr:
            raise ShapeError(
                f"{expr} of shape {expr.shape} and {other} of shape {other.shape} would both be the MatrixSymbol "
                f"{result} of shape {shape}; use two names"
            )
        return result

    def visit_entry(self, expr: TensorEntry, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a tensor entry to a `MatrixElement`; a vector is read as an n×1 matrix."""
        matrix = yield self.visit(expr.tensor)
        if not expr.indices:
            return matrix
        return MatrixElement(matrix, *(*expr.indices, S.Zero)[:2])

    # -------------------------------------------------------------- entry by entry

    def visit_add(self, expr: TensorAdd, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a sum of tensors to a sum of SymPy matrices; scalar terms become multiples of a matrix of ones."""
        terms = yield self.all(expr.operands, bound_indices)
        ones = sympy.OneMatrix(*matrix_shape_of(expr))
        pairs = zip(expr.operands, terms, strict=True)
        # Terms of one matrix are one multiple of it.
        return sympy.MatAdd(*(term if is_whole(operand) else times(term, ones) for operand, term in pairs)).doit(
            deep=False
        )

    def visit_mul(self, expr: TensorMul, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an elementwise product to SymPy scalars times a Hadamard product."""
        factors = yield self.all(expr.operands, bound_indices)
        pairs = list(zip(expr.operands, factors, strict=True))
        scalars = [factor for operand, factor in pairs if not is_whole(operand)]
        return times(*scalars, by_entry(*(factor for operand, factor in pairs if is_whole(operand))))

    def visit_pow(self, expr: TensorPow, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an elementwise power to SymPy's; raise `UnsupportedError` if base and exponent are both tensors."""
        base, exponent = yield self.all(expr.operands, bound_indices)
        if not is_whole(expr.exponent):
            return HadamardPower(base, exponent)
        if is_whole(expr.base):
            raise refusal(
                expr, "SymPy transposes powers of one matrix by another wrongly; write exp(exponent*log(base))"
            )
        variable = Symbol("t0", real=True)
        return ElementwiseApplyFunction(Lambda(variable, base**variable), exponent)

    def visit_function(self, expr: TensorFunction, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an elementwise function of one matrix to SymPy's `ElementwiseApplyFunction`; raise `UnsupportedError`
        if it has several matrices.
        """
        values = yield self.all(expr.operands, bound_indices)
        matrices = list(dict.fromkeys(v for v, operand in zip(values, expr.operands, strict=True) if is_whole(operand)))
        if len(matrices) > 1:
            raise refusal(expr, "SymPy applies functions of one matrix only to its entries")
        variable = Symbol("t0", real=True)
        body = expr.applied(*(variable if value == matrices[0] else value for value in values))
        return ElementwiseApplyFunction(Lambda(variable, body), matrices[0])

    def visit_filled(self, expr: FilledTensor, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a constant tensor to a SymPy zero matrix, or to a multiple of a matrix of ones."""
        value = yield self.visit(expr.value)
        if not expr.rank:
            return value
        if value == 0:
            return sympy.ZeroMatrix(*matrix_shape_of(expr))
        return times(value, sympy.OneMatrix(*matrix_shape_of(expr)))

    # -------------------------------------------------------------- matrices

    def visit_delta(self, expr: DeltaTensor, bound_indices: BoundIndices) -> Any:
        """Convert a unit tensor to a SymPy identity matrix; to 1 if it has no axes."""
        return sympy.Identity(expr.shape[0]) if expr.shape else S.One

    def visit_matrix_function(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an inverse or a determinant to SymPy's `Inverse` or `Determinant`."""
        return OF_ONE[type(expr)]((yield self.visit(expr.matrix)))

    def visit_cofactor(self, expr: TensorCofactor, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a cofactor of order 0 to a SymPy determinant; raise `UnsupportedError` for another order."""
        if expr.order:
            raise refusal(expr, OTHERWISE["TensorAdjugate"])
        return sympy.Determinant((yield self.visit(expr.matrix)))

    def visit_logsumexp(self, expr: TensorLogSumExp, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert a log-sum-exp to the logarithm of a sum of exponentials."""
        variable, labels = Symbol("t0", real=True), LETTERS[: expr.tensor.rank]
        rest = "".join(label for axis, label in enumerate(labels) if axis not in expr.axes)
        exponentials = TensorFunction(Lambda(variable, sympy.exp(variable)), expr.tensor)
        total = EinsumProduct(f"{labels}->{rest}", exponentials)
        whole = TensorFunction(Lambda(variable, sympy.log(variable)), total) if rest else sympy.log(total)
        return (yield self.visit(whole))

    def visit_einsum(self, expr: EinsumProduct, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an einsum to a product of SymPy matrices; raise `UnsupportedError` if it has no such form."""
        values = yield self.all(expr.operands, bound_indices)
        notation = einsum_notation(expr.inputs, expr.output, list(map(Leaf, values)), expr.label_extents)
        if any(isinstance(part, Einsum) for part in (notation, *getattr(notation, "factors", ()))):
            raise refusal(expr, "three matrices share an index that is summed; td.TensorComprehension has any sum")
        return matrix_of(notation)

    rules: ClassVar[Rules] = {
        TensorSymbol: visit_tensor_symbol,
        TensorEntry: visit_entry,
        TensorAdd: visit_add,
        TensorMul: visit_mul,
        TensorPow: visit_pow,
        TensorFunction: visit_function,
        FilledTensor: visit_filled,
        DeltaTensor: visit_delta,
        **dict.fromkeys(OF_ONE, visit_matrix_function),
        TensorCofactor: visit_cofactor,
        TensorLogSumExp: visit_logsumexp,
        EinsumProduct: visit_einsum,
    }


OTHERWISE = {
    "TensorAdjugate": "where the matrix is not singular, it is det(A)*inv(A)",
    "IndexedSum": "it is not a sum of products over whole axes",
    **dict.fromkeys(("IndexedProduct", "IndexedMax", "IndexedMin"), "only sums over whole axes have one"),
    "TensorComprehension": "it is not a product of entries of matrices over whole axes",
}


def matrix_of(notation: Any) -> Any:
    """Return SymPy's matrix (or scalar) for ``notation``, a tree of matrix products, traces and diagonals that is
    otherwise used for printing. Its leaves are SymPy matrices already.
    """
    match notation:
        case Leaf(node):
            return node
        case Constant(_, (extent,)):
            return sympy.OneMatrix(extent, 1)
        case Diagonal(vector):
            return sympy.DiagMatrix(matrix_of(vector))
        case Call(name, (matrix,)):
            return (sympy.Trace if name == "trace" else sympy.DiagonalOf)(matrix_of(matrix))
        case Outer(column, row):
            return times(matrix_of(column), matrix_of(row).T)
        case Product():
            scalars = (notation.scalar, *map(matrix_of, notation.inner))
            if not notation.factors:
                return sympy.Mul(*scalars)
            return times(*scalars, by_entry(*map(matrix_of, notation.factors)))
        case Chain(factors):
            product = times(*map(matrix_of, factors))
            return MatrixElement(product, 0, 0) if isinstance(factors[0], RowVector) else product
    (matrix,) = notation  # a row, or a transposed matrix
    return matrix_of(matrix).T


def times(*factors: Any) -> Any:
    """Return SymPy's matrix product of ``factors``, with scalars in front."""
    return sympy.MatMul(*factors).doit(deep=False)


def by_entry(*matrices: Any) -> Any:
    """Return SymPy's elementwise (Hadamard) product of ``matrices``; a single one is returned unchanged."""
    return matrices[0] if len(matrices) == 1 else sympy.HadamardProduct(*matrices).doit(deep=False)


def matrix_shape_of(expr: TensorExpr) -> tuple[Expr, Expr]:
    """Return ``(rows, columns)`` of the SymPy matrix for a tensor of rank 1 or 2; a vector becomes a column."""
    rows, length = (*expr.shape, S.One)[:2]
    return rows, length


def refusal(expr: Any, reason: str) -> UnsupportedError:
    """Return the exception to raise for ``expr``, which cannot be written with SymPy's matrices, with the ``reason`` in
    its text.
    """
    return UnsupportedError(f"{type(expr).__name__} has no form as a matrix of SymPy's: {expr}; {reason}")


hooks.notations[sympy.MatrixExpr] = to_matrices


def to_indices(expr: Any, keeps_sums: bool = True) -> Any:
    """Convert ``expr`` to index notation (sums and comprehensions over entries), as far as its operations have such a
    form. With ``keeps_sums``, a tensor whose entries contain sums stays a tensor if its entries are read more than
    once, so that no sum is computed twice.

    The result is a comprehension, a variable, or a scalar made of indexed sums and entries. Inverses, determinants,
    adjugates and cofactors remain, of matrices in index notation; a log-sum-exp becomes the logarithm of a sum, which
    may overflow. With `keeps_sums`, a tensor remains a tensor, computed once, if an entry of it with sums is read more
    than once; otherwise short entries are written out at each use, for readers.
    """
    return _ToIndexNotation(partial(inline_entry, keeps_sums=keeps_sums)).run(expr)


def for_readers(expr: Any) -> Any:
    """Convert ``expr`` to index notation as it is printed for people: entries of short comprehensions are written out,
    and nested indices get distinct names without numbers. `to_indices` gives the form for computations.

    Short sums in entries that are read more than once are written out at each use. No two nested sums or comprehensions
    have an index of the same name, and indices have no numbers as long as there are letters.
    """
    return _DistinctIndexNames().run(to_indices(expr, keeps_sums=False))


class _TensorTraversal(Rewriting):
    """The base class of the traversals in this file. When it enters a tensor, it reduces ``bound_indices``, the indices
    bound around an expression, to those that occur in the tensor.
    """

    def visit(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return ``expr`` converted by the rules of the traversal. For a tensor, ``bound_indices`` (the indices bound
        around it) is first reduced to the indices that occur in it.
        """
        if bound_indices and is_whole(expr):
            free = expr.free_symbols
            bound_indices = frozenset(pair for pair in bound_indices if pair[0] in free)
        return super().visit(expr, bound_indices)

    def visit_leaf(self, expr: Any, bound_indices: BoundIndices) -> Any:
        """Return ``expr`` unchanged."""
        return expr

    rules: ClassVar[Rules] = dict.fromkeys((Lambda, TensorSymbol, NamedTensor), visit_leaf)


class _ToIndexNotation(_TensorTraversal):
    """The traversal of `to_indices`, which writes each tensor operation by entries of its operands."""

    def __init__(self, read: Callable[..., Any]) -> None:
        super().__init__()
        self.read = read

    def visit_entry(self, expr: TensorEntry, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert the tensor of an entry to index notation, and return the entry of the result at the same indices."""
        tensor = yield self.visit(expr.tensor, bound_indices)
        return (
            expr
            if tensor is expr.tensor
            else self.read(tensor, expr.indices, {index for index, _ in bound_indices} or None)
        )

    def visit_binder(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return a sum or comprehension with its body converted to index notation."""
        body = yield self.visit(expr.body, bound_indices | {(index, index) for index in expr.variables})
        return expr if body is expr.body else expr._trusted(body, expr.limits)

    def visit_operation(self, expr: TensorOperation, bound_indices: BoundIndices) -> Recursion[Any]:
        """Convert an operation on whole tensors to index notation, its operands first."""
        return self.to_comprehension((yield self.rebuilt(expr, bound_indices)))

    def to_comprehension(self, node: TensorOperation) -> Any:
        """Return the operation ``node`` as a comprehension of its entries; ``node`` itself if it has no index notation,
        as an inverse.
        """
        names = node.output if isinstance(node, EinsumProduct) else ()
        if not node.has_index_form:
            return node
        return tabulate(node.shape, node.args, lambda *indices: node.entry_of(indices, self.read), names)

    rules: ClassVar[Rules] = {
        **_TensorTraversal.rules,
        TensorEntry: visit_entry,
        Binder: visit_binder,
        TensorOperation: visit_operation,
    }


def with_entries_written_out(expr: Any) -> Any:
    """Return ``expr`` for printing: each entry of a comprehension is replaced by the body at these indices, if that is
    short. Bound indices then get distinct names.
    """
    written = _WrittenOutEntries(partial(inline_entry, keeps_sums=False)).run(expr)
    return expr if written is expr else _DistinctIndexNames().run(written)


class _WrittenOutEntries(_ToIndexNotation):
    """The traversal of `with_entries_written_out`: an entry of a comprehension becomes its body if that is short;
    operations on whole tensors are unchanged.
    """

    def visit_entry(self, expr: TensorEntry, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return an entry of a comprehension as the comprehension's body at these indices, if that is short."""
        tensor = yield self.visit(expr.tensor, bound_indices)
        is_table = isinstance(tensor, TensorComprehension)
        return self.read(tensor, expr.indices, {index for index, _ in bound_indices} or None) if is_table else expr

    rules: ClassVar[Rules] = {**_TensorTraversal.rules, TensorEntry: visit_entry, Binder: _ToIndexNotation.visit_binder}


class _DistinctIndexNames(_TensorTraversal):
    """The rewriting by which `for_readers` gives nested sums and comprehensions distinct index names without numbers,
    from outside to inside.
    """

    def visit_binder(self, expr: Any, bound_indices: BoundIndices) -> Recursion[Any]:
        """Return a sum or comprehension with converted parts; bound indices with a number in their name, or with the
        name of an index around, get new names.
        """
        around = [new for _, new in bound_indices]
        for index in expr.variables:
            new = index
            if isinstance(index, Symbol) and ("_" in index.name or index.name in {other.name for other in around}):
                (new,) = fresh_indices(1, (expr, expr.body, *around))
            around.append(new)
            bound_indices = rebound(bound_indices, index, new) | {(index, new)}
        args = yield self.all(expr.args, bound_indices)
        return expr if all(map(operator.is_, args, expr.args)) else expr._trusted(args[0], args[1:])

    rules: ClassVar[Rules] = {**_TensorTraversal.rules, Binder: visit_binder}


hooks.notations[IndexedSum] = to_indices
