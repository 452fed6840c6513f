"""The page in a browser without a window; skipped where playwright or Chromium is missing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("tornado")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def url():
    command = [sys.executable, "-m", "sympy_tensordiff", "serve", "--port", "0", "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield re.search(r"http://\S+", process.stdout.readline())[0]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield found
        found.close()


@pytest.fixture
def page(browser, url):
    """The page with the first example; nothing is asked from elsewhere, and nothing is complained of."""
    context = browser.new_context(
        permissions=["clipboard-read", "clipboard-write"], viewport={"width": 1300, "height": 900}
    )
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: complaints.append(request.url) if not is_own(request.url, url) else None)
    opened.set_default_timeout(60_000)
    opened.goto(url)
    opened.wait_for_selector("#derivative math")
    yield opened
    assert complaints == []
    context.close()


def is_own(asked, url):
    return asked.startswith((url, "data:"))


def settled(page):
    """Wait until what is typed has been answered."""
    page.wait_for_timeout(400)
    page.wait_for_selector(".answer[aria-busy='false']")
    page.wait_for_timeout(50)


def typed(page, text):
    page.fill("#source", text)
    settled(page)


def test_typing(page):
    page.click("#tab-index")
    typed(page, "declare x[n]\ns = sum(x[i]**3, i)\nderivative wrt x")
    assert page.inner_text("#text") == "TensorComprehension(3*x[p]**2, (p, n))"
    assert page.inner_text("#shape") == "with respect to x, of shape n"
    page.select_option("#order", "2")
    settled(page)
    assert page.inner_text("#text") == "TensorComprehension(6*KroneckerDelta(p, q)*x[p], (p, n), (q, n))"
    assert page.locator("#derivative math").count() == 1


def test_an_error_has_a_caret_and_goes_away(page):
    typed(page, "declare x[n]\ns = sum(y[i], i)\nderivative wrt x")
    assert page.get_attribute("#source", "aria-invalid") == "true"
    assert "line 2, column 9: y is not a declared tensor" in page.inner_text("#complaint")
    assert page.text_content("#complaint pre").split("\n")[1] == " " * 8 + "^"
    typed(page, "declare x[n]\ns = sum(x[i], i)\nderivative wrt x")
    assert page.inner_text("#complaint") == "" and page.get_attribute("#source", "aria-invalid") == "false"


def test_what_belongs_to_another_tab_is_not_shown_in_one(page):
    page.click("#tab-index")
    settled(page)
    typed(page, "declare x[n]\ns = sum(y[i], i)\nderivative wrt x")
    assert page.inner_text("#text") and page.is_disabled("#copy")  # of the input before, faded
    page.click("#tab-numpy")
    settled(page)
    assert page.inner_text("#text") == "" and page.is_disabled("#copy")
    typed(page, "declare x[n]\ns = sum(x[i], i)\nderivative wrt x")
    assert "import numpy" in page.inner_text("#text") and page.is_enabled("#copy")


def test_the_address_changes_when_the_typing_pauses(page):
    """Browsers refuse to change it at every key."""
    page.evaluate("history.replaceState = (...given) => { window.changes = (window.changes ?? 0) + 1; }")
    page.focus("#source")
    page.keyboard.type("# as many keys as this comment has letters\n")
    settled(page)
    assert page.evaluate("window.changes") < 10


def test_a_formula_that_is_too_long_is_not_set(page):
    body = "*".join(f"sin(x[i] + {number})" for number in range(40))
    typed(page, f"declare x[n]\nf[i] = {body}\nderivative wrt x")
    page.click("#tab-latex")
    settled(page)
    assert len(page.inner_text("#text")) > 20_000
    assert page.inner_text("#derivative") == "This formula is too long to be set here; see its notations."
    assert page.locator("#expression math").count() == 1


def test_names_are_never_markup(page):
    typed(page, "declare x[n] <img src=x onerror=alert(1)> derivative wrt x")
    assert "<" in page.inner_text("#complaint") and page.locator("#complaint img").count() == 0


def test_all_forms_and_copies(page):
    page.select_option("#examples", label="Quadratic form")
    settled(page)
    found = {}
    for name in ("latex", "index", "einsum", "matrix", "python", "numpy", "numba", "cuda", "check"):
        page.click(f"#tab-{name}")
        settled(page)
        page.click("#copy")
        page.wait_for_selector("#copy:has-text('Copied')")
        found[name] = page.evaluate("navigator.clipboard.readText()")
        assert found[name] == page.text_content("#text")
    assert found["matrix"] == "(A + A.T) @ x" and "import numpy" in found["numpy"]
    assert "derivative = td.gradient(expression, x)" in found["python"]
    assert "njit" in found["numba"] and "cuda.grid" in found["cuda"] and "relative error" in found["check"]
    for name, formula in (("derivative", found["latex"]), ("expression", r"x^{\top} A x")):
        page.click(f"#copy-{name}")
        page.wait_for_selector(f"#copy-{name}:has-text('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == formula
    page.click("#tab-graph")
    settled(page)
    assert page.evaluate("document.getElementById('graph').naturalWidth") > 50


def test_every_example(page):
    for number in range(page.locator("#examples option").count() - 1):
        page.select_option("#examples", str(number))
        settled(page)
        assert page.inner_text("#complaint") == ""
        assert page.locator("#derivative math").count() == 1
        assert page.locator("#derivative merror").count() == 0


def test_an_example_can_be_chosen_again(page):
    before = page.input_value("#source")
    typed(page, "declare x[n]\ns = sum(x[i], i)\nderivative wrt x")
    assert page.input_value("#examples") == ""
    page.select_option("#examples", "0")
    settled(page)
    assert page.input_value("#source") == before


def test_all_tabs_fit_two_rows(page):
    assert len({round(tab.bounding_box()["y"]) for tab in page.locator("[role=tab]").all()}) <= 2


def test_variables_and_sizes_are_chosen_with_the_keyboard(page, browser, url):
    assert page.input_value("#language") == "any"
    typed(page, "sum(log(1 + exp(-y.*(X*w))))")
    page.click("#tab-matrix")
    assert page.locator("#twice").is_hidden() and page.input_value("#wrt") == "X"
    page.focus("#wrt")
    page.keyboard.press("w")
    settled(page)
    assert page.inner_text("#text") == "-X.T @ (y*sigmoid(-y*(X @ w)))"
    typed(page, "sum(log(1 + exp(-y.*(X*w)))) + w'*w")  # the choice stays
    assert page.inner_text("#shape").startswith("with respect to w, of shape m; assumed: ")
    page.select_option("#order", "2")
    settled(page)
    assert page.input_value("#again") == "w" and page.locator("#twice").is_visible()
    page.select_option("#again", "y")
    settled(page)
    page.click("#tab-numbers")
    settled(page)
    page.locator("#sizes input").last.fill("4")
    page.keyboard.press("Tab")
    settled(page)
    assert "w =\n[" in page.inner_text("#text")
    assert page.evaluate("document.activeElement.id") == "copy"
    page.keyboard.press("Enter")
    page.wait_for_selector("#copy:has-text('Copied')")
    text = page.inner_text("#text")
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector("#derivative math", timeout=60_000)
    settled(other)
    assert other.inner_text("#text") == text and other.input_value("#again") == "y"
    other.close()
    typed(page, "w'*w*3  derivative wrt w")  # what the text says comes first
    assert page.inner_text("#shape").startswith("with respect to w and w")


def test_a_derivative_in_parts(page):
    typed(page, "declare A[n, m], x[m]\nnorm2(sin(A @ x)*exp(sin(A @ x)))**2")
    assert page.inner_text("#shape").startswith("with respect to x")  # the likeliest
    page.click("#tab-latex")
    settled(page)
    whole = page.inner_text("#text")
    page.click("#parts")
    settled(page)
    assert page.get_attribute("#parts", "aria-pressed") == "true" and page.locator("#derivative mtable").count() == 1
    assert r"\text{where}" in page.inner_text("#text") and r"\text{where}" not in whole
    typed(page, "x'*x +")
    assert page.is_disabled("#copy-derivative") and page.is_disabled("#copy-expression")


def test_a_link_may_be_an_input_alone(browser, url):
    other = browser.new_page()
    other.goto(f"{url}#||A*x - b||")
    other.wait_for_selector("#derivative math", timeout=60_000)
    assert other.input_value("#source") == "||A*x - b||" and other.inner_text("#shape").startswith("with respect to x")
    other.close()


def test_brackets_are_explained(page):
    assert page.inner_text("#reading").startswith("[…] with p < d below is the vector")
    page.select_option("#examples", label="Inverse of a matrix")
    settled(page)
    assert page.inner_text("#reading") == ""


def test_a_link_restores_the_state(page, browser, url):
    page.select_option("#examples", label="Inverse of a matrix")
    settled(page)
    page.click("#tab-matrix")
    page.click("#link")
    address = page.evaluate("navigator.clipboard.readText()")
    state = json.loads(urllib.parse.unquote(address.partition("#")[2]))
    assert state["l"] == "any" and state["t"] == "matrix"
    other = browser.new_page()
    other.goto(address)
    other.wait_for_selector("#derivative math", timeout=60_000)
    settled(other)
    assert other.inner_text("#text") == "-outer(inv(A).T @ b, inv(A) @ b)"
    other.goto(url + "#" + urllib.parse.quote('{"s": 3}'))
    other.close()


def test_domains_are_typed(page, browser):
    typed(page, "declare x[n]\nf = sum(x[i]**3, i)\nderivative wrt x")
    page.click("#tab-convex")
    page.wait_for_selector("#text:has-text('not certified convex')")
    assert page.is_hidden("#proof")
    page.locator("#domains input").fill("nonnegative")
    page.keyboard.press("Tab")
    page.wait_for_selector("#text:has-text('convex in x, by the parts of the Hessian')")
    page.wait_for_selector("#proof math")
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector("#proof math", timeout=60_000)
    assert other.input_value("#domains input") == "nonnegative"
    other.close()


def test_keyboard_only(page):
    page.keyboard.press("Tab")
    seen = []
    for _ in range(12):
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        page.keyboard.press("Tab")
    assert seen[:6] == ["examples", "language", "order", "wrt", "source", "link"]
    page.focus("#tab-latex")
    for key, tab in [
        ("ArrowRight", "index"),
        ("End", "convex"),
        ("ArrowRight", "latex"),
        ("ArrowLeft", "convex"),
        ("Home", "latex"),
    ]:
        page.keyboard.press(key)
        settled(page)
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert page.get_attribute(f"#tab-{tab}", "aria-selected") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 760, 1600])
def test_nothing_overflows(browser, url, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("#derivative math", timeout=60_000)
    page.select_option("#examples", label="Energy of particles")
    settled(page)
    for tab in ("latex", "numba"):
        page.click(f"#tab-{tab}")
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    bright = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (bright == "rgb(18, 22, 28)") == (scheme == "dark")
    page.close()
