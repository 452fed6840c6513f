"""Examples of the documentation as inputs of the page: each is answered, and derivatives are those of the example."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("docutils")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

from live_examples import Session, inputs_of_commands, link  # noqa: E402

import sympy_tensordiff as td  # noqa: E402

BLOCK = re.compile(r"^ *```(?:python|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def inputs(page):
    """The blocks of a page with the lines and inputs of each."""
    session = Session()
    for block in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        yield block, [*(session.inputs(block) if ">>> " in block else inputs_of_commands(block))]


@pytest.mark.parametrize(
    ("page", "least"), [("tutorial.md", 9), ("tensors.md", 20), ("language.md", 9), ("howto_latex.md", 7)]
)
def test_inputs(page, least):
    found = [(block.splitlines(), line, text) for block, lines in inputs(page) for line, text in lines]
    assert len(found) >= least
    for lines, line, text in found:
        parsed = td.parse(text)
        derivative = parsed.derivative() if parsed.arguments else None
        if re.match(r">>> td\.(gradient|hessian|jacobian)\([^()]*, [a-zA-Z]\)$", lines[line - 1]):
            assert str(derivative) == lines[line], text


def test_what_has_no_button():
    session = Session()
    assert [*session.inputs(">>> import sympy_tensordiff as td\n>>> x = td.TensorSymbol('x', 3)\n")] == []
    assert [*session.inputs(">>> td.lambdify(x, td.gradient(x @ x, x))([1.0, 2.0, 3.0])\narray([2., 4., 6.])\n")] == []
    assert [*session.inputs(">>> x[5]\nTraceback (most recent call last):\nIndexError\n")] == []
    ((line, text),) = session.inputs(">>> y = 2*x\n>>> g = td.gradient(y @ y, x)\n")
    assert (line, text) == (2, "declare x[3]\n4*x.T @ x\nderivative wrt x")
    assert 'href="../page/index.html#x%27%2Ax"' in link("../", "x'*x", 0)


@pytest.mark.in_turns(4)
@pytest.mark.filterwarnings("ignore")  # of Sphinx and its themes
def test_buttons_are_written_with_the_tag(tmp_path):
    application = pytest.importorskip("sphinx.application")
    pytest.importorskip("myst_parser")
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "guide").mkdir(parents=True)
    (target / "page").mkdir(parents=True)  # as if the static page were built
    (source / "index.md").write_text('# Title\n\n```console\n$ python -m sympy_tensordiff "x\'*x"\n```\n')
    block = ">>> import sympy_tensordiff as td\n>>> x = td.TensorSymbol('x', 3)\n>>> td.gradient(x @ x, x)\n2*x\n"
    (source / "guide" / "one.md").write_text(f"---\norphan: true\n---\n# One\n\n```python\n{block}```\n")
    settings = {"extensions": ["myst_parser", "live_examples"], "html_theme": "basic"}
    for tags in ([], ["live"]):
        folders = (source, None, target, tmp_path / "trees")
        app = application.Sphinx(*folders, "html", settings, None, None, freshenv=True, tags=tags)
        app.build(force_all=True)
        pages = [(target / name).read_text(encoding="utf-8") for name in ("index.html", "guide/one.html")]
        assert [page.count(">Run</a>") for page in pages] == [len(tags)] * 2
    assert 'href="page/index.html#x%27%2Ax"' in pages[0] and 'href="../page/index.html#declare%20x' in pages[1]
