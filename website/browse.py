"""Open every page of the built site in a real browser, wide and narrow, light and dark, and say what is wrong.

    python -m website.browse build/site

Wrong is: an error in the console, a request that fails or leaves the page, content wider than the window, an image
without a description, an element id used twice. Needs Debian's chromium and chromedriver, or Chrome's.
"""

import functools
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium import webdriver

from website.chromium import driven, emulate, missing

SIZES = {"wide": (1280, 900), "narrow": (360, 740)}
SCHEMES = ("light", "dark")
# What sticks out to the right, unless something around it scrolls.
TOO_WIDE = """
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= width) return [];
return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > width + 1)
  .slice(0, 3).map(e => e.tagName.toLowerCase() + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40));
"""
BACKGROUND = """
const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
"""
UNDESCRIBED = "return [...document.images].filter(e => !e.hasAttribute('alt')).map(e => e.src)"
BROKEN = "return [...document.images].filter(e => e.complete && !e.naturalWidth).map(e => e.src)"
TWICE = """
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
return [...new Set(ids.filter((id, place) => ids.indexOf(id) !== place))];
"""


def troubles(site: Path) -> Iterator[str]:
    """Everything that is wrong with the pages of a folder, a line each, as it is found."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts)
    with _served(site) as address, _browser() as driver:
        for number, page in enumerate(pages):
            print(f"\r{number + 1} of {len(pages)} pages", end="", file=sys.stderr, flush=True)
            yield from (f"{page}: {line}" for line in _look(driver, address, page))
    print(file=sys.stderr)


def _look(driver: webdriver.Chrome, address: str, page: str) -> Iterator[str]:
    """One page in all sizes and schemes; it is loaded once, as a reader would who turns a phone."""
    _emulate(driver, "wide", "light")
    driver.get(f"{address}/{page}")
    for size, scheme in itertools.product(SIZES, SCHEMES):
        _emulate(driver, size, scheme)
        yield from (f"{size}, {scheme}: wider than the window: {what}" for what in driver.execute_script(TOO_WIDE))
        if not _has_colors(driver, scheme):
            yield f"{size}, {scheme}: the background is not {scheme}"
    yield from (f"image without a description: {what}" for what in driver.execute_script(UNDESCRIBED))
    yield from (f"image that cannot be shown: {what}" for what in driver.execute_script(BROKEN))
    yield from (f"id used twice: {what}" for what in driver.execute_script(TWICE))
    yield from (f"console: {entry['message']}" for entry in driver.get_log("browser") if entry["level"] != "INFO")
    yield from _requests(driver, address)


def _has_colors(driver: webdriver.Chrome, scheme: str) -> bool:
    """Whether the background follows the scheme; a busy machine needs a moment to paint it."""
    for _ in range(40):
        if (driver.execute_script(BACKGROUND) > 0.5) is (scheme == "light"):
            return True
        time.sleep(0.05)
    return False


def _requests(driver: webdriver.Chrome, address: str) -> Iterator[str]:
    """Requests since the last look that failed or went elsewhere."""
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            if not url.startswith((address, "data:", "blob:")):
                yield f"request leaves the page: {url}"
        if event["method"] == "Network.responseReceived" and event["params"]["response"]["status"] >= 400:
            yield f"{event['params']['response']['status']}: {event['params']['response']['url']}"


def _emulate(driver: webdriver.Chrome, size: str, scheme: str) -> None:
    emulate(driver, SIZES[size], scheme, mobile=size == "narrow")


@contextmanager
def _browser() -> Iterator[webdriver.Chrome]:
    """Chromium with a profile that is thrown away."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        driven(Path(profile), logs=("browser", "performance")) as driver,
    ):
        driver.get("about:blank")  # not the browser's own first page, whose requests are none of ours
        driver.get_log("performance")
        yield driver


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing: what fails is read from the browser."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def pictures(site: Path, out: Path, pages: list[str]) -> None:
    """Screenshots of pages in every size and scheme, for eyes."""
    out.mkdir(parents=True, exist_ok=True)
    with _served(site) as address, _browser() as driver:
        for page, size, scheme in itertools.product(pages, SIZES, SCHEMES):
            _emulate(driver, size, scheme)
            driver.get(f"{address}/{page}")
            driver.save_screenshot(str(out / f"{page.replace('/', '_')}-{size}-{scheme}.png"))


def main(arguments: list[str]) -> int:
    """Exit code 0: nothing is wrong; 1: something is; 2: it cannot be looked at."""
    site = Path(arguments[0] if arguments else "build/site")
    why = missing() or ("" if (site / "index.html").exists() else f"no site in {site}: make docs builds it")
    if why:
        print(f"website.browse: {why}", file=sys.stderr)
        return 2
    if len(arguments) > 1:  # FOLDER [PAGE …]: pictures instead
        pictures(site, Path(arguments[1]), arguments[2:] or sorted(p.name for p in site.glob("*.html")))
        return 0
    wrong = False
    for line in troubles(site):
        wrong = True
        print(line, flush=True)
    print("something is wrong" if wrong else "nothing is wrong", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
