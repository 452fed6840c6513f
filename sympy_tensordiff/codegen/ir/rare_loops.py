"""Loops that run only under a condition, such as those which compute a norm again in another scale.

`walk.guarded_by` puts all values of a branch under its condition: neutral elements are added where it fails. So a loop
may be left out there, which simplifies the code after it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, defines, is_addition, is_let, reduction_of
from sympy_tensordiff.codegen.ir.nests import FALSE, TRUE
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Identity, Name, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, declared, live_statements, loads, rewrite, statements, with_values
from sympy_tensordiff.integer.affine import Affine, Constraint


def condition_of_loop(loop: Loop) -> Scalar | None:
    """Return the condition, a boolean variable or its negation, without which `loop` changes no accumulator that is
    declared outside of it. Where it is false, the loop can be skipped. None if there is no single condition.

    Each value that the loop adds to an accumulator from outside is under that condition, as those of `guarded_by` are.
    """
    own = {loop.variable, *declared(loop.body)} | {s.variable for s in statements(loop.body) if isinstance(s, Loop)}
    tests = set()
    for statement in statements(loop.body):
        if isinstance(statement, Loop) or defines(statement):
            continue
        if not is_addition(statement):
            return None
        if statement.name not in own:
            tests.add(_condition_of_addition(statement))
    test = tests.pop() if len(tests) == 1 else None
    name = test.arguments[0] if isinstance(test, Operation) and test.function == "not" else test
    return test if isinstance(name, Name) and name.name not in own else None


def without_condition(loop: Loop, test: Scalar) -> Loop:
    """Return ``loop`` simplified for the case that ``test`` is true: each ``a if test else b`` is replaced by ``a``."""

    def first_branch(value: Scalar) -> Scalar:
        """Return ``a`` for ``a if test else b``, because ``test`` is known to be true; other expressions unchanged."""
        decided = isinstance(value, Operation) and value.function == "select" and value.arguments[0] == test
        return value.arguments[1] if decided and isinstance(value, Operation) else value

    return replace(loop, body=with_values(loop.body, first_branch))


def conditions_outside(loop: Loop) -> tuple[Name, ...]:
    """Return the boolean scalars, defined outside of `loop`, without which it changes no accumulator that is declared
    outside. If one of them is false, the loop can be skipped. () if the loop stores entries of arrays.

    >>> term = Operation("select", (Name("c"), Name("x"), Identity("sum").value))
    >>> both = Operation("select", (Operation("and", (Name("c"), Name("d"))), term, Identity("sum").value))
    >>> conditions_outside(Loop("i", (), (), (Set(Name("s"), term, "sum"), Set(Name("t"), both, "sum"))))
    (Name(name='c'),)
    """
    own = {loop.variable, *declared(loop.body)} | {s.variable for s in statements(loop.body) if isinstance(s, Loop)}
    found: dict[Name, None] | None = None
    for statement in statements(loop.body):
        if isinstance(statement, Loop) or defines(statement):
            continue
        if not is_addition(statement):
            return ()
        if statement.name not in own:
            names = {name: None for name in _names_of_conditions(statement) if name.name not in own}
            found = names if found is None else {name: None for name in found if name in names}
    return tuple(found or ())


def without_conditions(loop: Loop, names: Container[Scalar]) -> Loop:
    """Return ``loop`` simplified for the case that the boolean scalars ``names`` are all true: selects by them are
    replaced by their first values.
    """

    def simplified(value: Scalar) -> Scalar:
        """Simplify a select or an "and" in which a condition is known to be true: ``a if True else b`` is ``a``, and
        ``True and c`` is ``c``. Other values are unchanged.
        """
        if not isinstance(value, Operation) or value.function not in ("and", "select"):
            return value
        if value.function == "select":
            return value.arguments[1] if value.arguments[0] == TRUE else value
        rest = tuple(argument for argument in value.arguments if argument != TRUE)
        return rest[0] if len(rest) == 1 else Operation("and", rest) if rest else TRUE

    def decided_value(value: Scalar) -> Scalar:
        """Return ``value`` simplified, given that the conditions with the names ``names`` are true: such a name becomes
        true, and a select or an "and" that contains it becomes simpler.
        """
        return TRUE if isinstance(value, Name) and value in names else simplified(value)

    return replace(loop, body=with_values(loop.body, decided_value))


def _names_of_conditions(statement: Set) -> Iterator[Name]:
    """Yield the boolean scalars under which an update of an accumulator has an effect: ``c`` and ``d`` for ``total +=
    (value if d else 0) if c and i != j else 0``.
    """
    if statement.reduction == "any":
        return
    value, neutral = statement.value, Identity(reduction_of(statement)).value
    while isinstance(value, Operation) and value.function == "select" and value.arguments[2] == neutral:
        test, value, _ = value.arguments
        parts = test.arguments if isinstance(test, Operation) and test.function == "and" else (test,)
        yield from (part for part in parts if isinstance(part, Name))


def _condition_of_addition(statement: Set) -> Scalar | None:
    """Return the condition of an update ``total += value if condition else neutral``; None for other updates."""
    value = statement.value
    if statement.reduction == "any" or not isinstance(value, Operation) or value.function != "select":
        return None
    test, _, otherwise = value.arguments
    return test if otherwise == Identity(reduction_of(statement)).value else None


def condition_name(test: Scalar) -> str:
    """Return the name ``c`` of the boolean variable in `test`, which is ``c`` or ``not c``."""
    name = test.arguments[0] if isinstance(test, Operation) else test
    assert isinstance(name, Name)
    return name.name


def rare_condition(body: Sequence[Statement], is_short: Callable[[Loop], bool]) -> Scalar | None:
    """Return the condition without which no long loop in `body` has an effect, so that these loops can be skipped where
    it is false. None if there is no single condition for all of them, or if `body` contains an ``if``.

    ``is_short(loop)`` says which loops are not long.
    """
    tests = set()
    for statement in body:
        if isinstance(statement, If):
            return None
        if isinstance(statement, Loop):
            test = condition_of_loop(statement)
            if test is None and not is_short(statement):
                return None
            tests |= {test} - {None}
    test = tests.pop() if len(tests) == 1 else None
    if test is None or not any(is_let(s) and s.name == condition_name(test) for s in body):
        return None
    return test


def decided(body: Sequence[Statement], test: Scalar, holds: bool, *others: Set) -> tuple[Statement, ...]:
    """Return `body`, simplified for a known truth value of `test` (true, or false for ``holds=False``), followed by the
    assignments `others`. Statements without effect are removed.
    """
    name = Name(condition_name(test))
    is_true = holds == (test == name)

    def with_truth_value(value: Scalar) -> Scalar:
        """Simplify the node `value`, given the truth value of the enclosing function's ``test``: the name of the test
        becomes true or false, a select by it one of its branches, an "and" or "or" with it shorter.
        """
        if value == name:
            return TRUE if is_true else FALSE
        if not isinstance(value, Operation):
            return value
        arguments = value.arguments
        if value.function == "not" and arguments[0] in (TRUE, FALSE):
            return FALSE if arguments[0] == TRUE else TRUE
        if value.function == "select" and arguments[0] in (TRUE, FALSE):
            return arguments[1 if arguments[0] == TRUE else 2]
        if value.function in ("and", "or"):
            neutral, other = (TRUE, FALSE) if value.function == "and" else (FALSE, TRUE)
            rest = tuple(argument for argument in arguments if argument != neutral)
            return other if other in rest else rest[0] if len(rest) == 1 else Operation(value.function, rest)
        return value

    body = (*rewrite(with_values(body, with_truth_value), _without_no_ops), *others)
    # Arrays of one number are read as entries.
    return tuple(live_statements(body, {one.name for one in others}.union(entry.array for entry in loads(body))))


def _without_no_ops(statement: Statement, _: Around) -> tuple[Statement, ...]:
    """Return ``(statement,)``, or () if it has no effect: it adds 0 (or another neutral element), or is a loop without
    statements.
    """
    if isinstance(statement, Loop) and not statement.body:
        return ()
    has_no_effect = is_addition(statement) and statement.value == Identity(reduction_of(statement)).value
    return () if has_no_effect else (statement,)


def with_usual_loop(
    loop: Loop, fresh: Callable[[str], str], is_short: Callable[[Loop], bool]
) -> tuple[Statement, ...] | None:
    """Return statements that first run `loop` without the inner loops that need a rarely true condition, then run the
    whole `loop` again if the condition was true anywhere. None if no condition guards all long inner loops
    (``is_short(loop)`` is false), or if `loop` must not run twice.

    It must not if it adds to values from before it: when it runs again, all entries are set again.
    """
    test = rare_condition(loop.body, is_short)
    if test is None or any(isinstance(s, Set) and s.reduction and s.name not in declared(loop.body) for s in loop.body):
        return None
    flag = Name(fresh("rare"))
    usual = decided(loop.body, test, False, Set(flag, test, "any"))
    arrays = {entry.array for entry in loads(loop.body)}
    renamed = Renaming({name: fresh(name) for name in declared(loop.body) if name not in arrays})
    again = If((Constraint("ge", Affine.variable(flag.name) - 1),), (loop,))
    return Set(flag, FALSE), replace(loop, body=renamed.body(usual)), again
