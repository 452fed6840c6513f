"""The Python blocks of README and the documentation run, and print what the pages say."""

import doctest
import importlib.util
import inspect
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cost_judge.__main__ import parser as parser_of_judge
from every import every
from fuzz.__main__ import _parser as parser_of_fuzz
from judges.__main__ import parser as parser_of_judges
from messages import all_messages
from test_layers import TABLE

import benchmarks.command
import benchmarks.gpu
import benchmarks.practice.command
import sympy_tensordiff as td
from sympy_tensordiff import errors
from sympy_tensordiff.app import command_line

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NEEDED = {
    "howto_array_libraries.md": "jax",
    "howto_pytorch.md": "torch",
    "howto_jax.md": "jax",
    "howto_dask.md": "zarr",
}
"""What the blocks of a page need that the tests do not: where it is not installed, they are not run."""
AS_PYTHON = ("example_paper.md", "howto_structure.md", "reductions.md", "tensors.md")
"""Pages with many kernels that do little: a compiler would take most of the time. README and tutorial are compiled."""
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def session(page: Path) -> str:
    """Return all ```` ```python ```` blocks of a page at their line numbers, with blank lines for the text between."""
    text = page.read_text(encoding="utf-8")
    result, end = "", 0
    for block in BLOCK.finditer(text):
        result += "\n" * text.count("\n", end, block.start(1)) + block[1]
        end = block.end(1)
    return result


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_blocks_run(page: Path, request: pytest.FixtureRequest) -> None:
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    if page.name in AS_PYTHON:
        request.getfixturevalue("uncompiled")
    examples = doctest.DocTestParser().get_doctest(session(page), {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(examples, out=report.append)
    assert result.failed == 0, "".join(report)


@every("page", PAGES, ids=[page.name for page in PAGES])
def test_every_block_is_a_session(page: Path) -> None:
    """A block without a prompt would not be run, and nobody would notice."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        assert block[1].lstrip().startswith(">>> "), f"{page.name}: block without a prompt: {block[1][:60]!r}"


CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = "python -m sympy_tensordiff "


def commands(page: Path) -> list[tuple[str, str]]:
    """Commands of the text language in the ```` ```console ```` blocks of a page, with what they print."""
    found = []
    for block in CONSOLE.finditer(page.read_text(encoding="utf-8")):
        for entry in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            if re.match(COMMAND + r"(\"|--)", command):
                found.append((command, output))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, expected in commands(page):
        command_line.main(shlex.split(command.removeprefix(COMMAND)))
        printed = "".join(capsys.readouterr())
        assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), f"{command}\n{printed}"


PARSERS = {
    "python -m benchmarks.gpu": benchmarks.gpu.parser,
    "python -m benchmarks.practice": benchmarks.practice.command.parser,
    "python -m benchmarks": benchmarks.command.parser,
    "python -m tests.fuzz": parser_of_fuzz,
    "python -m tests.cost_judge": parser_of_judge,
    "python -m tests.judges": parser_of_judges,
}
"""The programs whose commands take long: here their options are read only."""


ALLOWED = {
    *("pip install .", f"{COMMAND}serve", f"{COMMAND}site FOLDER", "python -m http.server --directory FOLDER"),
    "python -m sphinx -t live -b html docs FOLDER",
}
"""Commands with tests of their own."""


@every("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_exists(page: Path) -> None:
    """Commands that `test_commands_run` does not run: the whole check runs them, or they have options that exist."""
    check = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    check = check.replace("pip install -q", "pip install")
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    run = {f"$ {command}" for command, _ in commands(page)}
    for block in CONSOLE.finditer(page.read_text(encoding="utf-8")):
        for line in [line for line in block[1].splitlines() if line.startswith("$ ") and line not in run]:
            for part in line.removeprefix("$ ").split(" && "):
                program = next((name for name in PARSERS if part.startswith(name)), None)
                if program is not None:
                    PARSERS[program]().parse_args(shlex.split(part.removeprefix(program)))
                elif part.startswith("pip install") and "[" in part:
                    assert set(re.findall(r"\w+", part.partition("[")[2])) <= set(extras), part
                else:
                    assert part in ALLOWED or re.search(rf"{re.escape(part)}\s", check), part


def test_pages_have_commands() -> None:
    assert len(commands(ROOT / "docs" / "language.md")) >= 6


def test_the_tutorial_has_blocks() -> None:
    assert session(ROOT / "docs" / "tutorial.md").count(">>> ") >= 20
    assert session(ROOT / "README.md").count(">>> ") >= 5


def test_the_reference_has_all_names() -> None:
    by_topic = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").partition("## Names")[0]
    rows = [line for line in by_topic.splitlines() if line.startswith("| ")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(td.__all__)


def test_all_names_are_described() -> None:
    assert [name for name in td.__all__ if not inspect.getdoc(getattr(td, name))] == []


def test_each_error_has_a_section() -> None:
    """A traceback prints the name of the class: this name is the heading of its section."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == classes
    raised = {message.error for message in all_messages()}
    for name in set(re.findall(r"^```\{messages\} (\w+)$", page, re.MULTILINE)):
        assert name in raised, f"{name} has no messages"


def script(name: str) -> ModuleType:
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES_OF_OTHERS = set(
    [
        "symbol_names",
        "argnums",
        "iklj",
        "tensorindices",
        "slope_unchecked",
        "RawModule",
        "logistic_unchecked",
        "dogleg",
        "te",
        "IndexBackward",
        "clnlbeam",
        "lint",
    ]
)
"""Names in code spans of the pages that no Python file here contains: of other programs, or of what users write."""


def test_names_in_code_spans_exist() -> None:
    """A class or function that is renamed is renamed in the pages, too."""
    folders = ("sympy_tensordiff", "tests", "examples", "benchmarks", "docs")
    texts = (path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    known = set(re.findall(r"\w+", "\n".join(texts))) | NAMES_OF_OTHERS
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        spans = re.findall(r"`([A-Za-z_][\w.]*)`", prose)
        unknown = {s for s in spans if not s.endswith((".md", ".in")) and not known.issuperset(re.findall(r"\w+", s))}
        assert not unknown, f"{page.name}: {sorted(unknown)}"


def test_the_picture_of_the_readme_shows_what_the_package_gives() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "_static" / "overview.svg")
    described = picture.find(".//{http://purl.org/dc/elements/1.1/}description")
    assert described is not None
    assert described.text == script("draw_overview").texts().description(), "run docs/draw_overview.py"


def test_the_picture_of_the_layers_has_all_packages() -> None:
    drawn = (ROOT / "docs" / "_static" / "layers.svg").read_text(encoding="utf-8")
    packages = script("draw_layers").STAGES
    assert set(packages) == set(TABLE) - {"errors", "lazy", "__main__"}  # files of their own
    assert all(f">{package}/<" in drawn for package in packages), "run docs/draw_layers.py"


def translation(name: str) -> tuple[str, ModuleType]:
    """Return the text of the page ``from_NAME.md``, and the script that writes its table."""
    return (ROOT / "docs" / f"from_{name}.md").read_text(encoding="utf-8"), script("translation_tables")


@pytest.mark.parametrize("name", ["jax", "matrixcalculus", "sympy"])
def test_the_tables_of_translations_print_the_results(name: str) -> None:
    page, tables = translation(name)
    assert len(tables.ROW.findall(page)) >= 8
    assert page == tables.updated(page), "run docs/translation_tables.py"


def test_the_inputs_for_sympy_run() -> None:
    page, tables = translation("sympy")
    names = tables.names_of(page)
    for code, _ in tables.rows(page):
        eval(code, names)


def test_the_inputs_for_matrixcalculus_are_parsed() -> None:
    page, tables = translation("matrixcalculus")
    for text, value in tables.rows(page):
        assert str(td.parse(text).derivative(wrt="X" if "X" in text else "x")) == str(value), text


def test_the_inputs_for_jax_have_the_same_values() -> None:
    pytest.importorskip("jax")
    page, tables = translation("jax")
    names = tables.names_of(page)
    theirs: dict[str, Any] = {}
    exec(re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0], theirs)
    arrays = {names[name]: np.asarray(theirs[name]) for name in ("X", "A", "y", "u", "w", "v", "idx")}
    for code, value in tables.rows(page):
        if isinstance(value, td.CompiledFunction):
            eval(code, theirs)
            continue
        used = {tensor: arrays[tensor] for tensor in value.atoms(td.TensorSymbol)}
        assert np.allclose(td.evaluate(value, used), eval(code, theirs), rtol=1e-5), code


def test_the_formulas_of_the_readme_are_results() -> None:
    """README shows formulas rendered, without the LaTeX that the package writes."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    names = script("translation_tables").names_of(page.partition("**Sparse and structured")[0])
    shown = re.findall(r"^\$\$\n(.*?)\n\$\$$", page, re.MULTILINE | re.DOTALL)
    gradient, hessian = td.latex(names["gradient"], r"\nabla f"), td.latex(names["hessian"], r"\nabla^2 f")
    assert shown == [gradient, hessian, names["text"]]
