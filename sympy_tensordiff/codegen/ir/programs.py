"""The programs: the one form that all printers read.

A `Program` holds steps in the order in which they run, each of which fills one array. Most are
kernels: one (parallel) instance per entry of the array, each a list of statements that ends in
exactly one `Set` of its own entry, so that no two instances write one entry (`verify` checks
it). A `Scatter` adds to the entries that data select, where several instances may meet. The
others are calls of a library on whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from sympy_tensordiff.codegen.ir.loops import Set, Statement
from sympy_tensordiff.codegen.ir.scalars import Load, Scalar
from sympy_tensordiff.integer.affine import Affine, Row, quotient


@dataclass(frozen=True, slots=True)
class Array:
    """A dense array; ``shape`` holds forms over the sizes, ``()`` for a scalar result."""

    name: str
    shape: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the callable in call order.

    ``kind`` "array": the parameter is ``array`` itself (rank 0: a scalar or a 0-d array);
    "scalar": a real number; "integer": an integer (a size or a free index). ``label`` is the
    user's own name, for messages; ``name`` is a safe identifier. Arrays of ``dtype`` "integer"
    are read in index forms only, as `DataEntry`; their entries lie in ``0 … below - 1``, since they are what
    ``selects`` says, or every call is refused. Calls with another than a ``symmetric`` matrix are refused, too.
    """

    kind: Literal["array", "scalar", "integer"]
    name: str
    label: str
    shape: tuple[Affine, ...] = ()
    dtype: Literal["real", "integer"] = "real"
    below: Affine | None = None
    selects: str = ""
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """An integer computed on the host before any kernel runs: max of ``lows`` or min of ``highs``.

    Exactly one of the two is non-empty. Temporaries have their offsets and extents from these.
    """

    name: str
    lows: tuple[Affine, ...] = ()
    highs: tuple[Affine, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A call is refused with ``message`` where all ``violation`` rows (over the sizes) hold.

    The rows may say too much: they are a projection over the rationals. Where ``points`` is not
    empty, the call is refused only if these rows, over the sizes and further variables, have an
    integer point.
    """

    violation: tuple[Row, ...]
    message: str
    points: tuple[Row, ...] = ()


NOWHERE = 2.0**100
"""The place of an entry that there is not."""


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A call is refused where data lead the index of a read out of its axis.

    ``load`` is the read, ``axis`` the axis, of length ``extent``. Nothing is wrong unless all ``violation`` rows
    hold, over the sizes and over ``least NAME`` and ``greatest NAME`` of all entries of an array of integers. Where
    they do, the search with a ``number`` tells: the least place, in reading order, of a wrong entry in the argument
    ``data``. That has no name where several conditions are asked that may all read outside.
    """

    load: Load
    axis: int
    extent: Affine
    violation: tuple[Row, ...]
    data: str
    number: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """Fills ``array``: one instance per entry, ``axes`` are the names of its indices, 0-based.

    The body sets this entry at top level, last, see `entry`.
    """

    array: str
    axes: tuple[str, ...]
    body: tuple[Statement, ...]

    @property
    def entry(self) -> Load:
        """The entry that an instance fills."""
        return Load(self.array, tuple(map(Affine.variable, self.axes)))

    def box(self, shapes: Mapping[str, tuple[Affine, ...]]) -> tuple[Affine, ...]:
        """The extents of ``axes``, for the shapes of all arrays."""
        return shapes[self.array]


def entrywise(array: str, axes: Sequence[str], body: Sequence[Statement], value: Scalar) -> Kernel:
    """The kernel whose instances run ``body``, and set their entry to ``value``.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> entrywise("y", ["i"], [], Number(1)).body
    (Set(target=Load(array='y', index=(i,)), value=Number(value=1), reduction=''),)
    """
    kernel = Kernel(array, tuple(axes), ())
    return replace(kernel, body=(*body, Set(kernel.entry, value)))


@dataclass(frozen=True, slots=True)
class Table(Kernel):
    """Fills an array of which the shape is numbers with what depends on no argument: the same in all calls."""


@dataclass(frozen=True, slots=True)
class Scatter(Kernel):
    """Adds to ``array``, which has been filled before: one instance per point of ``axes`` below ``extents``.

    The body adds to entries anywhere, in the place of setting its own. Instances that add to one entry do so
    one after the other, in the order of the axes and loops; on a device in any order, by atomic
    additions. ``number`` tells several scatters into one array apart. In an ``exclusive`` one no two
    instances meet: each adds once, and the index tells the axes.
    """

    extents: tuple[Affine, ...]
    number: int = 1
    exclusive: bool = False

    def box(self, shapes: Mapping[str, tuple[Affine, ...]]) -> tuple[Affine, ...]:
        return self.extents


@dataclass(frozen=True, slots=True)
class Operand:
    """An array, one label per axis; a label that repeats reads a diagonal."""

    array: str
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Fills ``array``, with axes for the labels ``output``, with something of two operands, times ``factor``."""

    array: str
    output: tuple[int, ...]
    left: Operand
    right: Operand
    factor: int | Fraction | float = 1

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """Both of them."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Contraction(Product):
    """The entry at the labels ``output`` is the sum of ``left*right`` over the other labels.

    Each label of ``output`` stands there once, and in an operand; the others stand in both operands.
    """


BLOCK = 32
"""Rows of a block of a `Trapezoid`.

CPU of a product with 32 columns over a triangle of 256, one thread of an AMD EPYC (OpenBLAS), with the loops for the
rest: blocks of 16 rows 69 us, of 32 66 us, of 64 74 us, of 128 98 us; loops alone 150 us, the full square 100 us.
"""


@dataclass(frozen=True, slots=True)
class Trapezoid(Product):
    """A contraction over one label, of which each entry sums the terms that all entries of its block of rows have.

    The blocks are those of ``BLOCK`` values of the label ``row``, the first one of ``left`` alone in ``output``. A
    row ``i`` of its own has the terms up to ``i + shift``, or, in an ``is_upper`` one, those from there on.
    """

    row: int = 0
    shift: Affine = field(default_factory=Affine)
    is_upper: bool = False

    @property
    def summed(self) -> int:
        """The label that is summed over."""
        (label,) = set(self.left.labels) - set(self.output)
        return label

    def end(self, row: Affine) -> Affine:
        """The last term, or the first of an ``is_upper`` one, that all rows of the block of a row have."""
        return BLOCK * quotient(row, BLOCK) + self.shift + (BLOCK - 1 if self.is_upper else 0)


@dataclass(frozen=True, slots=True)
class Solve(Product):
    """A contraction of the inverse of ``left``, a matrix, with ``right``.

    One of the two labels of the matrix stands in ``right`` and is summed over, the other in ``output``.
    The array of ``left`` holds factors, see `Apply`, where ``factored`` names the matrix itself.
    """

    factored: str = ""


@dataclass(frozen=True, slots=True)
class CofactorTangent(Product):
    """The derivative of the cofactors of ``left``, a matrix, in the direction ``right``.

    One label stands for the rows, one for the columns, in ``output`` and in both operands; an operand
    that has them in the other order is transposed.
    """


@dataclass(frozen=True, slots=True)
class Correlation:
    """Fills ``array``: zeros, to which ``factor*left*right`` is added at each point of the ``labels``.

    A label runs from 0 up to its extent; indices are forms over labels and sizes. A product of matrices is one in
    which each index is a label; here windows are read, ``left[2*i + a]``, or added up, ``output[2*i + a]``. Every point
    is inside of all three arrays.
    """

    output: Load
    left: Load
    right: Load
    labels: tuple[tuple[str, Affine], ...]
    factor: int | Fraction | float = 1

    @property
    def array(self) -> str:
        """The array that is filled."""
        return self.output.array

    @property
    def views(self) -> tuple[Load, Load, Load]:
        """What is filled, and both operands."""
        return self.output, self.left, self.right


@dataclass(frozen=True, slots=True)
class Apply:
    """Fills ``array`` with a function of one whole array.

    ``function``: "inv"; "det"; "logdet", the logarithm of the determinant (nan where that is
    negative); "logabsdet", that of its absolute value; "cofactor", the derivative of the determinant,
    ``options[0]`` times (1 or more) by the matrix. The axes
    of the value are put into the order ``axes`` where that is not empty. "factors" are the triangular factors
    of a matrix, with one row more, which says how the rows were exchanged: by Cholesky's method of a positive
    definite matrix (``options[0]`` is 2), by the same method where it succeeds of a symmetric one (1), else as
    LU. What several steps need of one matrix they take from there: ``operand`` holds the factors where
    ``factored`` names the matrix itself.
    """

    array: str
    function: str
    operand: str
    options: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    factor: int | Fraction | float = 1
    factored: str = ""


@dataclass(frozen=True, slots=True)
class Fused:
    """Kernels that run together: all of them at one value of ``axis``, then at the next.

    Each fills its array at the first index ``axis``, and what it reads of the arrays before it stands there, too.
    Those of ``totals`` are sums (or other reductions) over ``axis`` instead, which nothing in here reads. Of the
    arrays ``rows``, which nothing else reads, only the entries at one value are kept: their shapes lack the first
    axis. No two kernels have a name in common but ``axis``.
    """

    axis: str
    extent: Affine
    kernels: tuple[Kernel, ...]
    totals: frozenset[str] = frozenset()
    rows: tuple[Array, ...] = ()

    @property
    def array(self) -> str:
        """The first array that is filled."""
        return self.kernels[0].array

    @property
    def filled(self) -> tuple[str, ...]:
        """All arrays that are filled as a whole."""
        rows = {array.name for array in self.rows}
        return tuple([kernel.array for kernel in self.kernels if kernel.array not in rows])


Step: TypeAlias = "Kernel | Product | Correlation | Apply | Fused"


def kernels_of(step: Step) -> tuple[Kernel, ...]:
    """The kernels that run in a step; none in a call of a library."""
    return step.kernels if isinstance(step, Fused) else (step,) if isinstance(step, Kernel) else ()


@dataclass(frozen=True, slots=True)
class Program:
    """What a callable does. ``structure``: how its results are nested, as `codegen.run.results` writes it."""

    arguments: tuple[Argument, ...]
    outputs: tuple[Array, ...]
    temporaries: tuple[Array, ...]
    kernels: tuple[Step, ...]
    sizes: tuple[Size, ...] = ()
    granted: tuple[Check, ...] = ()
    """What sizes are taken for: checked before anything is computed from them."""
    checks: tuple[Check, ...] = ()
    data_checks: tuple[DataCheck, ...] = ()
    search: Callable[[Sequence[int]], Program] | None = field(default=None, compare=False)
    """Builds the searches of the checks of data."""
    structure: str = "."
    notes: tuple[str, ...] = ()
    """Why each temporary exists, for ``fn.plan``."""
    copies: bool = True
    """Whether a backend may keep copies of arrays."""
    extents: tuple[Affine, ...] = ()
    """The symbolic extents of all tensors in the expression: what is computed takes them for positive."""

    @property
    def nests(self) -> tuple[Kernel, ...]:
        """The steps that are loop nests, and those that run together with others."""
        return tuple([kernel for step in self.kernels for kernel in kernels_of(step)])

    def with_steps(
        self, steps: Iterable[Step], gone: Container[str] = (), new: Iterable[Array] = (), notes: Iterable[str] = ()
    ) -> Program:
        """Other steps; no temporaries ``gone`` and nothing noted on them, but ``new`` ones and ``notes``."""
        arrays = [array for array in self.temporaries if array.name not in gone]
        known = [note for note in self.notes if note.partition(":")[0] not in gone]
        return replace(self, kernels=tuple(steps), temporaries=(*arrays, *new), notes=(*known, *notes))
