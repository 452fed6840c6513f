"""Pages of the gallery: the scripts in ``examples``, with what their cells print, derive and draw.

A script is a title and text in its docstring, then cells that begin with ``# %%``: a comment, which is text of
the page, and code, which is run here. Of each statement that is an expression the formula or the picture is shown
that a notebook would show; then the printed text, and the figures of matplotlib.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs" / "gallery"
DOTS_PER_INCH = 160  # figures are drawn at twice the size of a page, for fine screens

ORDER = (
    "paper",
    "convolution",
    "deblur",
    "inpaint",
    "trend",
    "larger_than_memory",
    "newton",
    "factorization",
    "gaussian_process",
    "particles",
    "attention",
    "heat",
    "hidden_states",
    "text_language",
    "motif",
)


NEEDED = {"larger_than_memory": ("dask", "zarr")}
"""Packages that a script needs besides those of the tests; without them it has no page."""


@dataclass
class Page:
    """The page of a script: text in Markdown, and pictures by their file names."""

    name: str
    title: str
    text: str
    pictures: dict[str, bytes] = field(default_factory=dict)
    formulas: list[str] = field(default_factory=list)

    @property
    def thumbnail(self) -> str:
        """The name of the last figure, which shows the result."""
        return [name for name in self.pictures if name.endswith(".png")][-1]

    def add_picture(self, ending: str, content: bytes, alternative: str) -> None:
        name = f"{self.name}_{len(self.pictures)}{ending}"
        self.pictures[name] = content
        self.text += f"![{alternative}](pictures/{name})\n\n"

    def add_formula(self, formula: str) -> None:
        self.formulas.append(formula)
        self.text += f"$$\n{formula}\n$$\n\n"

    def add_block(self, language: str, text: str) -> None:
        if text.strip():
            self.text += f"```{language}\n{text.strip(chr(10))}\n```\n\n"


def cells(source: str) -> Iterator[tuple[str, str]]:
    """Yield the cells of a script after its docstring, as text without ``#`` and code."""
    for cell in re.split(r"^# %%.*\n", source, flags=re.MULTILINE)[1:]:
        comment = re.match(r"(#.*\n)*", cell)
        assert comment is not None
        yield re.sub(r"^# ?", "", comment[0], flags=re.MULTILINE), cell[comment.end() :]


def shown(page: Page, value: Any) -> None:
    """Add a formula or picture of ``value``, as in a notebook; other values add nothing."""
    svg, latex = (getattr(value, name, lambda: None)() for name in ("_repr_svg_", "_repr_latex_"))
    if svg is not None:
        page.add_picture(".svg", svg.encode(), "graph")
    elif latex is not None:
        page.add_formula(latex.strip("$").removeprefix(r"\displaystyle").strip())


def run_cell(page: Page, code: str, names: dict[str, Any], path: Path, first_line: int) -> None:
    """Run the code statement by statement, and add its output, formulas and pictures to the page."""
    page.add_block("python", code)
    printed, values = io.StringIO(), []
    with redirect_stdout(printed):
        for statement in ast.increment_lineno(ast.parse(code), first_line).body:
            if isinstance(statement, ast.Expr):
                values.append(eval(compile(ast.Expression(statement.value), path, "eval"), names))
            else:
                exec(compile(ast.Module([statement], []), path, "exec"), names)
    page.add_block("text", printed.getvalue())
    for value in values:
        shown(page, value)


def fits(figure: Figure) -> bool:
    """Return whether nothing is cut off at the border of a figure."""
    figure.canvas.draw()  # places what the layout places
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    return min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.01


def add_figures(page: Page) -> None:
    for number in plt.get_fignums():
        figure, picture = plt.figure(number), io.BytesIO()
        assert fits(figure), f"{page.name}: something is cut off at the border of figure {number}"
        figure.savefig(picture, format="png", dpi=DOTS_PER_INCH)
        page.add_picture(".png", picture.getvalue(), f"figure: {page.title}")
        plt.close(figure)


def run(path: Path) -> Page:
    """Run a script cell by cell in one namespace, and return its page."""
    matplotlib.use("Agg")
    plt.close("all")  # what somebody else has left open is not a picture of this page
    source = path.read_text(encoding="utf-8")
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    text = text.strip()
    page = Page(path.stem, title.rstrip("."), f"# {title.rstrip('.')}\n\n{text}\n\n")
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    for text, code in cells(source):
        page.text += f"{text}\n"
        # Tracebacks name the line of the script.
        run_cell(page, code, names, path, source.count("\n", 0, source.index(code)))
        add_figures(page)
    page.text += f"The script: {{download}}`{path.name} <../../examples/{path.name}>`.\n"
    return page


def card(page: Page) -> str:
    return (
        f"::::{{container}} card\n[![{page.title}](pictures/{page.thumbnail})]({page.name}.md)\n\n"
        f"[{page.title}]({page.name}.md)\n::::\n"
    )


def index(pages: list[Page]) -> str:
    """Return the index page: a picture and a title for each script."""
    return "\n".join(
        [
            "# Gallery\n",
            "From a formula to its derivative, a kernel and a result: each page is a script of `examples/`, which",
            "runs when these pages are built, and checks its own numbers. Run it yourself, or cell by cell in an",
            "editor that knows `# %%`.\n",
            ":::::{container} gallery",
            *map(card, pages),
            ":::::\n",
            "```{toctree}\n:hidden:\n",
            *(page.name for page in pages),
            "```\n",
        ]
    )


def is_current(target: Path) -> bool:
    """Return whether the pages are newer than all their sources; running all scripts takes a minute."""
    package = ROOT / "sympy_tensordiff"
    sources = [Path(__file__), *EXAMPLES.glob("*.py"), *package.rglob("*.py"), *package.rglob("*.lark")]
    return target.exists() and target.stat().st_mtime > max(path.stat().st_mtime for path in sources)


def build() -> None:
    """Write all pages, unless they are current."""
    if is_current(PAGES / "index.md"):
        return
    present = [name for name in ORDER if all(map(find_spec, NEEDED.get(name, ())))]
    pages = [run(EXAMPLES / f"{name}.py") for name in present]
    shutil.rmtree(PAGES, ignore_errors=True)  # pages of scripts that are gone
    (PAGES / "pictures").mkdir(parents=True)
    for page in pages:
        (PAGES / f"{page.name}.md").write_text(page.text, encoding="utf-8")
        for name, content in page.pictures.items():
            (PAGES / "pictures" / name).write_bytes(content)
    (PAGES / "index.md").write_text(index(pages), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda _: build())
    app.add_css_file("gallery.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
