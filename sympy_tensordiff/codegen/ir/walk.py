"""Traversals and rewriting of loop nests: statements, scalar expressions, and the names in them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
    Barrier,
    If,
    Loop,
    Set,
    Statement,
    defines,
    is_accumulator,
    is_addition,
    is_let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import (
    Argument,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Scatter,
    Step,
)
from sympy_tensordiff.codegen.ir.scalars import (
    CONDITIONS,
    EXTREMA,
    Bound,
    Ends,
    External,
    Identity,
    IndexValue,
    Load,
    Name,
    Number,
    Operation,
    Scalar,
)
from sympy_tensordiff.integer.affine import Affine, Constraint

Around: TypeAlias = "tuple[Loop | If, ...]"
"""The enclosing loops and guards of a statement, outermost first."""


def walk(body: Iterable[Statement]) -> Iterator[tuple[Statement, Around]]:
    """Yield all statements of ``body`` in the order of the text, each with its enclosing loops and guards."""
    stack: list[tuple[Statement, Around]] = [(statement, ()) for statement in reversed(tuple(body))]
    while stack:
        statement, enclosing = stack.pop()
        yield statement, enclosing
        if isinstance(statement, Loop | If):
            inner = (*enclosing, statement)
            stack.extend((one, inner) for one in reversed(statement.body))


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield all statements of ``body`` in the order of the text, including those inside loops and guards."""
    return (statement for statement, _ in walk(body))


def declared(body: Iterable[Statement]) -> dict[str, Set]:
    """Return a dictionary from the scalars that ``body`` sets to the first statement that sets each."""
    return {s.name: s for s in statements(body) if defines(s)}


def added(body: Iterable[Statement]) -> dict[str, Set]:
    """Return a dictionary from the accumulators that ``body`` updates but does not declare to the last update of
    each.
    """
    inside = list(statements(body))
    own = {s.name for s in inside if defines(s)}
    return {s.name: s for s in inside if is_addition(s) and s.name not in own}


def values(body: Iterable[Statement]) -> Iterator[Scalar]:
    """Yield the scalar expressions that the statements of ``body`` assign or add. Values of integer variables are left
    out, and so are neutral elements, with which sums and maxima start.
    """
    for s in statements(body):
        if isinstance(s, Set) and not isinstance(s.value, Ends | Identity):
            yield s.value


def rewrite(
    body: Iterable[Statement],
    change: Callable[[Statement, Around], Iterable[Statement]],
    around: Around = (),
) -> tuple[Statement, ...]:
    """Return ``body`` with each statement replaced by the statements ``change(statement, enclosing)``, inner statements
    first; ``enclosing`` are the loops and guards around it.

    ``change`` gets a statement with its body already rewritten, and the original enclosing loops and guards.
    """
    found: list[Statement] = []
    for statement in body:
        new = statement
        if isinstance(statement, Loop | If):
            inner = rewrite(statement.body, change, (*around, statement))
            new = (
                replace(statement, body=inner)
                if any(map(operator.is_not, inner, statement.body)) or len(inner) != len(statement.body)
                else statement
            )
        found += change(new, around)
    return tuple(found)


def _unchanged(part: Any) -> Any:
    """Return the argument unchanged; the default of the functions that `with_parts` applies."""
    return part


def with_parts(
    statement: Statement,
    value: Callable[[Scalar], Scalar] = _unchanged,
    form: Callable[[Affine], Affine] = _unchanged,
    name: Callable[[str], str] = _unchanged,
    target: Callable[[Name | Load], Name | Load] = _unchanged,
) -> Statement:
    """Return ``statement`` with functions applied to its components: ``value`` to its scalar expression, ``form`` to
    its integer forms, ``name`` to a loop variable or scalar name, ``target`` to the target.

    The statements in its body are unchanged.

    ``value`` is not called for integers; ``target`` gets a target whose index has the new forms.
    """
    if isinstance(statement, Loop):
        lows, highs = _with_bounds(statement, form)
        return replace(statement, variable=name(statement.variable), lows=lows, highs=highs)
    if isinstance(statement, If):
        rows = [Constraint(row.kind, form(row.form), row.modulus) for row in statement.conditions]
        return If(tuple(rows), statement.body)
    if isinstance(statement, Alloc):
        return replace(statement, shape=tuple([Ends(*_with_bounds(ends, form)) for ends in statement.shape]))
    if isinstance(statement, Barrier):
        return statement
    filled, new = statement.target, statement.value
    if isinstance(filled, Load) and form is not _unchanged:
        filled = Load(filled.array, tuple([form(one) for one in filled.index]))
    if isinstance(new, Ends):
        new = Ends(*_with_bounds(new, form))
    elif not isinstance(new, Identity):
        new = value(new)
    filled = target(filled)
    is_same = filled is statement.target and new is statement.value
    return statement if is_same else Set(filled, new, statement.reduction)


def _with_bounds(ends: Loop | Ends, form: Callable[[Affine], Affine]) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
    """Return the lower and the upper bounds of ``ends``, a loop or the end of a range, with the function ``form``
    applied to the affine form of each bound.
    """
    lows, highs = (tuple([Bound(form(b.form), b.divisor) for b in side]) for side in (ends.lows, ends.highs))
    return lows, highs


def with_values(body: Iterable[Statement], change: Callable[[Scalar], Scalar]) -> tuple[Statement, ...]:
    """Return ``body`` with the function ``change`` applied to each node of its scalar expressions."""

    def with_change(scalar: Scalar) -> Scalar:
        """Return the expression `scalar` with each of its nodes replaced by the result of ``change`` for this node."""
        return rewrite_scalar(scalar, change)

    return rewrite(body, lambda statement, _: (with_parts(statement, with_change),))


def rewrite_scalar(scalar: Scalar, change: Callable[[Scalar], Scalar]) -> Scalar:
    """Return ``scalar`` with each node replaced by the result of ``change``, bottom-up and from left to right.

    ``change`` gets an operation with its new arguments. Unchanged nodes stay the same objects.
    """
    done: dict[int, Scalar] = {}
    for node in parts(scalar):
        new = node
        if isinstance(node, Operation):
            arguments = tuple([done[id(argument)] for argument in node.arguments])
            if any(map(operator.is_not, arguments, node.arguments)):
                new = Operation(node.function, arguments)
        done[id(node)] = change(new)
    return done[id(scalar)]


def parts(scalar: Scalar) -> list[Scalar]:
    """Return all nodes of a scalar expression, each object once, arguments before operations.

    By identity, since hashing deep expressions recurses.
    """
    found: dict[int, Scalar] = {}
    stack = [scalar]
    while stack:
        node = stack[-1]
        missing = [a for a in node.arguments if id(a) not in found] if isinstance(node, Operation) else []
        if missing:
            stack += reversed(missing)
        else:
            found[id(node)] = stack.pop()
    return list(found.values())


def subexpressions(scalar: Scalar) -> Iterator[Scalar]:
    """Yield ``scalar`` and all nodes inside it, operations before their arguments."""
    stack = [scalar]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Operation):
            stack.extend(reversed(node.arguments))


def scalars(body: Iterable[Statement]) -> Iterator[Scalar]:
    """Yield the nodes of all scalar expressions of ``body``."""
    for value in values(body):
        yield from subexpressions(value)


def loads(body: Iterable[Statement]) -> Iterator[Load]:
    """Yield each array entry that ``body`` reads, and each that it sets or adds to."""
    yield from (node for node in scalars(body) if isinstance(node, Load))
    yield from (s.target for s in statements(body) if isinstance(s, Set) and isinstance(s.target, Load))


def weight(body: Iterable[Statement]) -> int:
    """Return the number of operations, reads and names in the scalar expressions of ``body``, a measure of its cost."""
    return sum(1 for _ in scalars(body))


def bounds(loop: Loop | Ends) -> tuple[Bound, ...]:
    """Return the lower, then the upper bounds of a loop."""
    return loop.lows + loop.highs


def head_forms(statement: Statement) -> list[Affine]:
    """Return the forms in the bounds and step of a loop, or in the conditions of a guard; [] for other statements."""
    if isinstance(statement, Loop):
        return [bound.form for bound in bounds(statement)] + [s for s in (statement.step,) if isinstance(s, Affine)]
    return [row.form for row in statement.conditions] if isinstance(statement, If) else []


def forms(body: Iterable[Statement]) -> Iterator[Affine]:
    """Yield all integer forms of ``body``: bounds, conditions, indices and index values."""
    for statement in statements(body):
        yield from head_forms(statement)
        if isinstance(statement, Set):
            yield from statement.target.index if isinstance(statement.target, Load) else ()
            yield from [b.form for b in bounds(statement.value)] if isinstance(statement.value, Ends) else ()
    for node in scalars(body):
        if isinstance(node, Load):
            yield from node.index
        elif isinstance(node, IndexValue):
            yield node.form


def own_names(kernel: Kernel) -> list[str]:
    """Return the names of the axes, loops and scalars of a kernel."""
    inside = [s for s in statements(kernel.body) if isinstance(s, Loop) or defines(s)]
    names = [s.variable if isinstance(s, Loop) else s.name for s in inside]
    return list(dict.fromkeys([*kernel.axes, *names]))


def operations(program: Program) -> frozenset[str | External]:
    """Return the names of all scalar operations in a program, such as "add", and the functions that the user supplies.
    The maximum and minimum of reductions are included.
    """
    found: set[str | External] = set()
    for kernel in program.nests:
        found.update(node.function for node in scalars(kernel.body) if isinstance(node, Operation))
        found.update(s.reduction for s in statements(kernel.body) if is_addition(s) and s.reduction in EXTREMA)
    for step in program.kernels:
        found.update(operations(step.body) if isinstance(step, Recurrence) else ())
    return frozenset(found)


def externals(program: Program) -> list[External]:
    """Return the functions that the user supplies for a program, sorted by name and orders of derivatives."""
    found = [function for function in operations(program) if isinstance(function, External)]
    return sorted(found, key=lambda external: (external.name, len(external.orders), external.orders))


def array_shapes(program: Program) -> dict[str, tuple[Affine, ...]]:
    """Return the shapes of all arrays of a program: arguments, outputs, temporaries."""
    shapes = {a.name: a.shape for a in program.arguments if a.kind == "array"}
    shapes |= {a.name: a.shape for a in program.outputs + program.temporaries}
    return shapes


def scalar_arrays(arguments: Iterable[Argument]) -> frozenset[str]:
    """Return the names of the array arguments of rank 0: kernels get their only entry as a number."""
    return frozenset(a.name for a in arguments if a.kind == "array" and not a.shape)


def function_name(kernel: Step) -> str:
    """Return the name of the function that runs a step."""
    if isinstance(kernel, Scatter):
        task = "diagonal" if kernel.exclusive else "scatter"
        return f"{task}{kernel.number if kernel.number > 1 else ''}_{kernel.array}"
    return f"fill_{kernel.array}"


def filled_arrays(step: Step) -> tuple[str, ...]:
    """Return the arrays that a step fills or adds to."""
    if isinstance(step, Recurrence):
        return tuple([one.array for one in step.recorded])
    return step.filled if isinstance(step, FusedKernels) else (step.array,)


def loops(body: Iterable[Statement]) -> Iterator[Loop]:
    """Yield all loops of ``body``, outer ones first."""
    return (statement for statement in statements(body) if isinstance(statement, Loop))


def scalar_names(value: Scalar, depends: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of the integers (loop variables, axes and sizes) on which ``value`` depends. ``depends`` maps
    scalar variables to the integers on which they depend.
    """
    found: set[str] = set()
    for node in subexpressions(value):
        if isinstance(node, Load):
            found.update(*(form.atoms() for form in node.index))
        elif isinstance(node, IndexValue):
            found |= node.form.atoms()
        elif isinstance(node, Name):
            found |= depends.get(node.name, frozenset())
    return frozenset(found)


def dependences(kernel: Kernel) -> dict[str, frozenset[str]]:
    """Return a dictionary from each scalar of a kernel to the names of the integers (axes, loop variables, sizes) on
    which it depends, also through guards.
    """
    depends: dict[str, frozenset[str]] = {}
    for statement, around in walk(kernel.body):
        if is_accumulator(statement):
            depends[statement.name] = frozenset()
        elif is_let(statement) or is_addition(statement):
            tested = (form.atoms() for one in around for form in head_forms(one))
            names = scalar_names(statement.value, depends).union(*tested)
            depends[statement.name] = depends.get(statement.name, frozenset()) | names
    return depends


def all_names(program: Program) -> set[str]:
    """Return all names that a program uses: arrays, axes, scalars, sizes, and loop variables."""
    names = outer_names(program)
    for kernel in program.nests:
        names |= set(own_names(kernel))
    return names


def outer_names(program: Program) -> set[str]:
    """Return the names that all kernels share: of arguments, sizes and arrays."""
    shapes = array_shapes(program)
    names = {a.name for a in program.arguments} | {size.name for size in program.sizes} | set(shapes)
    return names | {name for shape in shapes.values() for form in shape for name in form.atoms()}


def filled(statement: Statement) -> list[str]:
    """Return the names of the scalars that ``statement`` sets or updates. For a loop or guard, these are the scalars
    from outside that its body updates.
    """
    if defines(statement):
        return [statement.name]
    return list(added([statement]))


def live_statements(body: Sequence[Statement], wanted: set[str]) -> list[Statement]:
    """Remove dead code from ``body``: keep only the statements that store array entries or compute a scalar in
    ``wanted``, and return them. The names that these statements use are added to ``wanted``.
    """
    found: list[Statement] = []
    for statement in reversed(body):
        if isinstance(statement, If | Loop):
            known = -1
            while len(wanted) > known:  # an iteration of a loop may use what the one before computes
                known = len(wanted)
                inside = live_statements(statement.body, wanted)
            if not inside:
                continue
            statement = replace(statement, body=tuple(inside))
        names = filled(statement)
        stores = any(isinstance(part, Set) and isinstance(part.target, Load) for part in statements([statement]))
        if not names or stores or not wanted.isdisjoint(names):
            wanted |= used_names(statement).union(names, *(map(str, form.atoms()) for form in forms([statement])))
            found.append(statement)
    return found[::-1]


def used_names(statement: Statement) -> set[str]:
    """Return the names of scalars that a statement uses, also inside its body."""
    return {node.name for node in scalars([statement]) if isinstance(node, Name)}


def guarded_by(statements: Iterable[Statement], test: Scalar) -> list[Statement]:
    """Return `statements` changed so that they have no effect where the scalar ``test`` is false: each value that they
    assign or add becomes ``value if test else 0``. For a product, maximum or minimum, the 0 is its neutral element.
    """

    def change(statement: Statement, _: Around) -> tuple[Statement, ...]:
        """Return ``(statement,)``, with the ``value`` that it assigns or adds replaced by ``value if test else 0`` (for
        a condition, ``test and value``). In a reduction, the 0 is its neutral element. Other statements are unchanged.
        """
        if not (is_let(statement) or is_addition(statement)):
            return (statement,)
        value = statement.value
        if isinstance(value, Operation) and value.function in CONDITIONS:
            return (replace(statement, value=Operation("and", (test, value))),)
        otherwise = Identity(reduction_of(statement)).value if is_addition(statement) else Number(0)
        return (replace(statement, value=Operation("select", (test, value, otherwise))),)

    return list(rewrite(statements, change))
