"""docs/equations.md is true: complete, every name is public, and what it names says the label and computes it."""

import importlib
import inspect
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import refprior as rp
from refprior.cli import app

TABLE = Path(__file__).parents[2] / "docs" / "equations.md"
LINES = [
    tuple(cell.strip() for cell in line.strip("|\n").split(" | "))
    for line in TABLE.read_text().splitlines()
    if re.match(r"\| (eq|fig|rem|tab|eg):", line)
]
FUNCTIONS = [(label, how.strip("`")) for label, _, how in LINES if how.startswith("`rp.")]
COMMANDS = [(label, how.strip("`")) for label, _, how in LINES if how.startswith("`refprior ")]

# Every label of the paper's source on an equation, example, figure or table, and the remarks that are computed.
LABELS = {
    "eq:ref_defn",
    "eq:ref_pin",
    "eg:bias",
    "eq:ref_ssl",
    "eq:bayes_posterior_predictive_distribution",
    "eq:ref_pinm",
    "eq:ref_pinm_avg",
    "eq:pib",
    "eq:ref_pinm_beta",
    "eq:ref_pi_transfer_1",
    "eq:ref_pi_transfer_2",
    "eq:ref_transfer_mi",
    "eq:ref_mi_ce",
    "eq:tau",
    "eq:transfer_expt_obj",
    "rem:ba_particles",
    "rem:visua_prior",
    "fig:coin_convergence_jeffreys",
    "fig:manifold_boundary",
    "fig:matrix",
    "fig:particle_accuracy_entropy",
    "fig:app:coin_two_stage1",
    "fig:app:coin_two_stage2",
    "tab:cifar10_ssl",
    "tab:app:order",
    "tab:app:particles",
    "tab:app:ema",
    "tab:mnist_transfer1",
    "tab:app:ablation2",
    "eq: mnist_transfer",
}


def says(text: str, label: str) -> bool:
    """Whether a text has a label, and not only a longer one: eq:ref_pinm is not in eq:ref_pinm_avg."""
    return re.search(rf"(?<![\w:]){re.escape(label)}(?!\w)", text) is not None


def test_every_label_of_the_paper_is_in_the_table_and_no_other_but_remarks() -> None:
    found = {label for label, *_ in LINES}
    assert found >= LABELS
    assert all(label.startswith("rem:") for label in found - LABELS)
    numbered = re.findall(r"\| (?:Section|Appendix) [^|]+ \| ([^|]+) \|$", TABLE.read_text(), re.MULTILINE)
    assert sorted(numbered) == sorted(found)


def test_every_row_says_what_and_names_one_thing_once() -> None:
    assert len(FUNCTIONS) + len(COMMANDS) == len(LINES)
    assert all(len(line) == 3 and all(line) for line in LINES)
    assert len({(label, what, how) for label, what, how in LINES}) == len(LINES)


@pytest.mark.parametrize(("label", "path"), FUNCTIONS)
def test_the_name_is_public_and_its_own_docstring_has_the_label(label: str, path: str) -> None:
    module_name, _, name = path.rpartition(".")
    module = importlib.import_module(module_name.replace("rp", "refprior", 1))
    assert name in (dir(module) if module is rp else module.__all__)
    thing = getattr(module, name)
    assert inspect.isfunction(thing) or inspect.isclass(thing)
    assert says(thing.__doc__ or "", label), f"{path} does not say {label}"


@pytest.mark.parametrize(("label", "command"), COMMANDS)
def test_the_command_exists_and_its_help_has_the_label(label: str, command: str) -> None:
    found = app
    for word in command.split()[1:]:
        found = found[word]
    assert callable(found.default_command)
    assert says(found.help, label), f"{command} does not say {label}"


def draw(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).log_softmax(-1)


def test_eq_ref_defn_is_the_entropy_of_the_weights_less_that_given_the_labels() -> None:
    """H(w) - H(w | y^2), labeling by labeling."""
    log_p, prior = draw(3, 1, 2, 4), torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    remaining = 0.0
    for y in itertools.product(range(4), repeat=2):
        joint = prior * log_p[:, 0, 0, y[0]].exp() * log_p[:, 0, 1, y[1]].exp()  # p(w, y)
        remaining -= float((joint * (joint / joint.sum()).log()).sum())
    expected = float(-(prior * prior.log()).sum()) - remaining
    assert rp.information.mutual_information(log_p, prior.log()).item() == pytest.approx(expected, rel=1e-12)


def test_eq_ref_pinm_avg_with_the_beta_of_eq_pib_is_a_difference_of_informations() -> None:
    """I(w; z^3) - β I(w; z^1) of a coin's prior, from the binomial probabilities."""
    found = rp.exact.two_stage_prior(rp.exact.Coin, m=1, n=2, beta=0.5)

    def information(tosses: int) -> float:
        counts = np.arange(tosses + 1)
        ways = np.array([math.comb(tosses, int(z)) for z in counts])
        p = ways * found.atoms[:, None] ** counts * (1 - found.atoms[:, None]) ** (tosses - counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p > 0, p * np.log(p / (found.weights @ p)), 0)
        return float(found.weights @ terms.sum(1))

    assert found.information == pytest.approx(information(3) - 0.5 * information(1), abs=1e-12)
