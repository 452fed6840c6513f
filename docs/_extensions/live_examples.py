"""A button below each example that is formulas only, which opens it in the static page, where it can be edited.

``sphinx-build -t live`` writes the buttons, and the static page into the folder ``page`` of the documentation. A
session of Python is read statement by statement. A derivative in a statement becomes an input with the same expression
and variable, and so does a text that `td.parse` reads; another statement that shows an expression becomes an input with
its likeliest variable. Of the statements before, only those run whose names it needs.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sympy
from docutils import nodes

import sympy_tensordiff as td
from sympy_tensordiff.app.web.answers import VARIABLES
from sympy_tensordiff.app.web.site import build_site

if TYPE_CHECKING:
    from sphinx.application import Sphinx

COMMAND = "$ python -m sympy_tensordiff "
ORDERS = {"gradient": 1, "jacobian": 1, "hessian": 2, "diff": 1, "vjp": 1, "jvp": 1, "hvp": 2}
"""Functions of an expression and a variable, with the order of their derivative."""
TEXTS = ("parse", "parse_indexed")
"""Functions that read a text."""
PRINTERS = ("print", "latex", "pretty", "str")
"""Functions whose argument is shown."""
DECLARATIONS = re.compile(r"(declare (?:int )?\w+(?:\[[^]]*\])?(?:, (?:int )?\w+(?:\[[^]]*\])?)*)\s+(.*)", re.DOTALL)
NOT_FORMULAS = re.compile(
    r"\b(np|numpy|jax|torch|lambdify|generate_code|evaluate|check_derivative|minimize|open|draw_graph|plot_index_map"
    r"|figure|write)\b"
)


class Session:
    """The statements of the sessions of a page."""

    def __init__(self) -> None:
        self.statements: list[ast.stmt] = []
        self.values: dict[int, dict[str, Any]] = {}

    def inputs(self, block: str) -> Iterator[tuple[int, str]]:
        """Add the statements of a block, and yield the line and the input of each that has one."""
        for example in doctest.DocTestParser().get_examples(block):
            for statement in ast.parse(example.source).body:
                self.statements.append(statement)
                is_run = not (example.exc_msg or example.options.get(doctest.SKIP))
                text = self.input_of(statement) if is_run else None
                if text is not None and is_read(text):
                    yield example.lineno + 1, text

    def input_of(self, statement: ast.stmt) -> str | None:
        """Return the input of the page for the last statement, or None if it has none."""
        if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Try)):
            return None
        if NOT_FORMULAS.search(ast.unparse(statement)):
            return None
        for call in [node for node in ast.walk(statement) if isinstance(node, ast.Call)]:
            name = getattr(call.func, "attr", "")
            if name in TEXTS and isinstance(call.args[0], ast.Constant):
                return self.clean_text(call, statement)
            if name in ORDERS and len(call.args) >= 2:
                found = self.value(ast.Tuple(call.args[:2], ast.Load()))
                return None if found is None else page_input(*found, ORDERS[name])
        value = self.value(without_printer(statement.value)) if isinstance(statement, ast.Expr) else None
        return page_input(value, (), 1) if isinstance(value, sympy.Basic) else None

    def clean_text(self, call: ast.Call, statement: ast.stmt) -> str:
        """Return the text that a call reads, with the variable of ``derivative(wrt=…)`` around it."""
        lines = [line.strip() for line in call.args[0].value.strip().splitlines()]
        keywords = [word for node in ast.walk(statement) if isinstance(node, ast.Call) for word in node.keywords]
        wrt = [word.value.value for word in keywords if word.arg == "wrt" and isinstance(word.value, ast.Constant)]
        return "\n".join([*lines, *(f"derivative wrt {name}" for name in wrt[:1])])

    def value(self, expression: ast.expr) -> Any:
        """Return the value of an expression after the statements before, or None if it is not a matter of formulas."""
        needed, chosen = names_read(expression), []
        for statement in reversed(self.statements[:-1]):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = [name for name in statement.names if (name.asname or name.name) in needed]
                chosen[:0] = [type(statement)(**{**vars(statement), "names": names})] if names else []
            elif names_bound(statement) & needed:
                needed |= names_read(statement)
                chosen.insert(0, statement)
        program = [*chosen, ast.Expr(expression)]
        if any(NOT_FORMULAS.search(ast.unparse(part)) for part in program):
            return None
        names: dict[str, Any] = {}
        try:
            with redirect_stdout(StringIO()):
                exec(compile(ast.fix_missing_locations(ast.Module(chosen, [])), "session", "exec"), names)
                return eval(compile(ast.fix_missing_locations(ast.Expression(expression)), "session", "eval"), names)
        except Exception:  # a session shows errors, too
            return None


def names_read(node: ast.AST) -> set[str]:
    """Return the names that a statement or an expression reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def names_bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    stored = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return stored | ({statement.name} if isinstance(statement, ast.FunctionDef) else set())


def without_printer(node: ast.expr) -> ast.expr:
    """Return the expression that a call of a printer shows, or the expression itself."""
    while isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", "")) in PRINTERS:
        node = node.args[0]
    return node


def page_input(expr: Any, wrt: Any, order: int) -> str | None:
    """Return an input of the page for the derivative of ``expr``, or None if no language can say it."""
    symbols = {symbol.name: symbol for symbol in sorted(expr.free_symbols, key=str)}
    tensors = {name: symbol for name, symbol in symbols.items() if isinstance(symbol, td.TensorSymbol)}
    extents = [extent for part in (*tensors.values(), expr) for extent in getattr(part, "shape", ())]
    sizes = {size for extent in extents for size in sympy.sympify(extent).free_symbols}
    others = {name: symbol for name, symbol in symbols.items() if name not in tensors and symbol not in sizes}
    if any(symbol.is_integer for symbol in others.values()):
        return None  # an entry with an index
    tensors |= others
    variable = next(iter(wrt), None) if isinstance(wrt, (tuple, list, sympy.Tuple)) else wrt
    variable = getattr(variable, "tensor", variable)  # of an entry
    if variable is None:
        variable = next((tensors[name] for name in (*VARIABLES, *tensors) if name in tensors), None)
    if variable not in tensors.values():
        return None
    parsed = td.ParsedExpression(tensors, expr, (variable,) * order)
    for language in ("matrix", "index"):
        try:
            text = td.to_text(parsed, language).replace("IndexedSum(", "sum(").replace("IndexedProduct(", "prod(")
            again = td.parse(text)
        except td.errors.TensorDiffError:
            continue
        if str(again.expression) == str(expr):
            declarations, rest = DECLARATIONS.match(text).groups()
            return re.sub(r"\s+(?=derivative wrt)", "\n", f"{declarations}\n{rest}")
    return None


def inputs_of_commands(block: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the input of each command of a console that has one."""
    for number, line in enumerate(block.splitlines(), start=1):
        if not line.startswith((f'{COMMAND}"', f"{COMMAND}--form")):
            continue
        words = shlex.split(line.removeprefix(COMMAND))
        if words[0] == "--form":
            del words[:2]
        text = "\n".join([words[0], *(f"derivative wrt {name}" for name in words[2:])])
        if (len(words) == 1 or (len(words) == 3 and words[1] == "--wrt")) and is_read(text):
            yield number, text


def is_read(text: str) -> bool:
    """Return whether `td.parse` reads a text: the documentation shows mistakes, too."""
    try:
        td.parse(text)
    except td.errors.TensorDiffError:
        return False
    return True


def add_buttons(app: Sphinx, document: nodes.document) -> None:
    """Add links below the examples of a page."""
    session = Session()
    for block in [*document.findall(lambda node: isinstance(node, (nodes.literal_block, nodes.doctest_block)))]:
        text = block.astext()
        found = [*(session.inputs(text) if ">>> " in text else inputs_of_commands(text))]
        if found:
            root = "../" * app.env.docname.count("/")
            links = "".join(link(root, source, line if len(found) > 1 else 0) for line, source in found)
            block.parent.insert(
                block.parent.index(block) + 1, nodes.raw("", f'<p class="live">{links}</p>', format="html")
            )


def link(root: str, source: str, line: int) -> str:
    """Return the link that opens an input in the page, with the number of its line unless that is 0."""
    words = f"Run line {line}" if line else "Run"
    return f'<a href="{root}page/index.html#{quote(source)}" title="{escape(source)}">{words}</a>'


def build_page(app: Sphinx, error: Exception | None) -> None:
    """Write the static page next to the documentation, unless it is there."""
    folder = Path(app.outdir) / "page"
    if error is None and not folder.exists():
        build_site(folder, *(Path(name) if name else None for name in (app.config.live_pyodide, app.config.live_temml)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("live_pyodide", "", "")
    app.add_config_value("live_temml", "", "")
    if app.tags.has("live"):
        app.connect("doctree-read", add_buttons)
        app.connect("build-finished", build_page)
        app.add_css_file("live.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
