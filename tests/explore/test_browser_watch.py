"""Watch runs in a real browser: one that grows, several compared, hostile names, a narrow window in the dark."""

import signal
from pathlib import Path

import pytest

from tests.cli.running import start
from tests.explore.browser import NARROW, Browser, needs_chromium
from tests.explore.hostile import MARKUP, hostile_run
from tests.explore.served import serving
from tests.report.folders import write_run

pytestmark = needs_chromium


@pytest.mark.thorough
def test_a_run_appears_grows_and_finishes_while_it_is_watched(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "runs") as served:
        browser.open(f"{served.address}#watch")
        browser.wait(lambda: "no run here yet" in browser.one("main").text, seconds=60)
        settings = ["steps=400", "unlabeled_batch=8", "evaluate_every=50", "snapshots=3"]
        with start("train", "digits_ssl", "--set", *settings, "--out", "runs/live", cwd=tmp_path) as process:
            records = tmp_path / "runs" / "live" / "metrics.jsonl"
            browser.wait(lambda: records.exists() and records.stat().st_size, "a first record", 90)
            process.send_signal(signal.SIGSTOP)  # a fast machine is done before the page has looked twice
            seen = browser.wait(lambda: progress(browser) if progress(browser)[0] else None, seconds=60)
            assert 0 < seen[0] < 400
            assert seen[1:] == (400, "training")
            process.send_signal(signal.SIGCONT)
            browser.wait(lambda: progress(browser)[0] > seen[0], "it grows", 60)
            browser.wait(lambda: browser.all(".marginal"), "entropies")
            assert process.wait() == 0
        browser.wait(lambda: progress(browser) == (400, 400, "finished"), seconds=30)
        browser.wait(lambda: browser.all(".calibration .bin"), "calibration")
        browser.wait(lambda: len(browser.all(".particle")) == 4, "a line for every particle")
        browser.click("details.embedding summary")
        browser.wait(lambda: "step 400" in browser.one("details.embedding output").text, seconds=60)
        browser.run("const s = document.querySelector('#snapshot'); s.value = 0; s.dispatchEvent(new Event('input'))")
        assert "step 0" in browser.one("details.embedding output").text
        browser.click("details.examples summary")
        browser.wait(lambda: len(browser.all(".tiles img")) == 12, seconds=60)
        assert browser.run("return [...document.querySelectorAll('.tiles img')].every(i => i.naturalWidth > 0)")
        for dark in (True, False):
            browser.look(NARROW, dark)
            assert browser.overflow() <= 0
            assert browser.low_contrast() == []
        assert browser.errors() == []


def progress(browser: Browser) -> tuple[int, int, str]:
    """Step, steps and state of the first run in the list."""
    words = browser.one(".runs tbody tr td:nth-child(3)").text.replace(",", "").split()
    return int(words[0]), int(words[2]), words[3]


def test_runs_are_filtered_and_compared_and_the_choice_survives_a_reload(browser: Browser, tmp_path: Path) -> None:
    for seed, labels in enumerate(("50", "100", "100")):
        write_run(tmp_path / f"run-{seed}", "digits_ssl", seed, 0.7 + 0.1 * seed, {"labels": labels})
    with serving(tmp_path) as served:
        browser.open(f"{served.address}#watch")
        browser.wait(lambda: len(browser.all(".runs tbody tr")) == 3, seconds=60)
        browser.one("#filter").send_keys("labels=100")
        browser.wait(lambda: len(browser.all(".runs tbody tr")) == 2)
        browser.click("input[aria-label='compare run-2']")
        browser.wait(lambda: len(browser.all(".ensemble")) == 2)  # with the one that was shown from the start
        browser.click("details:last-of-type summary")
        browser.click("input[aria-label='compare run-1']")
        browser.wait(lambda: len(browser.all("#focus option")) == 3)
        assert browser.one("details:last-of-type").get_attribute("open")  # what was opened stays open
        browser.click("input[aria-label='compare run-1']")
        browser.wait(lambda: len(browser.all("#focus option")) == 2)
        dashes = {line.get_attribute("stroke-dasharray") for line in browser.all(".ensemble")}
        assert len(dashes) == 2  # told apart without colors
        browser.driver.refresh()
        browser.wait(lambda: len(browser.all(".ensemble")) == 2, seconds=30)
        assert browser.one("#filter").get_attribute("value") == "labels=100"
        browser.wait(lambda: len(browser.all(".runs tbody tr")) == 2)
        select = browser.one("#focus")
        assert select.text.split() == ["run-0", "run-2"]
        assert browser.errors() == []


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    with serving(hostile_run(tmp_path / "runs")) as served:
        browser.open(f"{served.address}#watch?filter=<i>")
        browser.wait(lambda: "0 of 1 runs" in browser.one("#runs").text, seconds=60)
        browser.one("#filter").clear()
        browser.one("#filter").send_keys(" ")
        browser.wait(lambda: "<b>run" in browser.one("#runs").text)
        browser.wait(lambda: MARKUP in browser.one(".confusion").text)
        browser.click("details.examples summary")
        browser.wait(lambda: len(browser.all(".tiles li")) == 10 and MARKUP in browser.one(".tiles").text, seconds=60)
        browser.click("nav a[href='#label']")
        browser.wait(lambda: "There are no questions yet" in browser.one("main").text, seconds=60)
        browser.click("#suggest")
        browser.wait(lambda: MARKUP in browser.one(".question .classes").text, seconds=60)
        assert MARKUP in browser.one(".question .values").text
        assert not browser.all("img[src=x], main b > *")
        assert browser.driver.title == "refprior: label"
        assert browser.overflow() <= 0
        assert browser.errors() == []
