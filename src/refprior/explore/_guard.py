"""Who may ask: the person who was told the address, from this machine, and nobody else.

A page of a stranger, open in the same browser, can send requests to 127.0.0.1. It does not know the token, which is
part of every path; names that lead here (DNS rebinding) are refused by the Host header.
"""

import secrets

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Passes on what may be answered, without the token; refuses everything else."""

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
        """Words and code of a refusal, or the path without the token."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        names = [name for name, _ in scope["headers"] if name.lower() == b"host"]
        if headers.get("host") != self.host or len(names) != 1:
            return ("another host\n", 421), ""
        token, _, rest = str(scope["path"])[1:].partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return ("not found\n", 404), ""
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return ("asked by another site\n", 403), ""
        if scope["method"] == "POST":
            kind, length = headers.get("content-type", ""), headers.get("content-length", "")
            if kind.partition(";")[0] != "application/json" or not length.isdigit():
                return ("JSON only\n", 415), ""
            if int(length) > MOST_BODY:
                return ("too large\n", 413), ""
        return None, f"/{rest}"
