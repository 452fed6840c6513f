"""Derivatives through scans: the tangent is a scan of twice the states, the pullback a scan backwards in time.

An expression is differentiated with its scans as variables. Each scan then hands the cotangents of its values on: with
``h' = F(h, x, θ)`` and values ``g = G(h, x, θ)``, the cotangents of the states satisfy

    dh  <-  (∂F/∂h)ᵀ dh + (∂G/∂h)ᵀ dg

backwards in time, where the states before each step are sequences, stored by the forward scan. The cotangents of
initial values are the last dh, those of sequences the values ``(∂F/∂x)ᵀ dh + …`` of the steps, those of all else that a
step reads their sums over time. A step may contain scans itself, and its derivatives are again expressions of the same
kind, of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sympy

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.derivative.through_names import _expressions_or_none, _total
from sympy_tensordiff.graph.nodes import replace
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, nodes_in, scans_in
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable, State, Time, fresh_name, needed_states
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of
from sympy_tensordiff.symbolic.whole_tensors.subscripts import LETTERS

Found = dict[Any, list[Any]]
"""The contributions to the cotangent or tangent of each leaf: a variable or a scan."""


def pullbacks(
    pairs: Sequence[tuple[Any, Any]], variables: Sequence[Any], known: Mapping[Any, Any] = MappingProxyType({})
) -> list[Any | None]:
    """Return the cotangents of `variables`, given `pairs` of a value and its cotangent, by a reverse sweep; None for a
    cotangent that is zero. The values may contain scans, which are loops over time. `known` maps expressions to
    variables that replace them in the results.
    """
    found: Found = {}
    for value, cotangent in pairs:
        _sweep_back(value, cotangent, variables, found, known)
    waiting = _active_scans([value for value, _ in pairs], variables)
    while waiting:
        # The last in the order of dependence, with all others of its recurrence that nothing else waits for.
        needed = {scan: set(_scans_needed_first(scan)) for scan in waiting}
        ready = [s for s in waiting if not any(s in needed[other] for other in waiting)]
        batch = [s for s in ready if s.recurrence == ready[0].recurrence]
        waiting = [s for s in waiting if s not in batch]
        cotangents = [(scan, _total(found.pop(scan))) for scan in batch if scan in found]
        if cotangents:
            _Adjoint(cotangents, variables).add_cotangents_to(found)
    return [_total(found[v]) if v in found else None for v in variables]


def pushforwards(values: Sequence[Any], moves: Mapping[Any, Any]) -> list[Any | None]:
    """Return the tangents of `values`, which may contain scans; None for zero. `moves` maps each leaf that moves to its
    tangent.
    """
    moving = dict(moves)
    waiting = _active_scans(values, [*moves])[::-1]
    while waiting:
        # The first in the order of dependence, with all others of its recurrence that need nothing else.
        first = waiting[0]
        others = set(waiting)
        batch = [s for s in waiting if s.recurrence == first.recurrence and others.isdisjoint(_scans_needed_first(s))]
        waiting = [s for s in waiting if s not in batch]
        pairs = zip(batch, _scan_tangents(batch, moving), strict=True)
        moving |= {scan: tangent for scan, tangent in pairs if tangent is not None}
    return _direct_tangents(values, moving)


def over_unit_tensors(shape: Sequence[Any], derivative: Callable[[Any], Any]) -> Any:
    """Return the results of the linear function `derivative` for each unit tensor of `shape` (one entry is 1, the
    others 0), stacked along new first axes.

    If `derivative` maps a cotangent or tangent to its pullback or pushforward, the result is the Jacobian.

    Each axis is a scan without states, over the rows of a unit matrix: all that depends on none of these rows is
    computed once.
    """
    rows = [ScanVariable(fresh_name("e"), (extent,)) for extent in shape]
    labels = LETTERS[: len(rows)]
    value = derivative(
        EinsumProduct(f"{','.join(labels)}->{labels}", *rows) if len(rows) > 1 else [*rows, sympy.S.One][0]
    )
    if rows and value.free_symbols.isdisjoint(rows):
        return _zero((*shape, *shape_of(value)))
    for row, extent in zip(reversed(rows), reversed(shape), strict=True):
        value = Scan("stack", value, [], [(row, DeltaTensor((extent,)))], Time(fresh_name("t")), extent)
    return value


# ---------------------------------------------------------------------------- dependence


def _scans_needed_first(scan: Any) -> list[Any]:
    """Return the scans (loops over time) that are computed before `scan` because it reads them: those in its initial
    values and sequences, and those in its steps that are the same at all times.
    """
    return [*scans_in(scan.outer), *_captured(scan)]


def _captured(scan: Any) -> list[Any]:
    """Return the scans (loops over time) in the steps of `scan` that depend on none of its bound variables, so that
    they are the same in all steps. Scans inside of these are not included.
    """
    bound = set(scan.bound)

    def parts_to_search(node: Any) -> Sequence[Any]:
        """Return the subexpressions of `node` in which to search for scans (loops over time). For a scan that depends
        on bound variables of the outer one, these are its `steps` and `outer`; for another scan (), for other nodes
        their arguments.
        """
        if getattr(node, "is_scan", False):
            return () if bound.isdisjoint(node.free_symbols) else (*node.steps, *node.outer)
        return node.args  # type: ignore[no-any-return]

    nodes = nodes_in(scan.steps, parts_to_search)
    return [node for node in nodes if getattr(node, "is_scan", False) and bound.isdisjoint(node.free_symbols)]


def _active_scans(values: Sequence[Any], variables: Iterable[Any]) -> list[Any]:
    """Return all scans (loops over time) in `values`, and in the inputs of these scans, that depend on `variables`. A
    scan comes before the scans that it reads.
    """
    wanted = set(variables)
    order: dict[Any, None] = {}
    stack = [(scan, False) for scan in reversed(scans_in(values))]
    while stack:
        scan, is_done = stack.pop()
        if is_done:
            order.setdefault(scan)
        elif scan not in order and scan not in wanted and _depends(scan, wanted):
            stack.append((scan, True))
            stack += [(part, False) for part in reversed(_scans_needed_first(scan))]
    return [*order][::-1]


def _leaves(value: Any, variables: Sequence[Any]) -> list[Any]:
    """Return the leaves with respect to which `value` is to be differentiated: the scans (loops over time) in it that
    depend on `variables`, and those of `variables` that it contains outside of scans.
    """
    wanted = set(variables)
    scans = [scan for scan in scans_in([value]) if _depends(scan, wanted)]
    free = _free_outside_scans(value)
    return [*scans, *(v for v in variables if v in free and v not in scans)]


def _free_outside_scans(value: Any) -> set[Any]:
    """Return the free symbols of `value` outside of its scans."""
    nodes = nodes_in([value], lambda node: () if getattr(node, "is_scan", False) else node.args)
    return free_symbols_in([value]) & {node for node in nodes if not getattr(node, "is_scan", False)}


# ---------------------------------------------------------------------------- one expression


def _sweep_back(
    value: Any,
    cotangent: Any,
    variables: Sequence[Any],
    found: Found,
    known: Mapping[Any, Any] = MappingProxyType({}),
) -> None:
    """Append to the lists in ``found`` the cotangents of the `variables` and the scans in `value`, given the
    `cotangent` of `value`. A scan counts as a leaf: the sweep does not enter it.

    `known` maps expressions to variables that replace them in these cotangents.
    """
    leaves = _leaves(value, variables)
    if not leaves:
        return
    work = Differentiation(value, cotangent, *known, *known.values(), by=leaves, scans=True)
    nodes = work.pullbacks([work.leaf(leaf) for leaf in leaves], work.inputs[0])
    rule = dict(zip(work.inputs[1 : 1 + len(known)], work.inputs[1 + len(known) :], strict=True))
    nodes = [replace(work.graph, node, rule) for node in nodes] if rule else nodes
    for leaf, part in zip(leaves, _expressions_or_none(work, nodes), strict=True):
        if part is not None:
            found.setdefault(leaf, []).append(part)


def _direct_tangents(values: Sequence[Any], moving: Mapping[Any, Any]) -> list[Any | None]:
    """Return the tangents of `values`, None for one that is 0, with each scan (loop over time) treated as a variable.
    `moving` maps the variables to their tangents.
    """
    found = dict.fromkeys(leaf for value in values for leaf in _leaves(value, [*moving]))
    leaves = [leaf for leaf in found if leaf in moving]
    if not leaves:
        return [None] * len(values)
    first, *others = values
    work = Differentiation(first, *others, *(moving[leaf] for leaf in leaves), by=leaves, scans=True)
    roots, directions = [work.root, *work.inputs[: len(others)]], work.inputs[len(others) :]
    nodes = [work.leaf(leaf) for leaf in leaves]
    return _expressions_or_none(work, [work.of(root).pushforward(nodes, directions) for root in roots])


def _contracted(first: Any, second: Any) -> Any:
    """Return the inner product of the tensors ``first`` and ``second``, which have equal shapes."""
    rank = len(shape_of(second))
    if not rank:
        return first * second
    labels = LETTERS[:rank]
    return EinsumProduct(f"{labels},{labels}->", first, second)


def _zero(shape: Sequence[Any]) -> Any:
    """Return 0, or a tensor of zeros of this shape."""
    return FilledTensor(0, shape) if shape else sympy.S.Zero


# ---------------------------------------------------------------------------- tangents


def _scan_tangents(scans: Sequence[Any], moving: Mapping[Any, Any]) -> list[Any | None]:
    """Return the tangents of `scans`, several results of one loop over time; None for a tangent that is 0. `moving`
    maps each variable to its tangent.

    The tangents are results of a new recurrence, with the tangents of the old states as further states.
    """
    scan = scans[0]
    states, sequences = scan.states, scan.sequences
    moves: dict[Any, Any] = {}  # of bound variables, and of expressions that the steps read from outside
    added: list[State] = []
    rows: list[tuple[Any, Any]] = []
    around = _direct_tangents(scan.outer, moving)
    for (variable, _), tangent in zip(sequences, around[len(states) :], strict=True):
        if tangent is not None:
            moves[variable] = _tangent_variable(variable)
            rows.append((moves[variable], tangent))
    for leaf in dict.fromkeys(leaf for one in scans for leaf in _outside_leaves(one)):
        if leaf in moving:
            moves[leaf] = moving[leaf]
            if not getattr(moving[leaf], "is_symbol", False):
                name = f"d{getattr(leaf, 'name', 'c')}"
                moves[leaf] = constant = ScanVariable(fresh_name(name), shape_of(leaf))
                added.append(State(constant, moving[leaf], constant))
    starts = dict(zip([state.variable for state in states], around, strict=False))
    active = _active_states(states, {v for v, start in starts.items() if start is not None}, set(moves))
    moves |= {state.variable: _tangent_variable(state.variable) for state in states if state.variable in active}
    moved = [state for state in states if state.variable in active]
    changing = [state for state in moved if not state.is_constant]
    tangents = pushforwards([*(state.update for state in changing), *(one.value for one in scans)], moves)
    updates = dict(zip([state.variable for state in changing], tangents, strict=False))
    for state in moved:
        own, zero = moves[state.variable], _zero(state.variable.shape)
        start, update = starts[state.variable], own if state.is_constant else updates[state.variable]
        added.append(State(own, zero if start is None else start, zero if update is None else update))
    values = tangents[len(changing) :]
    wanted = [(one.kind, value) for one, value in zip(scans, values, strict=True) if value is not None]
    results = iter(_pruned(wanted, [*states, *added], [*sequences, *rows], scan))
    return [None if value is None else next(results) for value in values]


def _tangent_variable(variable: Any) -> Any:
    """Return a new bound variable ``dx`` for the tangent or cotangent of `variable`, ``x``."""
    return ScanVariable(fresh_name(f"d{variable.name}"), variable.shape)


def _active_states(states: Sequence[State], active: set[Any], moving: set[Any]) -> set[Any]:
    """Return the variables of the `states` that depend on a variable of the differentiation: those in `active`, and
    each state whose update contains one of these or a symbol in `moving`, directly or through other states.
    """
    found = set(active)
    while True:
        more = {
            state.variable
            for state in states
            if state.variable not in found and not (found | moving).isdisjoint(_symbols_and_scans(state.update))
        }
        if not more:
            return found
        found |= more


def _depends(expr: Any, wanted: set[Any]) -> bool:
    """Return whether ``expr`` contains one of the symbols and scans in the set ``wanted``."""
    return not wanted.isdisjoint(_symbols_and_scans(expr))


def _symbols_and_scans(expr: Any) -> set[Any]:
    """Return the free symbols of an expression and the scans in it."""
    return set(free_symbols_in([expr])) | {n for n in nodes_in([expr]) if getattr(n, "is_scan", False)}


def _outside_leaves(scan: Any) -> list[Any]:
    """Return all that the steps of a scan (loop over time) read from outside: their free symbols without the bound
    variables, and the scans in them that depend on no bound variable.
    """
    free = free_symbols_in(scan.steps).difference(scan.bound)
    return [*_captured(scan), *sorted(free, key=str)]


def _pruned(
    wanted: Sequence[tuple[str, Any]], states: Sequence[State], sequences: Sequence[tuple[Any, Any]], scan: Any
) -> list[Any]:
    """Return a scan (loop over time) for each ``(kind, value)`` in `wanted`: the last value, the sum, or the stack of
    all values, as the kind says. It has only those `states` and `sequences` on which the values in `wanted` depend.

    Time, length and direction are those of `scan`.
    """
    needed = needed_states([(state.variable, state.update) for state in states], [value for _, value in wanted])
    remaining = [state for state in states if state.variable in needed]
    free = free_symbols_in([*(value for _, value in wanted), *(state.update for state in remaining)])
    rows = [(variable, sequence) for variable, sequence in sequences if variable in free]
    return Scan.results_of(wanted, remaining, rows, scan.time, scan.length, scan.reverse)


# ---------------------------------------------------------------------------- pullbacks


class _Adjoint:
    """The pullback of all results of one recurrence together, which is built as a scan that runs backwards in time.

    `cotangents` are pairs of a result and its cotangent, `variables` the variables of the derivative.
    """

    def __init__(self, cotangents: Sequence[tuple[Any, Any]], variables: Sequence[Any]) -> None:
        self.scan = scan = cotangents[0][0]
        self.variables = variables
        self.states, self.sequences = [*scan.states], scan.sequences
        for result, _ in cotangents:
            if result.kind == "last" and all(state.update != result.value for state in self.states):
                variable = ScanVariable(fresh_name("y"), shape_of(result.value))
                self.states.append(State(variable, _zero(variable.shape), result.value))
        self.constants = [state for state in self.states if state.is_constant]
        self.rows: list[tuple[Any, Any]] = [*self.sequences]
        self.added: list[State] = []
        wanted = set(variables)
        self.moving_rows = [(v, sequence) for v, sequence in self.sequences if _depends(sequence, wanted)]
        read = dict.fromkeys(leaf for result, _ in cotangents for leaf in _outside_leaves(result))
        self.outside = [leaf for leaf in read if _depends(leaf, wanted)]
        starts = {state.variable for state in self.states if _depends(state.initial, wanted)}
        active = _active_states(self.states, starts, {v for v, _ in self.moving_rows} | set(self.outside))
        lasts = [one.value for one, _ in cotangents if one.kind == "last"]
        needed = {s.variable for s in self.states if s.update in lasts}  # if no step reads the state, too
        active &= needed | needed_states([(*s[::2],) for s in self.states], [one.value for one, _ in cotangents])
        self.active = [state for state in self.states if state.variable in active and not state.is_constant]
        self.moving_constants = [state for state in self.constants if state.variable in active]
        self.adjoints = {state.variable: _tangent_variable(state.variable) for state in self.active}
        self.pairs: list[tuple[Any, Any]] = [(state.update, self.adjoints[state.variable]) for state in self.active]
        self.starts: Found = {}
        self.direct: list[tuple[Any, Any]] = []
        for result, cotangent in cotangents:
            self._add_result(result, cotangent)

    def _add_result(self, result: Any, cotangent: Any) -> None:
        """Record that `result`, a `Scan` node of this recurrence (a last state, a sum or a stack over time), has this
        `cotangent`.
        """
        if result.kind == "last":
            state = next(s for s in self.states if s.update == result.value)
            if state.is_constant:
                self.direct = [*self.direct, (state.initial, cotangent)]
            elif state.variable in self.adjoints:
                self.starts.setdefault(state.variable, []).append(cotangent)
            return
        if result.kind == "sum":
            self.pairs.append((result.value, self._constant(cotangent, "dy")))
            return
        shape = shape_of(result.value)
        if isinstance(cotangent, FilledTensor):
            value = self._constant(cotangent.value, "dy")
            row = FilledTensor(value, shape) if shape else value
        else:
            row = ScanVariable(fresh_name("dy"), shape)
            self.rows.append((row, cotangent))
        self.pairs.append((result.value, row))

    def _constant(self, expr: Any, name: str) -> Any:
        """Return a new variable of the scan (loop over time) that has the value `expr` in every step: a state that
        never changes. It is named like `name`; an `expr` that is a number is returned unchanged.
        """
        if expr.is_number:
            return expr
        variable = ScanVariable(fresh_name(name), shape_of(expr))
        self.added.append(State(variable, expr, variable))
        return variable

    def add_cotangents_to(self, found: Found) -> None:
        """Compute the cotangents of the variables and scans that the recurrence reads, by a scan that runs backwards.
        Append each cotangent to the list of its variable or scan in the dictionary `found`.
        """
        for target, cotangent in self.direct:
            _sweep_back(target, cotangent, self.variables, found)
        if not self.pairs:
            return
        bound = [*(s.variable for s in self.active), *(v for v, _ in self.moving_rows)]
        bound += [s.variable for s in self.moving_constants]
        leaves = [*bound, *self.outside]
        after = {s.update: s for s in self.states if s.variable.rank and isinstance(s.update, TensorFunction)}
        known = {new: ScanVariable(fresh_name(f"{s.variable.name}_next"), s.variable.shape) for new, s in after.items()}
        parts = dict(zip(leaves, pullbacks([self._single_pair()], leaves, known), strict=True))
        states = []
        for state in self.active:
            start = self.starts.get(state.variable)
            zero = _zero(state.variable.shape)
            update = parts[state.variable]
            initial = zero if start is None else _total(start)
            states.append(State(self.adjoints[state.variable], initial, zero if update is None else update))
        before = [(s.variable, self.scan.result("stack", s.variable)) for s in self.states if not s.is_constant]
        before += [(own, self.scan.result("stack", new)) for new, own in known.items()]
        constants = [*self.constants, *self.added]
        wanted: list[tuple[str, Any]] = []
        targets: list[Any] = []
        for state, adjoint in zip(self.active, states, strict=True):
            wanted.append(("last", None if parts[state.variable] is None else adjoint.update))
            targets.append(state.initial)
        for variable, sequence in self.moving_rows:
            wanted.append(("stack", parts[variable]))
            targets.append(sequence)
        for leaf in (*(s.variable for s in self.moving_constants), *self.outside):
            wanted.append(("sum", parts[leaf]))
            targets.append(leaf)
        targets = [next((s.initial for s in self.moving_constants if s.variable == t), t) for t in targets]
        pairs = [(target, one) for target, one in zip(targets, wanted, strict=True) if one[1] is not None]
        backwards = _Backwards(self.scan.time, self.scan.length, not self.scan.reverse)
        results = _pruned([one for _, one in pairs], [*states, *constants], [*before, *self.rows], backwards)
        for (target, _), result in zip(pairs, results, strict=True):
            _sweep_back(target, result, self.variables, found)

    def _single_pair(self) -> tuple[Any, Any]:
        """Return one pair ``(expression, cotangent)`` with the same pullback as all results of one step together: the
        sum of each result contracted with its cotangent, with the cotangent 1. A single result keeps its own cotangent.
        """
        if len(self.pairs) == 1:
            return self.pairs[0]
        return sum((_contracted(c, value) for value, c in self.pairs), sympy.S.Zero), sympy.S.One


class _Backwards:
    """The time variable, length and direction (``reverse``) of the scan that computes a pullback: it runs opposite to
    the scan that is differentiated.
    """

    def __init__(self, time: Any, length: Any, reverse: bool) -> None:
        self.time, self.length, self.reverse = time, length, reverse
