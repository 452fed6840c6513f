"""Linear solvers that exploit the structure of a matrix, such as low-rank terms; each reports the chosen method and the
reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import sympy
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg, minres, splu
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.errors import ArgumentError, SingularMatrixError
from sympy_tensordiff.structure.pattern import TermGroup, find_pattern
from sympy_tensordiff.structure.points import all_hold, evaluate
from sympy_tensordiff.structure.terms import BlockIndex, DerivativeTerm
from sympy_tensordiff.structure.values import shift_to_origin
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in
from sympy_tensordiff.symbolic.index_notation.indices import data_of
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension

MAX_DENSE_ROWS = 2_000
"""Largest dense matrix that is factorised directly: 32 MB and a second."""
MAX_BANDWIDTH = 40
"""Largest number of diagonals on one side for LAPACK's banded solver; a sparse factorisation is faster beyond."""
MAX_BLOCK_ROWS = 512
MAX_BORDER_ROWS = 200

METHODS = ("auto", "diagonal", "block diagonal", "banded", "arrow", "low rank", "lu", "dense", "cg", "minres")
Vector = NDArray[Any]


SINGULAR = (
    "the matrix is singular{}: add a shift, or take the least-squares solution of scipy.sparse.linalg.lsmr, which "
    "takes the operator"
)


class _NotApplicable(Exception):
    """Raised if the requested method does not apply to the matrix; the message says why."""


@contextmanager
def convert_singular_errors() -> Iterator[None]:
    """Return a context manager that raises `SingularMatrixError` in place of NumPy's and SciPy's `LinAlgError`, and of
    any `RuntimeError`, which SciPy's `splu` raises for a singular matrix.
    """
    try:
        yield
    except (np.linalg.LinAlgError, RuntimeError):
        raise SingularMatrixError(SINGULAR.format("")) from None


def suggest_method(operator: LinearOperator) -> str:
    """Return the name of the method that `solve_with` would choose for ``operator``, with the reason for it."""
    if operator.shape[0] != operator.shape[1]:
        return "none: the matrix is not square"
    if operator.has_dense_terms:
        return _choose_for_dense_terms(operator)[1]
    return _choose_sparse_method(operator.sparse_part)[1]


def solve_with(operator: LinearOperator, b: Any, method: str, shift: float, rtol: float) -> tuple[Vector, str]:
    """Solve ``(A + shift*I) x = b`` for the matrix A of ``operator`` by the method ``method``. Return ``x`` and a
    description of the method that was used.

    ``rtol`` is the tolerance of iterative methods. Raise `ArgumentError` for unsuitable arguments,
    `SingularMatrixError` if the residual is large.
    """
    right = np.asarray(b, dtype=float)
    n = operator.shape[0]
    if operator.shape[0] != operator.shape[1]:
        raise ArgumentError(f"solve needs a square matrix, this one has the shape {operator.shape}")
    if right.shape != (n,):
        raise ArgumentError(f"the right-hand side has the shape {right.shape}, the matrix needs ({n},)")
    if method not in METHODS:
        raise ArgumentError(f"method is {method!r}, it must be one of {', '.join(METHODS)}")
    if not np.isfinite(right).all():
        raise ArgumentError(f"the right-hand side has {int((~np.isfinite(right)).sum())} entries that are not finite")
    matrix = _add_shift(operator.sparse_part, shift)
    if not np.isfinite(matrix.data).all():
        wrong = int((~np.isfinite(matrix.data)).sum())
        raise ArgumentError(f"{wrong} entries of the matrix are not finite: look for NaN or a pole in the arguments")
    try:
        x, description = _solve_by_method(operator, matrix, right, method, shift, rtol)
    except _NotApplicable as error:
        raise ArgumentError(f"method {method!r} does not apply: {error}") from None
    _check_residual(operator, x, right, shift, description)
    return x, description


def _solve_by_method(
    operator: LinearOperator, matrix: Any, b: Vector, method: str, shift: float, rtol: float
) -> tuple[Vector, str]:
    """Solve ``(A + shift*I) x = b`` for the matrix A of ``operator``, by ``method`` ("auto": the best one) to the
    relative error ``rtol``. Return ``x`` and a description of the method. ``matrix`` is the sparse part of A plus the
    shift.
    """
    if method in ("cg", "minres"):
        return _solve_iteratively(operator, b, method, shift, rtol), f"{method}: asked for"
    if not operator.has_dense_terms:
        name, why = _choose_sparse_method(matrix) if method == "auto" else (method, f"{method}: asked for")
        if name in ("low rank", "dense"):
            if name == "low rank":
                raise _NotApplicable("no term fills a block")
            return _solve_dense(matrix.toarray(), b, symmetric=False), why
        return _make_sparse_solver(matrix, name, operator.is_symmetric)(b), why
    name, why = _choose_for_dense_terms(operator) if method == "auto" else (method, f"{method}: asked for")
    if name == "low rank":
        try:
            return _solve_woodbury(operator, matrix, b), why
        except (SingularMatrixError, _NotApplicable) as error:
            if method != "auto":
                raise
            name = "dense" if len(b) <= MAX_DENSE_ROWS else "minres"
            why = f"{name}: diagonal plus low rank, but {error}"
    if name == "dense":
        return _solve_dense(_add_shift(operator.tocsr(), shift).toarray(), b, symmetric=operator.is_symmetric), why
    if name == "minres":
        if not operator.is_symmetric:
            raise _NotApplicable("the matrix is a Jacobian with dense terms of large size")
        return _solve_iteratively(operator, b, "minres", shift, rtol), why
    raise _NotApplicable("terms of this matrix fill blocks")


def _choose_for_dense_terms(operator: LinearOperator) -> tuple[str, str]:
    """Choose the method for an operator with dense terms; return its name and a description with the reason."""
    n = operator.shape[0]
    factors = _cached_low_rank_factors(operator)
    if factors is not None:
        rank = len(factors[0])
        return "low rank", f"low rank: a sparse matrix plus one of rank {rank} of {n} rows (Woodbury)"
    if n <= MAX_DENSE_ROWS:
        return "dense", f"dense: terms fill blocks, and {n} rows are few (LAPACK)"
    return "minres", f"minres: terms fill blocks of {n} rows; the matrix may be indefinite, the diagonal preconditions"


def _cached_low_rank_factors(operator: LinearOperator) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return two low-rank factors whose product is the dense part of the matrix ``operator``, which keeps them for
    later calls. Return None if a solution by the Woodbury formula would not pay.

    The dense part has the terms that fill whole blocks. It has no factors if their rank is above a quarter of the rows,
    if the sparse part is empty, or if the operator is a block of a larger matrix.

    With an empty sparse part the matrix is probably singular.
    """
    if not hasattr(operator, "_factors"):
        may_be_regular = hasattr(operator, "_call") and operator.sparse_part.nnz > 0
        operator._factors = low_rank_factors(operator, operator.shape[0] // 4) if may_be_regular else None
    factors: tuple[NDArray[Any], NDArray[Any]] | None = operator._factors
    return factors


def _solve_woodbury(operator: LinearOperator, matrix: Any, b: Vector) -> Vector:
    """Solve the equations of ``operator`` for the right-hand side ``b`` by the Woodbury formula: the operator is the
    sparse ``matrix`` plus a low-rank product. Raise `_NotApplicable` if it has no low-rank factors.
    """
    factors = _cached_low_rank_factors(operator)
    if factors is None:
        raise _NotApplicable("the matrix is not a sparse matrix plus a product of two thin matrices")
    left, right = factors
    solve = _make_sparse_solver(matrix, _choose_sparse_method(matrix)[0], operator.is_symmetric)
    inverse_left = np.reshape([solve(row) for row in left], left.shape).T
    first = solve(b)
    if not (np.isfinite(first).all() and np.isfinite(inverse_left).all()):
        raise SingularMatrixError(SINGULAR.format(""))
    small = np.eye(len(left)) + right @ inverse_left
    correction: Vector = first - inverse_left @ _solve_dense(small, right @ first, symmetric=False)
    return correction


# ---------------------------------------------------------------------------- sparse matrices


def _choose_sparse_method(matrix: Any) -> tuple[str, str]:
    """Choose the cheapest method for a sparse ``matrix``; return its name and a description with the reason."""
    n = matrix.shape[0]
    below, above = _bandwidths(matrix)
    if not (below or above):
        return "diagonal", "diagonal: nothing is outside of the diagonal"
    if max(below, above) <= 1:
        return "banded", f"banded: {below} diagonals below and {above} above the main one (LAPACK)"
    blocks = _equal_diagonal_blocks(matrix)
    if blocks is not None:
        return "block diagonal", f"block diagonal: {blocks.shape[0]} blocks of {blocks.shape[1]} rows (LAPACK)"
    if max(below, above) <= MAX_BANDWIDTH and max(below, above) < n // 4:
        return "banded", f"banded: {below} diagonals below and {above} above the main one (LAPACK)"
    border = _full_rows_and_columns(matrix)
    if border is not None:
        return "arrow", f"arrow: {len(border)} rows and columns are full, the rest is banded (Schur complement)"
    return "lu", f"lu: {matrix.nnz} entries without a simpler structure (SciPy's sparse LU)"


def _make_sparse_solver(matrix: Any, name: str, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves linear systems with the sparse ``matrix`` for a right-hand side, by its
    factorisation with the method ``name``. ``symmetric`` says that the matrix is symmetric.
    """
    makers = {
        "diagonal": _diagonal_solver,
        "block diagonal": _block_diagonal_solver,
        "banded": _banded_solver,
        "arrow": _arrow_solver,
        "lu": _lu_solver,
    }
    return makers[name](matrix, symmetric)


def _diagonal_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a diagonal matrix. Raise `_NotApplicable` for other matrices,
    `SingularMatrixError` for a 0 on the diagonal. ``symmetric``, which other solvers use, is ignored.
    """
    if any(_bandwidths(matrix)):
        raise _NotApplicable("entries are outside of the diagonal")
    entries = matrix.diagonal()
    if zeros := int((entries == 0).sum()):
        raise SingularMatrixError(f"the matrix is singular: {zeros} entries of its diagonal are 0; add a shift")
    return lambda b: b / entries


def _banded_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a banded matrix by LAPACK, by Cholesky factors if it is ``symmetric`` and
    positive definite; raise `_NotApplicable` if the band is too large.
    """
    below, above = _bandwidths(matrix)
    if (below + above + 1) * matrix.shape[0] > 50_000_000:
        raise _NotApplicable(f"{below + above + 1} diagonals of {matrix.shape[0]} rows are too many")
    columns = matrix.indices
    band = np.zeros((below + above + 1, matrix.shape[0]))
    band[above + _rows(matrix) - columns, columns] = matrix.data

    def solve(b: Vector) -> Vector:
        """Solve the system with the banded matrix for the right-hand side ``b``, and return the solution."""
        with suppress(np.linalg.LinAlgError):  # not positive definite
            if symmetric:
                return np.asarray(scipy.linalg.solveh_banded(band[above:], b, lower=True))
        with convert_singular_errors():
            return np.asarray(scipy.linalg.solve_banded((below, above), band, b))

    return solve


def _block_diagonal_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a block diagonal ``matrix`` whose blocks have equal size; raise
    `_NotApplicable` for any other matrix. ``symmetric`` is not used.
    """
    members = _equal_diagonal_blocks(matrix)
    if members is None:
        raise _NotApplicable(f"the matrix has no blocks of one size up to {MAX_BLOCK_ROWS}")
    number, position = np.empty(matrix.shape[0], int), np.empty(matrix.shape[0], int)
    number[members] = np.arange(len(members))[:, None]
    position[members] = np.arange(members.shape[1])
    rows = _rows(matrix)
    blocks = np.zeros((*members.shape, members.shape[1]))
    blocks[number[rows], position[rows], position[matrix.indices]] = matrix.data

    def solve(b: Vector) -> Vector:
        """Return the solution of the block diagonal system for the right-hand side ``b``."""
        x = np.empty_like(b)
        with convert_singular_errors():
            x[members] = np.linalg.solve(blocks, b[members][..., None])[..., 0]
        return x

    return solve


def _arrow_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves linear systems with ``matrix``, banded but for a few full rows and columns, by
    the Schur complement. Raise `_NotApplicable` for any other matrix.

    ``symmetric`` says that the matrix is symmetric.
    """
    border = _full_rows_and_columns(matrix)
    if border is None:
        raise _NotApplicable("no few full rows and columns leave a band")
    rest = np.setdiff1d(np.arange(matrix.shape[0]), border)
    inner = matrix[rest][:, rest].tocsr()
    solve = _diagonal_solver(inner, symmetric) if not any(_bandwidths(inner)) else _banded_solver(inner, symmetric)
    right, below = matrix[rest][:, border].toarray(), matrix[border][:, rest]
    solved = np.reshape([solve(column) for column in right.T], right.T.shape).T
    schur = matrix[border][:, border].toarray() - below @ solved

    def solve_arrow(b: Vector) -> Vector:
        """Solve the system with an arrow matrix (a band with a few full rows and columns) for the right-hand side
        ``b``, by the Schur complement, and return the solution.
        """
        first = solve(b[rest])
        x = np.empty_like(b)
        x[border] = _solve_dense(schur, b[border] - below @ first, symmetric=False)
        x[rest] = first - solved @ x[border]
        return x

    return solve_arrow


def _lu_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves linear systems with a sparse ``matrix`` by SciPy's sparse LU factors.
    ``symmetric`` selects an order of elimination that suits symmetric matrices.
    """
    with convert_singular_errors():
        factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A" if symmetric else "COLAMD")
    solve: Callable[[Vector], Vector] = factors.solve
    return solve


def _solve_dense(matrix: NDArray[Any], b: Vector, symmetric: bool) -> Vector:
    """Return the solution of ``matrix @ x = b`` for a full matrix, by Cholesky if ``symmetric`` and positive definite,
    else by LU.
    """
    with suppress(np.linalg.LinAlgError):
        if symmetric:
            return np.asarray(scipy.linalg.solve(matrix, b, assume_a="pos"))
    with convert_singular_errors():
        return np.linalg.solve(matrix, b)


def _solve_iteratively(operator: LinearOperator, b: Vector, method: str, shift: float, rtol: float) -> Vector:
    """Solve ``(A + shift*I) x = b`` for the matrix A of ``operator`` by the `method` "cg" (conjugate gradients) or
    "minres", up to the relative error `rtol`, and return ``x``. Raise `SingularMatrixError` if the iteration does not
    converge.
    """
    scale = np.abs(operator.diagonal() + shift)
    scale[scale <= 1e-12 * scale.max(initial=1.0)] = 1.0
    shape = operator.shape
    shifted = LinearOperator(shape, matvec=lambda v: operator.matvec(v) + shift * v, dtype=float)
    inverse = LinearOperator(shape, matvec=lambda v: np.ravel(v) / scale, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):  # from a singular matrix, which the status reports
        x, status = (cg if method == "cg" else minres)(shifted, b, rtol=rtol, maxiter=10 * len(b), M=inverse)
    if status:
        raise SingularMatrixError(
            f"{method} did not converge in {10 * len(b)} steps: add a shift, or allow a larger rtol"
        )
    solution: Vector = x
    return solution


def _check_residual(operator: LinearOperator, x: Vector, b: Vector, shift: float, description: str) -> None:
    """Raise `SingularMatrixError` if the solution ``x`` of ``(A + shift*I) x = b``, with the matrix A of ``operator``,
    is not finite or has a large residual. ``description`` names the method in the message.
    """
    if np.isfinite(x).all():
        residual = float(np.linalg.norm(operator.matvec(x) + shift * x - b))
        if residual <= 1e-6 * max(float(np.linalg.norm(b)), 1e-300):
            return
    raise SingularMatrixError(SINGULAR.format(f" to working precision ({description})"))


# ---------------------------------------------------------------------------- looking at a pattern


def _add_shift(matrix: Any, shift: float) -> Any:
    """Return ``matrix + shift*I``."""
    return matrix + shift * scipy.sparse.eye_array(matrix.shape[0], format="csr") if shift else matrix


def _bandwidths(matrix: Any) -> tuple[int, int]:
    """Return ``(below, above)``: the numbers of diagonals below and above the main diagonal up to the farthest stored
    entry of the sparse ``matrix``.
    """
    distance = _rows(matrix) - matrix.indices
    return int(distance.max(initial=0)), int(-distance.min(initial=0))


def _rows(matrix: Any) -> NDArray[np.int64]:
    """Return the row of each stored entry of a CSR ``matrix``; ``tocoo`` takes ten times as long for few entries."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _equal_diagonal_blocks(matrix: Any) -> NDArray[np.int64] | None:
    """Return the rows of the blocks of a block diagonal matrix, as an array with one row for each block. None unless
    there are several blocks of equal, small size.
    """
    count, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    if count < 2 or sizes.min() != sizes.max() or sizes[0] > MAX_BLOCK_ROWS:
        return None
    return np.argsort(labels, kind="stable").reshape(count, -1)


def _full_rows_and_columns(matrix: Any) -> NDArray[np.int64] | None:
    """Return the numbers of the few rows and columns that have many entries, if the matrix is banded without them; None
    if there are no such rows or if it is not.
    """
    filled = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[0]), np.diff(matrix.indptr))
    border = np.flatnonzero(filled > max(8, 4 * int(np.median(filled))))
    if not 0 < len(border) <= min(MAX_BORDER_ROWS, matrix.shape[0] // 4):
        return None
    rest = np.setdiff1d(np.arange(matrix.shape[0]), border)
    inner = matrix[rest][:, rest]
    return border if max(_bandwidths(inner)) <= MAX_BANDWIDTH else None


class _SeparatedTerm(NamedTuple):
    """A dense term of a matrix, separated into a row factor and a column factor:
    ``sum_k left[k, row]*right[k, column]``. ``inner`` has the ranges of the indices k. A factor has the ranges of its
    other indices, its value, and its row or column.
    """

    inner: tuple[IndexRange, ...]
    left: tuple[tuple[IndexRange, ...], Expr, BlockIndex]
    right: tuple[tuple[IndexRange, ...], Expr, BlockIndex]


def low_rank_factors(operator: LinearOperator, max_rank: int) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return two arrays ``(left, right)`` such that ``left.T @ right`` is the dense part of the matrix of ``operator``.
    None if they would have more than ``max_rank`` rows, or if a term of the matrix is not a product of a row factor and
    a column factor.
    """
    derivative, environment = operator._derivative, operator._environment
    factor_pairs: list[tuple[Any, Any]] = []
    rank = 0
    for group in derivative.dense_groups:
        if not all_hold(
            [c for c in group.conditions if not c.free_symbols & {b.index for b in group.binders}], environment
        ):
            continue
        for term in group.terms:
            factors = _separate_term(term)
            if factors is None:
                return None
            own_rank = math.prod(_range_length(b, environment) for b in factors.inner)
            rank += own_rank * (1 + term.mirrored)
            if rank > max_rank:
                return None
            if own_rank:
                sides = [_factor_matrix(operator, factors.inner, side, axis) for axis, side in enumerate(factors[1:])]
                factor_pairs += [(sides[0], sides[1])] + ([(sides[1], sides[0])] if term.mirrored else [])
    if not factor_pairs:
        return np.zeros((0, operator.shape[0])), np.zeros((0, operator.shape[1]))
    return np.concatenate([left for left, _ in factor_pairs]), np.concatenate([right for _, right in factor_pairs])


def _separate_term(term: DerivativeTerm) -> _SeparatedTerm | None:
    """Separate the value of ``term`` into a function of the row indices times a function of the column indices, or a
    sum of such products over further indices. Return None if this is impossible, or if a range depends on an index.
    """
    indices = {b.index for b in term.binders}
    if any(c.free_symbols & indices for c in term.conditions):
        return None
    value, inner = term.value, tuple[IndexRange, ...]()
    outside: list[Expr] = []
    sums: list[Expr] = []
    for factor in sympy.Mul.make_args(value):
        (sums if isinstance(factor, IndexedSum) and factor.free_symbols & indices else outside).append(factor)
    if len(sums) == 1:
        limits = sums[0].ranges()
        if not set().union(*(b.low.free_symbols | b.high.free_symbols for b in limits)) & indices:
            value, inner = sympy.Mul(*outside, sums[0].args[0]), limits
    row = {b for b in term.binders if b.index in set().union(*(e.free_symbols for e in term.row.indices))}
    sides: list[list[Expr]] = [[], []]
    for factor in sympy.Mul.make_args(value):
        free = free_symbols_in([factor])
        ranges_in_factor = {b for b in term.binders if b.index in free}
        if ranges_in_factor & row and ranges_in_factor - row:
            return None
        sides[int(bool(ranges_in_factor - row))].append(factor)
    own_ranges = [tuple(b for b in term.binders if (b in row) == is_row) for is_row in (True, False)]
    boxes = [end for b in (*inner, *term.binders) for end in (b.low, b.high)]
    if any(end.free_symbols & {b.index for b in (*inner, *term.binders)} or data_of(end) for end in boxes):
        return None
    left, right = sympy.Mul(*sides[0]), sympy.Mul(*sides[1])
    return _SeparatedTerm(inner, (own_ranges[0], left, term.row), (own_ranges[1], right, term.column))


def _range_length(binder: IndexRange, environment: dict[Any, Any]) -> int:
    """Return the number of integers in the range of ``binder`` at the sizes of ``environment``, 0 if it is empty."""
    return max(0, int(evaluate(binder.high, environment)) - int(evaluate(binder.low, environment)) + 1)


def _factor_matrix(operator: LinearOperator, inner: tuple[IndexRange, ...], side: Any, axis: int) -> NDArray[Any]:
    """Evaluate ``side``, the row or column factor of a `_SeparatedTerm`, as a matrix with one row for each value of the
    indices ``inner``. Its columns are the rows (``axis`` 0) or columns (``axis`` 1) of the derivative.

    A low-rank term is a sum over ``inner`` of products of two factors.
    """
    derivative, environment = operator._derivative, operator._environment
    own_ranges, value, position = side
    key = ("factor", inner, side)
    if key not in derivative._kernels:
        shifts, axes = shift_to_origin((*inner, *own_ranges))
        tensor = TensorComprehension(Replacement(Substitution(shifts))(value), *axes)
        derivative._kernels[key] = lambdify(derivative.args, tensor, **derivative._options)
    values = derivative._kernels[key](*operator._call.values)
    rank = math.prod(_range_length(b, environment) for b in inner)
    group = TermGroup(
        own_ranges, (), (DerivativeTerm(own_ranges, (), sympy.S.One, position, BlockIndex(0, ())),), False
    )
    pattern = find_pattern([group], (derivative.shapes(environment)[axis], [()]), environment)
    result = np.zeros((rank, pattern.shape[0]))
    counts = np.diff(pattern.starts) if pattern.starts is not None else 1
    np.add.at(result.T, np.repeat(pattern.rows, counts), values.reshape(rank, -1).T[pattern.sources])
    return result
