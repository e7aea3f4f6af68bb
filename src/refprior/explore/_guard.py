"""Access control: only requests from this machine that contain the token are answered.

A foreign page in the same browser can send requests to 127.0.0.1, but it does not know the token in every path. Other
host names that resolve to this machine (DNS rebinding) are rejected by the Host header. Its port may differ from the
server's, as it does behind ``ssh -L``.
"""

import secrets

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
MOST_BODY = 64 << 10  # bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Middleware that removes the token from valid requests and rejects all others."""

    def __init__(self, app: ASGIApp, token: str, host: str) -> None:
        self.app, self.token, self.host = app, token, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            raise ValueError("only HTTP is answered")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        refusal, path = self._judge(scope)
        if refusal is not None:
            return await PlainTextResponse(*refusal)(scope, receive, with_headers)
        return await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, with_headers)

    def _judge(self, scope: Scope) -> tuple[tuple[str, int] | None, str]:
        """Return the message and status of a rejection, or the path without the token."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        names = [name for name, _ in scope["headers"] if name.lower() == b"host"]
        host = headers.get("host", "")
        if host.partition(":")[0] not in HOSTS or len(names) != 1:
            return (f"unknown host: open http://{self.host}/ or http://localhost:PORT/ with the token\n", 421), ""
        token, _, rest = str(scope["path"])[1:].partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return ("not found\n", 404), ""
        foreign = headers.get("origin", f"http://{host}") != f"http://{host}"
        if foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return ("asked by another site\n", 403), ""
        if scope["method"] == "POST":
            kind, length = headers.get("content-type", ""), headers.get("content-length", "")
            if kind.partition(";")[0] != "application/json" or not length.isdigit():
                return ("JSON only\n", 415), ""
            if int(length) > MOST_BODY:
                return ("too large\n", 413), ""
        return None, f"/{rest}"
