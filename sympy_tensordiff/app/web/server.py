"""The HTTP server of the page, for this machine only."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import suppress
from importlib.resources import files
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import Application, HTTPError, RequestHandler

from sympy_tensordiff.app.web.answers import MAX_SOURCE_LENGTH, RequestError, parse_request
from sympy_tensordiff.app.web.typesetting import FONT_FILE
from sympy_tensordiff.app.web.workers import BusyError, LostError, Pool, SlowError

HOST = "127.0.0.1"
MAX_BODY_BYTES = 8 * MAX_SOURCE_LENGTH
"""The greatest number of bytes of a request: JSON escapes take up to twelve bytes per character."""
MAX_CONNECTIONS = 100
"""The greatest number of connections; some systems allow only 256 open files."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json; charset=utf-8",
    "svg": "image/svg+xml",
    "ttf": "font/ttf",
}


class _Handler(RequestHandler):
    """Base of all request handlers: access check and security headers."""

    def set_default_headers(self) -> None:
        """Set the security headers of the response."""
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        """Refuse a request that comes from another site, before it is handled."""
        if not is_local_request(self.request, self.settings["port"]):
            raise HTTPError(403, reason="Only this page may ask")

    def write_error(self, status_code: int, **details: Any) -> None:
        """Send the reason of an HTTP error as JSON."""
        self.send_json({"error": self._reason})

    def send_json(self, answer: Any) -> None:
        """Send ``answer`` as JSON and finish the response."""
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(answer))


class _Files(_Handler):
    """HTTP handler for the static files, all of which are read when the server starts."""

    def get(self, name: str) -> None:
        """Send the static file ``name``; the page itself for ""."""
        content = self.settings["page"].get(name or "index.html")
        if content is None:
            raise HTTPError(404)
        self.set_header("Content-Type", _TYPES[(name or "index.html").rpartition(".")[2]])
        self.finish(content)


class _Answers(_Handler):
    """HTTP handler that computes the answers to the page's requests."""

    pending: asyncio.Future[Any] | None = None

    async def post(self) -> None:
        """Answer a request in JSON; send an error message if it is invalid, times out or the worker dies."""
        if self.request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise HTTPError(415, reason="A request is JSON")
        try:
            request = parse_request(self.request.body)
        except RequestError as error:
            self.set_status(400)
            self.send_json({"error": str(error)})
            return
        pool: Pool = self.settings["pool"]
        self.pending = asyncio.ensure_future(pool.ask(request))
        try:
            self.send_json(await self.pending)
        except asyncio.CancelledError:
            return  # the client has gone
        except BusyError:
            self.set_status(503)
            self.send_json({"error": "too many requests are waiting; ask again"})
        except SlowError:
            self.send_json({"error": f"this takes longer than {pool.seconds:g} seconds; use the package itself for it"})
        except LostError:
            self.send_json({"error": "the process that computes this has died, for want of memory perhaps"})

    def on_connection_close(self) -> None:
        """Cancel a request that the page has abandoned."""
        if self.pending is not None:
            self.pending.cancel()


def is_local_request(request: HTTPServerRequest, port: int) -> bool:
    """Return whether a request may be answered: its host is this machine with ``port``, and it does not come from a
    page of another site, except by a link.

    The host name is checked because any site may point its own name to this machine (DNS rebinding).
    """
    own = {f"{name}:{port}" for name in ("localhost", HOST)}
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = site == "cross-site" and request.headers.get("Sec-Fetch-Mode") == "navigate"
    return (
        request.headers.get("Host", "").lower() in own
        and (origin is None or origin.lower() in {f"http://{name}" for name in own})
        and (site in ("none", "same-origin") or is_link)
    )


class _HTTPServer(HTTPServer):
    """HTTP server that limits the number of open connections: it closes each new one above the limit."""

    connections = 0

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Accept the connection ``stream`` from ``address``, or close it if there are too many."""
        if self.connections >= MAX_CONNECTIONS:
            stream.close()
            return
        self.connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Decrease the number of open connections when the connection ``server_conn`` is closed."""
        self.connections -= 1
        super().on_close(server_conn)


def page_files() -> dict[str, bytes]:
    """Return the contents of the static files and of the font by name."""
    entries = files(__package__).joinpath("static").iterdir()
    found = {entry.name: entry.read_bytes() for entry in entries if entry.name.rpartition(".")[2] in _TYPES}
    return {**found, "formulas.ttf": FONT_FILE.read_bytes()}


class Server:
    """A web server for the package's page that only programs on this machine can reach.

    Parameters
    ----------
    port : int
        The port; 0 for any free one.
    workers : int
        The number of worker processes.
    seconds : float
        The time limit of an answer.
    waiting : int
        The greatest number of requests that wait for a worker.

    Raises
    ------
    OSError
        If the port is taken.
    """

    def __init__(self, port: int = 0, workers: int = 2, seconds: float = 10, waiting: int = 32) -> None:
        listener = socket.create_server((HOST, port), backlog=128)
        listener.setblocking(False)
        self.port: int = listener.getsockname()[1]
        self.pool = Pool(workers, seconds, waiting)
        application = Application(
            [(r"/api/answer", _Answers), (r"/(.*)", _Files)],
            page=page_files(),
            pool=self.pool,
            port=self.port,
            log_function=lambda handler: None,
        )
        self._server = _HTTPServer(
            application,
            max_body_size=MAX_BODY_BYTES,
            max_buffer_size=2 * MAX_BODY_BYTES,
            max_header_size=16_384,
            body_timeout=10,
            idle_connection_timeout=60,
        )
        self._server.add_socket(listener)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}/"

    async def close(self) -> None:
        """Stop listening, and stop the workers."""
        self._server.stop()
        await self._server.close_all_connections()
        self.pool.close()


async def serve(port: int, workers: int, seconds: float) -> None:
    """Print the address of the page, and serve it until the process is interrupted or terminated."""
    ended = asyncio.Event()
    names = ["SIGINT", "SIGTERM"]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        names.append("SIGHUP")
    for name in names:
        with suppress(NotImplementedError):  # elsewhere the interrupt comes as KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), ended.set)
    server = Server(port, workers, seconds)
    try:
        print(f"{server.url}  (Ctrl-C ends it)", flush=True)
        await ended.wait()
    finally:
        await server.close()
