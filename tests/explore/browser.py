"""A real Chromium, driven by selenium; tests that need it are skipped where it is not installed."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from website.chromium import driven, emulate, missing

needs_chromium = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is there")
WIDE, NARROW = (1280, 900), (375, 812)

# List texts whose contrast with their background is below 4.5.
CONTRAST = """
const rgba = c => {
  const [r, g, b, a = 1] = c.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
  return c.startsWith('color(') ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
};
const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]).concat(1);
const part = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
const ground = e => {
  if (!e) return [255, 255, 255, 1];
  const own = rgba(getComputedStyle(e).backgroundColor);
  return own[3] === 1 ? own : over(own, ground(e.parentElement));
};
const bad = [];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.closest('[disabled], .hidden, noscript')) continue;
  const style = getComputedStyle(e), ink = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const [a, b] = [light(rgba(ink)), light(ground(e))].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
  if (ratio < 4.5) bad.push([e.tagName, e.textContent.slice(0, 30), ratio.toFixed(2)]);
}
return bad
"""


class Browser:
    """The page in a browser, in the words of a test."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(self, address: str, *, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        self.look(size, dark)
        self.driver.get("about:blank")  # else another hash is the same page
        self.errors()  # of the page before
        self.driver.get(address)

    def look(self, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        emulate(self.driver, size, "dark" if dark else "light")

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector: str) -> None:
        """Click, and again if it was replaced between the look and the click."""

        def clicked() -> bool:
            self.one(selector).click()
            return True

        self.wait(clicked, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, what: Callable[[], Any], why: str = "", seconds: float = 20) -> Any:
        """What is asked for, once it is true."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := what():
                    return found
            except Exception as error:  # replaced while it was looked at
                why = why or str(error)
            assert time.monotonic() < deadline, f"{why or what}: {self.errors()}"
            time.sleep(0.03)

    def errors(self) -> list[str]:
        """What the console complained about since the last look."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - innerWidth"))

    def low_contrast(self) -> list[list[str]]:
        """Return texts with too little contrast once charts are redrawn in the scheme's colors."""
        deadline = time.monotonic() + 5
        while (found := self.run(CONTRAST)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return list(found)

    def picture(self, path: Path) -> None:
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    with driven(folder / "profile", "--force-prefers-reduced-motion") as driver:
        downloads = {"behavior": "allow", "downloadPath": str(folder / "downloads")}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
        yield Browser(driver, folder / "downloads")


def settings_of(element: WebElement) -> dict[str, float]:
    return dict(json.loads(element.get_attribute("data-settings") or "{}"))
