"""Solves that use the structure of a matrix; each says what it did and why."""

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

MOST_DENSE = 2_000
"""A dense matrix of at most so many rows is factored as it is: 32 MB and a second."""
WIDEST_BAND = 40
"""LAPACK's banded solver is taken up to so many diagonals on one side; beyond, a sparse factorisation has less work."""
LARGEST_BLOCK = 512
MOST_BORDER = 200

METHODS = ("auto", "diagonal", "block diagonal", "banded", "arrow", "low rank", "lu", "dense", "cg", "minres")
Vector = NDArray[Any]


SINGULAR = (
    "the matrix is singular{}: add a shift, or take the least-squares solution of scipy.sparse.linalg.lsmr, which "
    "takes the operator"
)


class _NotApplicable(Exception):
    """Why a method does not apply to a matrix."""


@contextmanager
def regular() -> Iterator[None]:
    """Libraries say in two ways that a matrix is singular."""
    try:
        yield
    except (np.linalg.LinAlgError, RuntimeError):
        raise SingularMatrixError(SINGULAR.format("")) from None


def suggest(operator: LinearOperator) -> str:
    """What `solve_with` would do."""
    if operator.shape[0] != operator.shape[1]:
        return "none: the matrix is not square"
    if operator.has_dense_terms:
        return _choice_for_dense(operator)[1]
    return _choose(operator.sparse_part)[1]


def solve_with(operator: LinearOperator, b: Any, method: str, shift: float, rtol: float) -> tuple[Vector, str]:
    """The solution, and the method with its reason."""
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
    matrix = _shifted(operator.sparse_part, shift)
    if not np.isfinite(matrix.data).all():
        wrong = int((~np.isfinite(matrix.data)).sum())
        raise ArgumentError(f"{wrong} entries of the matrix are not finite: look for NaN or a pole in the arguments")
    try:
        x, said = _solved(operator, matrix, right, method, shift, rtol)
    except _NotApplicable as error:
        raise ArgumentError(f"method {method!r} does not apply: {error}") from None
    _check(operator, x, right, shift, said)
    return x, said


def _solved(
    operator: LinearOperator, matrix: Any, b: Vector, method: str, shift: float, rtol: float
) -> tuple[Vector, str]:
    if method in ("cg", "minres"):
        return _iterated(operator, b, method, shift, rtol), f"{method}: asked for"
    if not operator.has_dense_terms:
        name, why = _choose(matrix) if method == "auto" else (method, f"{method}: asked for")
        if name in ("low rank", "dense"):
            if name == "low rank":
                raise _NotApplicable("no term fills a block")
            return _dense(matrix.toarray(), b, symmetric=False), why
        return _factored(matrix, name, operator.is_symmetric)(b), why
    name, why = _choice_for_dense(operator) if method == "auto" else (method, f"{method}: asked for")
    if name == "low rank":
        try:
            return _woodbury(operator, matrix, b), why
        except (SingularMatrixError, _NotApplicable) as error:
            if method != "auto":
                raise
            name = "dense" if len(b) <= MOST_DENSE else "minres"
            why = f"{name}: diagonal plus low rank, but {error}"
    if name == "dense":
        return _dense(_shifted(operator.tocsr(), shift).toarray(), b, symmetric=operator.is_symmetric), why
    if name == "minres":
        if not operator.is_symmetric:
            raise _NotApplicable("the matrix is a Jacobian with dense terms of large size")
        return _iterated(operator, b, "minres", shift, rtol), why
    raise _NotApplicable("terms of this matrix fill blocks")


def _choice_for_dense(operator: LinearOperator) -> tuple[str, str]:
    n = operator.shape[0]
    factors = _factors_of(operator)
    if factors is not None:
        rank = len(factors[0])
        return "low rank", f"low rank: a sparse matrix plus one of rank {rank} of {n} rows (Woodbury)"
    if n <= MOST_DENSE:
        return "dense", f"dense: terms fill blocks, and {n} rows are few (LAPACK)"
    return "minres", f"minres: terms fill blocks of {n} rows; the matrix may be indefinite, the diagonal preconditions"


def _factors_of(operator: LinearOperator) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Factors of low rank, computed once, where the sparse part may be regular."""
    if not hasattr(operator, "_factors"):
        whole = hasattr(operator, "_call") and operator.sparse_part.nnz > 0
        operator._factors = low_rank_factors(operator, operator.shape[0] // 4) if whole else None
    found: tuple[NDArray[Any], NDArray[Any]] | None = operator._factors
    return found


def _woodbury(operator: LinearOperator, matrix: Any, b: Vector) -> Vector:
    factors = _factors_of(operator)
    if factors is None:
        raise _NotApplicable("the dense terms are no product of thin matrices beside a sparse matrix")
    left, right = factors
    solve = _factored(matrix, _choose(matrix)[0], operator.is_symmetric)
    inverse_left = np.reshape([solve(row) for row in left], left.shape).T
    first = solve(b)
    if not (np.isfinite(first).all() and np.isfinite(inverse_left).all()):
        raise SingularMatrixError(SINGULAR.format(""))
    small = np.eye(len(left)) + right @ inverse_left
    correction: Vector = first - inverse_left @ _dense(small, right @ first, symmetric=False)
    return correction


# ---------------------------------------------------------------------------- sparse matrices


def _choose(matrix: Any) -> tuple[str, str]:
    """The cheapest method for a sparse matrix, and why."""
    n = matrix.shape[0]
    below, above = _widths(matrix)
    if not (below or above):
        return "diagonal", "diagonal: nothing is outside of the diagonal"
    if max(below, above) <= 1:
        return "banded", f"banded: {below} diagonals below and {above} above the main one (LAPACK)"
    blocks = _blocks(matrix)
    if blocks is not None:
        return "block diagonal", f"block diagonal: {blocks.shape[0]} blocks of {blocks.shape[1]} rows (LAPACK)"
    if max(below, above) <= WIDEST_BAND and max(below, above) < n // 4:
        return "banded", f"banded: {below} diagonals below and {above} above the main one (LAPACK)"
    border = _border(matrix)
    if border is not None:
        return "arrow", f"arrow: {len(border)} rows and columns are full, the rest is banded (Schur complement)"
    return "lu", f"lu: {matrix.nnz} entries without a simpler structure (SciPy's sparse LU)"


def _factored(matrix: Any, name: str, symmetric: bool) -> Callable[[Vector], Vector]:
    """A function that solves with a sparse matrix."""
    makers = {"diagonal": _diagonal, "block diagonal": _block_diagonal, "banded": _banded, "arrow": _arrow, "lu": _lu}
    return makers[name](matrix, symmetric)


def _diagonal(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    if any(_widths(matrix)):
        raise _NotApplicable("entries are outside of the diagonal")
    entries = matrix.diagonal()
    if zeros := int((entries == 0).sum()):
        raise SingularMatrixError(f"the matrix is singular: {zeros} entries of its diagonal are 0; add a shift")
    return lambda b: b / entries


def _banded(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    below, above = _widths(matrix)
    if (below + above + 1) * matrix.shape[0] > 50_000_000:
        raise _NotApplicable(f"{below + above + 1} diagonals of {matrix.shape[0]} rows are too many")
    entries = matrix.tocoo()
    band = np.zeros((below + above + 1, matrix.shape[0]))
    band[above + entries.row - entries.col, entries.col] = entries.data

    def solve(b: Vector) -> Vector:
        with suppress(np.linalg.LinAlgError):  # not positive definite
            if symmetric:
                return np.asarray(scipy.linalg.solveh_banded(band[above:], b, lower=True))
        with regular():
            return np.asarray(scipy.linalg.solve_banded((below, above), band, b))

    return solve


def _block_diagonal(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    members = _blocks(matrix)
    if members is None:
        raise _NotApplicable(f"the matrix has no blocks of one size up to {LARGEST_BLOCK}")
    number, place = np.empty(matrix.shape[0], int), np.empty(matrix.shape[0], int)
    number[members] = np.arange(len(members))[:, None]
    place[members] = np.arange(members.shape[1])
    entries = matrix.tocoo()
    blocks = np.zeros((*members.shape, members.shape[1]))
    blocks[number[entries.row], place[entries.row], place[entries.col]] = entries.data

    def solve(b: Vector) -> Vector:
        x = np.empty_like(b)
        with regular():
            x[members] = np.linalg.solve(blocks, b[members][..., None])[..., 0]
        return x

    return solve


def _arrow(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    border = _border(matrix)
    if border is None:
        raise _NotApplicable("no few full rows and columns leave a band")
    rest = np.setdiff1d(np.arange(matrix.shape[0]), border)
    inner = matrix[rest][:, rest].tocsr()
    solve = _diagonal(inner, symmetric) if not any(_widths(inner)) else _banded(inner, symmetric)
    right, below = matrix[rest][:, border].toarray(), matrix[border][:, rest]
    solved = np.reshape([solve(column) for column in right.T], right.T.shape).T
    schur = matrix[border][:, border].toarray() - below @ solved

    def whole(b: Vector) -> Vector:
        first = solve(b[rest])
        x = np.empty_like(b)
        x[border] = _dense(schur, b[border] - below @ first, symmetric=False)
        x[rest] = first - solved @ x[border]
        return x

    return whole


def _lu(matrix: Any, symmetric: bool) -> Callable[[Vector], Vector]:
    with regular():
        factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A" if symmetric else "COLAMD")
    solve: Callable[[Vector], Vector] = factors.solve
    return solve


def _dense(matrix: NDArray[Any], b: Vector, symmetric: bool) -> Vector:
    with suppress(np.linalg.LinAlgError):
        if symmetric:
            return np.asarray(scipy.linalg.solve(matrix, b, assume_a="pos"))
    with regular():
        return np.linalg.solve(matrix, b)


def _iterated(operator: LinearOperator, b: Vector, method: str, shift: float, rtol: float) -> Vector:
    """Conjugate gradients or MINRES with the size of the diagonal as preconditioner."""
    scale = np.abs(operator.diagonal() + shift)
    scale[scale <= 1e-12 * scale.max(initial=1.0)] = 1.0
    shape = operator.shape
    shifted = LinearOperator(shape, matvec=lambda v: operator.matvec(v) + shift * v, dtype=float)
    inverse = LinearOperator(shape, matvec=lambda v: np.ravel(v) / scale, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):  # of a singular matrix, whose status says so
        x, status = (cg if method == "cg" else minres)(shifted, b, rtol=rtol, maxiter=10 * len(b), M=inverse)
    if status:
        raise SingularMatrixError(
            f"{method} did not converge in {10 * len(b)} steps: add a shift, or allow a larger rtol"
        )
    solution: Vector = x
    return solution


def _check(operator: LinearOperator, x: Vector, b: Vector, shift: float, said: str) -> None:
    """Refuse a solution whose residual says that the matrix is singular."""
    if np.isfinite(x).all():
        residual = float(np.linalg.norm(operator.matvec(x) + shift * x - b))
        if residual <= 1e-6 * max(float(np.linalg.norm(b)), 1e-300):
            return
    raise SingularMatrixError(SINGULAR.format(f" to working precision ({said})"))


# ---------------------------------------------------------------------------- looking at a pattern


def _shifted(matrix: Any, shift: float) -> Any:
    return matrix + shift * scipy.sparse.eye_array(matrix.shape[0], format="csr") if shift else matrix


def _widths(matrix: Any) -> tuple[int, int]:
    """The number of diagonals below and above the main one."""
    entries = matrix.tocoo()
    distance = entries.row.astype(np.int64) - entries.col
    return int(distance.max(initial=0)), int(-distance.min(initial=0))


def _blocks(matrix: Any) -> NDArray[np.int64] | None:
    """The rows of the blocks that nothing connects, where all have one size."""
    count, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    if count < 2 or sizes.min() != sizes.max() or sizes[0] > LARGEST_BLOCK:
        return None
    return np.argsort(labels, kind="stable").reshape(count, -1)


def _border(matrix: Any) -> NDArray[np.int64] | None:
    """Few rows and columns with many entries, without which the matrix is banded."""
    filled = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[0]), np.diff(matrix.indptr))
    border = np.flatnonzero(filled > max(8, 4 * int(np.median(filled))))
    if not 0 < len(border) <= min(MOST_BORDER, matrix.shape[0] // 4):
        return None
    rest = np.setdiff1d(np.arange(matrix.shape[0]), border)
    inner = matrix[rest][:, rest]
    return border if max(_widths(inner)) <= WIDEST_BAND else None
