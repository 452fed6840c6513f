"""Einsum products, delta and constant-filled tensors, and NumPy's broadcasting rule.

Shapes are aligned from the last axis on; an axis that is missing, or whose extent is the number 1, is repeated. A
repeated operand is written as its einsum product with ones, so that no other code knows of broadcasting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from sympy import Add, Expr, KroneckerDelta, Mul, Tuple, exp, log
from sympy.core.symbol import Str

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError
from sympy_tensordiff.symbolic.expressions.base import argument, arguments
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tabulate import (
    entry_indices,
    fresh_indices,
    inline_entry,
    namesakes,
    same_extent,
    tabulate,
)
from sympy_tensordiff.symbolic.whole_tensors.operations import (
    Read,
    Shape,
    TensorOperation,
    operand,
    shape_of,
    shape_tuple,
    varying_in,
)
from sympy_tensordiff.symbolic.whole_tensors.subscripts import (
    FROM_I,
    Subscripts,
    axis_labels,
    check_subscripts,
    label_extents,
    parse_subscripts,
    unused_labels,
    written_out,
)


def _log_sum_exp(value: Expr, *limits: Any) -> Expr:
    """Return ``log(sum(exp(value)))`` over the index ranges ``limits``; kernels compute it without overflow."""
    return log(IndexedSum(exp(value), *limits))


SEMIRINGS = {"log": _log_sum_exp, "max": IndexedMax, "min": IndexedMin}
"""The reductions of semirings whose products are sums."""


def semiring_product(subscripts: Subscripts, operands: Sequence[Any], semiring: Any) -> Any:
    """Return the einsum of ``operands`` over another semiring: entries are added instead of multiplied, and summed
    labels are reduced as ``semiring`` says ("log", "max" or "min"). ``subscripts`` are parsed already.

    The `operands` fit the `subscripts`. The result is in index notation, a scalar without labels in the output. Raise
    `ArgumentError` if `semiring` is not a key of `SEMIRINGS`.
    """
    if not isinstance(semiring, str) or semiring not in SEMIRINGS:
        raise ArgumentError(
            f'td.einsum has no semiring {semiring!r}; write "log" (log-sum-exp of sums), "max" (max-plus), '
            '"min" (min-plus), or leave it out for sums of products'
        )
    inputs, output = subscripts
    extents = label_extents(subscripts, [shape_of(operand) for operand in operands])
    summed = [label for label in extents if label not in output]
    lengths = [extents[label] for label in summed]

    def entry(*indices: Expr) -> Expr:
        """Return the entry of the semiring product at ``indices``."""
        own = entry_indices(fresh_indices(len(summed), (*operands, *indices, *lengths), summed), lengths)
        at = {**dict(zip(output, indices, strict=True)), **dict(zip(summed, own, strict=True))}
        terms = [
            inline_entry(operand, [at[label] for label in labels]) if labels else operand
            for operand, labels in zip(operands, inputs, strict=True)
        ]
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        return SEMIRINGS[semiring](Add(*terms), *limits) if limits else Add(*terms)

    return tabulate([extents[label] for label in output], operands, entry, names=output)


class EinsumProduct(TensorOperation):
    """The product of the operands' entries, summed over all labels that are not in the result; it is `td.einsum`.

    Parameters
    ----------
    subscripts : str
        The labels of the axes of each operand, ``->``, the labels of the result, as in `numpy.einsum`. Labels are
        letters. A label that is repeated in an operand means its diagonal; numbers and scalars have none. ``...`` means
        the other axes, and without ``->`` the result has the labels that occur once, in the order of the alphabet.
    *operands : Expr or number
        Tensor expressions of any rank, and real scalars.
    semiring : str, optional
        By default sums of products. Otherwise entries are added instead of multiplied, and summed axes are reduced by
        ``"log"``: ``log(sum(exp(...)))``, without overflow; ``"max"``; or ``"min"``. The result is then an expression
        in index notation and no `EinsumProduct`. Tied entries share the derivative of an extremum.

    Raises
    ------
    ArgumentError
        If the subscripts are malformed, do not name as many operands as there are, repeat a label
        of the result, or have one there that no operand has, or if there is no such semiring.
    ShapeError
        If the number of labels of an operand is not its rank, or axes of one label have different
        extents (two size symbols are different).
    ArgumentTypeError, UnsupportedError
        If an operand is neither a tensor expression nor a real scalar.

    Notes
    -----
    The product is linear in each operand: its derivative with respect to one is the product of the others (Laue,
    Mitterreiter & Giesen 2020, *A Simple and Efficient Tensor Calculus*).

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, n, m = td.indices("i n m")
    >>> A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
    >>> product = td.EinsumProduct("ij,j->i", A, x)
    >>> product.shape, product.inputs, product.output
    ((n,), ('ij', 'j'), 'i')
    >>> product[i].doit()
    IndexedSum(A[i, j]*x[j], (j, 0, m - 1))
    >>> td.einsum("ij,j->i", A, x, semiring="max")
    TensorComprehension(IndexedMax(A[i, j] + x[j], (j, 0, m - 1)), (i, n))
    """

    def __new__(cls, subscripts: Any, *operands: Any, semiring: Any = None) -> Any:
        text = subscripts.name if isinstance(subscripts, Str) else subscripts
        if isinstance(text, str) and ("->" not in text or "..." in text):
            text = written_out(text, [len(shape_of(value)) for value in operands])
        parsed = parse_subscripts(text)
        checked = tuple(operand(value, f'EinsumProduct("{parsed}")') for value in operands)
        check_subscripts(parsed, [shape_of(expr) for expr in checked])
        if semiring is not None:
            return semiring_product(parsed, checked, semiring)
        return cls._unchecked(Str(str(parsed)), *checked)

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the product that has the arguments ``args`` (the subscripts, then the operands)."""
        parsed = parse_subscripts(args[0].name)
        extents = label_extents(parsed, [shape_of(expr) for expr in args[1:]])
        return tuple(extents[label] for label in parsed.output)

    is_einsum = True

    @property
    def subscripts(self) -> str:
        """Return the subscripts of the einsum, such as ``"ij,jk->ik"``, without blanks."""
        return str(self.args[0].name)

    @property
    def _parsed(self) -> Subscripts:
        """Return the subscripts as labels of the inputs and of the output."""
        return parse_subscripts(self.args[0].name)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the labels of each operand, such as ``("ij", "jk")``."""
        return self._parsed.inputs

    @property
    def output(self) -> str:
        """Return the labels of the result, such as ``"ik"``."""
        return self._parsed.output

    operands: tuple[Any, ...] = arguments(1, "The operands.")

    @property
    def label_extents(self) -> dict[str, Any]:
        """Return a dictionary from each label of the einsum to the extent of its axes."""
        return label_extents(self._parsed, [shape_of(operand) for operand in self.operands])

    def relabelled(self) -> Any:
        """Return an equal product with the labels ``i``, ``j``, … in the order in which they appear: a canonical
        form.
        """
        appearing = dict.fromkeys("".join(self.inputs))
        letters = str.maketrans(dict(zip(appearing, FROM_I, strict=False)))
        return self._of_shape((Str(self.subscripts.translate(letters)), *self.operands), self.shape)

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Expr:
        """Return the entry at ``indices``: a sum over the labels that are not in the output. ``read(operand, indices)``
        returns an entry of an operand.
        """
        inputs, output = self._parsed
        extents = self.label_extents
        summed = [label for label in extents if label not in output]
        lengths = [extents[label] for label in summed]
        own = entry_indices(fresh_indices(len(summed), (*self.operands, *indices, *lengths), summed), lengths)
        at = {**dict(zip(output, indices, strict=True)), **dict(zip(summed, own, strict=True))}
        varying = varying_in(at.values())
        scalars = [operand for operand, labels in zip(self.operands, inputs, strict=True) if not labels]
        factors = (
            read(operand, [at[label] for label in labels], varying)
            for operand, labels in zip(self.operands, inputs, strict=True)
            if labels
        )
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        total = IndexedSum(Mul(*factors), *limits) if limits else Mul(*factors)
        return Mul(*scalars, total)


class DeltaTensor(TensorOperation):
    """The unit tensor of shape ``shape + shape``: 1 where the first half of the indices equals the second.

    Parameters
    ----------
    shape : int, Expr, or sequence of them
        Half of the shape; ``()`` gives a scalar that is 1.

    Raises
    ------
    ShapeError
        If an extent is not a positive integer.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, j, n = td.indices("i j n")
    >>> td.DeltaTensor((2, 3)).shape, td.DeltaTensor(n)[i, j].doit()
    ((2, 3, 2, 3), KroneckerDelta(i, j))
    """

    def __new__(cls, shape: Any) -> Any:
        return cls._unchecked(shape_tuple(shape, "DeltaTensor"))

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the unit tensor: the extents ``args[0]`` twice."""
        return 2 * tuple(args[0].args)

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        """Return the index expressions in this node, whose symbols count as integers: the extents of one half of the
        shape (the other half is equal).
        """
        return tuple(self.args[0].args)

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Expr:
        """Return the entry of the unit tensor at ``indices``, such as ``KroneckerDelta(i, k)*KroneckerDelta(j, l)`` for
        ``[i, j, k, l]``. ``read`` is not used.
        """
        half = len(indices) // 2
        return Mul(*map(KroneckerDelta, indices[:half], indices[half:]))


class FilledTensor(TensorOperation):
    """A tensor whose entries are all equal to ``value``, such as those that `zeros` and `ones` return.

    Parameters
    ----------
    value : Expr or number
        A real scalar.
    shape : int, Expr, or sequence of them

    Raises
    ------
    ArgumentTypeError, UnsupportedError
        If the value is a tensor of rank > 0, or no real scalar.
    ShapeError
        If an extent is not a positive integer.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> T = td.FilledTensor(3, (2, 4))
    >>> T.shape, T[1, 2].doit()
    ((2, 4), 3)
    """

    def __new__(cls, value: Any, shape: Any) -> Any:
        value = operand(value, "FilledTensor")
        if shape_of(value):
            raise ArgumentTypeError(
                f"the value of a FilledTensor must be a scalar, not {value} of shape {value.shape}; repeat a tensor "
                'along a new axis with td.einsum("i,j->ij", x, td.ones(m))'
            )
        return cls._unchecked(value, shape_tuple(shape, "FilledTensor"))

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape, which is the second argument."""
        return tuple(args[1].args)

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        """Return the index expressions in this node, whose symbols count as integers: the extents of its shape."""
        return tuple(self.args[1].args)

    value: Expr = argument(0, "The value of all entries.")
    extents: Tuple = argument(1, "The shape as an argument.")

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Expr:
        """Return the entry of the filled tensor at ``indices``, which is its value at all indices; ``read`` is not
        used.
        """
        return self.value


def aligned(values: Iterable[Any], owner: str) -> tuple[Any, ...]:
    """Return ``values`` as operands of one shape: tensors are broadcast by NumPy's rule, scalars stay scalars.
    ``owner`` is the operation's name in errors.
    """
    operands = tuple(operand(value, owner) for value in values)
    shape = broadcast_shape(operands, owner)
    return tuple(repeated(expr, shape) if shape_of(expr) else expr for expr in operands)


def broadcast_shape(operands: Sequence[Any], owner: str) -> Shape:
    """Return the common shape of ``operands`` by NumPy's broadcasting rule. Raise `ShapeError`, with the operation's
    name ``owner``, if there is none.
    """
    shapes = [shape_of(expr) for expr in operands]
    shape: list[Any] = []
    for back in range(max(map(len, shapes), default=0), 0, -1):
        first: Any = None
        for position, own in enumerate(shapes):
            if len(own) < back or (first is not None and own[-back] == 1):
                continue
            if first is None or shapes[first][-back] == 1:
                first = position
            elif not same_extent(own[-back], shapes[first][-back]):
                raise ShapeError(f"{owner}: {_mismatch_message(operands, first, position, back)}")
        shape.append(shapes[first][-back])
    return tuple(shape)


def repeated(tensor: Any, shape: Sequence[Any]) -> Any:
    """Return ``tensor``, whose rank is not 0, broadcast to ``shape``: repeated along its axes of extent 1, and along
    new leading axes.
    """
    own = shape_of(tensor)
    missing = len(shape) - len(own)
    ones = [axis for axis, extent in enumerate(shape) if axis < missing or (own[axis - missing] == 1 != extent)]
    if not ones:
        return tensor
    output = axis_labels(shape)
    spare = iter(unused_labels(output))
    labels = "".join(next(spare) if axis in ones else output[axis] for axis in range(missing, len(shape)))
    subscripts = f"{labels},{''.join(output[axis] for axis in ones)}->{output}"
    return EinsumProduct(subscripts, tensor, FilledTensor(1, [shape[axis] for axis in ones]))


def with_unit_axes(tensor: Any, axes: Sequence[int]) -> Any:
    """Return ``tensor``, or a scalar, with axes of extent 1 inserted, so that they have the positions ``axes`` in the
    result.
    """
    if not axes:
        return tensor
    labels = axis_labels((*shape_of(tensor), *axes))
    remaining, new = (
        "".join(label for n, label in enumerate(labels) if (n in axes) is is_new) for is_new in (False, True)
    )
    return EinsumProduct(f"{remaining},{new}->{labels}", tensor, FilledTensor(1, [1] * len(axes)))


def _mismatch_message(operands: Sequence[Any], first: int, second: int, back: int) -> str:
    """Return the error text for operands number ``first`` and ``second``: their extents on the axis number ``back``
    from the end differ, so that they cannot be broadcast.
    """
    one, other = operands[first], operands[second]
    here, there = shape_of(one), shape_of(other)
    left, right = here[-back], there[-back]
    axis = "that" if len(here) == len(there) else f"axis {len(there) - back}"
    axes = (
        f"axis {len(here) - back} of {named(first, one)} has extent {left}, "
        f"{axis} of {named(second, other)} has extent {right} (shapes {here} and {there})"
    )
    if len(here) == len(there):
        return f"{axes}; the extents must be equal, or one of them 1{namesakes(left, right)}"
    hint = _product_with_ones(*sorted((one, other), key=lambda expr: len(shape_of(expr))))
    return f"{axes}; axes meet from the last one on, as in NumPy: for others write the broadcast, {hint}"


def _product_with_ones(small: Any, large: Any) -> str:
    """Return the text of an einsum call that repeats ``small`` to the shape of ``large``, as advice in an error
    message.
    """
    own, shape = shape_of(small), shape_of(large)
    labels = "ijklmnopqrstuvwxyz"[: len(shape)]
    shown = str(small) if len(str(small)) <= 40 else "x"
    for axes in reversed([*combinations(range(len(shape)), len(own))]):
        if all(same_extent(shape[place], extent) for place, extent in zip(axes, own, strict=True)):
            missing = [place for place in range(len(shape)) if place not in axes]
            ones = ", ".join(str(shape[place]) for place in missing)
            spec = f"{''.join(labels[p] for p in axes)},{''.join(labels[p] for p in missing)}->{labels}"
            return f'td.einsum("{spec}", {shown}, td.ones({f"({ones})" if len(missing) > 1 else ones}))'
    return 'e.g. td.einsum("i,j->ij", x, td.ones(m))'


def named(position: int, expr: Any) -> str:
    """Return how a message names the operand ``expr`` of a function: by its number ``position``, and by its text if
    that is short.
    """
    text = str(expr)
    return f"operand {position} ({text})" if len(text) <= 40 else f"operand {position}"
