"""Checks and conversions of the arguments of a call, from which sizes are computed.

Every error names the argument as the user does and shows the offending value.
"""

from __future__ import annotations

import numbers
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sympy_tensordiff.codegen.ir.programs import Argument, Check, DataCheck, Program
from sympy_tensordiff.codegen.ir.sizes import EmptyAxes, Solved, refuse_empty_axes, solve_sizes
from sympy_tensordiff.codegen.run.device_arrays import DeviceArray, check_unconverted
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, DataIndexError, OutOfShapeError, TensorDiffError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import factors_of_products
from sympy_tensordiff.integer.values import find_point
from sympy_tensordiff.lazy import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REFUSED_FLOATS = {
    "e": "has too little range for sums; pass it as float32",
    "g": "is not supported by compiled kernels; pass it as float64",
}
"""The reasons why float16 and long double are refused, by the character of the dtype."""


@dataclass(frozen=True, slots=True)
class PreparedArguments:
    """The converted arguments of a call, and the shapes and the dtype of its results."""

    values: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    suspects: tuple[DataCheck, ...]
    """The checks of data that the minimum and maximum of the data do not settle."""


class ArgumentChecker:
    """Checks and converts the arguments of one program.

    With ``may_be_empty``, a symbolic extent of 0, or a size of 0 that determines extents, raises `EmptyAxes`,
    otherwise `ArgumentError`.
    """

    def __init__(self, program: Program, may_be_empty: bool = False) -> None:
        self.program = program
        self.may_be_empty = may_be_empty
        self.arguments = program.arguments
        self.solved = solve_sizes(program.arguments)
        self._positive = [
            *(solved.name for solved in self.solved),
            *factors_of_products(form for argument in program.arguments for form in argument.shape),
        ]
        """The sizes that the program assumes to be positive, whether they are extents or not."""
        self._last: tuple[tuple[Any, ...], tuple[tuple[int, ...], ...], dict[str, int]] | None = None

    def prepare(self, values: Sequence[Any]) -> PreparedArguments:
        """Return ``values`` checked and converted for the driver; raise ArgumentError or a subclass if not valid."""
        self.check_count(values)
        read = [_read(a, v) for a, v in zip(self.arguments, values, strict=True)]
        shapes, sizes = self._result_shapes(read)
        dtype = self.result_dtype(read)
        converted = tuple(_convert(a, v, dtype) for a, v in zip(self.arguments, read, strict=True))
        for argument, value in zip(self.arguments, converted, strict=True):
            if argument.symmetric and isinstance(value, np.ndarray):
                refuse_asymmetric(f"argument {argument.label}", value)
        return PreparedArguments(converted, shapes, dtype, self._suspects(read, sizes))

    def check_count(self, values: Sequence[Any]) -> None:
        """Raise ArgumentError if the number of the arguments ``values`` is wrong."""
        if len(values) != len(self.arguments):
            expected = ", ".join(a.label for a in self.arguments)
            needed = "1 argument is" if len(self.arguments) == 1 else f"{len(self.arguments)} arguments are"
            raise ArgumentError(f"{needed} needed ({expected}), {len(values)} given")

    def result_dtype(self, read: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype of the results of a call with the argument values ``read``: the one to which NumPy promotes
        the real arguments. Arrays of integers count as float64, Python numbers do not count.
        """
        real = [v for a, v in zip(self.arguments, read, strict=True) if a.kind != "integer" and a.dtype == "real"]
        strong = [v.dtype if v.dtype.kind == "f" else np.float64 for v in real if not isinstance(v, float)]
        # In native byte order: NumPy has one dtype object for it, which arrays share.
        return np.dtype(np.result_type(*strong).type if strong else np.float64)

    def _suspects(self, read: Sequence[Any], sizes: dict[str, int]) -> tuple[DataCheck, ...]:
        """Return the checks of integer arrays that must be made entry by entry, since the least and the greatest entry
        of an array do not decide them. ``read`` are the argument values.

        Raise DataIndexError for an entry out of its known range.
        """
        checks = self.program.data_checks
        values = dict(sizes)
        for argument, value in zip(self.arguments, read, strict=True):
            if argument.dtype == "integer" and value.size and (checks or argument.below is not None):
                values[f"least {argument.name}"] = least = int(value.min())
                values[f"greatest {argument.name}"] = greatest = int(value.max())
                length = greatest + 1 if argument.below is None else argument.below.evaluate(sizes)
                if greatest >= length or (least < 0 and argument.below is not None):
                    place = tuple(np.argwhere((value < 0) | (value >= length))[0].tolist())
                    raise out_of_range_error(entry_text(argument.label, value, place), argument.selects, length)
        return tuple([check for check in checks if all(row.holds(values) for row in check.violation)])

    def increases(self, prepared: PreparedArguments) -> bool:
        """Return whether the entries of the arrays in ``program.increasing`` do not decrease."""
        arrays = zip(self.arguments, prepared.values, strict=True) if self.program.increasing else ()
        return all(np.all(v[1:] >= v[:-1]) for a, v in arrays if a.name in self.program.increasing)

    def known_sizes(self) -> dict[str, int]:
        """Return the sizes of the last call; {} before the first one."""
        return self._last[2] if self._last else {}

    def _result_shapes(self, read: Sequence[Any]) -> tuple[tuple[tuple[int, ...], ...], dict[str, int]]:
        """Return ``(shapes of the results, sizes)`` for the argument values ``read``. If integers and shapes of the
        arguments are those of the last call, its cached result is returned.
        """
        key = tuple(
            [v if a.kind == "integer" else getattr(v, "shape", ()) for a, v in zip(self.arguments, read, strict=True)]
        )
        last = self._last
        if last is None or last[0] != key:
            sizes = self.sizes(read)
            shapes = tuple(tuple(form.evaluate(sizes) for form in output.shape) for output in self.program.outputs)
            last = self._last = key, shapes, sizes
        return last[1:]

    def sizes(self, read: Sequence[Any]) -> dict[str, int]:
        """Return the value of each size, by name, from the argument values ``read`` and their shapes. Raise an error if
        the length of an axis contradicts its extent, or if another check of the program fails.
        """
        values = {a.name: v for a, v in zip(self.arguments, read, strict=True) if a.kind == "integer"}
        given = {a.name: v for a, v in zip(self.arguments, read, strict=True) if a.kind == "array"}
        origin = {a.name: f"argument {a.label}" for a in self.arguments if a.kind == "integer"}
        least = 0 if self.may_be_empty else 1
        if not self.may_be_empty:
            refuse_empty_axes(self.arguments, given)
        for solved in self.solved:
            values[solved.name] = _solve_size(solved, given[solved.argument.name].shape[solved.axis], values, least)
            origin[solved.name] = f"axis {solved.axis} of {solved.argument.label}"
        for name in self._positive:
            if values[name] < least:
                raise ArgumentError(
                    f"{name} is {values[name]} ({origin[name]}), but an extent is a multiple of it: give a positive one"
                )
        _raise_failing_check(self.program.assumptions, ArgumentError, values, origin)
        for argument in self.arguments:
            if argument.shape:
                self._check_shape(argument, given[argument.name].shape, values, origin)
        for output in self.program.outputs:
            for axis, form in enumerate(output.shape):
                if form.evaluate(values) < least and form.terms:
                    name = "the result" if output.name == "result" else f"the result {output.name}"
                    raise ArgumentError(
                        f"{name} would have length {form.evaluate(values)} on axis {axis}, "
                        f"which is {form} ({_sizes_text(form.atoms(), values, origin)}); a length is not negative"
                    )
        self._check_extents(values, origin)
        for size in self.program.sizes:
            candidates = [form.evaluate(values) for form in size.lows or size.highs]
            values[size.name] = max(candidates) if size.lows else min(candidates)
        _raise_failing_check(self.program.checks, OutOfShapeError, values, origin)
        return values

    def _check_extents(self, values: dict[str, int], origin: dict[str, str]) -> None:
        """Check the lengths of axes at the sizes ``values``. Raise `OutOfShapeError` if a length is negative, or if it
        is 0 and ``self.may_be_empty`` is false. Raise `EmptyAxes` for other lengths of 0, and for sizes of 0 that the
        program assumes to be positive.

        ``origin`` maps sizes to their sources, for messages.
        """
        lengths = {form: form.evaluate(values) for form in self.program.extents}
        for form, length in lengths.items():
            if length < 0 or not (length or self.may_be_empty):
                sizes = _sizes_text(form.atoms(), values, origin)
                raise OutOfShapeError(
                    f"a tensor would have an axis of length {form}, which is not positive: {length} ({sizes})"
                )
        empty = [form for form, length in lengths.items() if not length]
        empty += [Affine.variable(name) for name in self._positive if not values[name]]
        if empty:
            raise EmptyAxes(empty, values)

    def _check_shape(
        self, argument: Argument, shape: tuple[int, ...], values: dict[str, int], origin: dict[str, str]
    ) -> None:
        """Raise ArgumentError if ``shape``, the shape of an array that was passed for ``argument``, is not the declared
        one at the sizes ``values``. ``origin`` maps sizes to the arguments that they come from, for the message.
        """
        for axis, (form, length) in enumerate(zip(argument.shape, shape, strict=True)):
            expected = form.evaluate(values)
            if expected != length:
                reason = f", which is {form} with {_sizes_text(form.atoms(), values, origin)}" if form.terms else ""
                raise ArgumentError(
                    f"argument {argument.label} has length {length} on axis {axis}, expected {expected}{reason}"
                )


_SEARCH_LIMIT = 20_000

_MAX_INDEX = 2**40
"""The largest integer in arrays of indices, so that index arithmetic does not overflow."""


def _raise_failing_check(
    checks: Sequence[Check], error: type[TensorDiffError], values: dict[str, int], origin: dict[str, str]
) -> None:
    """Raise ``error`` for the first of ``checks`` that fails at the sizes ``values``. Its message names the sizes and,
    from ``origin``, the arguments that determine them.
    """
    for check in checks:
        if all(row.holds(values) for row in check.violation) and _may_happen(check, values):
            names = {name for row in (*check.violation, *check.points) for name in row.form.atoms()} & origin.keys()
            raise error(f"{check.message} ({_sizes_text(names, values, origin)})")


def _may_happen(check: Check, values: dict[str, int]) -> bool:
    """Return whether `check` fails for some integers at the given sizes (``values``), so that a read is really out of
    bounds; True if the search takes too long.
    """
    if not check.points:
        return True
    sizes = {name: Affine.of(value) for name, value in values.items()}
    rows = [row.substitute(sizes) for row in check.points]
    try:
        return find_point(rows, sorted({v for row in rows for v in row.form.atoms()}), _SEARCH_LIMIT) is not None
    except ValueError:
        return True


def _sizes_text(names: frozenset[str] | set[str], values: dict[str, int], origin: dict[str, str]) -> str:
    """Return text for error messages about the sizes ``names``, with their ``values`` and the arguments that they come
    from: ``n = 3 from x``. ``origin`` maps sizes to arguments.
    """
    return ", ".join(f"{name} = {values[name]} from {origin.get(name, 'the sizes')}" for name in sorted(names))


def _solve_size(solved: Solved, length: int, values: dict[str, int], least: int) -> int:
    """Return the size in ``solved`` that follows from the ``length`` of an argument's axis: n, if the axis has the
    length ``2*n + 1``. Raise ArgumentError if it is not an integer of at least ``least``.

    `values` are the sizes known so far.
    """
    coefficient, rest = (part.evaluate(values) for part in solved.parts)
    rest = length - rest
    if not coefficient or rest % coefficient or (value := rest // coefficient) < least:
        raise ArgumentError(
            f"argument {solved.argument.label} has length {length} on axis {solved.axis}, "
            f"which is not {solved.form} for any {'positive ' if least else ''}integer {solved.name}"
            f"{'' if least else ' that is not negative'}"
        )
    return value


# ---------------------------------------------------------------------------- reading


def _read_array(argument: Argument, value: Any) -> Any:
    """Return an argument as a host or device array, with its dtype and number of axes checked."""
    array = value if isinstance(value, DeviceArray) else as_array(argument, value)
    check_array(argument, array)
    return array


def as_array(argument: Argument, value: Any) -> NDArray[Any]:
    """Return a value as a NumPy array; raise ArgumentTypeError for masked arrays and tensors that require gradients."""
    if is_masked(value):
        raise ArgumentTypeError(f"argument {argument.label} is a masked array; fill it with .filled(...) first")
    try:
        return np.asarray(value)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # raised by the library of the value
        if getattr(value, "requires_grad", False):
            raise ArgumentTypeError(
                f"argument {argument.label} requires a gradient, which no kernel carries on: pass it with .detach(), "
                "or make the function with td.torch_function"
            ) from None
        raise ArgumentTypeError(f"argument {argument.label} is not an array: {error}") from None


def is_masked(value: Any) -> bool:
    """Return whether a value is a masked array, without importing ``numpy.ma``, which takes 10 ms."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def check_array(argument: Argument, array: Any) -> None:
    """Raise if ``array``, of the host or the device, has another dtype or number of axes than ``argument``."""
    check_dtype(argument, array.dtype)
    if len(array.shape) != len(argument.shape):
        raise ArgumentError(
            f"argument {argument.label} has {len(array.shape)} axes (shape {array.shape}), "
            f"expected {len(argument.shape)}"
        )


def check_dtype(argument: Argument, dtype: np.dtype[Any]) -> None:
    """Raise ArgumentTypeError if an array's dtype is not real, or, for an argument used as an index, not integer."""
    if argument.dtype == "integer" and dtype.kind not in "iu":
        wayout = "np.flatnonzero makes them of a mask" if dtype.kind == "b" else "pass .astype(int)"
        raise ArgumentTypeError(
            f"argument {argument.label} has dtype {dtype}, but selects entries: integers are needed; {wayout}"
        )
    if dtype.kind not in "biuf":
        raise ArgumentTypeError(
            f"argument {argument.label} has dtype {dtype}; real numbers (float64, float32, integers) are needed"
        )
    reason = _REFUSED_FLOATS.get(dtype.char)
    if reason:
        raise ArgumentTypeError(f"argument {argument.label} has dtype {dtype}, which {reason}")


def _read_data(argument: Argument, value: Any) -> NDArray[np.int64]:
    """Return ``value``, an array argument of any integer dtype, as int64. Raise ArgumentError if an integer is too
    large for an index.

    int64 arrays with a declared bound are not tested here, since all their entries are compared with the bound later.
    """
    array: NDArray[Any] = _read_array(argument, value)
    is_compared = argument.below is not None and array.dtype == np.int64
    if (
        array.size
        and not is_compared
        and array.dtype.itemsize == 8
        and (abs(int(array.max())) > _MAX_INDEX or abs(int(array.min())) > _MAX_INDEX)
    ):
        worst = max(int(array.max()), -int(array.min()), key=abs)
        raise ArgumentError(f"argument {argument.label} holds an integer of size {worst}, too large for an index")
    return array.astype(np.int64, order="C", copy=False)


def _read_scalar(argument: Argument, value: Any) -> Any:
    """Return the real number ``value``, an argument, as a float; a NumPy scalar becomes an array without axes, since
    its dtype counts for the dtype of the results. Raise ArgumentError for arrays with axes, and for numbers that are
    too large.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, np.generic):
        try:
            return float(value)
        except OverflowError:
            raise ArgumentError(f"argument {argument.label} is {value}, which no float64 can hold") from None
    array = as_array(argument, value)
    check_dtype(argument, array.dtype)
    if array.ndim:
        raise ArgumentError(f"argument {argument.label} has shape {array.shape}, a single real number is needed")
    return array


def _read_integer(argument: Argument, value: Any) -> int:
    """Return an argument that is an integer; raise if it is not one, or too large for an index."""
    try:
        integer = operator.index(value)
    except TypeError:
        integer = None
    if integer is None or isinstance(value, bool | np.bool_):
        kind = type(value).__name__
        raise ArgumentTypeError(f"argument {argument.label} is {value!r} ({kind}), an integer is needed")
    if abs(integer) >= 2**62:
        raise ArgumentError(f"argument {argument.label} is {integer}, too large for an index")
    return integer


def _read(argument: Argument, value: Any) -> Any:
    """Check ``value``, what a call passes for ``argument``, and return it as an array or number. It is not converted to
    the dtype of the results yet.
    """
    if argument.kind != "integer" and argument.dtype == "integer":
        return _read_data(argument, value)
    is_array = bool(argument.shape) or isinstance(value, DeviceArray)
    return _read_array(argument, value) if is_array else read_number(argument, value)


def read_number(argument: Argument, value: Any) -> Any:
    """Return ``value``, the number that was passed for `argument`, as an integer or a real number, whichever the
    argument is.
    """
    return (_read_integer if argument.kind == "integer" else _read_scalar)(argument, value)


# ---------------------------------------------------------------------------- converting


def refuse_asymmetric(name: str, matrix: NDArray[Any]) -> None:
    """Raise ArgumentError, with a message about ``name``, unless ``matrix`` is symmetric, up to a relative error of the
    square root of the precision.
    """
    if np.array_equal(matrix, matrix.T):
        return  # nearly all are symmetric to the last digit
    gap = np.abs(matrix - matrix.T)
    tolerance = np.sqrt(np.finfo(matrix.dtype).eps) * np.max(np.abs(matrix), initial=0)
    if not (gap > tolerance).any():  # nan is for the functions that meet it
        return
    i, j = sorted(map(int, np.unravel_index(int(np.nanargmax(gap)), gap.shape)))
    raise ArgumentError(
        f"{name} is declared symmetric, but its entries [{i}, {j}] and [{j}, {i}] are {matrix[i, j]:.6g} and "
        f"{matrix[j, i]:.6g}: pass (S + S.T)/2 of it, or declare it without symmetric=True"
    )


def entry_text(label: str, value: NDArray[Any], place: tuple[int, ...]) -> str:
    """Return a text like ``idx[2, 3] is 7`` for messages: the argument's ``label``, the index ``place``, and the entry
    that the array ``value`` has there.
    """
    return f"{label}[{', '.join(map(str, place)) or '()'}] is {value[place]}"


def out_of_range_error(cause: str, selects: str, length: int) -> DataIndexError:
    """Return the error for an index-array entry out of range. ``cause`` is a text such as ``idx[3] is 7``, ``selects``
    says in words which index it is, and ``length`` is the number of permitted values.
    """
    return DataIndexError(f"{cause}: {selects} has to be from 0 to {length - 1}; negative ones do not wrap around")


def _convert(argument: Argument, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an argument converted for the driver: C-ordered aligned arrays, scalars of the results' dtype, Python
    ints.

    Other memory orders are copied: a copy costs less than another specialisation of every kernel.
    """
    if argument.kind == "integer":
        return value
    if isinstance(value, DeviceArray):
        return check_unconverted(f"argument {argument.label}", value, dtype)
    if argument.dtype == "integer":
        return writable_alias(value) if argument.shape else int(value)
    if argument.kind == "scalar" or not argument.shape:
        return dtype.type(value)
    array = np.asarray(value, dtype=dtype, order="C")
    return writable_alias(array if array.flags.aligned else array.copy())


MAX_COPIED_BYTES = 2**15
"""The most bytes of an array that is copied instead of aliased: the copy takes less time."""


def writable_alias(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` if it is writable, else a copy of it or a view that is marked as writable.

    So Numba compiles one kernel instead of one for each combination of writable and read-only arrays; kernels never
    write to arguments.
    """
    if array.flags.writeable:
        return array
    return array.copy() if array.nbytes <= MAX_COPIED_BYTES else np.asarray(_WritableAlias(array))


class _WritableAlias:
    """A wrapper of a read-only NumPy array that shows its memory as writable, for libraries that take writable arrays
    only. The memory is not copied.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
