"""Each exported class meets SymPy's expectations of a class, alone and inside of SymPy's own nodes."""

import copy
import pickle
import random
from functools import cache

import citizens
import pytest
import sympy
from citizens import VALUES, c, i, j, k, m, n, p, q, s, x, y
from every import every
from sympy import Basic, Dict, Dummy, Eq, Idx, Lambda, Matrix, Piecewise, Symbol, Tuple, default_sort_key, srepr

import sympy_tensordiff as td
from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.reference import evaluate

CLASSES = [value for name in td.__all__ if isinstance(value := getattr(td, name), type) and issubclass(value, Basic)]
EXPORTED = sorted({value.__name__ for value in CLASSES})  # td.inv is td.TensorInverse
SAMPLES = citizens.samples()
CITIZENS = {f"{kind}, {what}": expr for kind, group in SAMPLES.items() for what, expr in group.items()}
SCALARS = {name: expr for name, expr in CITIZENS.items() if not getattr(expr, "shape", ())}
BINDERS = (td.IndexedSum, td.IndexedProduct, td.IndexedMax, td.IndexedMin, td.TensorComprehension)
NAMES = {**vars(sympy), **{name: getattr(td, name) for name in EXPORTED}}

every_citizen, every_scalar = every("expr", CITIZENS), every("expr", SCALARS)


def value(expr, values=VALUES, **changed):
    """The value by plain loops; a whole tensor as nested lists."""
    values = values | {Symbol(name, integer=True): number for name, number in changed.items()}
    result = evaluate(expr, values | {symbol: 1 for symbol in expr.free_symbols if isinstance(symbol, Idx)})
    return result.tolist() if hasattr(result, "tolist") else result


def agree(left, right):
    """Return whether two values agree to 12 digits."""
    if isinstance(left, list):
        return len(left) == len(right) and all(map(agree, left, right))
    return abs(left - right) <= 1e-12 * (1 + abs(right))


def inside(expr):
    """SymPy's own nodes around a scalar."""
    return {
        "product": 2 * expr * s + expr * x[i],
        "function": sympy.exp(expr / 100) * expr + 2,
        "fraction": expr**2 / (1 + expr**2) - c * expr,
        "cases": Piecewise((expr * x[p] + 1, i > 0), (0, True)),
    }


def test_every_exported_class_has_samples():
    assert len(EXPORTED) >= 4
    for name in EXPORTED:
        assert name in SAMPLES, f"tests/symbolic/citizens.py has no sample of td.{name}"
        for what, expr in SAMPLES[name].items():
            assert any(isinstance(node, getattr(td, name)) for node in sympy.preorder_traversal(expr)), what


@every_citizen
def test_all_state_is_in_args(expr):
    for node in sympy.preorder_traversal(expr):
        assert all(isinstance(arg, Basic) for arg in node.args)
        if node.args:
            twin = node.func(*node.args)
            assert twin == node and hash(twin) == hash(node)
            assert default_sort_key(twin) == default_sort_key(node) and twin.compare(node) == 0


@every_citizen
def test_traversals_and_identities(expr):
    assert expr.xreplace({}) == expr == expr.subs({}) == expr.replace(Dummy("absent"), 3)
    assert expr.subs({q: q}) == expr == expr.xreplace({Dummy("absent"): c})
    assert expr.doit().doit() == expr.doit()
    assert all(expr.has(node) for node in sympy.preorder_traversal(expr))
    assert not expr.has(Dummy("absent"), td.TensorSymbol("absent", 3), sympy.Integral)
    bound = expr.atoms(td.ScanVariable)
    assert expr.atoms(td.TensorSymbol) - bound == {t for t in expr.free_symbols if isinstance(t, td.TensorSymbol)}
    assert expr.atoms(Symbol) >= {v for v in expr.free_symbols if isinstance(v, Symbol)}
    assert expr.is_commutative is True and not expr.is_number
    assert expr.find(td.TensorSymbol) == expr.atoms(td.TensorSymbol) and expr.count(expr) == 1
    assert sympy.count_ops(expr) >= 0 and sympy.count_ops(expr, visual=True) is not None
    assert expr != Symbol("x") and expr != 1 and expr != "x" and expr is not None


@every_citizen
def test_copies(expr):
    twins = [pickle.loads(pickle.dumps(expr, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (*twins, copy.copy(expr), copy.deepcopy(expr), eval(srepr(expr), dict(NAMES))):
        assert twin == expr and hash(twin) == hash(expr)
        assert twin.free_symbols == expr.free_symbols and str(twin) == str(expr)


@pytest.mark.in_turns(4)
def test_pickles_reach_processes_with_another_hash_seed(elsewhere):
    """There they are equal to, and hash as, what is built anew; and back again."""
    here = {name: (e, td.canonical(e), str(e), str(td.canonical(e))) for name, e in CITIZENS.items()}
    assert elsewhere(citizens.received, CITIZENS) == here


@every_citizen
def test_nothing_is_captured(expr):
    """A free index becomes a bound one's name, and the value is that of the free index at its value."""
    bound = [index for index in (i, j, k) if index in expr.atoms(Symbol)]
    for old in (i, j, k, p):
        if old not in expr.free_symbols:
            assert expr.subs(old, q) == expr  # a bound index is not a symbol outside
            continue
        for new in bound:
            if new == old or new in expr.free_symbols:
                continue
            expected = value(expr, **{old.name: 1})
            for replaced in (expr.subs(old, new), expr.xreplace({old: new}), expr.replace(old, new)):
                assert new in replaced.free_symbols and old not in replaced.free_symbols
                assert agree(value(replaced, **{new.name: 1}), expected)


@every("expr", CITIZENS, turns=4)
def test_substitution(expr):
    both = expr.subs({c: s, s: c}, simultaneous=True)
    assert both.subs({c: s, s: c}, simultaneous=True) == expr
    if x in expr.free_symbols and x != expr:
        swapped = expr.subs({x: y, y: x}, simultaneous=True)
        assert swapped == expr.xreplace({x: y, y: x}) and swapped.subs({x: y, y: x}, simultaneous=True) == expr
        assert x not in expr.subs(x, y).free_symbols
    fixed = expr.subs({n: 3, m: 3})
    assert not {n, m} & fixed.free_symbols and fixed == expr.subs({n: 3, m: 3}, simultaneous=True)
    sizes = {n: 3, m: 3}
    small = {key.subs(sizes) if isinstance(key, td.TensorSymbol) else key: number for key, number in VALUES.items()}
    if expr.free_symbols <= {*VALUES, Idx("i", n)}:
        assert agree(value(fixed, small), value(expr))


@every("expr", CITIZENS, turns=4)
def test_names_of_bound_indices_are_no_part_of_it(expr):
    form = td.canonical(expr)
    assert not hasattr(expr, "canonical") or expr.canonical() == expr.as_dummy() == form
    assert form == td.canonical(form) and form.free_symbols == expr.free_symbols
    taken, pool = set(map(str, expr.atoms(Symbol))), ["u", "_0", "_1", "w_2", "a", "b"]
    random.Random(2).shuffle(pool)
    twin = expr
    for index in sorted((set(expr.atoms(Symbol)) - expr.free_symbols) & {i, j, k}, key=str):
        new = next(name for name in pool if name not in taken)
        taken.add(new)
        twin = twin.xreplace({index: Symbol(new, integer=True)}) if isinstance(twin, BINDERS) else twin
    for wrap in (lambda e: e, lambda e: Tuple(e, e)):
        assert wrap(twin).dummy_eq(wrap(expr)) and wrap(expr).dummy_eq(wrap(twin))
        assert td.canonical(wrap(twin)) == td.canonical(wrap(expr))
        assert hash(td.canonical(wrap(twin))) == hash(td.canonical(wrap(expr)))
    assert not expr.dummy_eq(td.TensorSymbol("other", 3))


REWRITERS = [
    *(sympy.expand, sympy.factor, sympy.factor_terms, sympy.together, sympy.cancel, sympy.nsimplify, sympy.powsimp),
    *(sympy.trigsimp, sympy.logcombine, sympy.signsimp, sympy.piecewise_fold, sympy.piecewise_exclusive),
    *(sympy.collect_const, sympy.radsimp, sympy.separatevars, sympy.ratsimp, sympy.refine, sympy.conjugate, sympy.re),
    *(sympy.expand_log, sympy.expand_power_exp, sympy.powdenest, sympy.gammasimp, sympy.hyperexpand, sympy.sqrtdenest),
    *(sympy.N, sympy.nfloat, lambda e: sympy.collect(e, s), lambda e: sympy.collect(e, c), lambda e: e.doit()),
    *(lambda e: e.rewrite(sympy.cos), lambda e: sympy.Mul(*e.as_coeff_Mul()), lambda e: sympy.Add(*e.as_coeff_Add())),
    *(lambda e: sympy.Mul(*e.as_independent(i, as_Add=False)), lambda e: sympy.Add(*e.as_independent(c, as_Add=True))),
    *(lambda e: e.match(sympy.Wild("w"))[sympy.Wild("w")], lambda e: sympy.Add(*e.as_ordered_terms())),
    *(lambda e: sympy.limit(e, Symbol("z"), 0), lambda e: sympy.integrate(e, (Symbol("z"), 0, 1))),
    *(lambda e: sympy.numer(e) / sympy.denom(e), lambda e: Lambda(c, e)(c), lambda e: sympy.horner(e, wrt=s)),
    *(lambda e: e.subs(c, q + c).subs(q, 0), lambda e: sympy.Poly(e).as_expr()),
]  # fmt: skip


@cache
def wrapped_with_value(name, what):
    wrapped = inside(SCALARS[name])[what]
    return wrapped, value(wrapped)


@every("turn, rewrite", list(enumerate(REWRITERS)), ids=lambda case: f"{case[0]} {case[1].__name__}", turns=8)
def test_rewriters_keep_class_and_value(turn, rewrite, thorough):
    """Every sample, with every fourth rewriter by turns."""
    for name, expr in list(SCALARS.items()) if thorough else list(SCALARS.items())[turn % 4 :: 4]:
        remaining = {type(node) for node in sympy.preorder_traversal(expr) if isinstance(node, td.IndexedSum)}
        for what in ("product",) if rewrite in REWRITERS[4:] else ("function", "fraction", "cases"):
            wrapped, expected = wrapped_with_value(name, what)
            try:
                result = rewrite(wrapped)
            except sympy.PolynomialError:  # SymPy's own refusal, e.g. of Piecewise or of exp(s) next to s
                continue
            assert result == wrapped or agree(value(result), expected), (name, what, result)
            assert remaining <= {type(node) for node in sympy.preorder_traversal(result)}, (name, what, result)


@pytest.mark.in_turns(8)
@every_scalar
def test_simplify_and_cse_keep_the_value(expr, thorough):
    simplified = ("product", "cases")
    if not thorough:  # by turns
        simplified = simplified[list(SCALARS.values()).index(expr) % 2 :][:1]
    for what, wrapped in inside(expr).items():
        expected = value(wrapped)
        if what in simplified:
            assert agree(value(sympy.simplify(wrapped)), expected), what
        replacements, (result,) = sympy.cse(wrapped)
        for name, part in reversed(replacements):
            assert {b for b in part.free_symbols if not b.name.startswith("x")} <= wrapped.free_symbols
            result = result.xreplace({name: part})
        assert result == wrapped or agree(value(result), expected)


@every_scalar
def test_containers_and_relations(expr):
    matrix = Matrix([[expr, 2 * expr]])
    assert matrix.T[1] == 2 * expr and (matrix * 2)[0] == 2 * expr and matrix.free_symbols >= expr.free_symbols
    assert matrix.subs(c, 2)[0] == expr.subs(c, 2)
    assert Eq(expr, 1).lhs == expr and (expr > c).free_symbols == expr.free_symbols | {c} and Eq(expr, expr) == True  # noqa: E712
    cases = Piecewise((expr, n > 3), (0, True))
    assert cases.subs(n, 2) == 0 and cases.free_symbols == expr.free_symbols | {n}
    assert Tuple(expr, x).free_symbols == expr.free_symbols | x.free_symbols
    assert Dict({expr: 1})[expr] == 1 and sympy.FiniteSet(expr, expr) == sympy.FiniteSet(expr)
    assert Lambda(c, expr)(c) == expr and Lambda(c, expr)(2) == expr.subs(c, 2)
    assert sympy.Max(expr, expr) == expr and sympy.Abs(expr) ** 2 == expr**2
    assert expr.is_real and expr.is_finite is not False and sympy.conjugate(expr) == expr


@pytest.mark.in_turns(8)
@every_citizen
def test_it_can_be_read(expr):
    shown = [expr]
    if not getattr(expr, "shape", ()):  # two of the four by turns
        turn = list(SCALARS.values()).index(expr) % 2
        shown += [*list(inside(expr).values())[turn::2], Matrix([expr]), Eq(expr, 1)]
    for e in shown:
        assert str(e) and sympy.pretty(e) and sympy.pretty(e, use_unicode=False) and sympy.srepr(e)
        text = sympy.latex(e)
        assert text.count("{") == text.count("}") and text.count(r"\left") == text.count(r"\right")
        shown_in_notebooks = e._repr_latex_()
        with_entries = text if isinstance(e, (Matrix, Eq)) else td.latex(e)  # short entries are written out
        assert text in shown_in_notebooks or with_entries in shown_in_notebooks
        assert shown_in_notebooks in (f"$\\displaystyle {t}$" for t in (text, with_entries)) or e.atoms(td.NamedTensor)
    assert sympy.dotprint(expr).startswith("digraph")


@every_citizen
def test_code_printers_and_lambdify_work_or_point_to_ours(expr):
    if isinstance(expr, td.Subs):  # SymPy's printers refuse its own, too
        return
    arguments = sorted(expr.free_symbols, key=str)
    for attempt in (
        *(lambda: sympy.ccode(expr), lambda: sympy.pycode(expr)),
        *(lambda: sympy.lambdify(arguments, expr, "numpy"), lambda: sympy.lambdify(arguments, expr, cse=True)),
    ):
        try:
            attempt()
        except TensorDiffError as error:
            assert "td.lambdify(arguments, expression)" in str(error)
        else:
            assert expr == s


@every_scalar
def test_evalf_leaves_indices_exact(expr):
    for result in (expr.evalf(), sympy.N(2 * expr), expr.evalf(subs={c: 0.5}), expr.evalf(5)):
        for node in sympy.preorder_traversal(result):
            if getattr(node, "is_tensor_entry", False):
                assert not any(index.atoms(sympy.Float) for index in node.indices)
            if isinstance(node, BINDERS):
                assert not any(limit.atoms(sympy.Float) for limit in node.args[1:])
    assert agree(value(expr.evalf(subs={c: 0.6})), value(expr))
