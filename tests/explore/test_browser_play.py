"""Play with a prior in a real browser: drags, clicks, keys, reload, files, light and dark, wide and narrow."""

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from refprior.exact import Coin, reference_prior, two_stage_prior
from refprior.explore.server import Served
from tests.explore.browser import NARROW, WIDE, Browser, needs_chromium, settings_of
from tests.explore.served import serving

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("play"), allow_code=True) as found:
        yield found


def settled(browser: Browser, panel: int = 0, **wanted: float) -> None:
    """Wait until a panel shows the prior of these settings."""

    def there() -> bool:
        shown = browser.all(".panel")[panel]
        busy = shown.get_attribute("aria-busy") or shown.get_attribute("data-draft") is not None
        return settings_of(shown) == wanted and not busy

    browser.wait(there, f"{wanted}", 40)


def drawn_atoms(browser: Browser, panel: int = 0) -> list[tuple[float, float]]:
    script = "return [...arguments[0].querySelectorAll('.atom')].map(a => [+a.dataset.w, +a.dataset.weight])"
    return [(w, weight) for w, weight in browser.run(script, browser.all(".panel")[panel])]


def facts(browser: Browser, panel: int = 0) -> dict[str, str]:
    script = "return [...arguments[0].querySelectorAll('dl div')].map(d => [...d.children].map(c => c.textContent))"
    return dict(browser.run(script, browser.all(".panel")[panel]))


def test_atoms_follow_the_slider_by_mouse_and_by_key(browser: Browser, served: Served) -> None:
    browser.open(served.address)
    settled(browser, n=10)
    prior = reference_prior(Coin(10))
    assert drawn_atoms(browser) == [(float(w), float(p)) for w, p in zip(prior.atoms, prior.weights, strict=True)]
    assert facts(browser)["information J"] == "1.23246 nats"
    assert facts(browser)["evidence"] == "certified"
    slider = browser.one("#n")
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    settled(browser, n=12)
    assert len(drawn_atoms(browser)) == len(reference_prior(Coin(12)).weights)
    ActionChains(browser.driver).click_and_hold(slider).move_by_offset(40, 0).move_by_offset(30, 0).release().perform()
    n = int(float(browser.one(".slider output").text))
    assert n > 60
    settled(browser, n=n)
    assert facts(browser)["atoms"].startswith(f"{len(reference_prior(Coin(n)).weights)}")
    assert browser.errors() == []


def test_the_gain_is_drawn_touching_j_at_the_atoms(browser: Browser, served: Served) -> None:
    browser.open(f"{served.address}#play?model=coin&n=6")
    settled(browser, n=6)
    script = """
    const curve = document.querySelector('.gain'), length = curve.getTotalLength(), points = [];
    for (let i = 0; i <= 2000; i++) points.push(curve.getPointAtLength(length * i / 2000));
    const level = Math.min(...points.map(p => p.y));
    return [...document.querySelectorAll('.atom circle')].map(c =>
        Math.min(...points.map(p => Math.hypot(p.x - c.cx.baseVal.value, p.y - level))))
    """
    distances = browser.run(script)
    assert len(distances) == len(reference_prior(Coin(6)).weights)
    assert max(distances) < 1.5  # pixels


def test_two_stages_stand_beside_one_and_survive_a_reload(browser: Browser, served: Served) -> None:
    browser.open(served.address)
    settled(browser, n=10)
    browser.one("#stages").click()
    settled(browser, 1, n=10, m=1, beta=1)  # of m = 0 there would be no second picture
    browser.one("#m").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    browser.one("#jeffreys").click()
    for _ in range(2):
        settled(browser, 1, n=10, m=3, beta=1)
        browser.wait(lambda: browser.all(".jeffreys"))
        assert facts(browser)["Jeffreys' information"] == "1.05358 nats"
        found = two_stage_prior(Coin, m=3, n=10)
        assert [weight for _, weight in drawn_atoms(browser, 1)] == found.weights.tolist()
        first, second = (panel.rect for panel in browser.all(".panel"))
        assert (first["y"], first["x"] < second["x"]) == (second["y"], True)
        browser.driver.refresh()
    assert browser.errors() == []


def test_files_are_saved_and_code_is_copied(browser: Browser, served: Served) -> None:
    grant = {"origin": f"http://{served.host}", "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    browser.open(f"{served.address}#play?model=coin&n=4")
    settled(browser, n=4)
    copy, png, svg, saved = browser.all(".panel:first-child .buttons button")
    copy.click()
    browser.wait(lambda: browser.one("#said").text == "The code was copied to the clipboard.")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done(String(e)))"
    assert "reference_prior(Coin(4))" in browser.driver.execute_async_script(read)
    for button in (png, svg, saved):
        button.click()
    files = {kind: browser.downloads / f"prior-coin-n4.{kind}" for kind in ("png", "svg", "json")}
    browser.wait(lambda: all(path.exists() and path.stat().st_size for path in files.values()), "downloads")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files["svg"].read_text()
    assert json.loads(files["json"].read_text())["weights"] == reference_prior(Coin(4)).weights.tolist()
    assert browser.errors() == []


def test_every_model_is_drawn_wide_and_narrow_light_and_dark(browser: Browser, served: Served) -> None:
    browser.open(f"{served.address}#play?model=coin&n=5", size=NARROW, dark=True)
    settled(browser, n=5)
    for name, count in {"gaussian": 3, "poisson": 4, "two-coins": 25, "decay": 4}.items():
        browser.one(f"input[value={name}]").click()
        browser.wait(lambda count=count: len(browser.all(".panel:first-child .atom")) == count, name, 40)  # type: ignore[misc]
        for size in (NARROW, WIDE):
            browser.look(size, dark=size is WIDE)
            assert browser.overflow() <= 0
    assert browser.errors() == []


def test_typed_code_is_solved_and_its_mistakes_are_text(browser: Browser, served: Served) -> None:
    browser.open(f"{served.address}#play?model=typed")
    browser.wait(lambda: facts(browser).get("atoms", "").startswith("4"), "the example", 60)
    code = browser.one("#code")
    code.clear()
    code.send_keys("raise ValueError('<img src=x onerror=alert(1)>')", Keys.CONTROL, Keys.ENTER)
    browser.wait(lambda: "<img src=x onerror=alert(1)>" in browser.one(".panel .error").text, seconds=40)
    assert not browser.all(".panel img")
    assert [error for error in browser.errors() if "400" not in error] == []


def test_drafts_follow_a_slider_that_does_not_rest(browser: Browser, served: Served) -> None:
    """What they take prints benchmarks/explore.py; test_play.py holds them to a tenth of a second."""
    browser.open(f"{served.address}#play?model=coin&n=177")
    settled(browser, n=177)
    script = """
    const done = arguments[0], slider = document.querySelector('#n'), panel = document.querySelector('.panel');
    const drafts = [];
    const step = (n) => {
      if (n === 171) return done(drafts);
      slider.value = n;
      slider.dispatchEvent(new Event('input'));
      const look = () => {
        if (JSON.parse(panel.dataset.settings).n !== n) return setTimeout(look, 1);
        drafts.push(panel.hasAttribute('data-draft'));
        return step(n - 1);
      };
      return look();
    };
    step(176);
    """
    drafts = browser.driver.execute_async_script(script)
    assert len(drafts) == 5
    assert any(drafts)  # a solve takes far longer than a draft
    settled(browser, n=172)
    assert facts(browser)["atoms"].split(",")[0] == str(len(reference_prior(Coin(172)).weights))
    assert "being refined" not in facts(browser)["gap"]
    assert browser.errors() == []


def test_keys_alone_reach_everything_and_text_has_contrast(browser: Browser, served: Served) -> None:
    for dark in (False, True):
        browser.open(served.address, dark=dark)
        settled(browser, n=10)
        assert browser.low_contrast() == []
    seen = []
    for _ in range(12):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        here = browser.driver.switch_to.active_element
        seen.append(here.get_attribute("id") or here.get_attribute("value") or here.text)
        outline = browser.run(
            "const e = document.activeElement, s = e.nextElementSibling;"
            "return [e, s].filter(Boolean).some(x => getComputedStyle(x).outlineStyle !== 'none')"
        )
        assert outline, seen
    for name in ("Watch a training", "coin", "n", "stages", "jeffreys", "Copy as code", "Save JSON"):
        assert name in seen, (name, seen)
