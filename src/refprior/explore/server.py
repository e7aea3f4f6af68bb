"""The server of the page. It listens on 127.0.0.1 only; `_guard.py` controls access."""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from refprior._files import Json
from refprior._words import in_short
from refprior.explore import _typed
from refprior.explore._guard import Guard
from refprior.explore._play import Query, models
from refprior.explore._static import PAGE, page_bytes
from refprior.explore._workers import Solver

if TYPE_CHECKING:
    from refprior.explore._label import Labels
    from refprior.explore._watch import Runs

log = logging.getLogger("refprior.explore")
Answer = Callable[[Request], Awaitable[Json | bytes]]


class Explorer:
    """All answers about one folder. Records are read and weights loaded in threads, one of each at a time."""

    def __init__(self, folder: Path, allow_code: bool = False, custom: Path | None = None) -> None:
        self.folder, self.allow_code, self.custom = folder, allow_code, custom
        self.solver = Solver()
        self.typing = asyncio.Semaphore(1)  # one typed likelihood at a time
        self.reading = asyncio.Semaphore(1)  # one reader of records at a time
        self.loading = asyncio.Semaphore(1)  # one loader of weights and data at a time: they may be large
        self.estimating: asyncio.Task[None] | None = None
        self.known: dict[tuple[str, str], tuple[str, Json]] = {}  # newest answer about each run, with its version

    def routes(self) -> list[Route]:
        answers: dict[str, Answer] = {
            "about": self.about,
            "play": self.play,
            "draft": self.draft,
            "runs": self.listed,
            "run": self.of_run("details", self.reading),
            "embedding": self.of_run("embedding", self.loading),
            "examples": self.of_run("examples", self.loading),
            "questions": self.questions,
        }
        posts: dict[str, Answer] = {
            "typed": self.typed,
            "answer": self.answer,
            "check": self.check,
            "undo": self.undo,
            "suggest": self.suggest,
        }
        return [
            Route("/", page_file),
            Route("/{name}", page_file),
            *(Route(f"/api/{name}", in_json(give), methods=["GET"]) for name, give in answers.items()),
            *(Route(f"/api/{name}", in_json(give), methods=["POST"]) for name, give in posts.items()),
        ]

    async def about(self, request: Request) -> Json:
        """Return what the page can do here."""
        self.solver.warm_up()
        return {
            "live": True,
            "folder": str(self.folder),
            "models": models(),
            "code": self.allow_code,
            "example": _typed.EXAMPLE,
        }

    @cached_property
    def runs(self) -> "Runs":
        """The runs, imported on first use: torch takes seconds, and exploring priors does not need it."""
        from refprior.explore._watch import Runs
        from refprior.recipes import definitions

        return Runs(self.folder, None if self.custom is None else definitions(self.custom))

    @cached_property
    def labels(self) -> "Labels":
        from refprior.explore._label import Labels

        return Labels(self.runs)

    async def listed(self, request: Request) -> Json:
        async with self.reading:
            return await asyncio.to_thread(lambda: self.runs.listed(request.query_params.get("known", "")))

    def of_run(self, what: str, gate: asyncio.Semaphore) -> Answer:
        """Return a handler for answers about one run, cached until the run changes."""

        async def give(request: Request) -> Json:
            async with gate:
                return await asyncio.to_thread(self._read, what, request.query_params.get("id", ""))

        return give

    def _read(self, what: str, identity: str) -> Json:
        from refprior.explore import _watch

        path = self.runs.path(identity)
        version = _watch.version_of(path)
        before = self.known.get((what, identity))
        if before is None or before[0] != version:
            parts = {} if what == "details" else self.runs.parts(path)
            self.known[what, identity] = before = version, getattr(_watch, what)(path, **parts)
        return before[1]

    async def play(self, request: Request) -> bytes:
        return await self.solver.answer(Query.parse(request.query_params))

    async def draft(self, request: Request) -> bytes:
        return await self.solver.draft(Query.parse(request.query_params))

    async def questions(self, request: Request) -> Json:
        """Return the questions of a run; rules and the classification of the pool are computed in the background."""
        identity, known = (request.query_params.get(name, "") for name in ("id", "known"))
        async with self.loading:
            found = await asyncio.to_thread(lambda: self.labels.state(identity, known))
        pending = found.get("estimates", found) is None and found["counts"]["answers"]
        if pending or found.get("rules", found) is None:
            self.estimate(identity)
        return found

    async def answer(self, request: Request) -> Json:
        """Write a label to disk; this waits for nothing that takes long."""
        asked = await _body(request, {"id": str, "index": int, "label": int})
        await asyncio.to_thread(lambda: self.labels.answer(asked["id"], asked["index"], asked["label"]))
        return {"kept": asked["index"]}

    async def check(self, request: Request) -> Json:
        """Write the right class of a label that the run was given."""
        asked = await _body(request, {"id": str, "index": int, "label": int})
        await asyncio.to_thread(lambda: self.labels.check(asked["id"], asked["index"], asked["label"]))
        return {"checked": asked["index"]}

    async def undo(self, request: Request) -> Json:
        asked = await _body(request, {"id": str, "index": int})
        await asyncio.to_thread(lambda: self.labels.undo(asked["id"], asked["index"]))
        return {"open": asked["index"]}

    async def suggest(self, request: Request) -> Json:
        asked = await _body(request, {"id": str, "budget": int})
        async with self.loading:
            await asyncio.to_thread(lambda: self.labels.suggest(asked["id"], asked["budget"]))
        return {"asked": asked["budget"]}

    def estimate(self, identity: str) -> None:
        """Start an estimate unless one is running; labels that arrive meanwhile count the next time."""
        if self.estimating is None or self.estimating.done():
            self.estimating = asyncio.create_task(self._estimate(identity))

    async def _estimate(self, identity: str) -> None:
        async with self.loading:
            try:
                await asyncio.to_thread(lambda: self.labels.estimate(identity))
            except (ValueError, OSError) as error:
                log.warning("%s", in_short(error))

    async def typed(self, request: Request) -> Json:
        if not self.allow_code:
            raise ValueError("typed code is disabled: start with refprior explore --allow-code")
        asked = await _body(request, {"code": str, "n": int, "m": int, "beta": float})
        async with self.typing:
            return await _typed.typed_prior(**asked)


async def page_file(request: Request) -> Response:
    """Return a file of the page."""
    name = request.path_params.get("name", "index.html")
    if name not in PAGE:
        return Response("not found\n", 404, media_type="text/plain")
    return Response(page_bytes(name), media_type=PAGE[name])


def in_json(give: Answer) -> Callable[[Request], Awaitable[Response]]:
    """Return the answer as JSON, and an invalid request as one line."""

    async def answered(request: Request) -> Response:
        try:
            found, code = await give(request), 200
        except (ValueError, OSError) as error:
            found, code = {"error": in_short(error)}, getattr(error, "status", 400)
        except asyncio.CancelledError:  # the server ends
            return Response(status_code=503)
        except Exception as error:  # a bug: the page reports it and continues
            log.exception("the explorer failed to answer %s", request.url.path)
            found, code = {"error": f"{type(error).__name__}: {in_short(error)}: please report"}, 500
        content = found if isinstance(found, bytes) else msgspec.json.encode(found)
        return Response(content, code, media_type="application/json")

    return answered


async def _body(request: Request, kinds: dict[str, type]) -> Json:
    """Read the JSON object of a request with exactly these fields."""
    try:
        given = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError):  # the second by thousands of nested lists
        raise ValueError("the request is not JSON") from None
    if not isinstance(given, dict) or set(given) != set(kinds):
        raise ValueError(f"the request needs {', '.join(kinds)}")
    for name, kind in kinds.items():
        if kind is float and isinstance(given[name], int):
            given[name] = float(given[name])
        if not isinstance(given[name], kind) or isinstance(given[name], bool):
            raise ValueError(f"{name} has the wrong type")
    return given


def application(explorer: Explorer, token: str, host: str) -> Guard:
    """Return the server as an ASGI application."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        explorer.solver.close()

    app = Starlette(routes=explorer.routes(), lifespan=lifespan)
    app.router.redirect_slashes = False  # a redirect would lose the token
    return Guard(app, token, host)


class Served:
    """A server bound to a port, with the token in its address."""

    def __init__(self, folder: Path, *, port: int = 0, allow_code: bool = False, custom: Path | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind(("127.0.0.1", port))
            self.socket.listen()  # a browser may connect before `run`
        except OSError as error:
            raise ValueError(
                f"port {port} is not available ({error.strerror}): choose another, or omit --port"
            ) from None
        self.host = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.token = secrets.token_urlsafe(24)
        self.explorer = Explorer(folder, allow_code, custom)
        config = uvicorn.Config(
            application(self.explorer, self.token, self.host),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            lifespan="on",
            ws="none",
        )
        self.server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        return f"http://{self.host}/{self.token}/"

    def run(self) -> None:
        """Serve until a signal arrives."""
        self.server.run(sockets=[self.socket])
