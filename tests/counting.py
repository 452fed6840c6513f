"""Index tuples by brute force, and how often the loops of a kernel run."""

from __future__ import annotations

import itertools

import sympy
from sympy import And, Eq, KroneckerDelta, Mul, Not, Piecewise, S

from sympy_tensordiff import IndexedMax, IndexedMin, IndexedSum, TensorComprehension, TensorEntry, TensorSymbol
from sympy_tensordiff.codegen.ir import loops
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.walk import array_shapes, scalars
from sympy_tensordiff.reference import evaluate, points

# A condition on a factor of a product stays there: where it fails, the product is 0.
FACTORS = {f"range_product_{what}" for what in ("of_a_diagonal", "condition", "guard", "at_an_index")}

# ---------------------------------------------------------------------------- tuples of a function

RANGED = IndexedSum | IndexedMax | IndexedMin


def contributing_tuples(function, variable, sizes):
    """Return the number of index tuples of a function and of its reductions that reach a read of ``variable``.

    Each read counts on its own, unless it is written twice under the same binders and conditions:
    then both have one derivative in common.
    """
    total = 0
    for chain, _ in _reads(function, variable, ()):
        total += _count(chain, dict(sizes))
    return total


def _reads(node, variable, chain):
    """The reads of a variable with the binders and conditions around them."""
    if node == variable or (isinstance(node, TensorEntry) and node.tensor == variable):
        return {(chain, node): None}
    if isinstance(node, TensorSymbol) or (isinstance(node, TensorEntry) and isinstance(node.tensor, TensorSymbol)):
        return {}
    if isinstance(node, TensorEntry):
        raise ValueError("tensors of their own have no tuples in common with the function that reads them")
    parts = [(arg, chain) for arg in node.args]
    if isinstance(node, RANGED | TensorComprehension):
        parts = [(node.body, (*chain, node))]
    elif isinstance(node, Piecewise):
        parts, before = [], S.true
        for value, condition in node.args:
            if condition.has(TensorEntry):
                raise ValueError("the values decide which tuples count")
            parts.append((value, (*chain, And(before, condition))))
            before = And(before, Not(condition))
    elif isinstance(node, Mul) and node.has(KroneckerDelta):
        deltas = [factor for factor in node.args if isinstance(factor, KroneckerDelta)]
        met = (*chain, And(*(Eq(*delta.args) for delta in deltas)))
        parts = [(factor, met) for factor in node.args if factor not in deltas]
    found = {}
    for part in parts:
        found |= _reads(part[0], variable, part[1])
    return found


def _count(chain, values):
    if not chain:
        return 1
    head, *rest = chain
    if isinstance(head, RANGED):
        limits = head.limits
    elif isinstance(head, TensorComprehension):
        limits = [(axis, 0, extent - 1) for axis, extent in head.limits]
    else:
        holds = evaluate(Piecewise((1, head), (0, True)), {s: values[s] for s in head.free_symbols})
        return _count(rest, values) if holds else 0
    order = [limit[0] for limit in limits]
    return sum(_count(rest, {**values, **dict(zip(order, p, strict=True))}) for p in points(*limits, values=values))


# ---------------------------------------------------------------------------- loops of a program


def size_values(program, sizes):
    """The sizes of a program by name, those that the host computes among them."""
    values = {str(symbol): value for symbol, value in sizes.items()}
    for size in program.sizes:
        candidates = [form.evaluate(values) for form in size.lows or size.highs]
        values[size.name] = max(candidates) if size.lows else min(candidates)
    return values


def visits(program, array, sizes):
    """Return the iterations of the loops around the reads of ``array``, guarded or not; outside of loops, its reads.

    In a pullback that is how many index tuples are visited, if ``array`` is the cotangent: each tuple reads it once.
    """
    values = size_values(program, sizes)
    shapes = array_shapes(program)
    total = 0
    for kernel in program.kernels:
        for entry in itertools.product(*(range(form.evaluate(values)) for form in kernel.box(shapes))):
            values.update(zip(kernel.axes, entry, strict=True))
            total += _visits(kernel.body, array, values, False)
    return total


def _visits(body, array, values, looped):
    total = len(_loads(body, array)) if looped else 0
    for statement in body:
        if isinstance(statement, loops.Loop):
            for value in loop_range(statement, values):
                values[statement.variable] = value
                total += _visits(statement.body, array, values, True)
        elif isinstance(statement, loops.If):
            if all(row.holds(values) for row in statement.conditions):
                inner = _visits(statement.body, array, values, looped)
                total += inner - (len(_loads(statement.body, array)) if looped else 0)
        elif not looped:
            total += len(_loads([statement], array))
    return total


def _loads(body, array):
    """The different reads of an array in statements and behind their conditions, but not in their loops."""
    found = set()
    for statement in body:
        if isinstance(statement, loops.If):
            found |= _loads(statement.body, array)
        elif not isinstance(statement, loops.Loop):
            found |= {node for node in scalars([statement]) if isinstance(node, Load) and node.array == array}
    return found


def loop_values(program, sizes):
    """Return the iterations of all loops that contain loops, and the number of them in which no inner loop runs."""
    values = size_values(program, sizes)
    shapes = array_shapes(program)
    taken = skipped = 0
    for kernel in program.kernels:
        for entry in itertools.product(*(range(form.evaluate(values)) for form in kernel.box(shapes))):
            values.update(zip(kernel.axes, entry, strict=True))
            for loop in _loops(kernel.body, values):
                more, empty, _ = _loop_values(loop, values)
                taken, skipped = taken + more, skipped + empty
    return taken, skipped


def _loops(body, values):
    """The loops of a block, those behind conditions that hold among them."""
    found = []
    for statement in body:
        if isinstance(statement, loops.Loop):
            found.append(statement)
        elif isinstance(statement, loops.If) and all(row.holds(values) for row in statement.conditions):
            found += _loops(statement.body, values)
    return found


def _loop_values(loop, values):
    """The values that hold loops, those without a run inside, and the runs of the innermost bodies."""
    taken = skipped = runs = 0
    for value in loop_range(loop, values):
        values[loop.variable] = value
        inside = _loops(loop.body, values)
        below = [_loop_values(inner, values) for inner in inside]
        done = sum(part[2] for part in below) if inside else 1
        taken += bool(inside) + sum(part[0] for part in below)
        skipped += (done == 0) + sum(part[1] for part in below)
        runs += done
    return taken, skipped, runs


def loop_range(loop, values):
    """The values of a loop variable."""
    low = max(-(-bound.form.evaluate(values) // bound.divisor) for bound in loop.lows)
    high = min(bound.form.evaluate(values) // bound.divisor for bound in loop.highs)
    return range(low, high + 1)


def conditions_on_loops(body, around=frozenset()):
    """The conditions in a kernel that hold a variable of a loop around them."""
    found = []
    for statement in body:
        if isinstance(statement, loops.Loop):
            found += conditions_on_loops(statement.body, around | {statement.variable})
        elif isinstance(statement, loops.If):
            found += [row for row in statement.conditions if not around.isdisjoint(row.form.atoms())]
            found += conditions_on_loops(statement.body, around)
    return found


# ---------------------------------------------------------------------------- conditions in an expression


def masks(result, bound=frozenset()):
    """The conditions inside of sums that hold a summed index; those on values of tensors are not masks."""
    found = []
    if isinstance(result, IndexedSum):
        for _, *ends in result.limits:
            found += [mask for end in ends for mask in masks(end, bound)]
        return found + masks(result.body, bound | set(result.variables))
    if isinstance(result, TensorComprehension):
        return masks(result.body, bound - set(result.variables))
    is_condition = isinstance(result, KroneckerDelta | sympy.core.relational.Relational)
    if isinstance(result, sympy.Ne):  # a reading aid: kernels run on both sides of the value
        return []
    if is_condition and not result.has(TensorEntry) and not bound.isdisjoint(result.free_symbols):
        return [result]
    return [mask for arg in result.args for mask in masks(arg, bound)]


def hidden_masks(result):
    """The masks that appear once the tables in sums are written out, if those depend on an index around them."""
    found = []
    for total in result.atoms(IndexedSum):
        written = {}
        for entry in total.body.atoms(TensorEntry):
            table = entry.tensor
            if isinstance(table, TensorComprehension) and any(s.is_Symbol for s in table.free_symbols - _sizes(table)):
                written[entry] = entry.doit()
        found += masks(total.func(total.body.xreplace(written), *total.limits)) if written else []
    return found


def _sizes(expr):
    tensors = [node for node in sympy.preorder_traversal(expr) if isinstance(node, TensorSymbol)]
    return {symbol for tensor in tensors for extent in tensor.shape for symbol in extent.free_symbols}
