"""The static page in a browser without a window and without a server of its own; skipped where a tool is missing.

``NODE_MODULES`` may name a folder that has npm's packages, and ``PYODIDE_FOLDER`` a distribution of Pyodide with NumPy.
"""

import os
import re
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sympy_tensordiff.app.command_line import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("gpu", "quic", "background-networking", "component-update", "sync")

# Language, input, tab, and the answer there.
INPUTS = [
    ("any", "norm2(A*x - y)^2\nderivative wrt x", "matrix", "2*A.T @ (A @ x - y)"),
    ("any", "x'*A*x\nderivative wrt x", "matrix", "(A + A.T) @ x"),
    ("any", "log(det(X))\nderivative wrt X", "matrix", "inv(X).T"),
    ("any", "tr(A*X)\nderivative wrt X", "matrix", "A.T"),
    ("any", "declare x[n]\ns = sum(x[i]**3, i)\nderivative wrt x", "index", "TensorComprehension(3*x[p]**2, (p, n))"),
    (
        "any",
        "declare x[2*n + 1], w[3], g[n]\ns = sum(g[i]*sum(w[k]*x[2*i + k], k), (i, 0, n - 1))\nderivative wrt w",
        "index",
        "TensorComprehension(IndexedSum(g[i]*x[2*i + p], (i, 0, n - 1)), (p, 3))",
    ),
    ("any", "declare A 2 b 1\nexpression b *(i,i->) (inv(A) *(ij,j->i) b)\nderivative wrt A", "matrix",
     "-outer(inv(A).T @ b, inv(A) @ b)"),
    ("latex", r"\|A x - y\|_2^2", "matrix", "2*A.T @ (A @ x - y)"),
    ("latex", r"\operatorname{tr}(X^\top X)", "matrix", "2*X"),
    ("any", "sum(log(1 + exp(-y.*(X*w))))\nderivative wrt w", "matrix", "-X.T @ (y*sigmoid(-y*(X @ w)))"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # The site takes half a minute to write: nobody would look at it without a browser.
    pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("there is no Node.js")
    made = tmp_path_factory.mktemp("site") / "page"
    modules, python = os.environ.get("NODE_MODULES"), os.environ.get("PYODIDE_FOLDER")
    given = {"temml": modules and f"{modules}/temml", "pyodide": python or (modules and f"{modules}/pyodide")}
    assert main(["site", str(made), *(f"--{name}={path}" for name, path in given.items() if path)]) == 0
    return made


@pytest.fixture(scope="module")
def url(folder):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(url, tmp_path_factory):
    from playwright import sync_api

    options = [
        "--no-first-run",
        *(f"--disable-{name}" for name in FLAGS),
        *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []),
    ]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, args=options
        )
        opened = browser.pages[0]
        opened.set_default_timeout(240_000)
        complaints: list[str] = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        browser.on("request", lambda request: request.url.startswith((url, "data:")) or complaints.append(request.url))
        opened.goto(url)
        opened.wait_for_selector("#progress[value]:not([hidden])")
        opened.wait_for_selector("#derivative math")
        yield opened
        assert complaints == []
        browser.close()


def settled(page):
    page.wait_for_timeout(400)
    page.wait_for_selector(".answer[aria-busy='false']")


def test_ten_inputs(page):
    assert page.is_hidden("#progress")
    for language, source, tab, expected in INPUTS:
        page.select_option("#language", language)
        page.fill("#source", source)
        page.click(f"#tab-{tab}")
        settled(page)
        assert page.inner_text("#complaint") == ""
        assert page.inner_text("#text") == expected


def test_code_graph_and_proof(page):
    page.select_option("#language", "any")
    page.fill("#source", "norm2(A*x - y)^2\nderivative wrt x")
    for tab, expected in [("numpy", "import numpy"), ("cuda_c", "__global__"), ("convex", "convex in x")]:
        page.click(f"#tab-{tab}")
        settled(page)
        assert expected in page.inner_text("#text")
    page.click("#tab-graph")
    settled(page)
    assert page.evaluate("document.getElementById('graph').naturalWidth") > 50


def test_numbers_and_checks_where_there_is_numpy(page, folder):
    has_numpy = "true" in (folder / "settings.js").read_text()
    assert page.locator("#tab-numbers").count() == page.locator("#tab-check").count() == has_numpy
    if has_numpy:
        page.fill("#source", "x'*A*x")
        for tab, expected in [("numbers", "derivative =\n["), ("check", "n = 1: largest relative error")]:
            page.click(f"#tab-{tab}")
            page.wait_for_function("text => document.getElementById('text').textContent.includes(text)", arg=expected)


def test_a_link_is_an_input(page, url):
    page.goto(f"{url}#||A*x||")  # the same page: no other start
    settled(page)
    assert page.input_value("#source") == "||A*x||" and page.inner_text("#shape").startswith("with respect to x")


def test_an_error_has_a_place(page):
    page.fill("#source", "declare x[n]\ns = sum(y[i], i)\nderivative wrt x")
    settled(page)
    assert "line 2, column 9: y is not a declared tensor" in page.inner_text("#complaint")


def test_the_site_is_refused_in_a_folder_with_files(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert main(["site", str(tmp_path)]) == 1
    assert "is not an empty folder" in capsys.readouterr().err
    assert main(["site", str(tmp_path / "new"), "--pyodide", str(tmp_path)]) == 1
    assert re.search(r"has no pyodide.mjs: give the folder of npm's package pyodide", capsys.readouterr().err)


def test_a_missing_program_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["site", str(tmp_path / "new")]) == 1
    assert "npm is missing: install Node.js 20 or newer" in capsys.readouterr().err
    program = tmp_path / "npm"
    program.write_text(f"#!{sys.executable}\nraise SystemExit('no such version')\n")
    program.chmod(0o755)
    assert main(["site", str(tmp_path / "new")]) == 1
    assert "npm failed: no such version" in capsys.readouterr().err
