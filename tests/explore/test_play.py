"""Answers are those of `rp.exact`, and the code that the page copies gives the same prior."""

import json
import math
import time

import pytest

from refprior.exact import Coin, Solution, jeffreys_prior, reference_prior, two_stage_prior
from refprior.explore._play import MODELS, Query, answer, check_size, distance, draft, models, neighbors, sliders_of

QUESTIONS = [
    "model=coin&n=10",
    "model=coin&n=7&m=3&beta=0.5",
    "model=gaussian&amplitude=1.5&n=4",
    "model=gaussian&amplitude=1&n=2&m=2",
    "model=poisson&amplitude=3.5&dark=0.5&n=2",
    "model=two-coins&n=3",
    "model=decay&sigma=0.5&time=3",
]


def found(text: str) -> dict[str, object]:
    return dict(json.loads(answer(text)))


@pytest.mark.parametrize("text", QUESTIONS)
def test_the_copied_code_gives_the_same_prior(text: str) -> None:
    shown = found(text)
    names: dict[str, object] = {"print": lambda prior: None}
    exec(str(shown["code"]), names)
    prior = names["prior"]
    assert isinstance(prior, Solution)
    assert shown["information"] == prior.information
    assert shown["atoms"] == prior.atoms.tolist()
    assert shown["weights"] == prior.weights.tolist()
    assert (shown["evidence"], shown["count"]) == (prior.evidence, len(prior.weights))


def test_the_gain_touches_j_at_the_atoms_and_nowhere_exceeds_it() -> None:
    shown = json.loads(answer("model=coin&n=20"))
    at = {round(w, 6): gain for w, gain in zip(shown["w"], shown["gain"], strict=True)}
    touched = [at[round(float(f"{atom:.6g}"), 6)] for atom in shown["atoms"]]
    assert touched == pytest.approx([shown["information"]] * len(touched), abs=1e-5)
    assert max(shown["gain"]) <= shown["information"] + 1e-5
    assert min(shown["gain"]) < shown["information"] - 0.01  # it is a curve


def test_one_stage_is_asked_in_one_way_only() -> None:
    """β means nothing without a first stage: the same answer is kept once."""
    texts = {Query.parse({"model": "coin", "n": "10", "m": "0", "beta": beta}).text for beta in ("0", "0.5", "1")}
    assert texts == {"model=coin&n=10"}
    assert found("model=coin&n=10&m=4")["information"] == two_stage_prior(Coin, m=4, n=10).information


def test_jeffreys_is_that_of_the_exact_half() -> None:
    shown = json.loads(answer("model=coin&n=10&jeffreys=1"))
    assert shown["information"] == jeffreys_prior(Coin(10)).information
    assert shown["information"] < reference_prior(Coin(10)).information
    assert shown["density"][0] is None  # infinite at the ends, which JSON cannot say
    two = json.loads(answer("model=two-coins&n=10&jeffreys=1"))
    assert two["information"] == 2 * shown["information"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "dice"}, "no model 'dice'; available are coin"),
        ({"model": "coin", "n": "201"}, "n must be from 1 to 200, got 201"),
        ({"model": "coin", "n": "nan"}, "n must be from 1 to 200"),
        ({"model": "coin", "n": "ten"}, "n must be a number"),
        ({"model": "coin", "sigma": "1"}, "coin has no setting 'sigma'"),
        ({"model": "decay", "m": "1"}, "decay has no setting 'm'"),
    ],
)
def test_questions_are_checked(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Query.parse(given)


def test_what_no_slider_could_follow_is_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"spans 141 standard deviations, and the page allows 15"):
        check_size(Query.parse({"model": "gaussian", "amplitude": "10", "n": "200"}))


def test_what_takes_longest_along_the_slider_is_solved_ahead_first() -> None:
    ahead = neighbors(Query.parse({"model": "coin", "n": "10", "m": "3"}))
    asked = [query.values()["n"] for query in ahead]
    assert asked[:3] == [200, 190, 180]  # a draft is never far
    assert sorted(asked) == list(range(1, 201))
    assert {query.values()["m"] for query in ahead} == {3}
    assert neighbors(Query.parse({"model": "decay"}))[0].values()["sigma"] == 0.1


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("model=coin&n=52", "model=coin&n=50"),
        ("model=coin&n=20&m=5", "model=coin&n=22&m=5"),
        ("model=gaussian&amplitude=3&n=2", "model=gaussian&amplitude=3.1&n=2"),
        ("model=poisson&amplitude=10&dark=0&n=1", "model=poisson&amplitude=10.5&dark=0&n=1"),
    ],
)
def test_a_draft_is_a_prior_with_a_true_gap(text: str, near: str) -> None:
    best, sketch = json.loads(answer(text)), json.loads(draft(text, answer(near)))
    assert sketch["draft"] is True
    assert sketch["information"] <= best["information"] <= sketch["information"] + sketch["gap"] + 1e-12
    assert 0 < sketch["gap"] < 0.1
    assert sketch["code"] == best["code"]
    assert (sketch["low"], sketch["high"]) == (best["low"], best["high"])


def test_a_draft_takes_less_than_a_tenth_of_a_second() -> None:
    """Up to n = 200, where a solve takes longer; time of the processor, since the machine may be busy."""
    near, taken = answer("model=coin&n=190"), []
    for _ in range(5):
        begun = time.process_time()
        draft("model=coin&n=200", near)
        taken.append(time.process_time() - begun)
    assert min(taken) < 0.1


def test_drafts_are_made_of_the_same_question_along_the_slider_only() -> None:
    here = Query.parse({"model": "coin", "n": "10", "m": "2"})
    assert distance(here, Query.parse({"model": "coin", "n": "14", "m": "2"})) == 4
    for other in (
        {"model": "coin", "n": "10"},
        {"model": "coin", "n": "10", "m": "2", "jeffreys": "1"},
        {"model": "poisson"},
    ):
        assert distance(here, Query.parse(other)) == math.inf


def test_every_model_has_an_answer_at_its_defaults_and_settings_on_their_marks() -> None:
    for model in models():
        query = Query.parse({"model": model["name"]})
        check_size(query)
        for slider in sliders_of(model["name"]):
            marks = (slider.value - slider.low) / slider.step
            assert math.isclose(marks, round(marks), abs_tol=1e-9), (model["name"], slider.name)
    assert set(MODELS) == {"coin", "gaussian", "poisson", "two-coins", "decay"}
