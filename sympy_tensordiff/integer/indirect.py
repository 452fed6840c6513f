"""Entries of integer tensors in affine forms: indirect indices, as in the gather ``x[idx[i]]``.

An `IndirectIndex` such as ``idx[i]`` is an unknown function of its indices, of which only the range may be known. It is
a column of its own in a system, no elimination solves for its indices, and an equation ``p == idx[i]`` is tested by the
loops, never solved for ``i``. "Data" are the entries of such tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .affine import Affine, Compound, Constraint, Variable
from .rows import substitute_all


class IndirectIndex(Compound):
    """The integer ``tensor[index]``, an entry of an integer array, as a variable of a form.

    `tensor` is the name of an integer tensor, `index` has one form per axis. If `below` is given, the entry is in
    ``0 … below - 1`` for every index; sizes in `below` do not count as variables of the entry.

    Examples
    --------
    >>> i, k = Affine.variable("i"), Affine.variable("k")
    >>> form = 2 * Affine.variable(IndirectIndex("idx", (i + 1,))) + k
    >>> form, form.substitute({"i": 3 * k})
    (k + 2*idx[i + 1], k + 2*idx[3*k + 1])
    >>> form.evaluate({"i": 0, "k": 7, "idx": [5, 6]})
    19
    """

    __slots__ = ("below", "index", "tensor")
    rank = 4
    fields: tuple[str, ...] = ("tensor", "index", "below")

    def __init__(self, tensor: str, index: tuple[Affine, ...], below: Affine | None = None) -> None:
        self.tensor = tensor
        self.index = index
        self.below = below
        self._hash = hash(("data", tensor, index))

    def key(self) -> tuple[Any, ...]:
        """Return ``(tensor name, rank, index)``, by which two entries of integer arrays are compared; the range of the
        values is left out.
        """
        return self.tensor, len(self.index), self.index

    def forms(self) -> tuple[Affine, ...]:
        """Return the index forms of the tensor entry, ``(i, j)`` for ``idx[i, j]``."""
        return self.index

    def substituted(self, mapping: Mapping[Variable, Affine]) -> Affine | None:
        """Return the entry with the variables in its index replaced by ``mapping``; None if its index contains none of
        them.
        """
        index = substitute_all(self.index, mapping)
        if all(new is old for new, old in zip(index, self.index, strict=True)):
            return None
        return Affine.variable(IndirectIndex(self.tensor, index, self.below))

    def definition(self) -> tuple[Constraint, ...]:
        """Return the constraints ``0 <= entry`` and ``entry < below`` on this entry of an integer tensor; () if the
        range of the entries is not declared.
        """
        if self.below is None:
            return ()
        entry = Affine.variable(self)
        return Constraint("ge", entry), Constraint("ge", self.below - 1 - entry)

    def evaluate(self, values: Mapping[Variable, Any]) -> int:
        """Return the entry of the integer array, an int: ``values`` maps the name of the tensor to the array (or nested
        sequences), and the variables in the index to integers.
        """
        value = values[self.tensor]
        for form in self.index:
            value = value[form.evaluate(values)]
        return int(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndirectIndex) and self.key() == other.key() and self.below == other.below

    __hash__ = Compound.__hash__

    def __repr__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index)) or '()'}]"


def data_entries(forms: Iterable[Affine]) -> list[IndirectIndex]:
    """Return all tensor entries in ``forms``, each once, also those inside of floors, indices and other nonlinear
    terms.

    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(IndirectIndex("jdx", (i,)))
    >>> data_entries([i, 2 * Affine.variable(IndirectIndex("idx", (inner + 1,)))])
    [idx[jdx[i] + 1], jdx[i]]
    """
    return [compound for compound in compounds_in(forms) if isinstance(compound, IndirectIndex)]


def bound_of_data(form: Affine, sign: int) -> Affine | None:
    """Return an upper bound (``sign`` 1) or lower bound (-1) of ``form``, with the ends of their declared ranges in
    place of the tensor entries in it. None if an entry has no declared range or is inside of a quotient.

    >>> entry, n = Affine.variable(IndirectIndex("idx", (), Affine.variable("n"))), Affine.variable("n")
    >>> bound_of_data(2 * entry + 1, 1), bound_of_data(n - entry, 1)
    (2*n - 1, n)
    """
    while entries := data_entries([form]):
        entry = entries[0]
        coefficient = form.coefficient(entry)
        if not coefficient or entry.below is None:
            return None
        form = form.substitute({entry: entry.below - 1 if (coefficient > 0) == (sign > 0) else Affine.of(0)})
    return form


def innermost_first(forms: Iterable[Affine]) -> list[IndirectIndex]:
    """Return all tensor entries in ``forms``, each once. An entry in the index of another one comes first: ``q[i]``
    before ``p[q[i]]``.

    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(IndirectIndex("jdx", (i,)))
    >>> innermost_first([Affine.variable(IndirectIndex("idx", (inner + 1,))), inner])
    [jdx[i], idx[jdx[i] + 1]]
    """
    found: dict[IndirectIndex, None] = {}
    waiting = list(reversed(data_entries(forms)))
    while waiting:
        entry = waiting[-1]
        inner = [other for other in data_entries(entry.index) if other not in found]
        waiting += inner
        if not inner:
            found[waiting.pop()] = None
    return list(found)


def with_ranges(form: Affine, below: Mapping[str, Affine]) -> Affine:
    """Return ``form`` with declared upper bounds of its tensor entries: ``below`` maps names of tensors to these
    bounds. Entries of other tensors have none.

    >>> from .implication import is_implied
    >>> n, entry = Affine.variable("n"), Affine.variable(IndirectIndex("idx", (Affine.variable("i"),)))
    >>> declared = with_ranges(2 * entry + 1, {"idx": n})
    >>> declared, is_implied(Constraint("ge", declared - 1), ()), is_implied(Constraint("ge", 2 * n - declared - 1), ())
    (2*idx[i] + 1, True, True)
    """
    mapping: dict[Variable, Affine] = {}
    for entry in outermost_entries(form) if form.compounds() else ():
        index = tuple([with_ranges(part, below) for part in entry.index])
        mapping[entry] = Affine.variable(IndirectIndex(entry.tensor, index, below.get(entry.tensor)))
    return form.substitute(mapping) if mapping else form


def outermost_entries(form: Affine) -> set[IndirectIndex]:
    """Return the tensor entries in a form that are not in the index of another entry: ``p[q[i]]``, not ``q[i]``.

    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(IndirectIndex("jdx", (i,)))
    >>> outermost_entries(2 * Affine.variable(IndirectIndex("idx", (inner + 1,))))
    {idx[jdx[i] + 1]}
    """
    found: set[IndirectIndex] = set()
    waiting = [form]
    while waiting:
        compounds = [v for v, _ in waiting.pop().terms if isinstance(v, Compound)]
        found.update(v for v in compounds if isinstance(v, IndirectIndex))
        waiting += [part for v in compounds if not isinstance(v, IndirectIndex) for part in v.forms()]
    return found


def compounds_in(forms: Iterable[Affine]) -> list[Compound]:
    """Return all nonlinear terms (`Compound`) in ``forms``, such as floors, nested ones included, each once.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(IndirectIndex("jdx", (i,)))
    >>> compounds_in([i, quotient(inner + i, 2)])
    [floor((i + jdx[i])/2), jdx[i]]
    """
    found: dict[Compound, None] = {}
    waiting = [v for form in forms for v, _ in form.terms if isinstance(v, Compound)]
    while waiting:
        compound = waiting.pop()
        if compound not in found:
            found[compound] = None
            waiting += [v for form in compound.forms() for v, _ in form.terms if isinstance(v, Compound)]
    return list(found)


def partition_data(rows: Iterable[Constraint]) -> tuple[list[Constraint], list[Constraint]]:
    """Return the constraints of ``rows`` without tensor entries, and the constraints with some."""
    plain: list[Constraint] = []
    data: list[Constraint] = []
    for row in rows:
        (data if data_entries([row.form]) else plain).append(row)
    return plain, data


def data_terms(form: Affine) -> dict[Compound, int]:
    """Return the terms of a form in which a tensor entry occurs, with their coefficients.

    >>> i = Affine.variable("i")
    >>> data_terms(3 * i - 2 * Affine.variable(IndirectIndex("idx", (i,))))
    {idx[i]: -2}
    """
    return {v: c for v, c in form.terms if isinstance(v, Compound) and data_entries([Affine({v: 1})])}


def eliminate_shared_entries(rows: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return ``rows`` with equations combined so that, if possible, each tensor entry occurs in one equation only: ``p
    == 2*x[i]`` and ``q == 4*x[i]`` become ``p == 2*x[i]`` and ``q == 2*p``.

    >>> p, q, i = (Affine.variable(v) for v in "pqi")
    >>> entry = Affine.variable(IndirectIndex("idx", (i,)))
    >>> eliminate_shared_entries([Constraint("eq", p - 2 * entry), Constraint("eq", q - 4 * entry)])
    (p - 2*idx[i] == 0, -2*p + q == 0)
    """
    result = list(rows)
    for n in range(len(result)):
        row = result[n]
        for m, other in enumerate(result) if row.kind == "eq" else ():
            if m != n and other.kind == "eq":
                result[m] = Constraint("eq", eliminate_entries_by_equations(other.form, [row]))
    return tuple(result)


def eliminate_entries_by_equations(form: Affine, rows: Iterable[Constraint]) -> Affine:
    """Return ``form`` without tensor entries that an equation in ``rows`` replaces: ``p + k`` for ``2*idx[i] + k`` and
    ``p == 2*idx[i]``.
    """
    for row in rows:
        for v, c in list(data_terms(row.form).items())[:1] if row.kind == "eq" else ():
            factor, rest = divmod(form.coefficient(v), c)
            if factor and not rest:
                form = form - factor * row.form
    return form


def variables_in_indirect_indices(form: Affine) -> frozenset[Variable]:
    """Return the plain variables in the indices of tensor entries in ``form``: i for ``idx[i] + k``."""
    entries = data_entries([form]) if form.compounds() else ()
    return frozenset().union(*(entry.atoms() for entry in entries))


def data_depth(form: Affine) -> int:
    """Return how deeply the tensor entries of a form are nested, one in the index of another; 0 without entries.

    >>> i = Affine.variable("i")
    >>> inner = Affine.variable(IndirectIndex("jdx", (i,)))
    >>> data_depth(i), data_depth(inner - i), data_depth(Affine.variable(IndirectIndex("idx", (inner + i,))))
    (0, 1, 2)
    """
    compounds = [v for v, _ in form.terms if isinstance(v, Compound)]
    return max(
        (isinstance(v, IndirectIndex) + max(map(data_depth, v.forms()), default=0) for v in compounds), default=0
    )


def depends_only_indirectly(form: Affine, variables: Collection[Variable]) -> bool:
    """Return whether ``form`` depends on some of ``variables``, but only through indices of tensor entries, as
    ``idx[i]`` depends on i.

    >>> i, k = Affine.variable("i"), Affine.variable("k")
    >>> entry = Affine.variable(IndirectIndex("idx", (i,)))
    >>> [depends_only_indirectly(form, "i") for form in (entry - k, entry - i, k)]
    [True, True, False]
    >>> depends_only_indirectly(entry - k, "ik")
    False
    """
    common = form.atoms().intersection(variables)
    return bool(common) and common <= variables_in_indirect_indices(form)


def constraints_for_the_body(rows: Sequence[Constraint], variables: Collection[Variable]) -> list[Constraint]:
    """Return those constraints in ``rows`` that cannot become bounds of the loops over ``variables``, such as ``idx[i]
    == p``: the loop body must test them.

    An inequality may bound one variable by an entry that others select, ``k >= ptr[i]``, if no other row needs the loop
    over ``i`` inside the one over ``k``.

    >>> i, k, p = (Affine.variable(v) for v in "ikp")
    >>> entry = Affine.variable(IndirectIndex("idx", (i,)))
    >>> constraints_for_the_body([Constraint("ge", k - entry), Constraint("eq", entry - p),
    ...                           Constraint("ge", entry - p), Constraint("ge", i)], "ik")
    [-p + idx[i] == 0, -p + idx[i] >= 0]
    """
    result: list[Constraint] = []
    enclosing: dict[Variable, set[Variable]] = {}
    for row in sorted(rows):
        outer = variables_in_indirect_indices(row.form).intersection(variables)
        inner = row.form.atoms().intersection(variables) - outer
        if outer and (row.kind != "ge" or not inner or _enclosing_loops(enclosing, outer) & inner):
            result.append(row)
        elif outer:
            for v in inner:
                enclosing.setdefault(v, set()).update(outer)
    return result


def _enclosing_loops(enclosing: Mapping[Variable, set[Variable]], start: Iterable[Variable]) -> set[Variable]:
    """Return the loop variables ``start`` and those of all loops around them, where ``enclosing`` maps each variable to
    those of the loops directly around it.
    """
    reached: set[Variable] = set()
    waiting = list(start)
    while waiting:
        v = waiting.pop()
        if v not in reached:
            reached.add(v)
            waiting += enclosing.get(v, ())
    return reached
