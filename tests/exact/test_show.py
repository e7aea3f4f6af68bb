"""Priors as programs, as draws and as HTML."""

import ast
import re
from typing import Any

import numpy as np
import pytest

from refprior.exact import Coin, ExponentialDecay, Gaussian, Poisson, TwoCoins, reference_prior
from refprior.exact.show import LANGUAGES

CHANNELS = [Coin(10), Gaussian(2.0, 0.7), Poisson(6.0, 0.5), TwoCoins(2), ExponentialDecay(sigma=0.3)]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: type(channel).__name__)
def test_programs_hold_atoms_and_weights(channel: Any) -> None:
    """Python is parsed and its arrays are read back; Stan's brackets match and its arrays hold the same numbers."""
    prior = reference_prior(channel, tolerance=1e-9)
    for language in ("pymc", "numpyro"):
        program = prior.to_code(language)
        assert "import refprior" not in program
        assert "from refprior" not in program
        tree = ast.parse(program)
        values = {
            node.targets[0].id: ast.literal_eval(node.value.args[0])  # type: ignore[attr-defined]
            for node in tree.body
            if isinstance(node, ast.Assign)
        }
        assert np.array(values["atoms"]) == pytest.approx(prior.atoms, abs=0)
        assert values["weights"] == prior.weights.tolist()
    stan = prior.to_code("stan")
    assert all(stan.count(a) == stan.count(b) for a, b in ("{}", "[]", "()"))
    assert all(repr(float(weight)) in stan for weight in prior.weights)
    assert "TODO" in stan or re.search(r"_lp[md]f\(z \|", stan)


def test_other_languages_are_rejected() -> None:
    with pytest.raises(ValueError, match=re.escape(", ".join(LANGUAGES))):
        reference_prior(Coin(1)).to_code("bugs")


DATA = [(Coin(10), 7), (Gaussian(2.0, 0.7), 0.3), (Poisson(6.0, 0.5), 4)]


@pytest.mark.parametrize(("channel", "z"), DATA, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("language", ["pymc", "numpyro"])
def test_programs_run_and_give_our_posterior(channel: Any, z: float, language: str) -> None:
    """Where the package is installed: the joint density at each atom, normalized."""
    pytest.importorskip(language)
    prior = reference_prior(channel, tolerance=1e-9)
    namespace: dict[str, Any] = {}
    exec(prior.to_code(language), namespace)
    model, atoms = namespace["model"], range(len(prior.weights))
    if language == "pymc":
        density = model(z).compile_logp()
        log = np.array([float(density({"k": k})) for k in atoms])
    else:
        from numpyro.infer.util import log_density

        log = np.array([float(log_density(model, (z,), {}, {"k": k})[0]) for k in atoms])
    assert np.exp(log - log.max()) / np.exp(log - log.max()).sum() == pytest.approx(
        prior.posterior(z).weights, rel=1e-4, abs=1e-12
    )


def test_draws_for_arviz_follow_prior_and_posterior() -> None:
    pytest.importorskip("arviz")
    prior = reference_prior(Coin(10))
    data = prior.to_arviz(np.random.default_rng(0), z=7, draws=20_000)
    assert float(data.posterior["w"].mean()) == pytest.approx(prior.posterior(7).mean, abs=0.01)
    assert float(data.prior["w"].mean()) == pytest.approx(0.5, abs=0.01)
    heads = data.posterior_predictive["z"].to_numpy().ravel()
    shares = np.bincount(heads.astype(int), minlength=11) / len(heads)
    assert shares == pytest.approx(prior.predictive(7), abs=0.015)
    assert data.observed_data["z"].to_numpy().ravel().tolist() == [7.0]
    assert "posterior" not in prior.to_arviz(np.random.default_rng(0), draws=10).groups()


def test_notebooks_show_the_evidence_first_and_every_atom() -> None:
    html = reference_prior(Coin(2))._repr_html_()
    assert html.startswith("<p><b>certified</b>: information 0.753771802376 nats")
    assert html.count("<tr>") == 4
    assert "0.117647058824" in html
    long = reference_prior(Coin(400))._repr_html_()
    assert "more ..." in long
