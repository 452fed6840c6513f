"""A structured derivative at given arrays, as a linear operator of SciPy."""

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
from sympy_tensordiff.structure.calls import Call
from sympy_tensordiff.structure.pattern import Group, find_pattern
from sympy_tensordiff.structure.solve import solve_with, suggest
from sympy_tensordiff.structure.terms import BlockIndex, Term
from sympy_tensordiff.structure.values import Entries

MOST_ENTRIES = 20_000_000
"""A block that dense terms fill is not written out beyond so many entries, unless the caller raises the limit."""


class StructuredOperator(LinearOperator):  # type: ignore[misc]
    """A Jacobian or Hessian at given arrays.

    The terms that are sparse are a matrix in compressed rows. The terms that fill blocks are not stored: products with
    them go through the derivative along a direction.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    """

    def __init__(self, derivative: Any, call: Call) -> None:
        self._derivative, self._call, self._known = derivative, call, call.known
        entries = derivative.entries(call, dense=False)
        self._sparse = entries
        self._method: str | None = None
        if not derivative.dense_groups:
            self.sparse_part  # noqa: B018  # at once: the caller may change the arrays, which are copied for dense terms
        super().__init__(call.dtype, entries.pattern.shape)

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix is a Hessian."""
        return bool(self._derivative.is_symmetric)

    @property
    def has_dense_terms(self) -> bool:
        """Whether some terms fill blocks that are not stored."""
        return bool(self._derivative.dense_groups)

    @cached_property
    def sparse_part(self) -> Any:
        """The sum of the sparse terms in compressed rows."""
        return self._matrix(self._sparse)

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._times(np.ravel(x), transposed=False)

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._times(np.ravel(x), transposed=not self.is_symmetric)

    def _times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        if not self.has_dense_terms:
            product: NDArray[Any] = (self.sparse_part.T if transposed else self.sparse_part) @ vector
            return product
        return self._dense_times(vector, transposed=transposed)

    def _dense_times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        own = np.ascontiguousarray(vector, dtype=np.float64)
        result: NDArray[Any] = self._derivative.product(self._call.values, self._known, own, transposed=transposed)
        return result

    def diagonal(self) -> NDArray[Any]:
        """The diagonal; of dense terms only the points on it are computed."""
        result = np.array(self.sparse_part.diagonal())
        for group in self._derivative.dense_groups:
            for term in group.terms:
                if not self.is_symmetric or term.row.tensor == term.column.tensor:
                    self._add_diagonal(result, term)
        return result

    def _add_diagonal(self, result: NDArray[Any], term: Term) -> None:
        """Where row and column are equal is one more condition on the points of a term."""
        if self.is_symmetric:
            pairs = list(zip(term.row.indices, term.column.indices, strict=True))
        else:
            sides = zip((term.row, term.column), self._derivative.shapes(self._known), strict=True)
            pairs = [tuple(_position(place, shapes) for place, shapes in sides)]
        equal = tuple(sympy.Eq(row, column) for row, column in pairs)
        rows = tuple(c for c in (*term.conditions, *equal) if c != sympy.true)
        if sympy.false in rows:
            return
        group = Group(term.binders, rows, (term._replace(conditions=rows),), False)
        pattern = find_pattern([group], self._derivative.shapes(self._known), self._known)
        values = np.empty(len(pattern.columns), self.dtype)
        Entries(pattern, [group], self._derivative.kernel)(self._call.values, values)
        np.add.at(result, pattern.columns, values)

    def block(self, i: int, j: int) -> BlockOperator:
        """The rows of variable (or function) ``i`` and the columns of variable ``j``, counted from 0.

        Raises
        ------
        ArgumentError
            If there are not as many variables.
        """
        return BlockOperator(self, (i, j))

    def tocsr(self, limit: int = MOST_ENTRIES) -> Any:
        """All entries in compressed rows.

        Parameters
        ----------
        limit : int
            Where terms fill blocks of more entries together, they are not written out.

        Raises
        ------
        ArgumentError
            If there are more; `matvec`, `diagonal` and `solve` need no such matrix.
        """
        if not self.has_dense_terms:
            return self.sparse_part
        check_limit(self._entries(), limit)
        return self._matrix(self._derivative.entries(self._call))

    def _matrix(self, entries: Entries) -> Any:
        """The values of entries in compressed rows."""
        values, pattern = self._derivative.evaluated(entries, self._call), entries.pattern
        return scipy.sparse.csr_array((values, pattern.columns, pattern.indptr), shape=pattern.shape)

    def _entries(self) -> int:
        """At most so many entries do the dense blocks have."""
        sides = self._derivative.shapes(self._known)
        rows, columns = ([math.prod(shape) for shape in side] for side in sides)
        blocks = {(t.row.tensor, t.column.tensor) for g in self._derivative.dense_groups for t in g.terms}
        return sum(rows[a] * columns[b] for a, b in blocks)

    def toarray(self, limit: int = MOST_ENTRIES) -> NDArray[Any]:
        """The full array; refused above ``limit`` entries."""
        check_limit(self.shape[0] * self.shape[1], limit)
        array: NDArray[Any] = self.tocsr(limit).toarray()
        return array

    @property
    def method(self) -> str:
        """How `solve` solves, and why: what the last call did, else what it would do."""
        return self._method or suggest(self)

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
    """The rows of one variable and the columns of one variable of a `StructuredOperator`."""

    def __init__(self, whole: StructuredOperator, place: tuple[int, int]) -> None:
        self._whole, self._place = whole, place
        self._derivative, self._known, self._method = whole._derivative, whole._known, None
        ranges = []
        for number, shapes in zip(place, self._derivative.shapes(self._known), strict=True):
            if not 0 <= number < len(shapes):
                raise ArgumentError(f"block {place}: there are {len(shapes)} variables, counted from 0")
            ends = np.cumsum([0, *map(math.prod, shapes)])
            ranges.append(slice(int(ends[number]), int(ends[number + 1])))
        self._rows, self._columns = ranges
        LinearOperator.__init__(self, whole.dtype, tuple(own.stop - own.start for own in ranges))

    @property
    def is_symmetric(self) -> bool:
        """Whether the block is one on the diagonal of a Hessian."""
        return self._whole.is_symmetric and self._rows == self._columns

    @property
    def has_dense_terms(self) -> bool:
        """Whether some terms fill this block."""
        terms = [term for group in self._derivative.dense_groups for term in group.terms]
        places = {(t.row.tensor, t.column.tensor) for t in terms}
        places |= {(t.column.tensor, t.row.tensor) for t in terms if t.mirrored}
        return self._place in places

    @cached_property
    def sparse_part(self) -> Any:
        """The sum of the sparse terms in this block."""
        return self._whole.sparse_part[self._rows, self._columns]

    def _dense_times(self, vector: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
        given, taken = (self._rows, self._columns) if transposed else (self._columns, self._rows)
        full = np.zeros(self._whole.shape[0 if transposed else 1])
        full[given] = vector
        return self._whole._times(full, transposed=transposed and not self._whole.is_symmetric)[taken]

    def diagonal(self) -> NDArray[Any]:
        """The diagonal of a block on the diagonal."""
        if self._rows != self._columns:
            return np.array(self.tocsr().diagonal())
        return self._whole.diagonal()[self._rows]

    def block(self, i: int, j: int) -> BlockOperator:
        """A block has one block, itself."""
        if (i, j) != (0, 0):
            raise ArgumentError(f"block ({i}, {j}): a block has one block, (0, 0)")
        return self

    def tocsr(self, limit: int = MOST_ENTRIES) -> Any:
        """All entries of the block in compressed rows."""
        return self._whole.tocsr(limit)[self._rows, self._columns] if self.has_dense_terms else self.sparse_part


def _position(place: BlockIndex, shapes: Sequence[tuple[int, ...]]) -> Any:
    """The row or column as one integer expression, at the sizes of a call."""
    total = sympy.Integer(0)
    for index, length in zip(place.indices, shapes[place.tensor], strict=True):
        total = sympy.expand(total * length + index)
    return total + sum(map(math.prod, shapes[: place.tensor]))


def check_limit(entries: int, limit: int) -> None:
    """Refuse to write out a matrix that is larger than the caller expects."""
    if entries > limit:
        raise ArgumentError(
            f"the matrix would have {entries} entries, the limit is {limit}: use matvec, diagonal or solve, or give a "
            f"larger limit, e.g. limit={entries}"
        )
