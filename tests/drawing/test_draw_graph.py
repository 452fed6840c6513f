"""Pictures of expressions: what is drawn, what it says, how it is written."""

import os
import random
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import sympy
from every import every
from fuzz import random_function
from read_text import Evaluation, trees

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.drawing import svg, writers
from sympy_tensordiff.drawing.labels import node_label
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError, UnsupportedError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.testing.values import random_values, to_double

ROOT = Path(__file__).parents[2]

i, j, k, n, m = td.indices("i j k n m")
A, X = td.TensorSymbol("A", (n, n)), td.TensorSymbol("X", (n, n))
v, w, y = td.TensorSymbol("v", n), td.TensorSymbol("w", n), td.TensorSymbol("y", n)
a = sympy.Symbol("a", real=True)

EXPRESSIONS = {
    "figure 3.2": ((X + 1) + X * (X + 1), X),
    "figure 4.5": (X * X, X),
    "figure 4.7": (td.sin(v) + td.cos(td.sin(v)), v),
    "figure 4.10": (td.einsum("ij,j->", A, v), A),
    "a layer": (td.sum(td.tanh(A @ td.sin(X @ v)) ** 2), X),
    "log det": (sympy.log(td.det(A)), A),
    "det": (td.det(A) * a, A),
    "cross entropy": (-td.sum(y * td.log(td.softmax(v))), v),
    "a power": (v**a, v),
    "a choice": (td.sum(td.relu(A @ v)), v),
    "logistic": (td.sum(td.softplus(A @ w)) - td.dot(y, A @ w), w),
    "a multiple": (sympy.Rational(2, 3) * A.T, A),
    "a diagonal": (td.sum(td.exp(td.DeltaTensor((n,)) * A)), A),
    "quotients": (td.sum(v / (td.exp(w) + 2)), w),
}  # fmt: skip


def nodes_of(source: str) -> list[str]:
    """The labels of the nodes of a source, of all clusters."""
    return re.findall(r'^ *[ed]\d+ \[label="((?:[^"\\]|\\.)*)"', source, re.MULTILINE)


def edges_of(source: str) -> list[tuple[str, str]]:
    return re.findall(r"^ *([ed]\d+) -> ([ed]\d+)", source, re.MULTILINE)


def graph_size(expr) -> tuple[int, int]:
    """Nodes and edges of the graph, found by a walk of its own."""
    seen, edges = set(), 0
    stack = [Differentiation(expr).root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            edges += len(node.args)
            stack += node.args
    return len(seen), edges


@every(
    "expr",
    [
        td.sin(v) + td.cos(td.sin(v)),
        td.einsum("ij,jk,kl->il", A, X, A @ X) + A @ X,
        td.TensorComprehension(td.IndexedSum(A[i, k] * w[k] * sympy.sin(w[k]), (k, 0, n - 1)), (i, n)),
        (X + 1) + X * (X + 1),
        A,
    ],
    ids=str,
)
def test_one_node_for_each_of_the_graph(expr) -> None:
    drawing = td.draw_graph(expr)
    assert (len(nodes_of(drawing.source)), len(edges_of(drawing.source))) == graph_size(expr)


def test_shared_nodes_are_drawn_once() -> None:
    drawing = td.draw_graph(td.exp(A @ v) * (A @ v) + td.sin(A @ v))
    assert nodes_of(drawing.source).count("*(ij,j->i)") == 1
    assert drawing.text.count("*(ij,j->i)") == 3
    assert len(re.findall(r"see #1: \*\(ij,j->i\)", drawing.text)) == 2
    assert drawing.text.count("A") == 1


@every("name", [*EXPRESSIONS])
def test_the_text_means_the_expression_and_its_derivative(name: str) -> None:
    expr, wrt = EXPRESSIONS[name]
    extent, rng = 3, np.random.default_rng(1)
    args = (A, X, v, w, y, a)
    values = {str(arg): rng.uniform(0.5, 1.5, (extent,) * len(getattr(arg, "shape", ()))) for arg in args}
    values["A"] += 2 * np.eye(extent)
    text = td.draw_graph(expr, wrt).text
    found, numbered = trees(text)
    parts = [("expression", expr), (f"derivative with respect to {wrt}", td.jacobian(expr, wrt))]
    for title, meant in parts:
        wanted = td.lambdify((n, *args), meant, backend="numpy")(extent, *values.values())
        (part,) = found[title]
        np.testing.assert_allclose(Evaluation(numbered, values, {"n": extent}, extent).of(part), wanted, rtol=1e-10)
    found, numbered = trees(td.draw_graph(expr, wrt, simplify=True).text)
    (part,) = found[f"derivative with respect to {wrt}"]
    np.testing.assert_allclose(Evaluation(numbered, values, {"n": extent}, extent).of(part), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_text_means_random_index_notation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "MAX_LINE_LENGTH", 10**6)
    generated = random_function(seed, "sizes", kinks=True, depth=2)
    expr, wrt = generated.function, generated.variables[0]
    given = random_values((expr, wrt), generated.sizes, seed)
    values = {str(symbol): to_double(value) for symbol, value in given.items()}
    found, numbered = trees(td.draw_graph(expr, wrt).text)
    sizes = {str(symbol): value for symbol, value in generated.sizes.items()}
    evaluation = Evaluation(numbered, values, sizes)
    for title, wanted in (("expression", reference.evaluate(expr, given)), (f"derivative with respect to {wrt}", None)):
        if wanted is None:
            wanted = reference.differentiate(expr, wrt, given)
        np.testing.assert_allclose(evaluation.of(found[title][0]), to_double(wanted), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- what nodes say


def test_index_notation() -> None:
    x, q = td.TensorSymbol("x", 11), td.TensorSymbol("q", 3)
    convolution = td.TensorComprehension(td.IndexedSum(x[2 * i + k] * q[k], (k, 0, 2)), (i, 4))
    assert td.draw_graph(convolution, x).text.splitlines() == [
        "expression:",
        "[i < 4]",
        "└─ Σ k = 0 … 2",
        "   └─ *",
        "      ├─ q[k]",
        "      │  └─ q",
        "      └─ x[2*i + k]",
        "         └─ x",
        "derivative with respect to x:",
        "[i < 4, p < 11]   (pullback of x)",
        "└─ if p ≤ 2*i + 2 and 2*i ≤ p",
        "   └─ q[p - 2*i]",
        "      └─ q",
    ]


def test_conditions_bounds_and_floors() -> None:
    body = sympy.Piecewise((v[i // 2], sympy.Eq(sympy.Mod(i, 3), 1)), (v[i], True))
    text = td.draw_graph(td.TensorComprehension(body, (i, n))).text
    assert re.findall(r"if .*|v\[.*", text) == [
        "if i ≡ 1 (mod 3)", "v[floor(i/2)]", "if i ≡ 2 (mod 3)", "v[i]", "if i ≡ 0 (mod 3)", "v[i]",
    ]  # fmt: skip
    text = td.draw_graph(td.IndexedSum(A[i, j], (j, i, sympy.Min(n - 1, 2 * i)), (i, 0, n - 1))).text
    assert text.startswith("Σ i = 0 … n - 1, j = i … min(2*i, n - 1)\n")


def test_other_reductions() -> None:
    text = td.draw_graph(td.IndexedProduct(td.IndexedMax(A[i, j], (j, 0, i)), (i, 0, n - 1))).text
    assert re.findall("Π.*|max.*", text) == ["Π i = 0 … n - 1", "max j = 0 … i"]
    assert td.draw_graph(td.IndexedMin(v[i], (i, 1, 3))).text.startswith("min i = 1 … 3\n")


def test_indices_are_written_as_a_person_writes_them() -> None:
    i, j, n, m = td.indices("i j n m")
    v, w, chosen = td.TensorSymbol("v", n), td.TensorSymbol("w", n * m), td.TensorSymbol("chosen", m, dtype=int)
    body = v[sympy.Max(0, sympy.Min(i - 1, n - 1))] * v[sympy.Abs(i - 2)] * w[m * i + j] * v[chosen[j]]
    text = str(td.draw_graph(td.TensorComprehension(body, (i, n), (j, m))))
    for shown in ("v[max(0, min(i - 1, n - 1))]", "v[|i - 2|]", "v[chosen[j]]"):
        assert shown in text, text
    assert "w[j + i*m]" in text or "w[j + m*i]" in text


def test_bounds_that_are_none_of_one_variable() -> None:
    graph = Graph()
    s, t = (graph.fresh(name) for name in "st")
    forms = Affine.variable(s), Affine.variable(t)
    rows = [2 * forms[0] - forms[1], forms[1], 5 - forms[1], 9 - forms[0], 7 - 2 * forms[1]]
    node = graph.sum((s, t), [Constraint("ge", row) for row in rows], graph.index(forms[0]))
    own = graph.bound(node)
    text = node_label(node, own, dict(zip(own, "st", strict=True)))
    assert text == "Σ s, t = 0 … min(5, 2*s) where 2*t ≤ 7 and s ≤ 9"


def test_a_bound_index_has_no_name_of_a_tensor() -> None:
    named = td.TensorSymbol("k", n)
    expr = td.IndexedSum(v[k], (k, 0, n - 1)) * td.sum(named)
    assert {"Σ k_1 = 0 … n - 1", "v[k_1]", "k"} <= set(nodes_of(td.draw_graph(expr).source))


def test_functions_and_matrices() -> None:
    g = sympy.Function("g")
    drawing = td.draw_graph(td.elementwise(g, v, w), v)
    assert "∂g (1, 0)" in drawing.text
    assert "f''" in td.draw_graph(td.diff(td.elementwise(sympy.Function("f"), v), v), v).text
    assert nodes_of(td.draw_graph(td.adj(A)).source) == ["(ji->ij)", "adjᵀ", "A"]
    assert "derivative 2 of det" in td.draw_graph(td.adj(A), A).text
    assert nodes_of(td.draw_graph(td.logsumexp(A, axis=1)).source) == ["logsumexp over axis 1", "A"]
    assert nodes_of(td.draw_graph(td.DeltaTensor((n, 2))).source) == ["δ [n, 2]"]
    assert nodes_of(td.draw_graph((A @ v)[i]).source) == ["entry [i]", "*(ij,j->i)", "A", "v"]


# ---------------------------------------------------------------- derivatives


def test_pullbacks_under_a_view_are_named() -> None:
    """The sweep moves the cotangent of the sine, a diagonal, into the product: its entries are there alone."""
    assert "+   (pullback of #1 as (i->ii))" in td.draw_graph(td.sin(v) + td.cos(td.sin(v)), v).text


def test_nodes_and_pullbacks_have_one_colour() -> None:
    source = td.draw_graph(td.sum(td.exp(td.sin(A @ v))), v).source
    colours: dict[str, list[str]] = {}
    for node, text, colour in re.findall(r'([ed])\d+ \[label="([^"]*)".*fillcolor="(#\w+)"', source):
        if colour != "#eeeeee":
            colours.setdefault(colour, []).append(f"{node} {text}")
    assert sorted(colours.values()) == [
        ["e #1   sin", "d exp\\npullback of #1"],
        ["e #2   *(ij,j->i)", "d *(i,i->i)\\npullback of #2"],
        ["e v", "d *(ij,i->j)\\npullback of v"],
    ]


def test_several_variables_share_one_graph() -> None:
    drawing = td.draw_graph(td.sum((A @ v - y) ** 2), (A, v))
    found, _ = trees(drawing.text)
    assert [part.pullback_of for part in found["derivative with respect to A, v"]] == ["A", "v"]
    assert nodes_of(drawing.source).count("+") == 2  # one in each graph
    assert td.draw_graph(td.sum((A @ v - y) ** 2), [A, v]).source == drawing.source


def test_a_variable_that_does_not_occur() -> None:
    found, _ = trees(td.draw_graph(td.sum(v), (w, v)).text)
    assert [(part.text, part.pullback_of) for part in found["derivative with respect to w, v"]] == [
        ("0 [n]", "w"),
        ("1 [n]", "v"),
    ]


def test_simplified() -> None:
    raw, simplified = (td.draw_graph(td.sum(td.softmax(v) * y), v, simplify=flag) for flag in (False, True))
    assert len(nodes_of(simplified.source)) <= len(nodes_of(raw.source))
    convolution = td.TensorComprehension(td.IndexedSum(v[i + k], (k, 0, 2)), (i, n - 2))
    text = td.draw_graph(td.IndexedSum(convolution[i] ** 2, (i, 0, n - 3)), v, simplify=True).text
    assert "n ≥ 1" not in text and "(pullback of v)" in text


def test_a_parsed_text() -> None:
    """The result of `td.parse` can be drawn, and any object with an expression and arguments."""
    given = td.parse("declare A 2 v 1 expression sin(A *(ij,j->i) v) derivative wrt v derivative wrt A")
    assert td.draw_graph(given).text == td.draw_graph(given.expression, given.argument).text
    assert "derivative with respect to v:" in td.draw_graph(given).text
    parsed = SimpleNamespace(expression=td.sum(A @ v), arguments=(v, A))
    assert td.draw_graph(parsed).source == td.draw_graph(td.sum(A @ v), v).source
    assert td.draw_graph(parsed, A).source == td.draw_graph(td.sum(A @ v), A).source
    assert td.draw_graph(SimpleNamespace(expression=v, arguments=())).source == td.draw_graph(v).source


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="the expression must be a SymPy expression"):
        td.draw_graph("x")
    with pytest.raises(ArgumentTypeError, match="cannot differentiate with respect to 3"):
        td.draw_graph(v, 3)


# ---------------------------------------------------------------- text and source


@pytest.mark.in_turns(4)
def test_deep_chains_have_short_lines() -> None:
    expr = v
    for _ in range(10_000):
        expr = td.sin(expr)
    drawing = td.draw_graph(expr)
    assert len(nodes_of(drawing.source)) == 10_001
    lines = drawing.text.splitlines()
    assert sum(line.endswith("sin") and "see" not in line for line in lines) == 10_000
    assert max(map(len, lines)) < 120
    with pytest.raises(UnsupportedError, match="a picture of 10001 nodes is larger than 2000"):
        drawing.svg()
    assert drawing._repr_svg_() is None


def test_deep_trees_can_be_read_back() -> None:
    """A branch that continues at the left margin has the number with which it ends above."""
    expr = v
    for _ in range(60):
        expr = td.exp(-expr)
    found, numbered = trees(td.draw_graph(expr).text)
    value = np.array([0.2, 0.5, 0.7])
    wanted = value
    for _ in range(60):
        wanted = np.exp(-wanted)
    np.testing.assert_allclose(Evaluation(numbered, {"v": value}).of(found[""][0]), wanted)
    assert numbered


def test_shared_graphs_have_short_texts() -> None:
    expr = v
    for _ in range(200):
        expr = td.sin(expr) * expr
    drawing = td.draw_graph(expr)
    assert len(nodes_of(drawing.source)) == 401
    assert len(drawing.text.splitlines()) < 1000


EVIL = 'q"];\\N\n&lt;<b> -> x'


def texts() -> str:
    """Everything that is drawn, at two levels of detail."""
    f = td.sum(td.relu(A @ td.tanh(A @ v)) * w) + td.IndexedSum(A[i, k] * v[k] * w[i], (k, 0, i), (i, 0, n - 1))
    drawings = td.draw_graph(f, (A, v, w)), td.draw_graph(f, v, simplify=True)
    return "".join(drawing.source + drawing.text for drawing in drawings)


def test_the_same_text_in_every_process(elsewhere) -> None:
    here = texts()
    assert elsewhere(texts) == here
    assert "pullback of A" in here


# ---------------------------------------------------------------- files and programs


def test_save_without_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    drawing = td.draw_graph(td.sin(v))
    with pytest.raises(BackendError, match="png pictures need the program dot: install graphviz"):
        drawing.save(tmp_path / "x.png")
    drawing.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text("utf-8") == drawing.svg() == drawing._repr_svg_()
    assert str(drawing) == repr(drawing) == drawing.text == "sin\n└─ v"
    drawing.save(tmp_path / "x.DOT")
    drawing.save(str(tmp_path / "x.gv"))
    drawing.save(tmp_path / "x.txt")
    assert (tmp_path / "x.DOT").read_text("utf-8") == (tmp_path / "x.gv").read_text("utf-8") == drawing.source
    assert (tmp_path / "x.txt").read_text("utf-8") == "sin\n└─ v\n"
    for name in ("x.pdf", "x", "svg"):
        with pytest.raises(ArgumentError, match=rf"cannot save a picture as '{name}': use .svg, .png"):
            drawing.save(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.DOT", "x.gv", "x.svg", "x.txt"]


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
def test_a_program_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho something is wrong >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    drawing = td.draw_graph(td.sin(v))
    with pytest.raises(BackendError, match=r"has drawn nothing \(exit code 3\): something is wrong"):
        drawing.save(tmp_path / "x.png")
    program.write_text("#!/bin/sh\nwhile :; do :; done\n")
    monkeypatch.setattr(writers, "DOT_TIMEOUT", 0.2)
    with pytest.raises(UnsupportedError, match=r"the layout of 2 nodes takes dot longer than 0.2 s"):
        drawing.save(tmp_path / "x.png")


def svg_texts(svg: str) -> list[str]:
    return [part.text for part in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("expr", [sympy.sin(sympy.Symbol(EVIL, real=True)), td.sum(td.relu(A @ v) * w)], ids=["0", "1"])
def test_the_picture_shows_what_the_source_says(expr) -> None:
    drawing = td.draw_graph(expr, next(iter(expr.free_symbols - {n})))
    root = ElementTree.fromstring(drawing.svg())
    kinds = [part.get("class") for part in root.iter("{http://www.w3.org/2000/svg}g")]
    assert kinds.count("node") == len(nodes_of(drawing.source))
    assert kinds.count("edge") == len(edges_of(drawing.source))
    shown = " ".join(svg_texts(drawing.svg()))
    for line in drawing.text.splitlines():
        words = re.sub(r"see #\d+: |#\d+ |   \(pullback.*|^[│├└─ ]*|:$", "", line)
        assert " ".join(words.split()) in " ".join(shown.replace("\xa0", " ").split())


def test_children_of_a_tree_are_in_order() -> None:
    drawing = td.draw_graph(td.einsum("ij,jk,k->i", A, td.sin(X), td.exp(w)) + (y**2) ** v)
    children = [drawn.children for drawn in drawing._clusters[0].nodes]
    laid = svg.Layout(children, [30.0] * len(children))
    assert max(map(len, children)) == 3
    for node, those in enumerate(children):
        places = [laid.x[child] for child in those]
        assert places == sorted(places)
        assert all(laid.layer[child] == laid.layer[node] + 1 for child in those)


def test_random_layouts() -> None:
    """Edges go down, through one bend in each layer between; boxes of a layer have room; crossings do not increase."""
    generator = random.Random(5)
    for _ in range(60):
        size = generator.randrange(1, 25)
        children = [
            generator.sample(range(node + 1, size), min(generator.randrange(4), size - node - 1))
            for node in range(size)
        ]
        laid = svg.Layout(children, [generator.uniform(5, 90) for _ in range(size)])
        for node, those in enumerate(children):
            for child, bends in zip(those, laid.bends[node], strict=True):
                path = [node, *bends, child]
                assert [laid.layer[point] for point in path] == list(range(laid.layer[node], laid.layer[child] + 1))
        for order in laid._order:
            for left, right in pairwise(order):
                room = (laid.widths[left] + laid.widths[right]) / 2 + svg.NODE_GAP
                assert laid.x[right] - laid.x[left] >= room - 1e-6
        assert laid._count_crossings(laid._order) <= laid._count_crossings(laid._depth_first_order())


def test_very_many_long_edges_are_refused() -> None:
    expr = v
    for _ in range(300):
        expr = td.sin(expr) * v + v
    with pytest.raises(UnsupportedError, match="the long edges of this picture have more than 20,000 bends"):
        td.draw_graph(expr).svg()


def test_edges_are_numbered_where_left_and_right_may_change() -> None:
    shared = td.draw_graph(td.sin(A) @ v + td.sin(A) @ w).source
    assert re.findall(r'-> e\d+ \[label=" (\d)"\]', shared) == ["1", "2", "1", "2"]
    assert 'label=" ' not in td.draw_graph(A @ v).source
    assert re.findall(r'label=" (\w+)"', td.draw_graph(td.relu(A @ v), v).source).count("then") == 1


def test_the_pictures_of_the_documentation_are_those_of_today() -> None:
    b, X = td.TensorSymbol("b", n), td.TensorSymbol("X", (n, m))
    w = td.TensorSymbol("w", m)
    loss = td.sum(td.softplus(X @ w + b)) - td.dot(y, X @ w + b)
    drawings = {
        "pullbacks": td.draw_graph(td.sum(td.sin(v) + td.cos(td.sin(v))), v),
        "logistic": td.draw_graph(loss, (w, b)),
    }
    for name, drawing in drawings.items():
        shown = svg_texts((ROOT / "docs" / "_static" / f"{name}.svg").read_text("utf-8"))
        for line in "\\n".join(nodes_of(drawing.source)).split("\\n"):
            assert " ".join(line.split()) in [" ".join(text.split()) for text in shown]
