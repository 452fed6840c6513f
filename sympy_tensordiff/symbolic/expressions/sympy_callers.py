"""Who asks: the only file that inspects SymPy's call frames, mostly because SymPy functions ignore binders.

Most functions of SymPy take a node apart by ``args``, rebuild it by ``func``, and get the same value whatever happens
in between. Some do not, since a term under a binder means something else outside: `sympy.cse` names terms with a bound
index; `replace` lets a bound index capture free symbols of the replacement; functions that look for a `Piecewise` move
conditions on a bound index out of its scope, or never end. All ask the node first, and the calling frame identifies
them, so they are shown modified attributes. Printers ask for a precedence without the position in the formula, and
constructors for properties of a tensor without the object that they build: the frames tell both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import unwrap
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any

from sympy import Basic, Expr, Indexed, Mod, Piecewise, S, preorder_traversal

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions import depth
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.traversal import names_in


def names_of(module: str) -> dict[str, Any]:
    """Return the global variables of a SymPy module, for recognising its call frames; {} if there is no such module."""
    try:
        return vars(import_module(module))
    except ImportError:
        return {}


def code_of(module: str, name: str, inner: str | None = None) -> CodeType | None:
    """Return the code object of the function ``name`` in the SymPy module ``module``, or of the function ``inner``
    defined in it, to recognise its call frames; None if there is no such function.
    """
    try:
        code: CodeType = unwrap(attrgetter(name)(import_module(module))).__code__
    except (ImportError, AttributeError):
        return None
    if inner is None:
        return code
    return next((c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == inner), None)


# SymPy's own names, some of them private: where a version has others, its functions see our nodes as they are.
CSE = names_of("sympy.simplify.cse_main")
LATEX = names_of("sympy.printing.latex")
SIMPLIFY = names_of("sympy.simplify.simplify")
PIECEWISE = names_of("sympy.functions.elementary.piecewise")
SOLVERS = names_of("sympy.solvers.solvers")
HAS = code_of("sympy.core.traversal", "iterargs")
POSTORDER = code_of("sympy.core.traversal", "postorder_traversal")
SAME = code_of("sympy.core.basic", "_aresame")
COUNT = code_of("sympy.core.function", "count_ops")
PREORDER = code_of("sympy.core.traversal", "preorder_traversal._preorder_traversal")
FOLD = code_of("sympy.functions.elementary.piecewise", "piecewise_fold")
FOLDING = {FOLD, *(c for c in (FOLD.co_consts if FOLD else ()) if isinstance(c, CodeType))}
CONSTANT = code_of("sympy.core.expr", "Expr.is_constant")
ATOMS = code_of("sympy.core.basic", "Basic.atoms")
REPLACE = code_of("sympy.core.basic", "Basic.replace")
WALK = code_of("sympy.core.basic", "Basic.replace", "walk")
PARTIAL = code_of("sympy.core.function", "Function.fdiff")
SUBSTITUTED = code_of("sympy.core.function", "Derivative._eval_subs")
DELTA = code_of("sympy.printing.latex", "LatexPrinter._print_KroneckerDelta")
DERIVATIVE = code_of("sympy.core.function", "Derivative.__new__")
# The modules whose frames see modified attributes; one look-up is faster than five comparisons.
CORE = [names_of(f"sympy.core.{module}") for module in ("basic", "traversal", "function")]
CALLER_MODULES = {id(names) for names in (CSE, SIMPLIFY, *CORE)}


class CallerDependent:
    """The mixin of all nodes: ``args``, ``func``, `is_Atom` and `has` depend on the SymPy function that asks for them,
    found from the call frame. Functions that ignore that sums and comprehensions bind indices would otherwise return
    wrong results.
    """

    _args: tuple[Any, ...]
    is_binder = False
    has_template = False  # whether the first argument is a function, whose cases are not cases of the node
    _is_leaf = False  # whether SymPy's functions leave the arguments alone, as those of its own Indexed

    @property
    def args(self) -> tuple[Any, ...]:
        """Return the arguments of the node, as `Basic.args` does. Some functions of SymPy, recognised by their call
        frame, get other arguments that make their result correct, see `args_for_caller`.
        """
        caller = sys._getframe(1)
        return args_for_caller(self, caller) if id(caller.f_globals) in CALLER_MODULES else self._args

    @property
    def func(self) -> Any:
        """Override `Basic.func`: return the node's class. SymPy's `cse` and `simplify`, which rebuild a node as
        ``node.func(*node.args)``, get a function instead that returns the node itself, or the simplified node.
        """
        caller = sys._getframe(1)
        if caller.f_globals is CSE:
            return lambda *args: self
        if asks_to_simplify(self, caller):
            return lambda *args: self.simplify(**caller.f_locals.get("kwargs", {}))  # type: ignore[attr-defined]
        return type(self)

    @property
    def is_Atom(self) -> bool:  # noqa: N802
        """Override `Basic.is_Atom`: return whether SymPy shall treat the node as a leaf, which depends on the calling
        function. When `cse` calls this, also keep it from using names that occur in the node.
        """
        caller = sys._getframe(1)
        if caller.f_globals is CSE and "excluded_symbols" in caller.f_locals:
            caller.f_locals["excluded_symbols"].update(names_in([self]))
        if caller.f_code is DELTA:
            return False  # two atoms are side by side under a delta, where an entry reads as part of a product
        return self._is_leaf or (caller.f_globals is CSE and not self.is_scalar)  # type: ignore[attr-defined]

    def atoms(self, *types: Any) -> set[Any]:
        """Override `Basic.atoms`: return the same set, with one visit to each shared node."""
        return depth.atoms(self, types)

    def has(self, *patterns: Any) -> bool:
        """Override `Basic.has`: the pattern `Piecewise` is also searched for inside of sums and comprehensions, but not
        for `piecewise_fold`, which would move conditions on bound indices out of the sum.
        """
        caller = sys._getframe(1)
        if caller.f_globals is LATEX and patterns == (Mod,):
            return False  # LaTeX looks for what needs parentheses in a product, which no index does
        asked = any(pattern is Piecewise for pattern in patterns) and caller.f_code not in FOLDING
        if asked and self.atoms(Piecewise):
            return True
        return bool(super().has(*patterns))  # type: ignore[misc]


class Cases(Expr):
    """An opaque node shown to SymPy in place of a `Piecewise` inside of a sum or comprehension, so that SymPy does not
    move its conditions out.
    """

    is_real = True
    is_commutative = True


def args_for_caller(node: Any, caller: FrameType) -> tuple[Any, ...]:
    """Return the value of ``node.args`` for the SymPy function that runs in the call frame ``caller``. It is the tuple
    of arguments, except for functions that would mishandle them: () makes such a function treat the node as a leaf.

    Raise `UnsupportedError` if the function would walk through a huge node.
    """
    own: tuple[Any, ...] = node._args
    if caller.f_globals is CSE:
        return (own,)  # no SymPy object: a leaf that has arguments
    if asks_to_simplify(node, caller):
        return (S.Zero,)
    if caller.f_code is POSTORDER:
        asked = caller_of(caller)
        if asked is not None and asked.f_code is SAME:
            return ()  # nodes of ours that are the same are one object
        depth.refuse_walk(node, "a walk over the parts")
    if caller.f_code is COUNT:
        depth.refuse_walk(node, "the number of operations")
    if caller.f_code is PREORDER:
        depth.refuse_walk(node, "a walk over the parts")
        return () if node.is_binder and asked_for_atoms(caller) else own
    if caller.f_code is HAS:
        if asked_for_cases(caller):
            return without_cases(node)
        return own if node.is_symbol or not measures(node).is_deep else depth.not_walked(node, caller.f_locals["args"])
    if caller.f_code is WALK:
        depth.refuse_walk(node, "replace")
        query, value = called_replace(caller)
        if getattr(query, "__globals__", None) is SIMPLIFY:
            return own if node.is_symbol else ()
        both = (expr.free_symbols for expr in (query, value) if isinstance(expr, Basic))
        return tuple(node.without_clashes(set().union(*both))._args) if node.is_binder else own
    return own


def asks_to_simplify(node: Any, caller: FrameType) -> bool:
    """Return whether ``caller`` is the call frame of `sympy.simplify` about to simplify the arguments of ``node``."""
    return caller.f_globals is SIMPLIFY and caller.f_code.co_name == "<lambda>" and not node.is_symbol


def asked_for_cases(walk: FrameType) -> bool:
    """Return whether the call frame ``walk``, a traversal of an expression by SymPy, was started by a call of
    ``has(Piecewise)``.
    """
    patterns = walk.f_back.f_locals.get("patterns", ()) if walk.f_back is not None else ()
    return any(pattern is Piecewise for pattern in patterns)


def outwards(frame: FrameType | None, wanted: Callable[[FrameType], bool]) -> FrameType | None:
    """Return the first call frame for which ``wanted(frame)`` is true, among ``frame`` and its callers, innermost
    first; None if there is none.
    """
    while frame is not None and not wanted(frame):
        frame = frame.f_back
    return frame


def caller_of(walk: FrameType) -> FrameType | None:
    """Return the nearest call frame outside of ``walk`` that runs another function. For a frame ``walk`` of a recursive
    function, that is the caller of the recursion. None if there is none.
    """
    return outwards(walk, lambda frame: frame.f_code is not walk.f_code)


def asked_for_atoms(walk: FrameType) -> bool:
    """Return whether SymPy's code for `Piecewise` started the traversal with the call frame ``walk``, to collect
    conditions by ``atoms``. Sums and comprehensions then hide their arguments, since SymPy would try all combinations
    of conditions.
    """
    frame = caller_of(walk)
    for _ in range(3):  # the iterator, and from Python 3.12 on no comprehension
        if frame is not None and frame.f_code is not ATOMS:
            frame = frame.f_back
    return frame is not None and frame.f_back is not None and frame.f_back.f_globals is PIECEWISE


def without_cases(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` with every `Piecewise` inside of a sum or comprehension replaced by an opaque
    `Cases`, so that SymPy does not move conditions out of it.
    """
    if not node.is_binder:
        return tuple(node._args[node.has_template :])
    shown = node.__dict__.get("_shown")
    if shown is None:
        body, *limits = node._args
        while cases := {p: Cases(*(part for pair in p.args for part in pair.args)) for p in own_cases(body)}:
            body = body.xreplace(cases)  # those inside of others are outermost the next time
        shown = node.__dict__["_shown"] = (body, *limits)
    return tuple(shown)


def own_cases(body: Basic) -> Iterable[Any]:
    """Yield the outermost `Piecewise` nodes in ``body`` that are not inside of another node of this package."""
    walk = preorder_traversal(body)
    for node in walk:
        if isinstance(node, Piecewise):
            yield node
        if isinstance(node, (Piecewise, CallerDependent)):
            walk.skip()


def asks_whether_constant(caller: FrameType) -> bool:
    """Return whether SymPy code around the call frame `caller` differentiates only to find out if an expression depends
    on a symbol.
    """
    return outwards(caller, lambda frame: frame.f_code is CONSTANT or frame.f_globals is SOLVERS) is not None


def called_replace(walk: FrameType) -> tuple[Any, Any]:
    """Return ``(query, value)``, the arguments of the call of SymPy's `replace` that is running when the call frame
    ``walk`` runs. Return (None, None) if there is no such call.
    """
    frame = outwards(walk, lambda frame: frame.f_code is REPLACE)
    names = {} if frame is None else frame.f_locals
    return names.get("query"), names.get("value")


def means_one_argument(entry: Any, caller: FrameType) -> bool:
    """Return whether SymPy is about to differentiate a function such as ``g(x[p], x[q])`` with respect to one argument,
    ``entry``, although another argument reads the same tensor. Both are the same entry if ``p == q``.

    The call frame `caller` shows what SymPy is doing.

    Both may be the same entry, so that this would be another derivative; if the entry is not a variable for SymPy, it
    writes ``Subs(Derivative(g(xi, x[q]), xi), xi, x[p])``.
    """
    names = caller.f_locals if caller.f_code in (PARTIAL, SUBSTITUTED) else {}
    match names:
        case {"self": applied, "ix": position}:
            others = [arg for n, arg in enumerate(applied.args) if n != position]
        case {"newargs": (applied, *_)}:
            others = [arg for arg in applied.args if arg != entry]
        case {"self": derivative, "old": old}:
            others = [arg for arg in derivative.expr.args if arg != old]
        case _:
            return False
    return any(entry.tensor in arg.free_symbols for arg in others)


def free_symbols_for_caller(node: Any, free: set[Basic], caller: FrameType) -> set[Basic]:
    """Return the free symbols of ``node`` for the SymPy function that runs in the call frame ``caller``. These are
    ``free``; `Derivative` also gets the variables of the derivative if a tensor is involved, because it would otherwise
    return the scalar 0.

    `Derivative` makes the scalar 0 of an expression without the variable. So an expression that has a shape, or gets
    one from a variable, is shown to it with all variables. Raises `UnsupportedError` if SymPy would differentiate
    wrongly.
    """
    if caller.f_code is not DERIVATIVE or "variable_count" not in caller.f_locals:
        return free
    names: dict[str, Any] = caller.f_locals
    variables = [variable for variable, _ in names["variable_count"]]
    if names["expr"] is node:
        keeps = not node.is_scalar or any(not variable.is_scalar for variable in variables)
        return free.union(*(variable.free_symbols for variable in variables)) if keeps else free
    if "free" in names and not isinstance(names["expr"], CallerDependent):
        refuse_misread(node, names["expr"], names["free"], variables)
    return free


def refuse_misread(variable: Any, expr: Basic, free: set[Any], variables: list[Any]) -> None:
    """Raise `UnsupportedError` if SymPy's own differentiation of ``expr`` with respect to ``variable``, an entry or a
    tensor, would be wrong. ``free`` are the free symbols of ``expr``, and ``variables`` all variables of the
    derivative.
    """
    name = variable.tensor.name if variable.is_tensor_entry and variable.tensor.is_symbol else str(variable)
    for symbol in free:
        if isinstance(symbol, Indexed) and str(symbol.base.label) == name:
            raise UnsupportedError(
                f"{symbol} in {expr} is an entry of SymPy's own IndexedBase, which SymPy takes for a constant next to "
                f"the variable {variable}: td.diff and td.gradient lift the expression first"
            )
    absent = [other for other in variables if not other.free_symbols & free]
    if len(variables) > 1 and absent and not variable.is_scalar:
        raise UnsupportedError(
            f"{expr} does not depend on {absent[0]}, so SymPy makes the derivative with respect to {variables} the "
            "scalar 0, but it "
            f"has axes: differentiate with respect to {variable} with td.gradient, and the result with respect to "
            "the others"
        )


def position_in_formula(caller: FrameType) -> str:
    """Return the place of a node in the formula that SymPy's LaTeX or pretty printer writes: "last" or "factor" for the
    last or another factor of a product, "other" elsewhere. ``caller`` is the call frame of the function that asks for
    the node's precedence.

    Return "text" if another printer, such as that of ``str``, asks.
    """
    # SymPy recognises its own Sum by name; only the calling frame knows the position of the factor.
    frame = caller.f_back
    if frame is None or frame.f_code.co_name != "precedence_traditional" or frame.f_back is None:
        return "text"
    if frame.f_back.f_code.co_name != "_needs_mul_brackets":
        return "other"
    return "last" if frame.f_back.f_locals.get("last") else "factor"


def follows_as_factor(form: Any, caller: FrameType) -> bool:
    """Return whether another factor comes after ``form`` in the product of pretty forms that SymPy is building in the
    call frame ``caller``.
    """
    return caller.f_code.co_name == "__mul__" and caller.f_locals.get("others", ())[-1:] != (form,)


def function_of(frame: FrameType) -> tuple[str, str]:
    """Return the names of the module and of the function that the call frame ``frame`` runs."""
    return frame.f_globals.get("__name__", ""), frame.f_code.co_name


def frames_around(caller: FrameType, count: int) -> list[FrameType]:
    """Return the callers of ``caller``, innermost first: ``count`` frames, or fewer if there are no more."""
    found: list[FrameType] = []
    while len(found) < count and (frame := (found or [caller])[-1].f_back) is not None:
        found.append(frame)
    return found


def class_under_construction(frame: FrameType) -> tuple[Any, tuple[Any, ...]]:
    """Return the class and the arguments of the constructor that the call frame ``frame`` runs; (None, ()) for another
    function.
    """
    names = frame.f_locals if frame.f_code.co_name == "__new__" else {}
    return names.get("cls"), names.get("args", ())


def base_and_exponent(power: FrameType) -> tuple[Any, Any]:
    """Return ``(base, exponent)`` from the call frame ``power``, which runs SymPy's ``Pow.__new__``."""
    return power.f_locals.get("b"), power.f_locals.get("e")
