"""A real server on a free port, and requests as anybody could send them."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refprior.explore.server import Served


@contextmanager
def serving(folder: Path, *, allow_code: bool = False) -> Iterator[Served]:
    served = Served(folder, allow_code=allow_code)
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not served.server.started:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield served
    finally:
        served.server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def request(
    served: Served, path: str, *, method: str = "GET", token: str | None = None, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Code, headers and content. token: in place of the right one; a body is sent as JSON."""
    connection = http.client.HTTPConnection(served.host, timeout=60)
    connection.putrequest(method, f"/{served.token if token is None else token}/{path}", skip_host="host" in headers)
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if body is not None:
        headers = {"content-type": "application/json", "content-length": str(len(content)), **headers}
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(content or None)
    response = connection.getresponse()
    found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    connection.close()
    return found


def answer(served: Served, path: str, **more: Any) -> Any:
    """The content of an answer in JSON, refused or not."""
    return json.loads(request(served, path, **more)[2])
