"""The command line of the text language: forms, sources of the input, checks, errors and exit codes."""

import io
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.app import command_line, forms
from sympy_tensordiff.app.command_line import PROGRAM
from sympy_tensordiff.parsing.axes import MAX_INPUT
from sympy_tensordiff.parsing.parsed import ParsedExpression

QUADRATIC = "declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x"
INVERSE = "declare X 2 expression inv(X) derivative wrt X"
TANH = "declare x 1 expression tanh(x) derivative wrt x derivative wrt x"


@pytest.fixture
def run(capsys):
    """The exit code and what is printed."""

    def call(*arguments):
        try:
            code = command_line.main(arguments)
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def answer(run, *arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    return out.removesuffix("\n")


def standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


# ---------------------------------------------------------------------------- forms


def test_forms(run):
    derivative = td.parse(QUADRATIC).derivative()
    assert answer(run, QUADRATIC) == answer(run, "--form", "text", QUADRATIC) == td.to_text(derivative)
    assert answer(run, "--form", "pretty", QUADRATIC) == "⎛     T⎞\n⎝A + A ⎠⋅x"
    assert answer(run, "--form", "latex", QUADRATIC) == r"\left(A + A^{\top}\right) x"
    index = "TensorComprehension(IndexedSum((A[i, j] + A[j, i])*x[j], (j, 0, n - 1)), (i, n))"
    assert answer(run, "--form", "index", QUADRATIC) == index


INDEXED = "declare A[m, n], x[n]  # f = A @ x\nf[i] = sum(A[i, j]*x[j]**2, j)  derivative wrt x"


def test_index_notation(run):
    parsed = td.parse_indexed(INDEXED)
    assert answer(run, INDEXED) == answer(run, "--form", "index", INDEXED) == str(parsed.derivative())
    assert answer(run, "--expression", INDEXED) == str(parsed.expression)
    assert answer(run, "--form", "latex", INDEXED) == sympy.latex(parsed.derivative())
    assert answer(run, "--check", INDEXED).count("largest relative error") == 3
    assert answer(run, QUADRATIC + "  # x = y") == answer(run, QUADRATIC)
    code, out, err = run(INDEXED.replace("x[j]", "z[j]"))
    assert (code, out) == (2, "") and "line 2, column 20: z is not a declared tensor" in err
    assert answer(run, "--form", "text", INDEXED) == td.to_text(parsed.derivative())


MATRIX = {
    "x'*A*x --wrt x": "(A + A.T) @ x",
    "tr(A*X) --wrt X": "A.T",
    "norm2(A*x - y)^2 --wrt x": "2*A.T @ (A @ x - y)",
    "log(det(X))": "inv(X).T",
    "sin(x)'*y --wrt x": "y.*cos(x)",
    "x'*A*x --wrt x,x": "A + A.T",
    "norm2(x)^2 --wrt x --wrt x": "2*DeltaTensor(n)",
    "x'*x --expression --language matrix": "x.T @ x",
    "A*x --wrt A --form index": "TensorComprehension(",
}


@pytest.mark.parametrize("command", MATRIX)
def test_matrix_formulas(run, command):
    text, *options = command.split(" --")
    code, out, err = run(text, *shlex.split("".join(f" --{option}" for option in options)))
    assert (code, out.startswith(MATRIX[command])) == (0, True)
    assert err == "" or err.startswith("assumed: ")


def test_assumptions_are_reported(run):
    assert run("tr(A*X)", "--wrt", "X")[2] == "assumed: A is a matrix, X is a matrix\n"


def test_long_work_is_reported_on_a_terminal(monkeypatch):
    printed = io.StringIO()
    printed.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", printed)
    with command_line.progress_notice(0.01):
        time.sleep(0.2)
    assert printed.getvalue() == "still working; Ctrl-C stops it\n"
    with command_line.progress_notice():
        pass


def test_index_form_is_written_out(run):
    """Entries of a tensor are written out where they are read, with an index of their own in every sum."""
    softmax = "declare x 1 expression exp(x) / ((i->)exp(x)) derivative wrt x"
    total = "IndexedSum(exp(x[k]), (k, 0, n - 1))"
    found = answer(run, "--form", "index", softmax)
    assert found.count(total) == 2
    assert found.startswith("TensorComprehension(") and found.endswith(", (i, n), (j, n))")
    assert found.count("TensorComprehension") == 1


@pytest.mark.parametrize("form", ["numpy", "numba", "c", "cuda", "cuda_c", "jax", "torch", "cupy"])
def test_kernels(run, form):
    parsed = td.parse(QUADRATIC)
    code = td.generate_code((parsed.tensors["A"], parsed.tensors["x"]), parsed.derivative(), form)
    assert answer(run, "--form", form, QUADRATIC) == code.rstrip()


def test_formulas_as_they_are_written_on_paper(run):
    names = "declare A[m, n], x[n], b[m]"
    by_bars, by_name = (answer(run, f"{names} {norm}^2", "--wrt", "x") for norm in ("||A*x - b||", "norm2(A*x - b)"))
    assert by_bars == by_name == "2*A.T @ (A @ x - b)"
    assert answer(run, "declare x f(x) = sin(x)*x^2") == "x**2*cos(x) + 2*x*sin(x)"
    assert "compute(" in answer(run, "--form", "c", "declare x[n] f(x) = ||x||^2")


def test_arguments_of_a_kernel(run):
    """Tensors in the order of their declarations, also those that are not read, then sizes that none of them has."""
    text = answer(run, "--form=numpy", "declare a 0 B 2 x 1 expression x *(i,j->ij) (2 *(,kl->) a) derivative wrt a")
    names = {}
    exec(text, names)
    p, q, columns = 3, 5, 2
    result = np.empty((4, columns))
    names["run"](np.float64(7), np.ones((2, 2)), np.arange(4.0), p, q, columns, result)
    np.testing.assert_array_equal(result, 2 * p * q * np.repeat(np.arange(4.0)[:, None], columns, axis=1))


def test_raw_and_expression(run):
    parsed = td.parse(TANH)
    assert answer(run, "--form", "index", "--raw", TANH) == str(
        parsed.derivative(simplify=False).rewrite(td.IndexedSum)
    )
    assert answer(run, "--simplify", TANH) == td.to_text(parsed.derivative())
    assert answer(run, "--expression", TANH) == td.to_text(parsed.expression) == "tanh(x)"
    assert answer(run, "--expression", "--form=pretty", TANH) == "tanh(x)"


def test_ascii_output(monkeypatch):
    """Two-dimensional formulas have ASCII signs where the terminal has no others."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    assert command_line.main(["--form", "pretty", QUADRATIC]) == 0
    assert output.buffer.getvalue().decode("ascii") == "/     T\\\n\\A + A /*x\n"


# ---------------------------------------------------------------------------- sources


@pytest.mark.parametrize("content", [QUADRATIC, QUADRATIC.replace(" ", "\n"), f"# comment\r\n\ufeff{QUADRATIC}\r"])
def test_sources(run, monkeypatch, tmp_path, content):
    data = content.replace("\ufeff", "").encode("utf-8-sig" if "\ufeff" in content else "utf-8")
    wanted = answer(run, QUADRATIC)
    path = tmp_path / "input.txt"
    path.write_bytes(data)
    assert answer(run, "--file", str(path)) == wanted
    monkeypatch.chdir(tmp_path)
    assert answer(run, "--file", "input.txt") == wanted
    code, _, err = run("input.txt")
    assert code == 2 and "there is a file input.txt: an argument is a formula, and --file reads a file" in err
    for arguments in [(), ("-",), ("--file", "-"), ("--form=text",)]:
        standard_input(monkeypatch, data)
        assert answer(run, *arguments) == wanted
    monkeypatch.setattr(sys, "stdin", io.StringIO(QUADRATIC))
    assert answer(run) == wanted


def test_without_input_help_is_printed(run, monkeypatch):
    terminal, closed = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    closed.close()
    with open(os.devnull, "w") as unreadable:
        for nothing in (terminal, closed, unreadable, None):
            monkeypatch.setattr(sys, "stdin", nothing)
            code, out, _ = run()
            assert code == 2
            assert "demo" in out


# ---------------------------------------------------------------------------- wrong inputs and commands

BAD = {
    "dance may be": ["dance"],
    "the text does not say what to differentiate with respect to: give --wrt, one or several": ["x'*A*x"],
    "--wrt names z; the input has x, A": ["x'*A*x", "--wrt", "z"],
    "/: Is a directory": ["--file", "/"],
    "nowhere.txt: No such file": ["--file", "nowhere.txt"],
    "an input and --file are given: give one": ["--file", "nowhere.txt", QUADRATIC],
    "line 1, column 1: the input is empty": [""],
    "line 1, column 23: ": ["declare a 0 expression"],
    "line 2, column 12: y is not declared": ["declare x 1\nexpression y\nderivative wrt x"],
    "graph.bmp: cannot save a picture": [QUADRATIC, "--graph", "graph.bmp"],
    "/nowhere/graph.dot: No such file": [QUADRATIC, "--graph", "/nowhere/graph.dot"],
}


@pytest.mark.parametrize("reason", BAD)
def test_wrong_inputs(run, reason):
    code, _, err = run(*BAD[reason])
    assert code == 2
    assert f"error: {reason}" in err or f": {reason}" in err
    assert "Traceback" not in err


def test_the_caret_points_at_the_place(run, tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("declare x 1\n  expression x + yy\nderivative wrt x")
    code, out, err = run("--file", str(path))
    assert (code, out) == (2, "")
    first, line, caret = err.splitlines()
    assert first.startswith(f"error: {path}, line 2, column 18: yy is not declared")
    assert line == "  expression x + yy"
    assert caret == " " * 17 + "^"


BYTES = {
    "is not UTF-8: line 2 holds the byte 0xe4": b"declare x 1\n# \xe4",
    "is UTF-16": "declare".encode("utf-16"),
    "line 1, column 9: ": b"declare \0",
    "line 1, column 1: the input has 200,001 characters": b"\xc3\xa4" * (MAX_INPUT + 1),
    "line 1, column 1: the input has ": b"\xf0\x9f\x92\xa5" * MAX_INPUT * 2,
}


@pytest.mark.parametrize("reason", BYTES)
def test_unreadable_bytes(run, monkeypatch, tmp_path, reason):
    path = tmp_path / "bytes"
    path.write_bytes(BYTES[reason])
    for arguments in ((), ("--file", str(path))):
        standard_input(monkeypatch, BYTES[reason])
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert reason in err.splitlines()[0]
        assert len(err.splitlines()) in (1, 3)


def test_huge_files_are_not_read_to_their_end(run, tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.truncate(1 << 36)
    code, _, err = run("--file", str(path))
    assert code == 2
    assert "characters, and at most 200,000 are read" in err


def test_a_file_without_permission(run, monkeypatch, tmp_path):
    path = tmp_path / "secret"
    path.touch()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert run("--file", str(path)) == (2, "", f"error: {path}: Permission denied\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--form", "fortran", QUADRATIC], "invalid choice: 'fortran'"),
        (["--raw", "--simplify", QUADRATIC], "not allowed with"),
        (["--check", "--expression", QUADRATIC], "not allowed with"),
        (["--for=latex", QUADRATIC], "unrecognized arguments: --for=latex"),
        (QUADRATIC.split(), "one INPUT is needed, in quotes, and 14 are given"),
    ],
)
def test_wrong_commands(run, arguments, reason):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert reason in err


# ---------------------------------------------------------------------------- no answer


def test_an_answer_that_the_default_form_cannot_say(run):
    code, out, err = run("declare X 2 expression adj(X) derivative wrt X")
    assert code == 0
    assert out == "TensorComprehension(TensorCofactor(2, X)[j, i, k, l], (i, n), (j, n), (k, n), (l, n))\n"
    assert err == "--form text cannot say this, here is --form index\n"


def test_what_the_language_cannot_say(run):
    """The message names the forms that can."""
    query = "declare X 2 expression adj(X) derivative wrt X"
    code, out, err = run("--form", "text", query)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.endswith("; another --form can say it: index, latex or pretty\n")
    assert answer(run, "--form", "index", query)


def test_what_is_not_supported(run):
    code, out, err = run("--form", "cuda", INVERSE)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


# ---------------------------------------------------------------------------- checks


@pytest.mark.parametrize("query", [QUADRATIC, INVERSE, TANH, "declare a 0 expression a^3 derivative wrt a"])
@pytest.mark.parametrize("how", ["--raw", "--simplify"])
def test_checks(run, query, how):
    lines = answer(run, "--form", "index", "--check", how, query).splitlines()[1:]
    assert len(lines) == forms.CHECKED_SIZES
    names = [line.removeprefix("# checked for ").partition(": largest relative error ") for line in lines]
    assert all(float(error) < 1e-6 for _, _, error in names)
    assert names[0][0] == ("seed 0" if " 0 " in query else "n = 1")
    assert len({sizes for sizes, _, _ in names}) == len(names)


def test_an_answer_with_a_check_is_still_an_input(run):
    """Notes on the check are comments."""
    text = answer(run, "--check", QUADRATIC)
    again = td.parse(f"declare A 2 x 1 expression {text}\nderivative wrt x")
    assert again.expression == td.parse(QUADRATIC).derivative()
    assert compile(answer(run, "--check", "--form=numba", QUADRATIC), "kernel", "exec")
    assert answer(run, "--check", "--form=latex", QUADRATIC).splitlines()[1].startswith("% checked for n = 1: ")


def test_a_wrong_derivative_is_found(run, monkeypatch):
    right = ParsedExpression.derivative
    monkeypatch.setattr(ParsedExpression, "derivative", lambda self, simplify=True: right(self) * sympy.Rational(3, 2))
    code, out, err = run("--check", "--form", "index", QUADRATIC)
    assert code == 1
    assert "largest relative error" not in out
    assert err.startswith("error: the check has failed for n = 1: derivative with respect to x: entry (0,) is ")


def test_sizes_of_checks():
    symbols = td.indices("n m l")
    found = list(forms.size_choices(symbols, 4))
    assert found[0] == dict.fromkeys(symbols, 1)
    assert all(len(set(sizes.values())) == 3 and min(sizes.values()) > 1 for sizes in found[1:])
    assert all(set(sizes.values()) == {2} for sizes in list(forms.size_choices(symbols, 15))[1:])
    assert list(forms.size_choices(symbols, 40)) == found[:1]
    assert list(forms.size_choices([], 0)) == [{}] * forms.CHECKED_SIZES
    many = td.indices(" ".join(f"k{number}" for number in range(9)))
    assert all(set(sizes) == set(many) for sizes in forms.size_choices(many, 9))
    assert max(max(sizes.values()) for sizes in forms.size_choices(symbols, 1)) > 20


@pytest.mark.parametrize(
    "query",
    [
        "declare w[m], x[n], f[n - m + 1]  f[i] = sum(w[k]*x[i + k], k)  derivative wrt x",
        "declare x[n], f[n - 9]  f[i] = x[i + 9]**2 - x[i]  derivative wrt x",
        "declare x[n]  s = x[0]*x[3]**2  derivative wrt x",
    ],
)
def test_checks_take_sizes_that_fit(run, query):
    assert answer(run, "--check", query).count("largest relative error") == forms.CHECKED_SIZES


def test_sizes_that_never_fit(run):
    code, _, err = run("--check", "declare x[n], f[n - 99]  f[i] = x[i]  derivative wrt x")
    assert code == 1 and "the extent n - 99 of" in err


@pytest.mark.parametrize("body", ["sum(x[k], (k, 0, n))", "sum(x[k + 1] - x[k], k)", "sum(x[k - 1], (k, 0, n - 1))"])
def test_reads_outside_of_shapes_are_refused(run, body):
    """The derivative takes all reads for granted, and would be that of another expression."""
    code, out, err = run(f"declare x[n]  s = {body}  derivative wrt x")
    assert (code, out) == (1, "")
    assert "is read outside of the shape of x, along axis 0, whatever the sizes: for k = " in err


# ---------------------------------------------------------------------------- graphs


@pytest.mark.parametrize("options", [[], ["--raw"], ["--expression"]])
def test_graph(run, tmp_path, options):
    path = tmp_path / "graph.txt"
    answer(run, QUADRATIC, "--graph", str(path), *options)
    parsed = td.parse(QUADRATIC)
    wanted = (
        td.draw_graph(parsed.expression) if "--expression" in options else td.draw_graph(parsed, simplify=not options)
    )
    assert path.read_text("utf-8") == f"{wanted}\n"


# ---------------------------------------------------------------------------- help


def test_examples_of_the_help(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("--help")
    assert code == 0
    examples = [line.strip() for line in out.splitlines() if line.startswith(f"  {PROGRAM} ")]
    assert len(examples) >= 5
    for example in examples:
        code, text, err = run(*shlex.split(example.removeprefix(PROGRAM)))
        assert (code, err.partition(":")[0]) in ((0, ""), (0, "assumed")) and text
    assert all(f" {form} " in out or f" {form}," in out or f"{form}\n" in out for form in forms.FORMS)


def test_version(run):
    assert run("--version") == (0, f"sympy-tensordiff {td.__version__}\n", "")


# ---------------------------------------------------------------------------- processes


def test_interruption(run, monkeypatch):
    def interrupt(text, language):
        raise KeyboardInterrupt

    monkeypatch.setattr(td, "parse", interrupt)
    assert run(QUADRATIC) == (130, "", "error: interrupted\n")


DEEP = {
    "parentheses": ("(" * 9999 + "a" + ")" * 9999, "pretty", ""),
    "sum": ("+".join(["a"] * 3000), "latex", ""),
    "sines": ("sin(" * 200 + "a" + ")" * 200, "pretty", "that is too much to print"),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_inputs(run, name):
    """An answer, or one line that says why there is none."""
    query, form, reason = DEEP[name]
    code, out, err = run("--form", form, f"declare a 0 expression {query} derivative wrt a")
    assert code == err.count("\n") == bool(reason)
    assert reason in err
    assert bool(out) == (not reason)


def test_what_overflows_the_stack(run, monkeypatch):
    """SymPy recurses over its own functions; such an end is not a crash."""

    def overflow(self, simplify):
        return overflow(self, simplify)

    monkeypatch.setattr(ParsedExpression, "derivative", overflow)
    assert run(QUADRATIC) == (1, "", "error: the expression or its derivative is nested too deeply for SymPy\n")


COMMAND = [sys.executable, "-m", "sympy_tensordiff"]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.in_turns(8)
def test_a_terminal_without_unicode():
    """Formulas have ASCII signs there, and the caret is under the error."""
    ascii_only = ENVIRONMENT | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run([*COMMAND, "--form=pretty"], env=ascii_only, input=QUADRATIC.encode(), capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"/     T\\\n\\A + A /*x\n", b"")


def test_an_error_on_a_terminal_without_unicode(monkeypatch):
    errors = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", errors)
    assert command_line.main(["declare ä 1 ü"]) == 2
    errors.flush()
    assert errors.buffer.getvalue().decode("ascii").splitlines()[1:] == ["declare ? 1 ?", "        ^"]


@pytest.mark.in_turns(8)
def test_a_closed_pipe():
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run([*COMMAND, QUADRATIC], env=ENVIRONMENT, stdout=write_end, stderr=subprocess.PIPE)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk(run, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert command_line.main([QUADRATIC]) == 1
        monkeypatch.undo()
    assert run("--version")[0] == 0


def test_closed_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert command_line.main([QUADRATIC]) == 1
    assert capsys.readouterr().err == "error: the answer cannot be written: standard output is closed\n"


@pytest.mark.in_turns(8)
def test_an_interrupted_process():
    """Ctrl-C while standard input is waited for."""
    script = (
        "import os, signal, sys, threading\n"
        "from sympy_tensordiff.app.command_line import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "sys.exit(main([]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as p:
        err = p.stderr.read()
        assert p.wait(timeout=120) == 130
    assert err == b"error: interrupted\n"


def test_certificates(run):
    entropy = "declare x[n] sum(x.*log(x))"
    text = answer(run, "--convex", "--positive=x", "--wrt=x", entropy)
    assert text.startswith("convex in x, by the parts of the Hessian, which are checked:\n  square: ")
    assert answer(run, "--concave", "--wrt=x", "declare x[n] sum(x)").endswith("  it is affine")
    assert r"\geq 0" in answer(run, "--convex", "--form=latex", "--nonnegative=x", "--wrt=x", entropy)
    sine = "declare x[n] sum(sin(x))"
    assert answer(run, "--concave", "--bounds=x=0:pi", "--wrt=x", sine).startswith("concave in x, ")
    assert answer(run, "--convex", "--bounds", "x=-pi:0", "--wrt=x", sine).startswith("convex in x, ")
    assert answer(run, "--convex", "--bounds", "x=-3/2:", "--wrt=x", "declare x[n] sum(x.^3 + 4.5*x.^2)")
    assert command_line.main(["--convex", "--wrt=x", "declare x[n] sum(x.^3)"]) == 1
    assert command_line.main(["--convex", "--wrt=x", "--form=latex", "declare x[n] sum(x.^3)"]) == 1
    assert command_line.main(["--convex", "--wrt=x", "--positive=z", entropy]) == 1
    assert command_line.main(["--convex", "--bounds=x=-3/2:", "--wrt=x", "declare x[n] sum(x.^3 + 4.4*x.^2)"]) == 1
    for bounds, error in {
        "x=0:1/0": "an end of the domain of x is 1/0: write positive, nonnegative, or an interval such as 0 : 1",
        "x=0:two": "an end of the domain of x is two: write positive",
        "x=1": "the domain of x is 1: write positive, nonnegative, or an interval",
        "z=0:1": "z is not a tensor of the input: its tensors are x",
    }.items():
        code, _, err = run("--convex", f"--bounds={bounds}", "--wrt=x", sine)
        assert code == 1 and error in err
