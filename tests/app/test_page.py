"""The page: what it answers, whom it answers, and that nothing brings it down."""

import asyncio
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import sympy_tensordiff as td
from sympy_tensordiff.app import command_line
from sympy_tensordiff.app.web import answers, workers
from sympy_tensordiff.app.web.answers import MAX_SOURCE_LENGTH, WANTS, Request, RequestError, parse_request

pytest.importorskip("tornado")
pytest.importorskip("math_core")
import contextlib

import page_fuzz

from sympy_tensordiff.app.web.server import MAX_BODY_BYTES, MAX_CONNECTIONS, Server, page_files
from sympy_tensordiff.app.web.typesetting import to_mathml

EXAMPLES = json.loads(page_files()["examples.json"])
SINE = {
    **{"language": "text", "source": "declare x 1 expression sin(x) derivative wrt x", "order": 1},
    **{"wrt": [], "sizes": {}, "domains": {}, "want": "formulas"},
}


@pytest.fixture(scope="module")
def server():
    """A server with one worker, in a thread of its own."""
    started: list = []
    loop = asyncio.new_event_loop()

    async def start():
        started.append(Server(port=0, workers=1, seconds=60, waiting=2))

    def run():
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not started and thread.is_alive():
        thread.join(0.01)
    yield started[0]
    asyncio.run_coroutine_threadsafe(started[0].close(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


def call(server, method="GET", path="/", body=None, **headers):
    """The status, the headers and the content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def asked(server, changes=None, **headers):
    body = json.dumps({**SINE, **(changes or {})})
    status, _, content = call(server, "POST", "/api/answer", body, Content_Type="application/json", **headers)
    return status, json.loads(content)


# ---------------------------------------------------------------------------- answers


def message(**changes):
    return answers.answer(Request(**{**SINE, **changes}))


def test_formulas() -> None:
    found = message(source="declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x")
    assert found["derivative"]["matrix"] == {"text": "(A + A.T) @ x"}
    assert found["derivative"]["einsum"] == {"text": "x *(j,ij->i) (A + (ji->ij) A)"}
    index = "TensorComprehension(IndexedSum((A[i, j] + A[j, i])*x[j], (j, 0, n - 1)), (i, n))"
    assert found["derivative"]["index"] == {"text": index}
    assert found["derivative"]["latex"] == {"text": r"\left(A + A^{\top}\right) x"}
    assert (found["wrt"], found["shape"]) == (["x"], "n")
    assert (found["variables"], found["sizes"], found["reading"]) == (["A", "x"], {"n": 2}, "")


def test_once_more() -> None:
    assert message(order=2)["derivative"]["einsum"]["text"].count("sin") == 1
    assert message(order=2)["wrt"] == ["x", "x"]


def test_matrix_formulas() -> None:
    found = message(language="matrix", source="norm2(A*x - y)^2 derivative wrt x")
    assert (found["derivative"]["matrix"], found["wrt"]) == ({"text": "2*A.T @ (A @ x - y)"}, ["x"])
    assert found["assumed"] == ["A is a matrix", "x is a vector", "y is a vector"]
    assert message(language="matrix", source="x'*A*x")["wrt"] == ["x"]
    assert message(language="matrix", source="exp(x)")["place"]["column"] == 5
    assert "does not say what to differentiate" in message(language="matrix", source="2")["error"]


def test_what_to_differentiate_with_respect_to() -> None:
    question = {"language": "matrix", "source": "norm2(A*x - y)^2"}
    assert message(**question)["wrt"] == ["x"]  # the likeliest name
    assert message(**question, wrt=["x"])["derivative"]["matrix"] == {"text": "2*A.T @ (A @ x - y)"}
    assert message(**question, wrt=["x"], order=2)["derivative"]["matrix"] == {"text": "2*A.T @ A"}
    assert message(**question, wrt=["x", "y"], order=2)["derivative"]["matrix"] == {"text": "-2*A.T"}
    assert message(**question, wrt=["x", "y"], order=1)["wrt"] == ["x"]
    assert message(**question, wrt=["gone"])["wrt"] == ["x"]
    assert message(wrt=["gone"])["wrt"] == ["x"]
    gather = {"language": "index", "source": "declare int w[m], x[n] s = sum(x[w[i]]**2, i) derivative wrt x"}
    assert message(**gather)["variables"] == ["x"]


def test_brackets_are_explained() -> None:
    outer = "declare x[n], y[m] f[i, j] = x[i]*y[j] derivative wrt x"
    found = message(language="index", source="declare x[n] s = sum(x[i]**3, i) derivative wrt x")
    assert found["derivative"]["latex"]["text"].endswith(r"\right]_{p < n}")
    assert found["reading"] == "[…] with p < n below is the vector of the entries in the brackets, for p = 0, …, n - 1."
    assert "i < n, j < m below is the matrix" in answers.bracket_note(td.parse(outer).expression)


def test_formulas_are_typeset() -> None:
    request = Request(**{**SINE, "source": "declare x 1 expression log(x) *(i,i->) x derivative wrt x"})
    assert "mathml" not in answers.answer(request)["derivative"]["latex"]
    found = answers.answer(request, to_mathml)
    assert found["expression"]["mathml"].startswith('<math display="block">')
    assert "<mi>log</mi>" in found["derivative"]["latex"]["mathml"]
    assert answers.formula(lambda: "x" * (answers.MAX_FORMULA_LENGTH + 1), to_mathml).keys() == {"text"}
    found = answers.formula(lambda: r"\unknown{<b>}", to_mathml)
    assert found["mathml"] == r"<math><mtext>\unknown{&lt;b&gt;}</mtext></math>"


def test_a_long_derivative_has_parts() -> None:
    source = "declare Q[n, d], K[m, d], V[m, v], Y[n, v] norm2(softmax(Q @ K.T, axis=1) @ V - Y)**2"
    found = message(language="any", source=source, wrt=["Q"])["derivative"]
    assert found["latex"]["text"].count("softmax") == 5 and found["other"]["text"].count("softmax") == 1
    longer = source.replace("Q @ K.T", "Q @ K.T/sqrt(d) + 1/(1 + exp(-Q @ K.T))")
    found = message(language="any", source=longer, wrt=["Q"])["derivative"]
    assert r"\text{where}" in found["latex"]["text"] and r"\text{where}" not in found["other"]["text"]
    assert "other" not in message()["derivative"]


def test_a_variable_is_chosen_in_every_language() -> None:
    for source in ("declare A[n, m], x[m] s = sum(A[i, j]*x[j], i, j)", "declare A 2 x 1 expression A *(ij,j->i) x"):
        assert message(language="any", source=source)["wrt"] == ["x"]


def test_numbers() -> None:
    question = {"language": "matrix", "source": "x'*A*x", "wrt": ["x"], "want": "numbers"}
    text = message(**question, sizes={"n": 3, "unknown": 7})["numbers"]["text"]
    names = [line for line in text.splitlines() if line.endswith("=")]
    assert names == ["x =", "A =", "value =", "derivative ="] and text.count("\n") == 9
    assert "[]" in message(**question, sizes={"n": 0})["numbers"]["text"]
    assert "random values are drawn for at most" in message(
        language="index", source="declare x[n, n, n] s = sum(x[i, j, k], i, j, k) derivative wrt x", want="numbers",
        sizes={"n": 1000},
    )["numbers"]["error"]  # fmt: skip


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("example", EXAMPLES, ids=[example["title"] for example in EXAMPLES])
def test_examples(example) -> None:
    question = {"language": example["language"], "source": example["source"]}
    for order in (1, 2):
        found = message(**question, order=order)
        assert "error" not in found, found
        assert "text" in found["derivative"]["latex"] and "text" in found["derivative"]["index"]
    assert message(**{**question, "language": "any"}, order=2) == found
    assert "def run(" in message(**question, want="numba")["code"]["text"]
    assert "largest relative error" in message(**question, want="check")["check"]["text"]
    assert "derivative =" in message(**question, want="numbers")["numbers"]["text"]
    assert message(**question, want="convex")["convex"].keys() <= {"text", "error", "proof"}


def test_convexity_over_domains() -> None:
    question = {"language": "index", "source": "declare x[n] f = sum(x[i]**3, i) derivative wrt x", "want": "convex"}
    assert message(**question)["convex"]["text"].startswith("not certified convex: no sign of 6*x[i]")
    assert message(**question, domains={"x": "nonnegative", "gone": "?"})["convex"]["text"].startswith("convex in x, ")
    assert r"\geq 0" in message(**question, domains={"x": "positive"})["convex"]["proof"]["text"]
    assert message(**question, domains={"x": "-2 : 0"})["convex"]["text"].startswith("concave in x, ")
    assert "write positive, nonnegative" in message(**question, domains={"x": "here"})["convex"]["error"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("sum(log(1+exp(-y.*(X*w)))) + l*w'*w", "X"),
        ("tr(A*X*B*X')", "X"),
        ("a'*u + v'*v", "u"),
        ("b'*c", "b"),
        ("f(b) = ||A*x - b||^2", "b"),
        ("||A*x - b||^2 derivative wrt A", "A"),
    ],
)
def test_the_likeliest_variable(source: str, name: str) -> None:
    assert message(language="any", source=source)["wrt"] == [name]


def test_graph_and_code() -> None:
    assert "double" in message(want="c")["code"]["text"]
    assert message(want="graph")["graph"]["text"].count("<svg") == 1
    assert "td.jacobian(expression, x)" in message(want="python")["code"]["text"]
    assert "cuda.grid" in message(want="cuda")["code"]["text"] and "np.cos" in message(want="numpy")["code"]["text"]


def test_errors_of_wrong_inputs_have_positions() -> None:
    found = message(language="index", source="declare x[n]\nf[i] = x[i] + z[i] derivative wrt x")
    assert (found["place"]["line"], found["place"]["column"]) == (2, 15)
    assert found["place"]["text"].endswith("\n              ^")
    assert "not declared" in message(source="declare x 1 expression y derivative wrt x")["error"]


def test_reads_outside_of_shapes_are_reported() -> None:
    found = message(language="index", source="declare x[n] s = sum(x[i], (i, 0, n)) derivative wrt x")
    assert "x[i] is read outside of the shape of x, along axis 0, whatever the sizes" in found["error"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("declare x[10**18] s = sum(x[i], i) derivative wrt x", "1,000,000,000,000,000,000 entries, and random"),
        ("declare int w[10**9], x[n] s = sum(x[w[i]], i) derivative wrt x", "1,000,000,000 entries, and random"),
    ],
)
def test_tensors_that_are_too_large_are_not_checked(source, reason) -> None:
    assert reason in message(language="index", source=source, want="check")["check"]["error"]


def test_what_has_no_form_says_so() -> None:
    found = message(language="index", source="declare x[n] s = prod(x[i], i) derivative wrt x")
    assert "there are no operations on whole tensors" in found["derivative"]["matrix"]["error"]
    reason = "the text language cannot say this: it reads single entries or a part of an axis"
    assert found["derivative"]["einsum"]["error"].startswith(reason)
    found = message(language="index", source="declare int w[m], x[n] s = sum(x[w[i]]**2, i) derivative wrt x")
    assert found["derivative"]["einsum"]["error"].startswith("the text language cannot say this: w is a tensor of int")
    large = answers.text_or_error(lambda: "x" * (answers.MAX_TEXT_LENGTH + 1))
    assert large == {"error": "this takes 200,001 characters, and at most 200,000 are shown"}


def test_a_wrong_derivative_is_reported(monkeypatch) -> None:
    x = td.TensorSymbol("x", 3)
    parsed = td.ParsedExpression({"x": x}, td.sin(x), (x,))
    found = answers.text_or_error(lambda: "\n".join(answers.check_lines(parsed, td.diag(td.sin(x)))))
    assert "the check has failed for" in found["error"]


BAD_REQUESTS = {
    b"": "not a JSON text",
    b"\xff\xfe": "not a JSON text",
    b"[" * 100_000: "not a JSON text",
    b"[]": "a request has language, source, order, wrt, sizes, domains, want",
    b'{"language": "text"}': "a request has language, source, order, wrt, sizes, domains, want",
    json.dumps({**SINE, "more": 1}).encode(): "a request has",
    json.dumps({**SINE, "source": 3}).encode(): "the source is a text of at most 20,000 characters",
    json.dumps({**SINE, "source": "x" * (MAX_SOURCE_LENGTH + 1)}).encode(): "at most 20,000 characters",
    json.dumps({**SINE, "source": "\ud800"}).encode(): "half a character",
    json.dumps({**SINE, "language": "python"}).encode(): "language is one of any, index, matrix, latex, text",
    json.dumps({**SINE, "language": ["text"]}).encode(): "language is one of any, index, matrix, latex, text",
    json.dumps({**SINE, "order": 3}).encode(): "order is one of 1, 2",
    json.dumps({**SINE, "order": True}).encode(): "order is one of 1, 2",
    json.dumps({**SINE, "order": 1.0}).encode(): "order is one of 1, 2",
    json.dumps({**SINE, "wrt": "x"}).encode(): "wrt is a list of at most two names",
    json.dumps({**SINE, "wrt": ["x", "x", "x"]}).encode(): "wrt is a list of at most two names",
    json.dumps({**SINE, "wrt": [1]}).encode(): "wrt is a list of at most two names",
    json.dumps({**SINE, "domains": []}).encode(): "domains are texts of at most 40 characters by their names",
    json.dumps({**SINE, "domains": {"x": 1}}).encode(): "domains are texts of at most 40 characters by their names",
    json.dumps({**SINE, "domains": {"x": 41 * "0"}}).encode(): "domains are texts of at most 40 characters by their",
    json.dumps({**SINE, "sizes": []}).encode(): "sizes are integers from 0 to 1,000",
    json.dumps({**SINE, "sizes": {"n": -1}}).encode(): "sizes are integers from 0 to 1,000",
    json.dumps({**SINE, "sizes": {"n": True}}).encode(): "sizes are integers from 0 to 1,000",
    json.dumps({**SINE, "want": "../"}).encode(): f"want is one of {', '.join(WANTS)}",
}


@pytest.mark.parametrize("body", BAD_REQUESTS, ids=range(len(BAD_REQUESTS)))
def test_bad_requests(body) -> None:
    with pytest.raises(RequestError, match=BAD_REQUESTS[body]):
        parse_request(body)


# ---------------------------------------------------------------------------- the server


def test_the_page_and_its_files(server) -> None:
    status, headers, content = call(server)
    assert status == 200 and b"<textarea" in content
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and "Server" not in headers
    names = page_files()
    assert {"index.html", "page.css", "page.js", "transport.js", "icon.svg", "formulas.ttf"} <= set(names)
    for name in ("page.js", "page.css", "formulas.ttf"):
        assert call(server, path=f"/{name}")[2] == names[name]
    assert json.loads(call(server, path="/examples.json")[2]) == EXAMPLES
    own = b"".join(content for name, content in names.items() if name != "formulas.ttf")
    assert b"//" not in own.replace(b"http://www.w3.org", b"").replace(b"// ", b"")  # nothing from elsewhere


PATHS = [
    *("/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/static/../../answers.py", "/static/page.js"),
    *("//etc/passwd", "/etc/passwd", "/index.html%00", "/api/", "/api/answer/x", "/site", "/site/"),
]


@pytest.mark.parametrize("path", PATHS)
def test_other_paths_lead_nowhere(server, path) -> None:
    assert call(server, path=path)[0] == 404


def test_random_paths_lead_to_files_of_the_page_or_nowhere(server) -> None:
    generator = random.Random(5)
    pieces = (
        "/",
        "//",
        "..",
        "%2e%2e",
        "%2f",
        "%5c",
        ".",
        "~",
        "page.js",
        "static",
        "server.py",
        "etc",
        "passwd",
        "%00",
        "?x",
    )
    own = {*page_files().values(), call(server)[2]}
    found = set()
    for _ in range(80):
        status, _, content = call(server, path="/" + "".join(generator.choices(pieces, k=generator.randint(1, 7))))
        found.add(status)
        assert status == 404 or (status == 200 and content in own)
    assert found == {200, 404}


def test_an_answer(server) -> None:
    status, found = asked(server)
    assert status == 200 and found["derivative"]["matrix"] == {"text": "diag(cos(x))"}
    status, found = asked(server, {"source": "declare x 1 expression </script><img> derivative wrt x"})
    assert status == 200 and found["place"]["line"] == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "example.org"},
        {"Host": "127.0.0.1.example.org:80"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_other_sites_may_not_ask(server, headers) -> None:
    assert asked(server, **headers)[0] == 403
    assert call(server, **headers)[0] == 403


def test_own_names_may_ask(server) -> None:
    for name in ("localhost", "127.0.0.1"):
        host = f"{name}:{server.port}"
        assert asked(server, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin")[0] == 200
    assert call(server, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200  # a link to the page


def test_hostile_calls(server) -> None:
    plain = json.dumps(SINE)
    assert call(server, "POST", "/api/answer", plain, Content_Type="text/plain")[0] == 415
    assert call(server, "POST", "/api/answer", plain)[0] == 415
    assert call(server, "POST", "/api/answer", "{", Content_Type="application/json")[0] == 400
    assert call(server, "GET", "/api/answer")[0] == 405
    assert call(server, "DELETE", "/")[0] == 405
    for length in (MAX_BODY_BYTES + 1, 10**12):
        body = b"x" * min(length, MAX_BODY_BYTES + 1)
        try:
            status = call(server, "POST", "/api/answer", body, Content_Length=str(length))[0]
        except (http.client.HTTPException, ConnectionError):
            status = 400  # the server has hung up
        assert status in (400, 413)
    with contextlib.suppress(http.client.HTTPException, ConnectionError):
        assert call(server, path="/" + "x" * 60_000)[0] in (400, 414, 431)
    assert asked(server)[0] == 200


def test_random_bytes(server) -> None:
    generator = random.Random(3)
    pieces = [
        plain.encode() for plain in ("declare x 1 expression ", "x", "*(i,i->)", "derivative wrt x", "[", "{", '"')
    ]
    for _ in range(60):
        content = b"".join(generator.choices([*pieces, bytes([generator.randrange(256)])], k=generator.randrange(9)))
        changes = {
            "source": content.decode("latin-1"),
            "language": generator.choice(["any", "index", "matrix", "text"]),
        }
        assert asked(server, changes)[0] == 200
        assert call(server, "POST", "/api/answer", content, Content_Type="application/json")[0] == 400
    assert asked(server)[0] == 200


def test_random_changes_of_the_examples(thorough) -> None:
    counts, failures = asyncio.run(page_fuzz.answers_to(range(300 if thorough else 12), 20))
    assert not failures and counts["an answer"] > 1 and counts["an explained error"] > 3


def test_the_fuzz_sees_mistakes_and_slow_answers(monkeypatch) -> None:
    class Pool:
        def __init__(self, *_):
            self.count = 0

        async def ask(self, request):
            self.count += 1
            if self.count == 1:
                raise workers.SlowError
            return {"error": "this is a mistake of the package (KeyError)"} if self.count == 2 else {"derivative": {}}

        def close(self):
            self.count = 0

    monkeypatch.setattr(page_fuzz, "Pool", Pool)
    counts, failures = asyncio.run(page_fuzz.answers_to(range(3), 20))
    assert counts == {"too slow": 1, "an explained error": 1, "an answer": 1}
    assert len(failures) == 1 and failures[0].startswith("seed 1:")


SLOW = f"declare x 1 expression {'sin(' * 3000}x{')' * 3000} derivative wrt x"


def test_a_slow_answer_is_given_up_and_the_worker_replaced(server) -> None:
    worker = server.pool.workers[0]
    server.pool.seconds = 0.01
    try:
        assert "takes longer than 0.01 seconds" in asked(server, {"source": SLOW})[1]["error"]
    finally:
        server.pool.seconds = 60
    assert server.pool.workers[0] is not worker and not worker.process.is_alive()
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}


def test_a_worker_that_dies_is_replaced(server) -> None:
    server.pool.workers[0].process.kill()
    assert "has died, for want of memory perhaps" in asked(server)[1]["error"]
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and numbers of processes are those of Linux")
def test_the_memory_of_an_answer_is_limited(server) -> None:
    """A process has a limit, says when it is reached, answers then, and is replaced if it has used much memory."""
    assert asked(server)[0] == 200
    limits = Path(f"/proc/{server.pool.workers[0].process.pid}/limits").read_text(encoding="ascii").splitlines()
    (limit,) = [line.split()[3] for line in limits if line.startswith("Max address space")]
    assert int(limit) == workers.MAX_MEMORY == 3 * 2**30
    source = "declare x[n] f[i, j, k, l] = x[i]*x[j]*x[k]*x[l] derivative wrt x"
    large = {"language": "index", "source": source, "want": "numbers", "sizes": {"n": 300}}
    assert "this needs more memory than there is" in asked(server, large)[1]["error"]
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others start a new Python for each worker")
def test_workers_are_forks_of_one_process_that_has_imported_the_package(server) -> None:
    """A stopped worker is replaced without another import, which takes seconds."""
    parents = []
    for _ in range(2):
        assert asked(server)[0] == 200
        worker = server.pool.workers[0]
        parents.append(int(Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[1]))
        worker.process.kill()
        asked(server)
    assert parents[0] == parents[1] != os.getpid()


def test_the_start_of_a_worker_is_no_part_of_the_time_for_an_answer(monkeypatch) -> None:
    times: list = []

    async def arrival(_, seconds):
        times.append(seconds)

    worker = workers._Worker.__new__(workers._Worker)
    worker.pipe, theirs = multiprocessing.Pipe()
    worker.is_ready, worker.is_usable, worker.answered = False, True, 0
    monkeypatch.setattr(workers._Worker, "_wait_for_data", arrival)
    for message in ("ready", {"error": "first"}, {"error": "second"}):
        theirs.send((message, False) if message != "ready" else message)
    assert asyncio.run(worker.ask(Request(**SINE), 3)) == {"error": "first"}
    assert asyncio.run(worker.ask(Request(**SINE), 4)) == {"error": "second"}
    assert times == [workers.START_SECONDS, 3, 4] and worker.is_usable


def test_a_place_is_kept_where_no_worker_can_be_started(server, monkeypatch) -> None:
    def no_process(*_):
        raise OSError(24, "too many open files")

    worker = server.pool.workers[0]
    worker.process.kill()
    with monkeypatch.context() as patched:
        patched.setattr(workers, "_Worker", no_process)
        for _ in range(3):
            assert "has died" in asked(server)[1]["error"]
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}
    assert server.pool.workers[0] is not worker


@pytest.mark.in_turns(4)
def test_what_nobody_waits_for_is_given_up(server) -> None:
    """A page that asks anew hangs up: no worker goes on for it, and none that waits begins."""
    asked(server)
    worker = server.pool.workers[0]
    body = json.dumps({**SINE, "source": SLOW})
    connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=90) for _ in range(3)]
    for connection in connections:
        connection.request("POST", "/api/answer", body, {"Content-Type": "application/json"})
    until(lambda: server.pool.pending == 3)
    for connection in connections:
        connection.close()
    until(lambda: server.pool.pending == 0)
    assert server.pool.workers[0] is not worker and not worker.process.is_alive()
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}


def test_a_worker_that_is_about_to_answer_is_kept(server) -> None:
    asked(server)
    worker = server.pool.workers[0]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    connection.request("POST", "/api/answer", json.dumps(SINE), {"Content-Type": "application/json"})
    connection.close()
    until(lambda: server.pool.pending == 0)
    assert asked(server)[0] == 200 and server.pool.workers[0] is worker


def test_more_connections_than_there_are_files_for_are_closed(server) -> None:
    with contextlib.ExitStack() as stack:
        connections = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(MAX_CONNECTIONS + 20)]
        for connection in connections:
            stack.enter_context(connection)
            connection.setblocking(False)
        # The server may still count connections that earlier tests have just closed.
        until(lambda: 20 <= sum(map(is_closed, connections)) < 30)
    until(lambda: asked(server)[0] == 200)


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has hung up."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def until(holds) -> None:
    """Wait for what happens in another thread."""
    for _ in range(6000):
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(0.01)
    raise AssertionError("this does not happen within a minute")


def test_a_mistake_of_the_package_is_called_one(monkeypatch) -> None:
    told_so: list = []

    class Pipe:
        def recv(self):
            if len(told_so) == 2:
                raise EOFError
            return Request(**SINE)

        def send(self, message):
            told_so.append(message)

    monkeypatch.setattr(answers, "answer", lambda request, typeset: 1 // 0)
    monkeypatch.setattr(workers, "_limit_memory", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    workers.run_worker(Pipe())
    assert told_so[0] == "ready"
    error, is_exhausted = told_so[1]
    assert "this is a mistake of the package (ZeroDivisionError); please report" in error["error"]
    assert not is_exhausted
    del told_so[:]
    monkeypatch.setattr(workers, "MAX_MEMORY", 2**20)
    workers.run_worker(Pipe())
    assert told_so[1] == (error, sys.platform != "win32")


def test_a_worker_that_has_used_much_memory_is_replaced(server, monkeypatch) -> None:
    asked(server)
    worker = server.pool.workers[0]
    asked(server)
    assert server.pool.workers[0] is worker
    receive = worker.pipe.recv
    monkeypatch.setattr(worker, "pipe", SimpleNamespace(
        recv=lambda: (receive()[0], True), send=worker.pipe.send, fileno=worker.pipe.fileno, close=worker.pipe.close,
        closed=False,
    ))  # fmt: skip
    assert asked(server)[1]["derivative"]["matrix"] == {"text": "diag(cos(x))"}
    assert server.pool.workers[0] is not worker and not worker.process.is_alive()


def test_several_users_at_once(server) -> None:
    found = []
    users = [threading.Thread(target=lambda: found.append(asked(server))) for _ in range(6)]
    for user in users:
        user.start()
    for user in users:
        user.join(90)
    statuses = [status for status, _ in found]
    assert len(found) == 6 and set(statuses) <= {200, 503} and statuses.count(200) >= 3
    assert all("too many requests" in answer["error"] for status, answer in found if status == 503)


# ---------------------------------------------------------------------------- the command


@pytest.mark.in_turns(8)
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_ends_on_request(name) -> None:
    command = [sys.executable, "-m", "sympy_tensordiff", "serve", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            process.send_signal(getattr(signal, name))
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken(server, capsys) -> None:
    assert command_line.main(["serve", "--port", str(server.port)]) == 1
    assert f"port {server.port} cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--port", "x"], ["--workers", "0"], ["--seconds", "9999"]])
def test_wrong_options(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        command_line.main(["serve", *arguments])
    assert stop.value.code == 2 and arguments[1] in capsys.readouterr().err


def test_without_the_framework(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "sympy_tensordiff.app.web.server", None)
    assert command_line.main(["serve"]) == 1
    assert "pip install '.[page]'" in capsys.readouterr().err
