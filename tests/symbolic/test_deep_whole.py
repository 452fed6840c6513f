"""Operations on whole tensors thousands deep, and heavily shared: every answer by one visit to each node."""

import copy
import inspect
import pickle
import sys

import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

n = td.indices("n")
A, B, C = (td.TensorSymbol(name, (n, n)) for name in "ABC")
c = sympy.Symbol("c", real=True)


def chain(step, depth, tensor=A):
    for _ in range(depth):
        tensor = step(tensor)
    return tensor


STEPS = {
    "TensorFunction": td.sin,
    "TensorAdd": lambda tensor: tensor + B,
    "EinsumProduct": lambda tensor: tensor @ B,
    "TensorMul": lambda tensor: c * tensor,
}


@pytest.fixture
def few_frames():
    """Allow as few frames as a walk without recursion needs: each level of recursion takes at least one frame."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + FRAMES)
    yield
    sys.setrecursionlimit(before)


FRAMES = 200

# One walk serves all kinds: one of them goes to the depth that is promised, the others far beyond the frames there are.
DEEPEST = "EinsumProduct"


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("kind", STEPS)
def test_thousands_of_levels(kind, few_frames, thorough):
    step, depth = STEPS[kind], 2 * FRAMES
    if kind == DEEPEST:
        depth = 10_000 if thorough else 2_000
    expr = chain(step, depth)
    assert type(expr).__name__ == kind and expr.shape == (n, n)
    again = chain(step, depth)
    assert again is expr and again == expr and hash(again) == hash(expr)
    assert pickle.loads(pickle.dumps(expr)) is expr and copy.deepcopy(expr) is expr
    assert A in expr.free_symbols and n in expr.free_symbols and C not in expr.free_symbols
    moved = expr.subs(A, C)
    assert moved is chain(step, depth, C) and moved is expr.xreplace({A: C})
    assert moved.has(C) and not moved.has(A) and expr + moved == moved + expr
    assert (2 * td.sum(expr) + 1).free_symbols == expr.free_symbols
    assert len(str(expr)) < 200 and expr.is_zero is None


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(
    "step",
    [
        *(*STEPS.values(), lambda a: a**2, td.inv, lambda a: td.exp(-a), lambda a: a.T, lambda a: a * td.det(a)),
        lambda a: td.elementwise(lambda t: t * c + 1, a),
    ],
)
def test_hundreds_of_levels(step, few_frames):
    expr = chain(step, 2 * FRAMES)
    swapped = expr.subs({A: C, C: A, c: 2 * c}, simultaneous=True)
    assert swapped.subs({A: C, C: A, c: c / 2}, simultaneous=True) is expr
    assert expr.subs(n, 5).shape == (5, 5) and td.canonical(expr).free_symbols == expr.free_symbols
    assert expr.simplify() is expr and expr[0, 1].free_symbols == expr.free_symbols
    for walk in (lambda e: e.doit(), sympy.latex, sympy.srepr, sympy.count_ops):
        with pytest.raises(UnsupportedError, match=r"of depth [\d,]+ with .* nodes as a tree: that is too much"):
            walk(expr)


def test_forty_shared_levels():
    """As a tree it has more nodes than could ever be visited."""
    expr = chain(lambda y: td.sin(y) * td.cos(y) + y, 40)
    assert expr.free_symbols == {A, n} and pickle.loads(pickle.dumps(expr)) is expr
    assert expr.subs(A, B).subs(B, A) is expr and expr.xreplace({A: C}).free_symbols == {C, n}
    assert expr.subs(n, 4).shape == (4, 4) and expr.has(A) and not expr.has(B)
    assert expr.atoms(td.TensorSymbol) == {A} and td.canonical(expr) == expr and expr == expr + 0


def test_each_node_is_asked_once(monkeypatch):
    asked = []
    substituted = td.TensorAdd._substituted
    monkeypatch.setattr(td.TensorAdd, "_substituted", lambda *args: asked.append(0) or substituted(*args))
    chain(STEPS["TensorAdd"], 500).subs({A: C, C: A}, simultaneous=True)
    assert 500 <= len(asked) <= 2000
