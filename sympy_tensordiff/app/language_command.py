"""The command that differentiates an input of the text language."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import sympy

import sympy_tensordiff as td
from sympy_tensordiff.app.arguments import arguments_of
from sympy_tensordiff.app.page import Page
from sympy_tensordiff.app.reading import UnreadableError, is_interactive, read_input
from sympy_tensordiff.app.size_checks import worst_errors
from sympy_tensordiff.errors import ArgumentError, DerivativeMismatch, ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.simplify.outside_reads import check_expression
from sympy_tensordiff.symbolic.for_readers import for_readers
from sympy_tensordiff.symbolic.printing import refuse_unprintable

PROGRAM = "python -m sympy_tensordiff"
BACKENDS = ("numpy", "numba", "cuda")
FORMS = ("text", "pretty", "latex", "index", *BACKENDS)
_PRINTED = {"pretty": "pretty", "latex": "LaTeX", "index": "index notation"}

USAGE = f"""{PROGRAM} [options] [INPUT]
       {PROGRAM} demo [--quick] [--seed SEED]
       {PROGRAM} serve [--port PORT]"""

DESCRIPTION = """\
Differentiates a tensor expression, written in the text language of Lippmann's thesis, or in index
notation:

  declare x 1 expression x *(i,i->) x derivative wrt x
  declare x[n]  s = sum(x[i]**2, i)  derivative wrt x

Both declare tensors with their orders or shapes, give an expression of them, and say what to
differentiate by (several "derivative wrt" for higher orders). INPUT is such a text in quotes, or the name of a file;
without it, and for "-", standard input is read. "demo" shows what else the package does; "serve" opens
a page in which all this can be tried in a browser."""

EPILOG = f"""\
forms:
  text     the text language (the default for inputs in it)
  pretty   in two dimensions, in ASCII where the terminal has nothing else
  latex    LaTeX
  index    index notation: sums over indices (the default for inputs in it)
  numpy, numba, cuda
           the Python module that computes it; its arguments are the tensors in the order of their
           declaration, then sizes that no tensor has

exit codes:
  0  the answer is printed
  1  the check has failed, the form cannot say the answer, or it is not supported or not written
  2  the input or the command is wrong

examples:
  {PROGRAM} "declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x"
  {PROGRAM} --form latex "declare X 2 expression log(det(X)) derivative wrt X"
  {PROGRAM} --check "declare X 2 expression inv(X) derivative wrt X"
  {PROGRAM} --form numba "declare x 1 expression exp(x) *(i,i->) x derivative wrt x"
  {PROGRAM} --expression --form index "declare x 1 expression tanh(x) derivative wrt x"
  {PROGRAM} "declare x 1 expression sin(x) *(i,i->) x derivative wrt x derivative wrt x"
  {PROGRAM} "declare w[m] d[n] f[n-m+1]  f[i] = sum(w[k]*d[i+k], k)  derivative wrt d"
"""


def run(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if len(options.input) > 1:
        parser.error(f"one INPUT is needed, in quotes, and {len(options.input)} are given")
    (given,) = options.input or [None]
    if given is None and options.file is None and is_interactive():
        parser.print_help()
        return 2
    try:
        source = read_input(given, options.file)
        indexed = _is_indexed(source.text)
        parsed = td.parse_indexed(source.text) if indexed else td.parse(source.text)
    except UnreadableError as error:
        complain(str(error))
        return 2
    except ParseError as error:
        complain(f"{source.origin}, {error}" if source.origin else str(error))
        return 2
    options.form = options.form or ("index" if indexed else "text")
    try:
        return _answer(parsed, options)
    except TensorDiffError as error:
        complain(str(error))
    except RecursionError:
        complain("the expression or its derivative is nested too deeply for SymPy")
    return 1


def _is_indexed(text: str) -> bool:
    """Whether an input is in index notation, which defines an entry: the text language has no ``=``."""
    return any("=" in line.partition("#")[0] for line in text.splitlines())


def complain(message: str) -> None:
    """An error on standard error; a character that does not fit there is a question mark, as wide as it was."""
    if sys.stderr is not None:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        shown = f"error: {message}".encode(encoding, "replace").decode(encoding)
        print(shown, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="*", metavar="INPUT", help="a text of the language, a file, or -")
    parser.add_argument("--file", metavar="FILE", help="read the input from this file")
    parser.add_argument("--form", choices=FORMS, help="how the answer is printed (see below)")
    simple = parser.add_mutually_exclusive_group()
    simple.add_argument(
        "--simplify", dest="simplify", action="store_true", default=True, help="simplify the derivative (default)"
    )
    simple.add_argument("--raw", dest="simplify", action="store_false", help="print it as the rules give it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--expression", action="store_true", help="print the expression instead of the derivative")
    what.add_argument("--check", action="store_true", help="compare the derivative with differences, for several sizes")
    parser.add_argument(
        "--graph", metavar="FILE", help="draw the expression and its first derivative (.svg, .png, .dot, .txt)"
    )
    parser.add_argument("--version", action="version", version=f"sympy-tensordiff {td.__version__}")
    return parser


def _answer(parsed: Any, options: argparse.Namespace) -> int:
    """Print what is asked for."""
    page = Page(sys.stdout)
    check_expression(parsed.expression)
    note = "%" if options.form == "latex" else "#"  # the sign of comments: the answer stays what it is
    expression = parsed.expression if options.expression else parsed.derivative(simplify=options.simplify)
    page.say(_formatted(parsed, expression, options.form, page))
    if options.graph is not None and not _draw(parsed, options):
        return 2
    if options.check:
        try:
            for sizes, error in worst_errors(parsed, expression):
                page.say(f"{note} checked for {sizes}: largest relative error {error:.1e}")
        except DerivativeMismatch as error:
            complain(f"the check has failed for {error}")
            return 1
    return 0


def _formatted(parsed: Any, expression: Any, form: str, page: Page) -> str:
    """The expression in one of the forms."""
    if form in BACKENDS:
        return str(td.generate_code(arguments_of(parsed, expression), expression, form)).rstrip()
    if form == "text":
        return _text(expression)
    if form == "index":
        expression = for_readers(expression)
    refuse_unprintable(expression, _PRINTED[form])
    if form == "pretty":
        lines = str(sympy.pretty(expression, use_unicode=page.unicode, wrap_line=False)).splitlines()
        return "\n".join(line.rstrip() for line in lines)
    return str(sympy.latex(expression) if form == "latex" else expression)


def _text(expression: Any) -> str:
    try:
        return str(td.to_text(expression))
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; another --form can say it: index, latex or pretty") from None


def _draw(parsed: Any, options: argparse.Namespace) -> bool:
    """Whether the graphs are drawn into the file; False if it cannot be written."""
    path = options.graph
    graphs = (
        td.draw_graph(parsed.expression) if options.expression else td.draw_graph(parsed, simplify=options.simplify)
    )
    try:
        graphs.save(path)
    except (ArgumentError, OSError, ValueError) as error:
        complain(f"{path}: {getattr(error, 'strerror', None) or error}")
        return False
    return True
