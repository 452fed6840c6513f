"""Linear solvers that exploit the structure of a matrix; each reports the chosen method and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg, minres, splu

from sympy_tensordiff.errors import ArgumentError, SingularMatrixError
from sympy_tensordiff.structure.low_rank import low_rank_factors

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
    """The requested method does not apply to the matrix; the message says why."""


@contextmanager
def convert_singular_errors() -> Iterator[None]:
    """Return a context manager that converts singular-matrix errors of NumPy and SciPy to `SingularMatrixError`."""
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
    """Solve ``(A + shift*I) x = b``; return ``x`` and a description of the method. Raise `ArgumentError` for unsuitable
    arguments, `SingularMatrixError` if the residual is large.
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
    """Solve ``(A + shift*I) x = b`` with the given ``method`` ("auto": the best one) and return ``x`` with a
    description of the method. ``matrix`` is the sparse part of A plus the shift.
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
    """Return the factors of the part of a matrix whose terms fill blocks, as a product of low rank; computed once. None
    if the rank is above a quarter of the rows, if the sparse part is empty (then the matrix is probably singular), or
    if the operator is a block of a larger matrix.
    """
    if not hasattr(operator, "_factors"):
        may_be_regular = hasattr(operator, "_call") and operator.sparse_part.nnz > 0
        operator._factors = low_rank_factors(operator, operator.shape[0] // 4) if may_be_regular else None
    factors: tuple[NDArray[Any], NDArray[Any]] | None = operator._factors
    return factors


def _solve_woodbury(operator: LinearOperator, matrix: Any, b: Vector) -> Vector:
    """Solve the equations of a sparse ``matrix`` plus a low-rank product by the Woodbury formula; raise
    `_NotApplicable` if the operator has no low-rank factors.
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
    """Factorise a sparse ``matrix`` by the method ``name``; return the function that solves for a right-hand side."""
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
    `SingularMatrixError` for a 0 on the diagonal.
    """
    if any(_bandwidths(matrix)):
        raise _NotApplicable("entries are outside of the diagonal")
    entries = matrix.diagonal()
    if zeros := int((entries == 0).sum()):
        raise SingularMatrixError(f"the matrix is singular: {zeros} entries of its diagonal are 0; add a shift")
    return lambda b: b / entries


def _banded_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a banded matrix by LAPACK, by Cholesky factors if it is symmetric and
    positive definite; raise `_NotApplicable` if the band is too large.
    """
    below, above = _bandwidths(matrix)
    if (below + above + 1) * matrix.shape[0] > 50_000_000:
        raise _NotApplicable(f"{below + above + 1} diagonals of {matrix.shape[0]} rows are too many")
    columns = matrix.indices
    band = np.zeros((below + above + 1, matrix.shape[0]))
    band[above + _rows(matrix) - columns, columns] = matrix.data

    def solve(b: Vector) -> Vector:
        """Solve the banded system for the right-hand side ``b``."""
        with suppress(np.linalg.LinAlgError):  # not positive definite
            if symmetric:
                return np.asarray(scipy.linalg.solveh_banded(band[above:], b, lower=True))
        with convert_singular_errors():
            return np.asarray(scipy.linalg.solve_banded((below, above), band, b))

    return solve


def _block_diagonal_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a block diagonal matrix whose blocks have equal size; raise `_NotApplicable`
    for any other matrix.
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
        """Solve the block diagonal system for the right-hand side ``b``."""
        x = np.empty_like(b)
        with convert_singular_errors():
            x[members] = np.linalg.solve(blocks, b[members][..., None])[..., 0]
        return x

    return solve


def _arrow_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a banded matrix that has a few full rows and columns, by the Schur
    complement; raise `_NotApplicable` for any other matrix.
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
        """Solve the arrow system for the right-hand side ``b``, by the Schur complement."""
        first = solve(b[rest])
        x = np.empty_like(b)
        x[border] = _solve_dense(schur, b[border] - below @ first, symmetric=False)
        x[rest] = first - solved @ x[border]
        return x

    return solve_arrow


def _lu_solver(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    """Return the function that solves with a sparse matrix by SciPy's sparse LU factors."""
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
    """Solve ``(A + shift*I) x = b`` by conjugate gradients ("cg") or MINRES, preconditioned by the absolute diagonal,
    and return ``x``; raise `SingularMatrixError` if the iteration does not converge.
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
    """Raise `SingularMatrixError` if the solution ``x`` of ``(A + shift*I) x = b`` is not finite or its residual is
    large.
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
    """Return the number of diagonals below and above the main one."""
    distance = _rows(matrix) - matrix.indices
    return int(distance.max(initial=0)), int(-distance.min(initial=0))


def _rows(matrix: Any) -> NDArray[np.int64]:
    """Return the row of each stored entry of a CSR ``matrix``; ``tocoo`` takes ten times as long for few entries."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _equal_diagonal_blocks(matrix: Any) -> NDArray[np.int64] | None:
    """Return the rows of each block of a block diagonal matrix, as one row of an array per block. None unless there are
    several blocks of equal, small size.
    """
    count, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    if count < 2 or sizes.min() != sizes.max() or sizes[0] > MAX_BLOCK_ROWS:
        return None
    return np.argsort(labels, kind="stable").reshape(count, -1)


def _full_rows_and_columns(matrix: Any) -> NDArray[np.int64] | None:
    """Return the numbers of a few rows and columns with many entries, without which the matrix is banded; None if there
    are none.
    """
    filled = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[0]), np.diff(matrix.indptr))
    border = np.flatnonzero(filled > max(8, 4 * int(np.median(filled))))
    if not 0 < len(border) <= min(MAX_BORDER_ROWS, matrix.shape[0] // 4):
        return None
    rest = np.setdiff1d(np.arange(matrix.shape[0]), border)
    inner = matrix[rest][:, rest]
    return border if max(_bandwidths(inner)) <= MAX_BANDWIDTH else None
