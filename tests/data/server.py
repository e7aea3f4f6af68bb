"""A real web server on this computer that knows ranges, can be slow, and can hang up."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served: contents by path; and what was asked for: (path, Range header)."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True  # whether the server knows them
    length: bool = True  # whether the server says how long a file is
    hang_up_after: int | None = None  # bytes
    pause: float = 0.0  # seconds between blocks of 1000 bytes
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@contextlib.contextmanager
def serve(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.asked.append((self.path, wanted))
            content = site.files.get(self.path)
            if content is None:
                return self.send_error(404)
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.ranges else 0
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if site.length:
                self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            for block in range(start, min(len(content), site.hang_up_after or len(content)), 1000):
                self.wfile.write(content[block : block + 1000])
                time.sleep(site.pause)
            return None

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # the client was killed
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
