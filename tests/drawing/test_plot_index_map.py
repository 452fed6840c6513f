"""Pictures of index maps: what is drawn is read back from the axes and compared with plain loops."""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    IndexExpressionError,
    ShapeError,
    UnsupportedError,
)

matplotlib = pytest.importorskip("matplotlib", reason="the pictures are drawn with matplotlib (extra `plot`)")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.text import Annotation  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"

i, j, k, l, n, M = td.indices("i j k l n M")
NAMES = (i, j, k)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def dots(ax: Any, gid: str) -> list[tuple[float, float]]:
    """The places of the points of one kind."""
    found = [collection for collection in ax.collections if collection.get_gid() == gid]
    return sorted((float(x), float(y)) for collection in found for x, y in collection.get_offsets())


def points(ax: Any, gid: str) -> list[tuple[int, ...]]:
    """The same as indices: by the names of the layers above them where there are some."""
    names = [text for text in ax.texts if not isinstance(text, Annotation)]
    layers = [(text.get_position()[0], int(text.get_text().split(" = ")[1])) for text in names]
    found = []
    for x, y in dots(ax, gid):
        middle, layer = min(layers, key=lambda item: abs(item[0] - x)) if layers else (0, 0)
        first = layers[0][0] if layers else 0
        found.append((round(x - middle + first), round(y), layer)[: 3 if layers else 2 if ax.get_ylabel() else 1])
    return sorted(found)


def arrows(ax: Any) -> list[tuple[float, float]]:
    found = [text for text in ax.texts if text.get_gid() == "kernel"]
    return [(text.xy[0] - text.xyann[0], text.xy[1] - text.xyann[1]) for text in found]


Limits = Sequence[tuple[Any, Any, Any]]


def images(forms: Sequence[Any], limits: Limits) -> dict[tuple[int, ...], tuple[int, ...]]:
    """All indices in their ranges, in order, with what they read: by enumeration of a box that holds them."""
    names = [limit[0] for limit in limits]
    evaluate = sympy.lambdify(names, [list(forms), [bounds[1:] for bounds in limits]], "math")
    found = {}
    for point in product(range(-8, 13), repeat=len(names)):
        image, ranges = evaluate(*point)
        if all(low <= v <= high for v, (low, high) in zip(point, ranges, strict=True)):
            found[point] = tuple(image)
    return found


EXAMPLES: dict[str, tuple[tuple[Any, ...], list[tuple[Any, Any, Any]], tuple[int, ...], int]] = {
    "figure 3": ((i - 2 * j,), [(i, 1, 6), (j, 1, 4)], (-1,), 3),
    "a stride": ((2 * i + 3 * k,), [(i, 0, 5), (k, 0, 4)], (12,), 2),
    "a congruence fails": ((2 * i + 4 * j,), [(i, 0, 5), (j, 0, 3)], (7,), 0),
    "a congruence holds": ((2 * i + 4 * j + 1,), [(i, 0, 5), (j, 0, 3)], (9,), 3),
    "a convolution": ((i + k,), [(i, 0, 6), (k, 0, 2)], (5,), 3),
    "a diagonal": ((i, i), [(i, 0, 5)], (3, 3), 1),
    "off the diagonal": ((i, i), [(i, 0, 5)], (2, 3), 0),
    "a dependent range": ((i + j,), [(i, 0, 7), (j, 0, sympy.Min(i, 4))], (6,), 4),
    "two dependent ranges": ((i - j,), [(j, -i, 2 * i - 1), (i, 1, 4)], (2,), 4),
    "outside of the ranges": ((i + 2,), [(i, 0, 6)], (1,), 0),
    "a unique solution": ((i + j, i - j), [(i, 0, 4), (j, 0, 4)], (4, 2), 1),
    "no index at all": ((sympy.Integer(4),), [(i, 0, 4)], (4,), 5),
    "a rounded range": ((i + j,), [(i, 0, 6), (j, sympy.floor(i / 2), i)], (5,), 1),
}


@every("name", list(EXAMPLES))
def test_drawn_points_are_those_of_the_loops(name: str) -> None:
    forms, limits, at, count = EXAMPLES[name]
    ax = td.plot_index_map(forms, limits, at)
    everything = images(forms, limits)
    expected = [point for point, image in everything.items() if image == at]
    assert len(expected) == count
    assert points(ax, "solutions") == expected
    assert points(ax, "lattice") == list(everything)
    assert ("solutions in the ranges" in legend(ax)) == bool(count)


def legend(ax: Any) -> str:
    return "\n".join(text.get_text() for text in ax.get_legend().get_texts())


def random_example(random: Random) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:
    """One or two forms in one to three indices, of which ranges may depend on the first."""
    names = NAMES[: random.choice((1, 2, 2, 3))]
    forms = []
    for _ in range(random.choice((1, 1, 2))):
        forms.append(sum((random.randint(-3, 3) * v for v in names), sympy.Integer(random.randint(-2, 2))))
    limits: list[tuple[Any, Any, Any]] = [(names[0], random.randint(-2, 1), random.randint(2, 4))]
    for v in names[1:]:
        low = random.choice((0, -1, names[0] - 2))
        limits.append((v, low, random.choice((low + 2, 3, sympy.Min(3, names[0] + 2)))))
    return forms, limits


@every("seed", range(12))
def test_random_maps(seed: int) -> None:
    random = Random(seed)
    forms, limits = random_example(random)
    everything = images(forms, limits)
    at = random.choice(list(everything.values()))
    if random.random() < 0.4:
        at = tuple(value + random.randint(-1, 1) for value in at)
    ax = td.plot_index_map(forms, limits, at)
    assert points(ax, "solutions") == [point for point, image in everything.items() if image == at]
    assert points(ax, "lattice") == list(everything)
    for point in points(ax, "outside"):
        assert point not in everything
        values = dict(zip(NAMES, point, strict=False))
        assert [form.subs(values) for form in forms] == list(at)


@every("a, b", [(1, -2), (2, 4), (3, 6), (-2, 3), (0, 3), (4, 6)])
def test_one_form_has_no_solution_where_its_gcd_does_not_divide(a: int, b: int) -> None:
    for at in (5, 6, 7):
        ax = td.plot_index_map(a * i + b * j + 1, [(i, 5), (j, 5)], at)
        solvable = (at - 1) % gcd(a, b) == 0
        assert ("no solution" in ax.get_title()) != solvable
        assert bool(dots(ax, "outside") + dots(ax, "solutions")) == solvable
        for line in (line for line in ax.lines if line.get_gid() == "line"):
            assert [round(a * x + b * y + 1, 9) for x, y in line.get_xydata()] == [at, at]


def test_lines_in_layers() -> None:
    """The rational solutions of each plane, where it has some in the frame: i - 2*j = 7 at k = 3 has none."""
    limits = [(i, 0, 4), (j, 0, 4), (k, 0, 3)]
    for forms, at, layers in [((i - 2 * j - 2 * k,), (1,), 3), ((2 * i + 2 * j + k, k), (5, 2), 1)]:
        ax = td.plot_index_map(forms, limits, at)
        names = [text for text in ax.texts if not isinstance(text, Annotation)]
        found = [line.get_xydata() for line in ax.lines if line.get_gid() == "line"]
        assert len(found) == layers
        for ends in found:
            middle = sum(x for x, _ in ends) / 2
            name = min(names, key=lambda text: abs(text.get_position()[0] - middle))
            left = name.get_position()[0] - names[0].get_position()[0]
            for x, y in ends:
                values = {i: x - left, j: y, k: int(name.get_text().split(" = ")[1])}
                assert [float(form.subs(values)) for form in forms] == pytest.approx(at)


def test_a_failing_congruence_is_named_and_its_line_is_drawn() -> None:
    ax = td.plot_index_map(2 * i + 4 * j, [(i, 6), (j, 4)], at=7)
    assert ax.get_title() == "2*i + 4*j = 7\nno solution: 7 mod 2 = 1, not 0"
    assert [line.get_gid() for line in ax.lines if len(line.get_xdata())] == ["line"]
    ax = td.plot_index_map((i, i), (i, 6), at=(2, 3))
    assert ax.get_title().endswith("no solution: 2 - 3 = -1, not 0")
    ax = td.plot_index_map((2 * i, 2 * j, i + j), [(i, 6), (j, 6)], at=(2, 3, 2))
    assert "no solution" in ax.get_title()
    ax = td.plot_index_map((i + j, i - j), [(i, 6), (j, 6)], at=(3, 2))
    assert ax.get_title().endswith("no solution: (3 + 2) mod 2 = 1, not 0")


@every("form", [i - 2 * j, 2 * i + 3 * j, i + j, 4 * i + 6 * j, j])
def test_arrows_generate_all_differences_of_readers(form: Any) -> None:
    limits = [(i, 0, 7), (j, 0, 7)]
    ax = td.plot_index_map(form, limits, at=form.subs({i: 3, j: 3}))
    (x, y) = arrows(ax)[0]
    assert len(arrows(ax)) == 1 and form.subs({i: int(x), j: int(y)}) == 0 and gcd(int(x), int(y)) == 1
    readers = points(ax, "solutions") + points(ax, "outside")
    steps = {(a - c, b - d) for a, b in readers for c, d in readers}
    assert all((u * y - v * x) == 0 for u, v in steps)


def test_the_kernel_is_drawn_without_an_entry_too() -> None:
    ax = td.plot_index_map((i + 2 * k, j), [(i, 3), (j, 3), (k, 2)])
    assert ax.get_title() == "i + 2*k, j"
    assert "kernel basis (2, 0, -1)" in legend(ax)
    assert not dots(ax, "solutions")
    assert [text.get_text() for text in ax.texts if text.get_text().startswith("(")].count("(2, 1)") == 2


def test_a_long_kernel_vector_is_named_only() -> None:
    ax = td.plot_index_map(M * i + j, [(i, 4), (j, M)], at=14, sizes={M: 5})
    assert "kernel basis (1, -5): longer than the picture" in legend(ax)
    assert points(ax, "solutions") == [(2, 4)]
    assert arrows(ax) == []


def test_figure_3() -> None:
    ax = td.plot_index_map(i - 2 * j, [(i, 1, 6), (j, 1, 4)], at=-1)
    assert ax.get_title() == "i - 2*j = -1\n(i, j) = (2*z - 1, z)\nz = 1 … 3"
    assert dots(ax, "particular") == [(-1, 0)] and arrows(ax) == [(2, 1)]
    assert [text.get_text() for text in ax.texts if text.get_text().startswith("z")] == ["z = 1", "z = 2", "z = 3"]


def test_figure_4() -> None:
    """The 15 points, and the ranges of the paper: its z1 and z2 are in the other order."""
    limits = [(i, 1, 5), (j, 0, 4), (k, -5, 1)]
    ax = td.plot_index_map(i - 2 * j - 2 * k, limits, at=3, space="kernel")
    expected = [(z2, z1) for z2 in range(-1, 6) for z1 in range(max(-1, -z2), min(1, 4 - z2) + 1)]
    assert points(ax, "solutions") == expected and len(expected) == 15
    assert ax.get_title().split("\n")[1:] == [
        "(i, j, k) = (2*z2 + 3, z1 + z2, -z1)",
        "z1 = -1 … 5, z2 = max(-1, -z1) … min(1, 4 - z1)",
    ]
    corners = {tuple(corner) for patch in ax.patches for corner in patch.get_xy().tolist()}
    assert corners == {(-1, 1), (3, 1), (5, -1), (1, -1)}


@pytest.mark.parametrize("limits", [[(i, 0, 5), (j, 0, 5)], [(i, 0, 5), (j, 0, i)], [(i, 0, 4), (j, 0, 4), (k, 0, 2)]])
def test_ranges_of_the_kernel(limits: list[tuple[Any, Any, Any]]) -> None:
    """The z that are drawn give the readers, each once."""
    form = 2 * i + sum((limit[0] for limit in limits[1:]), sympy.Integer(0))
    ax = td.plot_index_map(form, limits, at=6, space="kernel")
    names = sympy.symbols("z1 z2", integer=True) if len(limits) == 3 else (sympy.Symbol("z", integer=True),)
    right = ax.get_title().split("\n")[1].split(" = ")[1]
    # The text is one of ours, of numbers and of the names above.
    moved = sympy.lambdify(names, sympy.parse_expr(right, {str(name): name for name in names}), "math")
    expected = [point for point, image in images([form], limits).items() if image == (6,)]
    assert sorted(moved(*z) for z in points(ax, "solutions")) == expected


def test_rounded_ranges_are_written() -> None:
    ax = td.plot_index_map(2 * i + 4 * j + 6 * k, [(i, 4), (j, 3), (k, 2)], at=8)
    assert ax.get_title().endswith("z2 = -1 … 0, z1 = ⌈(-z2 - 4)/2⌉ … min(⌊(-z2 - 1)/2⌋, z2)")


def test_outlines() -> None:
    ax = td.plot_index_map(i + j, [(i, 0, 7), (j, 0, sympy.Min(i, 4))])
    (patch,) = ax.patches
    assert {tuple(corner) for corner in patch.get_xy().tolist()} == {(0, 0), (4, 4), (7, 4), (7, 0)}
    ax = td.plot_index_map(i + j, [(i, 0, 3), (j, 0, 3), (k, 0, i)])
    assert len(ax.patches) == 4  # one for each k


def test_ticks() -> None:
    ax = td.plot_index_map(i + j + k, [(i, 1, 2), (j, -1, 1), (k, 3, 4)])
    ticks = [(x, label.get_text()) for x, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)]
    assert ticks == [(1, "1"), (2, "2"), (4, "1"), (5, "2")]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["-1", "0", "1"]
    assert (1, 0) in dots(ax, "lattice") and points(ax, "lattice")[0] == (1, -1, 3)


def test_large_pictures_have_no_texts() -> None:
    ax = td.plot_index_map(i + j, [(i, 40), (j, 40)], at=30)
    assert len(dots(ax, "lattice")) == 1600 and len(ax.texts) < 40
    assert "with its image" not in legend(ax)


def test_large_pictures_fit_on_a_page() -> None:
    for limits in ([(i, 0, 900), (j, i, i)], [(i, 0, 3), (j, 0, 900)], [(i, 0, 900)], [(i, 20), (j, 20), (k, 12)]):
        width, height = td.plot_index_map(i, limits, at=3).figure.get_size_inches()
        assert width < 15 and height < 13


def test_what_a_user_may_write() -> None:
    x = td.TensorSymbol("x", 20)
    a, b = sympy.Idx("a", 6), sympy.Idx("b", (0, 4))
    expected = td.plot_index_map(2 * i + 3 * k, [(i, 0, 5), (k, 0, 4)], at=12)
    for ax in (
        td.plot_index_map(x[2 * i + 3 * k], ((i, 6), (k, 5)), 12),
        td.plot_index_map([2 * i + 3 * k], [(i, n + 1), (k, 0, n - 1)], [2 * n + 2], sizes={"n": 5}),
        td.plot_index_map((2 * a + 3 * b,), [a, b], sympy.Tuple(12), sizes=None),
    ):
        assert points(ax, "solutions") == points(expected, "solutions") == [(0, 4), (3, 2)]
        assert points(ax, "lattice") == points(expected, "lattice")


def test_given_axes_are_used_and_nothing_else_is_touched(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(pyplot, "show", lambda *_: pytest.fail("shown"))
    settings = dict(matplotlib.rcParams)
    figure, (left, right) = pyplot.subplots(1, 2)
    assert td.plot_index_map(i - j, [(i, 4), (j, 4)], at=1, ax=right) is right
    assert not left.collections and len(pyplot.get_fignums()) == 1
    ax = td.plot_index_map(i - j, [(i, 4), (j, 4)], at=1)
    assert ax.figure is not figure and len(pyplot.get_fignums()) == 2
    for number, drawn in enumerate((figure, ax.figure)):
        drawn.savefig(tmp_path / f"{number}.svg")
        drawn.savefig(tmp_path / f"{number}.png")
    assert dict(matplotlib.rcParams) == settings


ROUNDED = {
    "clamped": (sympy.Max(0, sympy.Min(i + j - 1, 4)), 0, "max(0, min(i + j - 1, 4)) = 0"),
    "rounded": (sympy.floor((i + 2 * j) / 3), 1, "floor((i + 2*j)/3) = 1"),
    "nowhere": (sympy.Mod(2 * i, 4), 3, "2*i - 4*floor(i/2) = 3"),
}


@every("name", list(ROUNDED))
def test_indices_that_are_rounded_or_clamped(name: str) -> None:
    form, at, text = ROUNDED[name]
    ax = td.plot_index_map(form, [(i, 5), (j, 4)], at=at)
    readers = [(a, b) for a in range(5) for b in range(4) if form.subs({i: a, j: b}) == at]
    assert points(ax, "solutions") == readers
    assert not points(ax, "outside") and not ax.lines
    equation, answer = ax.get_title().split("\n")
    assert equation == text
    assert answer == f"{len(readers) or 'no'} solutions in the ranges"
    assert td.plot_index_map(form, [(i, 5), (j, 4)]).get_title()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BackendError, match=r"draws with matplotlib, which is not installed: pip install"):
        td.plot_index_map(i - j, [(i, 4), (j, 4)], at=1)


REFUSED: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ((i, (i, 4)), {"space": "z"}, ArgumentError, "space is 'indices' or 'kernel', not 'z'"),
    ((i, (i, 3, 1)), {}, ArgumentError, "the ranges of i contain no point: nothing to draw"),
    ((i, (i, 4)), {"space": "kernel"}, ArgumentError, "the kernel has nothing to draw: at is not given"),
    ((i, (i, 4), 1), {"space": "kernel"}, ArgumentError, "the solution is unique; use space='indices'"),
    ((2 * i + 2 * j, [(i, 4), (j, 4)], 1), {"space": "kernel"}, ArgumentError, "nothing to draw: 1 mod 2 = 1, not 0"),
    ((i + k, [(i, 3), (j, 3), (k, 13)], 1), {}, UnsupportedError, "13 layers are more than 12"),
    ((i + j, [(i, 100), (j, 100)]), {}, UnsupportedError, "more than 5000 points, too many to draw"),
    ((i + j, [(i, 10**9), (j, 10**9)]), {}, UnsupportedError, "more than 5000 points, too many to draw"),
    ((i, [(i, 3), (j, 3), (k, 3), (l, 3)]), {}, UnsupportedError, "one to 3 indices, not 4 (i, j, k, l)"),
    ((i, []), {}, UnsupportedError, "a picture has one to 3 indices, not 0"),
    (((), (i, 3)), {}, ArgumentError, "there is no index; give one form for each axis"),
    ((i * j, [(i, 3), (j, 3)]), {}, UnsupportedError, "i*j is not linear in i, j: leave out products of indices"),
    ((sympy.Max(i, 1), (i, 3), 1), {"space": "kernel"}, ArgumentError, "the index is rounded or clamped"),
    ((M * i + j, [(i, 3), (j, 3)]), {}, ArgumentError, "M in M*i + j has neither a range nor a number"),
    ((i, (i, n)), {}, ArgumentError, "n in n - 1 has neither a range nor a number; give sizes={'n': 4}"),
    ((i, (i, n)), {"sizes": {n: 2.5}}, ArgumentTypeError, "the number of n must be an int, not 2.5"),
    ((i, (i, 3)), {"sizes": 5}, ArgumentTypeError, "sizes must be a dict from symbols to numbers, not 5"),
    ((i, (i, 3)), {"ax": 5}, ArgumentTypeError, "ax must be the axes of a figure of matplotlib, not 5"),
    ((i, (i, 3)), {"sizes": {"i": 2}}, ArgumentError, "i has a range and a number; leave one of them out"),
    ((i, [(i, 3), (i, 4)]), {}, ArgumentError, "the index i has two ranges; use two names"),
    ((i + j, (i, 3), (j, 4)), {}, ArgumentError, "and not an entry: all limits are one list, [(i, 3), (j, 4)]"),
    ((i, [(i, 0, j), (j, 0, i)]), {}, IndexExpressionError, "the range of i depends on i itself, through its bounds"),
    ((i + j, [(i, 3), (j, 0, i**2)]), {}, UnsupportedError, "is not linear: it rounds, or multiplies indices, and"),
    ((i, (i, 3), (1, 2)), {}, ArgumentError, "at has 2 values for 1 axes"),
    ((i, (i, 3), i + 1), {}, ArgumentError, "at is an entry, so i + 1 must be a number and not depend"),
    ((sympy.floor(i / M), (i, 3)), {"sizes": {M: 0}}, ArgumentError, "divides by a value that is not positive"),
    ((sympy.Symbol("r", integer=False), (i, 3)), {}, IndexExpressionError, "r is declared not to be an integer"),
    ((i, (i, 0)), {}, ShapeError, "an extent must be a positive integer"),
    ((i, i), {}, ArgumentError, "has no complete range"),
]  # fmt: skip


@every("arguments, options, error, message", REFUSED, ids=[case[3] for case in REFUSED])
def test_refusals(arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        td.plot_index_map(*arguments, **options)
    assert message in str(caught.value)
    assert pyplot.get_fignums() == []


def shown_in(tree: ElementTree.Element) -> tuple[list[str], dict[str, int]]:
    """The texts of a picture, and the number of points of each kind."""
    texts = [element.text or "" for element in tree.iter(f"{SVG}text")]
    kinds = {group.get("id", ""): len(list(group.iter(f"{SVG}use"))) for group in tree.iter(f"{SVG}g")}
    return texts, {kind: kinds.get(kind, 0) for kind in ("lattice", "solutions", "outside", "particular")}


def test_the_pictures_of_the_page_show_what_is_drawn_now(tmp_path: Path) -> None:
    """The texts and the points are compared, not the bytes, which every version of matplotlib writes its own way."""
    spec = importlib.util.spec_from_file_location("draw_index_maps", DOCS / "draw_index_maps.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.draw_all(tmp_path)
    page = (DOCS / "index_equations.md").read_text(encoding="utf-8")
    assert len(script.PICTURES) == page.count("](_static/index_")
    for name in script.PICTURES:
        committed = (DOCS / "_static" / f"{name}.svg").read_bytes()
        assert f"](_static/{name}.svg)" in page and len(committed) < 50_000
        drawn = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert shown_in(ElementTree.fromstring(committed)) == shown_in(drawn), "run docs/draw_index_maps.py"
    assert shown_in(drawn)[1]["solutions"] == 15
