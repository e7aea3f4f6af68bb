"""Label in a real browser: keys, clicks, typing, undo, reload, two tabs, a server that is busy, hostile names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from refprior._files import locked
from refprior.explore import _label
from refprior.explore.server import Served
from refprior.labeling import Questions, suggest
from refprior.recipes import named
from refprior.training import load, train
from tests.explore.browser import NARROW, Browser, needs_chromium
from tests.explore.served import answer, serving

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("label")
    train(named("digits_ssl", {"steps": 3, "unlabeled_batch": 8}, seed=0).recipe, folder / "run")
    with serving(folder) as found:
        yield found


@pytest.fixture
def run(served: Served) -> Path:
    path = served.explorer.folder / "run"
    Questions((7, 3, 9, 11, 20)).save(path)
    return path


def press(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def asked(browser: Browser) -> int:
    """The input that is asked about now."""
    return int(browser.one(".question").get_attribute("data-index") or -1)


def open_page(browser: Browser, served: Served) -> None:
    browser.open(f"{served.address}#label")
    browser.wait(lambda: asked(browser) >= 0, "a question", 60)


def kept(run: Path) -> dict[int, int]:
    found = Questions.load(run)
    return dict(zip(found.answered, found.answers, strict=True))


def saved(browser: Browser, run: Path, wanted: dict[int, int]) -> None:
    browser.wait(lambda: kept(run) == wanted, f"{wanted}", 30)
    browser.wait(lambda: browser.run("return localStorage.length") == 0, "nothing waits")


def test_keys_clicks_and_words_label_and_undo_takes_back(browser: Browser, served: Served, run: Path) -> None:
    open_page(browser, served)
    assert asked(browser) == 7
    press(browser, "4")
    browser.wait(lambda: asked(browser) == 3)
    press(browser, "s")  # later
    browser.wait(lambda: asked(browser) == 9)
    browser.click("button[data-class='8']")
    browser.wait(lambda: asked(browser) == 11)
    browser.one("#typed").send_keys("0", Keys.ENTER)
    browser.wait(lambda: asked(browser) == 20)
    saved(browser, run, {7: 4, 9: 8, 11: 0})
    browser.driver.execute_script("document.activeElement.blur()")
    press(browser, "u")
    saved(browser, run, {7: 4, 9: 8})
    browser.wait(lambda: asked(browser) == 11)
    browser.click(".given li[data-index='7'] button")
    saved(browser, run, {9: 8})
    browser.wait(lambda: "1 of 5" in browser.one(".numbers").text)
    browser.wait(lambda: "accuracy, test" in browser.one(".numbers").text, "estimates", 40)
    assert browser.errors() == []


def test_a_reload_loses_nothing_even_right_after_the_key(browser: Browser, served: Served, run: Path) -> None:
    open_page(browser, served)
    press(browser, "1")
    browser.driver.refresh()
    browser.wait(lambda: asked(browser) == 3, seconds=30)
    saved(browser, run, {7: 1})
    press(browser, "2")
    browser.wait(lambda: asked(browser) == 9)
    saved(browser, run, {7: 1, 3: 2})
    assert [error for error in browser.errors() if "Failed to fetch" not in error] == []


def test_what_cannot_be_saved_now_is_kept_and_sent_again(
    browser: Browser, served: Served, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_label, "PATIENCE", 0.1)
    open_page(browser, served)
    with locked(run, lambda holder: None):
        press(browser, "6")
        browser.wait(lambda: "not saved yet" in browser.one(".error").text, seconds=30)
        assert "being saved" in browser.one(".numbers").text
        assert kept(run) == {}
        browser.driver.refresh()
        browser.wait(lambda: "not saved yet" in browser.one(".error").text, seconds=30)
    saved(browser, run, {7: 6})
    browser.wait(lambda: not browser.one(".error").is_displayed())
    assert [error for error in browser.errors() if "423" not in error] == []


def test_two_tabs_see_each_other(browser: Browser, served: Served, run: Path) -> None:
    open_page(browser, served)
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    second = browser.driver.current_window_handle
    try:
        open_page(browser, served)
        press(browser, "5")
        browser.wait(lambda: asked(browser) == 3)
        saved(browser, run, {7: 5})
        browser.driver.switch_to.window(first)
        browser.wait(lambda: asked(browser) == 3, "the other tab's label", 30)
        press(browser, "6")
        saved(browser, run, {7: 5, 3: 6})
        browser.driver.switch_to.window(second)
        browser.wait(lambda: asked(browser) == 9, "the other tab's label", 30)
        assert browser.errors() == []
    finally:
        browser.driver.switch_to.window(second)
        browser.driver.close()
        browser.driver.switch_to.window(first)


def test_what_is_being_typed_stays_while_another_tab_labels(browser: Browser, served: Served, run: Path) -> None:
    open_page(browser, served)
    browser.one("#typed").send_keys("ab")
    Questions((3, 7, 9, 11, 20), (5,)).save(run)  # as another tab would
    browser.wait(lambda: "1 of 5" in browser.one(".numbers").text, seconds=30)
    assert asked(browser) == 7
    assert browser.one("#typed").get_attribute("value") == "ab"
    assert browser.run("return document.activeElement.id") == "typed"


def test_the_next_suggestions_follow(browser: Browser, served: Served, run: Path) -> None:
    Questions((7,)).save(run)
    open_page(browser, served)
    press(browser, "3")
    browser.wait(lambda: "All questions are answered" in browser.one(".question").text)
    saved(browser, run, {7: 3})
    budget = browser.one("#budget")
    budget.clear()
    budget.send_keys("4", Keys.ENTER)
    browser.wait(lambda: asked(browser) >= 0, "new questions", 60)
    assert len(Questions.load(run).open) == 4
    assert kept(run) == {7: 3}
    for dark in (False, True):
        browser.look(NARROW, dark)
        assert browser.overflow() <= 0
        assert browser.low_contrast() == []
    assert "refprior answer" in browser.one("main code").text
    assert browser.errors() == []


def test_rules_that_fit_the_labels_are_cards_until_one_remains(browser: Browser, ambiguous_run: Path) -> None:
    rules = load(ambiguous_run).rules()
    suggest(load(ambiguous_run), 14).save(ambiguous_run)
    with serving(ambiguous_run.parent) as served:
        open_page(browser, served)
        browser.wait(lambda: browser.one(".rules").is_displayed(), "the rules", 60)
        title = f"{len(rules)} rules fit the labels: which is right?"
        assert browser.one(".rules h3").text == title
        cards = browser.all(".cards > li")
        assert len(cards) == len(rules)
        for card, members, weight in zip(cards, rules.members, rules.weights, strict=True):
            assert f"{100 * weight:.1f} %, {len(members)} particle" in card.text
            assert "<i>shape</i>" in card.text
        answers: dict[int, int] = {}
        for _ in range(14):
            index = asked(browser)
            answers[index] = ["no", "yes"].index(rules.answers(index)[0])
            browser.click(f"button[data-class='{answers[index]}']")
            saved(browser, ambiguous_run, answers)
        browser.wait(lambda: browser.one(".rules h3").text == "Your answers leave one rule: rule 1.", "one", 60)
        browser.wait(lambda: browser.one(".cards > .settled").get_attribute("data-rule") == "0", "the card of rule 1")
        for dark in (False, True):
            browser.look(NARROW, dark)
            assert browser.overflow() <= 0
            assert browser.low_contrast() == []
        assert browser.errors() == []


def test_a_run_with_one_rule_has_no_cards(browser: Browser, served: Served, run: Path) -> None:
    open_page(browser, served)
    identity = browser.one("#run").get_attribute("value")
    browser.wait(lambda: answer(served, f"api/questions?id={identity}")["rules"] == {"count": 0}, "no rules", 60)
    assert not browser.one(".rules").is_displayed()


def test_doubtful_labels_are_corrected_by_one_key(browser: Browser, tmp_path: Path) -> None:
    settings = {"steps": 100, "method": "Supervised", "folds": "auto", "task.label_noise": 0.2, "labels": 50}
    train(named("digits_ssl", settings, seed=0).recipe, tmp_path / "run")
    quality = load(tmp_path / "run").label_quality()
    first, second, third = quality.order[:3].tolist()
    suggested = int(quality.suggested[first])

    def checked() -> dict[int, int]:
        return dict(Questions.load(tmp_path / "run").checked)

    with serving(tmp_path) as served:
        open_page(browser, served)  # doubtful labels, since there are no questions
        assert asked(browser) == first
        assert browser.one("[aria-pressed=true]").text == "Check these labels first"
        assert f"suggest {suggested}." in browser.one(".question .note").text
        press(browser, Keys.ENTER)  # the suggested class
        browser.wait(lambda: asked(browser) == second)
        press(browser, str(quality.given[second]))  # the label is right
        browser.wait(lambda: asked(browser) == third)
        browser.wait(lambda: checked() == {first: suggested, second: int(quality.given[second])}, "both", 30)
        browser.wait(lambda: len(browser.all(".given li")) == 2, "newest checks")
        assert f"(not {quality.given[first]})" in browser.one(f".given li[data-index='{first}']").text
        assert "Train again with the corrected labels" in browser.one("main").text
        press(browser, "u")
        browser.wait(lambda: checked() == {first: suggested}, "undone", 30)
        browser.wait(lambda: asked(browser) == second)
        for dark in (False, True):
            browser.look(NARROW, dark)
            assert browser.overflow() <= 0
            assert browser.low_contrast() == []
        browser.click(".tabs button")
        browser.wait(lambda: "There are no questions yet" in browser.one(".question").text)
        assert browser.errors() == []
