"""Programs: the representation that all printers read.

A `Program` has steps in execution order, each of which fills one array. Most steps are kernels: one (parallel) instance
per entry of the array, each a list of statements that ends with exactly one `Set` of its own entry, so that no two
instances write one entry (`verify` checks this). A `Scatter` adds to entries that data select, so that several
instances may add to one entry. The other steps are library calls on whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from sympy_tensordiff.codegen.ir.loops import Set, Statement
from sympy_tensordiff.codegen.ir.scalars import Load, Reduction, Scalar
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient


@dataclass(frozen=True, slots=True)
class Array:
    """A dense array; its ``shape`` has one affine form in the sizes per axis, and is () for a scalar result."""

    name: str
    shape: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the compiled function: its name, kind, shape and type.

    ``kind`` "array": the parameter is ``array`` itself (rank 0: a scalar or a 0-d array); "scalar": a real number;
    "integer": an integer (a size or a free index). ``label`` is the user's own name, for messages; ``name`` is a safe
    identifier. Arrays of ``dtype`` "integer" occur in index forms only, as `IndirectIndex`; every call checks that
    entries are in ``0 … below - 1``, for the reason ``selects``, and that ``symmetric`` matrices are symmetric.
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
    """An integer that the host computes before any kernel runs: the maximum of ``lows`` or the minimum of ``highs``.

    Exactly one of the two is non-empty. Offsets and extents of temporaries are such sizes.
    """

    name: str
    lows: tuple[Affine, ...] = ()
    highs: tuple[Affine, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A run-time check of sizes: a call is refused with ``message`` if all constraints in ``violation`` hold. If there
    are constraints ``points``, these must also have an integer solution.

    The rows of ``violation`` may hold too often: they are a projection over the rationals. Those of ``points`` are over
    the sizes and further variables.
    """

    violation: tuple[Constraint, ...]
    message: str
    points: tuple[Constraint, ...] = ()


NO_POSITION = 2.0**100
"""The position that a search returns if no entry is wrong; it is larger than any position."""


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A run-time check of data: a call is refused if entries of integer arrays put the index of a read out of bounds.

    ``load`` is the read, ``axis`` its axis, of length ``extent``. The read is in bounds unless all ``violation`` rows
    hold, over the sizes and over ``least NAME`` and ``greatest NAME``, the extremes of an integer array. If they hold,
    the search ``number`` decides: it returns the first position, in row-major order, of a wrong entry in the argument
    ``data``, which is empty if several conditions are involved.
    """

    load: Load
    axis: int
    extent: Affine
    violation: tuple[Constraint, ...]
    data: str
    number: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A step that fills the array called ``array`` entry by entry; the names in ``axes`` are the indices of the entry.

    The body sets this entry at top level, last, see `entry`.
    """

    array: str
    axes: tuple[str, ...]
    body: tuple[Statement, ...]

    @property
    def entry(self) -> Load:
        """The entry ``array[axes]`` that the body of the kernel sets."""
        return Load(self.array, tuple(map(Affine.variable, self.axes)))

    def box(self, shapes: Mapping[str, tuple[Affine, ...]]) -> tuple[Affine, ...]:
        """Return the extents of the kernel's ``axes``: the shape of its array, looked up in ``shapes``."""
        return shapes[self.array]


def entrywise(array: str, axes: Sequence[str], body: Sequence[Statement], value: Scalar) -> Kernel:
    """Return the kernel that for each entry of ``array`` runs ``body``, and then sets the entry to ``value``. ``axes``
    are the names of the entry's indices.

    >>> from sympy_tensordiff.codegen.ir.scalars import Number
    >>> entrywise("y", ["i"], [], Number(1)).body
    (Set(target=Load(array='y', index=(i,)), value=Number(value=1), reduction=''),)
    """
    kernel = Kernel(array, tuple(axes), ())
    return replace(kernel, body=(*body, Set(kernel.entry, value)))


@dataclass(frozen=True, slots=True)
class ConstantKernel(Kernel):
    """A kernel that uses no argument and no size. It computes the same array in all calls, and is therefore run only
    once.
    """


@dataclass(frozen=True, slots=True)
class Scatter(Kernel):
    """A kernel that adds values to entries of an ``array`` that an earlier step has filled, as in ``y[p[k]] += v[k]``.
    Its loops run over ``axes`` with the lengths ``extents``.

    The body adds to any entries instead of setting its own, or takes the maximum, or the minimum, of each and a value.
    Instances that change one entry run one after the other, in the order of the axes and loops; on a device in any
    order, by atomic operations. ``number`` distinguishes several
    scatters into one array. In an ``exclusive`` one, no two instances add to one entry: each adds once, and the index
    determines the axes.
    """

    extents: tuple[Affine, ...]
    number: int = 1
    exclusive: bool = False
    reduction: Reduction = "sum"

    def box(self, shapes: Mapping[str, tuple[Affine, ...]]) -> tuple[Affine, ...]:
        """Return the extents of the loops over this scatter's ``axes``. ``shapes`` is ignored; it is there because
        other kernels need it.
        """
        return self.extents


@dataclass(frozen=True, slots=True)
class Operand:
    """An array in a library call, with a label for each axis. A label that occurs twice reads a diagonal."""

    array: str
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProductStep:
    """A library call that fills ``array`` with ``factor`` times a function of two arrays, such as their matrix product.
    ``output`` has the labels of the axes of ``array``, as in an einsum.
    """

    array: str
    output: tuple[int, ...]
    left: Operand
    right: Operand
    factor: int | Fraction | float = 1

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """The left and the right operand."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class ContractionStep(ProductStep):
    """A contraction: the entry at the labels ``output`` is the sum of ``left*right`` over the other labels.

    Each label of ``output`` occurs there once, and in an operand; the other labels occur in both operands.
    """


BLOCK = 32
"""The rows of a block of a `Trapezoid`.

CPU of a product with 32 columns over a triangle of 256, one thread of an AMD EPYC (OpenBLAS), with the loops for the
rest: blocks of 16 rows 69 us, of 32 66 us, of 64 74 us, of 128 98 us; loops alone 150 us, the full square 100 us.
"""


@dataclass(frozen=True, slots=True)
class Trapezoid(ProductStep):
    """A contraction with a triangular matrix, such as ``sum(A[i, j]*B[j, k], j <= i)``, computed by blocks of rows i.
    For each block, a matrix product sums over the j that all its rows have, and a loop adds the remaining terms.

    The blocks are ``BLOCK`` values of the label ``row``, the first label of ``left`` alone in ``output``. Row ``i``
    itself has the terms up to ``i + shift``, or, if it ``is_upper``, those from there on.
    """

    row: int = 0
    shift: Affine = field(default_factory=Affine)
    is_upper: bool = False

    @property
    def summed(self) -> int:
        """The label that is summed over: it occurs in the triangular matrix ``left`` and not in ``output``."""
        (label,) = set(self.left.labels) - set(self.output)
        return label

    def end(self, row: Affine) -> Affine:
        """Return the last value of the summed index (the first one if ``is_upper``) that all rows of a block have in
        their sums. ``row`` is any row of the block.
        """
        return BLOCK * quotient(row, BLOCK) + self.shift + (BLOCK - 1 if self.is_upper else 0)


@dataclass(frozen=True, slots=True)
class Solve(ProductStep):
    """A library call that solves a linear system: the inverse of the matrix ``left`` times ``right``.

    One of the two labels of the matrix occurs in ``right`` and is summed over, the other in ``output``. If ``factored``
    names the matrix, ``left`` contains its factors, see `Apply`.
    """

    factored: str = ""


@dataclass(frozen=True, slots=True)
class CofactorTangent(ProductStep):
    """A library call that computes how the cofactors of the matrix ``left`` change in the direction of the matrix
    ``right`` (a derivative).

    One label is for the rows, one for the columns, in ``output`` and both operands; an operand with the other order is
    transposed.
    """


@dataclass(frozen=True, slots=True)
class Correlation:
    """A step for correlations and convolutions: it fills ``array`` with zeros, then runs loops over its ``labels``, in
    which ``output += factor*left*right``, as in ``y[i] += x[i + k]*w[k]``.

    A label runs from 0 to below its extent; indices are forms in labels and sizes. With a label as each index this is a
    matrix product; other forms read windows, ``left[2*i + a]``, or add them up, ``output[2*i + a]``. All accesses are
    in bounds.
    """

    output: Load
    left: Load
    right: Load
    labels: tuple[tuple[str, Affine], ...]
    factor: int | Fraction | float = 1

    @property
    def array(self) -> str:
        """The array that the correlation fills."""
        return self.output.array

    @property
    def views(self) -> tuple[Load, Load, Load]:
        """The three array entries in the sum: the entry of the result, the left and the right operand."""
        return self.output, self.left, self.right


@dataclass(frozen=True, slots=True)
class Apply:
    """A step that fills ``array`` with a function of one whole array, such as its inverse, computed by a library.

    ``function``: "inv"; "det"; "logdet", the logarithm of the determinant (nan if that is negative); "logabsdet", that
    of its absolute value; "cofactor", the derivative of the determinant, of order ``options[0]`` (1 or more), with
    respect to the matrix. The axes of the value are put into the order ``axes`` unless that is empty. "factors" are the
    triangular factors of a matrix, with one more row, which contains the row exchanges: by Cholesky's method for a
    positive definite matrix (``options[0]`` is 2), by the same method if it succeeds for a symmetric one (1), else by
    LU. Several steps share them: ``operand`` contains factors if ``factored`` names the matrix. A cofactor reads both.
    """

    array: str
    function: str
    operand: str
    options: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    factor: int | Fraction | float = 1
    factored: str = ""


@dataclass(frozen=True, slots=True)
class FusedKernels:
    """Several kernels fused into one loop nest: at each value of the first axis, ``axis``, each kernel computes its
    part of its array.

    Each fills its array at the first index ``axis``, and reads earlier arrays only there. The arrays ``totals`` are
    sums (or other reductions) over ``axis`` instead, which no kernel here reads. Of the arrays ``rows``, which no other
    step reads, only the entries at one value are stored: their shapes lack the first axis. Two kernels share no name
    but ``axis``.

    If all kernels have further leading axes in common, ``inner`` are these with their extents: each row is one entry
    of all common axes, and the shapes of ``rows`` lack all of them.
    """

    axis: str
    extent: Affine
    kernels: tuple[Kernel, ...]
    totals: frozenset[str] = frozenset()
    rows: tuple[Array, ...] = ()
    inner: tuple[tuple[str, Affine], ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the loops that all fused kernels share, the outermost first: ``axis`` and those in ``inner``."""
        return self.axis, *(axis for axis, _ in self.inner)

    @property
    def array(self) -> str:
        """The first array that the fused kernels fill."""
        return self.kernels[0].array

    @property
    def filled(self) -> tuple[str, ...]:
        """The arrays that the fused kernels fill, except temporaries that are stored one row at a time."""
        rows = {array.name for array in self.rows}
        return tuple([kernel.array for kernel in self.kernels if kernel.array not in rows])


@dataclass(frozen=True, slots=True)
class Carried:
    """A state that a `Recurrence` passes from step to step: the name of the array with its first value (``initial``),
    and the names by which a step gets its value (``argument``) and returns the new one (``result``).
    """

    argument: str
    initial: str
    result: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A result of a `Recurrence`: an array that stores the values at all times ("stack"), the last one ("last"), or the
    sum of all ("sum").
    """

    array: str
    kind: str
    result: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A step that runs its ``body``, a program, ``length`` times in a loop over time, forwards or backwards. States are
    passed from each run to the next.

    The body has the states, the rows of the sequences at the time, constants and integers as arguments, by the names
    in ``carried``, ``rows``, ``constants`` and ``integers``; ``time`` is the name of the time, empty if no step needs
    it. Arrays of this program for arguments of the body that are numbers have one entry.
    """

    recorded: tuple[Recorded, ...]
    carried: tuple[Carried, ...]
    rows: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...]
    integers: tuple[tuple[str, Affine], ...]
    body: Program
    length: Affine
    is_reversed: bool = False
    time: str = ""

    @property
    def array(self) -> str:
        """The first array that the recurrence fills."""
        return self.recorded[0].array

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that the recurrence and its body read."""
        pairs = (*self.rows, *self.constants)
        return tuple(dict.fromkeys([*(state.initial for state in self.carried), *(array for _, array in pairs)]))

    @property
    def forms(self) -> tuple[Affine, ...]:
        """The integer forms that a recurrence passes to its body: its number of steps and the integer arguments."""
        return (self.length, *(form for _, form in self.integers))

    @property
    def timed(self) -> frozenset[str]:
        """The integers of a time step that change with the time: the time, and sizes computed from it."""
        found = {self.time} if self.time else set()
        for size in self.body.sizes:
            if any(not found.isdisjoint(form.atoms()) for form in (*size.lows, *size.highs)):
                found.add(size.name)
        return frozenset(found)

    def is_timed(self, shape: Sequence[Affine]) -> bool:
        """Return whether an array of the recurrence's body with this `shape` has different numbers of entries in
        different time steps.
        """
        return any(not self.timed.isdisjoint(extent.atoms()) for extent in shape)


Step: TypeAlias = "Kernel | ProductStep | Correlation | Apply | FusedKernels | Recurrence"


def kernels_of(step: Step) -> tuple[Kernel, ...]:
    """Return the kernels of a step; () for a library call."""
    return step.kernels if isinstance(step, FusedKernels) else (step,) if isinstance(step, Kernel) else ()


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled function before code is printed: its arguments, the steps that compute the results, temporaries, sizes
    and run-time checks.

    ``structure`` is the nesting of its results, as in `codegen.run.results`.
    """

    arguments: tuple[Argument, ...]
    outputs: tuple[Array, ...]
    temporaries: tuple[Array, ...]
    kernels: tuple[Step, ...]
    sizes: tuple[Size, ...] = ()
    assumptions: tuple[Check, ...] = ()
    """The assumptions on sizes, checked before anything is computed from them."""
    checks: tuple[Check, ...] = ()
    data_checks: tuple[DataCheck, ...] = ()
    increasing: tuple[str, ...] = ()
    """The integer arrays whose entries must not decrease. For other data the program is built without `segments`."""
    search: Callable[[Sequence[int]], Program] | None = field(default=None, compare=False)
    """Builds the program that searches for wrong data, for the numbers of some checks."""
    structure: str = "."
    notes: tuple[str, ...] = ()
    """The reason for each temporary, for ``fn.plan``."""
    laws: tuple[tuple[str, int], ...] = ()
    """The accurate forms that are used, with the number of their uses, likewise."""
    copies: bool = True
    """Whether a backend may keep copies of arrays."""
    rules_off: frozenset[str] = frozenset()
    """The names of scheduling rules that are not applied, which measurements found to cost time."""
    extents: tuple[Affine, ...] = ()
    """The symbolic extents of all tensors in the expression, which are assumed to be positive."""

    @property
    def nests(self) -> tuple[Kernel, ...]:
        """The kernels of all steps in order; fused kernels are listed one by one."""
        return tuple([kernel for step in self.kernels for kernel in kernels_of(step)])

    def with_steps(
        self, steps: Iterable[Step], gone: Container[str] = (), new: Iterable[Array] = (), notes: Iterable[str] = ()
    ) -> Program:
        """Return the program with other ``steps``. The temporaries ``gone`` and their notes are removed, and the arrays
        ``new`` and the ``notes`` are added.
        """
        arrays = [array for array in self.temporaries if array.name not in gone]
        known = [note for note in self.notes if note.partition(":")[0] not in gone]
        return replace(self, kernels=tuple(steps), temporaries=(*arrays, *new), notes=(*known, *notes))
