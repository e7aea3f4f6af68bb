"""The page without a server: what it may ask is there, and nothing else is written."""

import functools
import http.server
import json
import threading
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from refprior.exact import Coin, reference_prior, two_stage_prior
from refprior.explore import _static, write_static
from refprior.explore._play import Query, check_size, sliders_of
from refprior.explore._static import PAGE
from tests.explore.browser import NARROW, Browser, needs_chromium
from tests.report.folders import write_run

FEW: dict[str, dict[str, tuple[float, ...]]] = {
    "coin": {"n": (1, 2, 5), "m": (0, 3), "beta": (0.5, 1)},
    "two-coins": {"n": (1, 2)},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "explore"
    write_static(out, marks=FEW)
    return out


def test_the_marks_are_settings_of_their_models() -> None:
    for model, marks in _static.MARKS.items():
        assert set(marks) == {slider.name for slider in sliders_of(model)}
        for slider in sliders_of(model):
            values = marks[slider.name]
            assert list(values) == sorted(values)
            assert [slider.parse(str(value)) for value in values] == list(values), (model, slider.name)
        for query in _static.questions(model, marks):
            check_size(query)


def test_every_question_of_the_marks_has_its_answer(site: Path) -> None:
    found = json.loads((site / "answers" / "play-coin.json").read_text())
    assert len(found) == 3 + 3 + 3 * 2  # one stage, Jeffreys, two stages with two β
    assert found["model=coin&n=5"]["weights"] == reference_prior(Coin(5)).weights.tolist()
    two = found[Query.parse({"model": "coin", "n": "5", "m": "3", "beta": "0.5"}).text]
    assert two["information"] == two_stage_prior(Coin, m=3, n=5, beta=0.5).information
    assert {path.name for path in site.iterdir()} == {*PAGE, "answers"}
    assert b'content="static"' in (site / "index.html").read_bytes()


def test_runs_are_kept_as_they_are_now(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", "digits_ssl", 0, 0.9)
    write_static(tmp_path / "site", tmp_path / "runs", marks={})
    answers = tmp_path / "site" / "answers"
    (run,) = json.loads((answers / "runs.json").read_text())["runs"]
    assert (run["name"], run["accuracy"]) == ("a", 0.9)
    assert json.loads((answers / f"run-{run['id']}.json").read_text())["evaluations"]["best"] == [0.9, 0.9]
    assert "error" in json.loads((answers / f"examples-{run['id']}.json").read_text())  # it has no weights


def test_only_its_own_folder_is_replaced(site: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("")
    with pytest.raises(ValueError, match="was not written by refprior explore"):
        write_static(tmp_path / "photos")
    write_static(site, marks=FEW)
    assert (site / "answers" / "about.json").exists()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@needs_chromium
def test_it_works_in_a_browser_without_our_server(site: Path, browser: Browser) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/explore/", size=NARROW)
        browser.wait(lambda: len(browser.all(".atom")) == len(reference_prior(Coin(5)).weights))
        browser.one("#n").send_keys(Keys.ARROW_LEFT)
        browser.wait(lambda: len(browser.all(".atom")) == 3)  # two tosses
        browser.one("#stages").click()
        browser.wait(lambda: "m = 3" in browser.all(".panel h3")[1].text)
        browser.one("input[value=two-coins]").click()
        browser.wait(lambda: len(browser.all(".panel:first-child .atom")) == 9)
        assert browser.overflow() <= 0
        for view, words in {"watch": "There is no run here", "label": "Labeling needs your data"}.items():
            browser.one(f"nav a[href='#{view}']").click()
            browser.wait(lambda words=words: words in browser.one("main").text)  # type: ignore[misc]
        assert browser.errors() == []
    finally:
        server.shutdown()
        server.server_close()
