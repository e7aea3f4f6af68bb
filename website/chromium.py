"""A real Chromium without a window: for the look at the site, and for tests of everything that is a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
DRIVER = shutil.which("chromedriver") or ""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Why no browser can be driven here; empty if one can."""
    absent = [name for name, found in (("chromium", CHROMIUM), ("chromedriver", DRIVER)) if not found]
    return f"needs {' and '.join(absent)}" if absent else ""


@contextmanager
def driven(profile: Path, *flags: str, logs: tuple[str, ...] = ("browser",)) -> Iterator[webdriver.Chrome]:
    """Chromium with a profile of its own in that folder. logs: which of its logs can be asked for."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    for flag in (*FLAGS, *flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def emulate(driver: webdriver.Chrome, size: tuple[int, int], scheme: str, *, mobile: bool = False) -> None:
    """A window of that many pixels, for a reader who prefers "light" or "dark"."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
