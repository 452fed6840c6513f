"""A structured derivative at given arrays, as a SciPy linear operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import sympy
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.structure.calls import CheckedArguments
from sympy_tensordiff.structure.pattern import TermGroup, find_pattern
from sympy_tensordiff.structure.solve import solve_with, suggest_method
from sympy_tensordiff.structure.terms import BlockIndex, DerivativeTerm
from sympy_tensordiff.structure.values import EntryEvaluator

MAX_WRITTEN_ENTRIES = 20_000_000
"""Dense blocks with more entries are not written out unless the caller raises the limit."""


class StructuredOperator(LinearOperator):  # type: ignore[misc]
    """A Jacobian or Hessian at given arrays, as a SciPy `LinearOperator` with direct access to its entries.

    Sparse terms are stored in compressed rows. Dense terms, which fill blocks, are not stored: products with them are
    derivatives along a direction.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    """

    def __init__(self, derivative: Any, call: CheckedArguments) -> None:
        self._derivative, self._call, self._environment = derivative, call, call.environment
        entries = derivative.entries(call, dense=False)
        self._sparse_entries = entries
        self._method: str | None = None
        if not derivative.dense_groups:
            self.sparse_part  # noqa: B018  # now, before the caller changes the arrays; they are copied for dense terms
        super().__init__(call.dtype, entries.pattern.shape)

    @property
    def is_symmetric(self) -> bool:
        """Return whether the matrix is symmetric, which it is for a Hessian."""
        return bool(self._derivative.is_symmetric)

    @property
    def has_dense_terms(self) -> bool:
        """Return whether the matrix has terms that fill whole blocks. Their entries are not stored."""
        return bool(self._derivative.dense_groups)

    @cached_property
    def sparse_part(self) -> Any:
        """The terms of the matrix that do not fill whole blocks, as a compressed-row (CSR) matrix."""
        return self._to_csr(self._sparse_entries)

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """SciPy's hook: return the matrix times ``x``."""
        return self._times(np.ravel(x), transposed=False)

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """SciPy's hook: return the transpose times ``x``."""
        return self._times(np.ravel(x), transposed=not self.is_symmetric)

    def _times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        """Return the matrix (or its transpose) times ``vector``: by a sparse product, or as a directional derivative if
        the matrix has dense blocks.
        """
        if not self.has_dense_terms:
            product: NDArray[Any] = (self.sparse_part.T if transposed else self.sparse_part) @ vector
            return product
        return self._dense_times(vector, transposed=transposed)

    def _dense_times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        """Return the whole matrix (or its transpose) times ``vector`` as a directional derivative, without storing
        dense blocks.
        """
        own = np.ascontiguousarray(vector, dtype=np.float64)
        result: NDArray[Any] = self._derivative.multiply(
            self._call.values, self._environment, own, transposed=transposed
        )
        return result

    def diagonal(self) -> NDArray[Any]:
        """Return the diagonal of the matrix; terms that fill dense blocks are evaluated at its entries only."""
        result = np.array(self.sparse_part.diagonal())
        for group in self._derivative.dense_groups:
            for term in group.terms:
                if not self.is_symmetric or term.row.tensor == term.column.tensor:
                    self._add_diagonal(result, term)
        return result

    def _add_diagonal(self, result: NDArray[Any], term: DerivativeTerm) -> None:
        """Add to ``result`` the entries of a dense ``term`` that are on the diagonal of the matrix."""
        if self.is_symmetric:
            pairs = list(zip(term.row.indices, term.column.indices, strict=True))
        else:
            sides = zip((term.row, term.column), self._derivative.shapes(self._environment), strict=True)
            pairs = [tuple(_flat_position(position, shapes) for position, shapes in sides)]
        equal = tuple(sympy.Eq(row, column) for row, column in pairs)
        rows = tuple(c for c in (*term.conditions, *equal) if c != sympy.true)
        if sympy.false in rows:
            return
        group = TermGroup(term.binders, rows, (term._replace(conditions=rows),), False)
        pattern = find_pattern([group], self._derivative.shapes(self._environment), self._environment)
        values = np.empty(len(pattern.columns), self.dtype)
        EntryEvaluator(pattern, [group], self._derivative.kernel)(self._call.values, values)
        np.add.at(result, pattern.columns, values)

    def block(self, i: int, j: int) -> BlockOperator:
        """Return the rows of variable (or function) ``i`` and the columns of variable ``j``, counted from 0, as an
        operator.

        Raises
        ------
        ArgumentError
            If there are not as many variables.
        """
        return BlockOperator(self, (i, j))

    def tocsr(self, limit: int = MAX_WRITTEN_ENTRIES) -> Any:
        """Return all entries as a compressed-row matrix, the dense blocks written out. Raise `ArgumentError` if these
        have more than ``limit`` entries.

        Parameters
        ----------
        limit : int
            The largest number of entries of dense blocks to write out.

        Raises
        ------
        ArgumentError
            If they have more entries; `matvec`, `diagonal` and `solve` do not write them out.
        """
        if not self.has_dense_terms:
            return self.sparse_part
        check_entry_limit(self._dense_entry_count(), limit)
        return self._to_csr(self._derivative.entries(self._call))

    def _to_csr(self, entries: EntryEvaluator) -> Any:
        """Compute the matrix entries that ``entries`` describes, and return them as a compressed-row (CSR) matrix."""
        values, pattern = self._derivative.evaluate_entries(entries, self._call), entries.pattern
        return scipy.sparse.csr_array((values, pattern.columns, pattern.indptr), shape=pattern.shape)

    def _dense_entry_count(self) -> int:
        """Return an upper bound of the number of entries in the dense blocks."""
        sides = self._derivative.shapes(self._environment)
        rows, columns = ([math.prod(shape) for shape in side] for side in sides)
        blocks = {(t.row.tensor, t.column.tensor) for g in self._derivative.dense_groups for t in g.terms}
        return sum(rows[a] * columns[b] for a, b in blocks)

    def toarray(self, limit: int = MAX_WRITTEN_ENTRIES) -> NDArray[Any]:
        """Return the full array; raise `ArgumentError` if it has more than ``limit`` entries."""
        check_entry_limit(self.shape[0] * self.shape[1], limit)
        array: NDArray[Any] = self.tocsr(limit).toarray()
        return array

    @property
    def method(self) -> str:
        """The name of the method by which the last `solve` found its solution, and why. Before any call, the method
        that "auto" would choose.
        """
        return self._method or suggest_method(self)

    def solve(self, b: Any, method: str = "auto", shift: float = 0.0, *, rtol: float = 1e-10) -> NDArray[Any]:
        """Solve ``(A + shift*I) x = b`` for a Hessian ``A``, or a square Jacobian.

        Parameters
        ----------
        b : array_like
            One vector.
        method : str
            "auto" takes the first of these that applies: "diagonal", "block diagonal", "banded" (LAPACK), "arrow"
            (Schur complement), "low rank" (Woodbury), "lu" (SciPy's sparse LU), "dense", and for dense terms
            of large size "minres" for a Hessian. "cg" is for positive definite matrices. After the call ``op.method``
            says which it was, and why.
        shift : float
            Added to the diagonal.
        rtol : float
            Of the residual, for the iterations of "cg" and "minres".

        Raises
        ------
        SingularMatrixError
            If the matrix is singular to working precision, or the iterations do not converge.
        ArgumentError
            If the matrix is not square, ``b`` does not fit, or ``method`` is not one of these or does not apply.
        """
        x, self._method = solve_with(self, b, method, float(shift), rtol)
        return x


class BlockOperator(StructuredOperator):
    """One block of a `StructuredOperator`, as an operator of its own: the rows of one variable (or function) and the
    columns of one variable.
    """

    def __init__(self, whole: StructuredOperator, position: tuple[int, int]) -> None:
        self._whole, self._block = whole, position
        self._derivative, self._environment, self._method = whole._derivative, whole._environment, None
        ranges = []
        for number, shapes in zip(position, self._derivative.shapes(self._environment), strict=True):
            if not 0 <= number < len(shapes):
                raise ArgumentError(f"block {position}: there are {len(shapes)} variables, counted from 0")
            ends = np.cumsum([0, *map(math.prod, shapes)])
            ranges.append(slice(int(ends[number]), int(ends[number + 1])))
        self._rows, self._columns = ranges
        LinearOperator.__init__(self, whole.dtype, tuple(own.stop - own.start for own in ranges))

    @property
    def is_symmetric(self) -> bool:
        """Return whether the block is on the diagonal of a Hessian."""
        return self._whole.is_symmetric and self._rows == self._columns

    @property
    def has_dense_terms(self) -> bool:
        """Return whether a term fills this whole block of the matrix, as an outer product does. Such terms are not
        stored as sparse entries.
        """
        terms = [term for group in self._derivative.dense_groups for term in group.terms]
        places = {(t.row.tensor, t.column.tensor) for t in terms}
        places |= {(t.column.tensor, t.row.tensor) for t in terms if t.mirrored}
        return self._block in places

    @cached_property
    def sparse_part(self) -> Any:
        """The terms of the block that do not fill all of it, as a compressed-row (CSR) matrix."""
        return self._whole.sparse_part[self._rows, self._columns]

    def _dense_times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        """Return the block of a larger matrix (transposed, if ``transposed``) times ``vector``. The vector is padded
        with zeros and multiplied by the larger matrix; the entries that belong to the block are taken from the result.
        """
        given, taken = (self._rows, self._columns) if transposed else (self._columns, self._rows)
        full = np.zeros(self._whole.shape[0 if transposed else 1])
        full[given] = vector
        return self._whole._times(full, transposed=transposed and not self._whole.is_symmetric)[taken]

    def diagonal(self) -> NDArray[Any]:
        """Return the diagonal of this block of the matrix, as an array."""
        if self._rows != self._columns:
            return np.array(self.tocsr().diagonal())
        return self._whole.diagonal()[self._rows]

    def block(self, i: int, j: int) -> BlockOperator:
        """Return this block for (0, 0), the only position in it; raise `ArgumentError` for any other ``(i, j)``."""
        if (i, j) != (0, 0):
            raise ArgumentError(f"block ({i}, {j}): a block has one block, (0, 0)")
        return self

    def tocsr(self, limit: int = MAX_WRITTEN_ENTRIES) -> Any:
        """Return all entries of this block of the matrix as a compressed-row (CSR) matrix. Raise `ArgumentError` if the
        block has dense terms, and those of the whole matrix have more than ``limit`` entries.
        """
        return self._whole.tocsr(limit)[self._rows, self._columns] if self.has_dense_terms else self.sparse_part


def _flat_position(position: BlockIndex, shapes: Sequence[tuple[int, ...]]) -> Any:
    """Return the row or column number of ``position`` in a matrix of derivatives, as one integer expression in the
    indices. ``shapes`` are those of the tensors along its rows or columns.
    """
    total = sympy.Integer(0)
    for index, length in zip(position.indices, shapes[position.tensor], strict=True):
        total = sympy.expand(total * length + index)
    return total + sum(map(math.prod, shapes[: position.tensor]))


def check_entry_limit(entries: int, limit: int) -> None:
    """Raise `ArgumentError` if a matrix of ``entries`` entries exceeds ``limit``."""
    if entries > limit:
        raise ArgumentError(
            f"the matrix would have {entries} entries, the limit is {limit}: use matvec, diagonal or solve, or give a "
            f"larger limit, e.g. limit={entries}"
        )
