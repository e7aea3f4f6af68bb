"""The rules that fit the labels of a run: a table, and the inputs that separate each pair of them."""

# R rules, C classes, G groups

import shlex
from html import escape
from itertools import combinations

import numpy as np
from torch import Tensor

from refprior._kinds import noun
from refprior.posterior import Rules
from refprior.report._tables import as_html, note
from refprior.report._tiles import picture_url, pool_name, pool_picture
from refprior.training import Run

_LISTED = 12  # rules of the table
_PAIRS = 4  # heaviest rules of which each pair is compared
_EXAMPLES = 8  # inputs of a pair
_CLASSES = 10  # classes whose shares, and groups whose accuracies, are columns
_COLUMNS = 40  # of a table that are shown, and values of inputs without names of columns


def rules_section(run: Run, most: int) -> str | None:
    """Return the rules of a run as HTML, found with at most this many inputs; None if it can have none."""
    if not run.has_rules:
        return None
    rules, labels = run.rules(most=most), len(run.task.labeled)
    if not rules.fits:
        agreed = f"{100 * rules.agreement:.0f} % of the labels"
        return note(f"The particles agree on only {agreed}: they do not fit them well enough to compare rules.")
    if len(rules) == 1:
        return note(f"All {run.recipe.particles} particles follow one rule.")
    found = f"{len(rules)} rules fit the {labels:,} labels and disagree on {100 * rules.disagreement:.0f} % of the pool"
    if rules.ambiguous:
        ask = f"refprior suggest {shlex.quote(str(run.path or 'RUN'))} --about rule"
        found = f"<strong>{found}: the labels may not determine the task.</strong> Ask: <code>{escape(ask)}</code>"
    pairs = combinations(range(min(_PAIRS, len(rules))), 2)
    tables = as_html(rule_rows(rules)) + (as_html(group_rows(rules)) if rules.groups else "")
    return f"<p>{found}</p>{tables}" + "".join(_pair(run, rules, *pair) for pair in pairs)


def rule_rows(rules: Rules) -> list[list[str]]:
    """Return particles, weight, class shares and pairwise disagreement of each rule; the header first."""
    names, count = rules.classes[:_CLASSES], min(_LISTED, len(rules))
    against = range(min(_PAIRS, len(rules)))
    head = ["rule", "particles", "weight %", *(f"{name} %" for name in names)]
    rows = [head + [f"≠ rule {j + 1} %" for j in against]]
    for i in range(count):
        shares = [f"{100 * share:.1f}" for share in rules.shares[i, : len(names)].tolist()]
        differs = ["" if i == j else f"{100 * rules.differences[i, j].item():.1f}" for j in against]
        weight = f"{100 * rules.weights[i]:.1f}"
        rows.append([f"rule {i + 1}", str(len(rules.members[i])), weight, *shares, *differs])
    if len(rules) > count:
        rows.append([f"{len(rules) - count} more", *[""] * (len(rows[0]) - 1)])
    return rows


def group_rows(rules: Rules) -> list[list[str]]:
    """Return the accuracy of each rule in each group of test inputs and in its worst one; the header first."""
    assert rules.accuracies is not None
    head = ["test accuracy %", *(f"group {name}" for name in rules.groups[:_CLASSES]), "worst group"]
    rows = zip(rules.accuracies[:_LISTED, :_CLASSES].tolist(), rules.worst_groups, strict=False)
    cells = [[*(f"{100 * value:.1f}" for value in row), f"{100 * worst:.1f} ({name})"] for row, (name, worst) in rows]
    return [head, *([f"rule {i}", *row] for i, row in enumerate(cells, 1))]


def _pair(run: Run, rules: Rules, i: int, j: int) -> str:
    """Show the inputs that separate two rules, with the label under both."""
    places = rules.separating(i, j, _EXAMPLES)
    if not places:
        return ""
    opened = f"<details{' open' * (i == 0)}><summary>Rule {i + 1} or rule {j + 1}?</summary>"
    inputs, names = [pool_picture(run, place) for place in places], [pool_name(run, place) for place in places]
    labels = [(rules.answers(place)[i], rules.answers(place)[j]) for place in places]
    pictures = [
        np.asarray(given.cpu()) for given in inputs if isinstance(given, Tensor) and noun(given.shape) == "image"
    ]
    if pictures:
        figures = [
            f"<figure><img src='{picture_url(given)}' alt='{escape(name)}'><figcaption>rule {i + 1}: "
            f"<b>{escape(first)}</b><br>rule {j + 1}: <b>{escape(second)}</b><br>{escape(name)}</figcaption></figure>"
            for given, name, (first, second) in zip(pictures, names, labels, strict=True)
        ]
        return f"{opened}<div class='pairs'>{''.join(figures)}</div></details>"
    features, texts = run.task.features[:_COLUMNS], isinstance(inputs[0], str)
    head = ["input", f"rule {i + 1}", f"rule {j + 1}", *(features or ["text" if texts else "values"])]
    values = [_values(given, bool(features)) for given in inputs]
    rows = [[name, *pair, *row] for name, pair, row in zip(names, labels, values, strict=True)]
    return f"{opened}{as_html([head, *rows], ' words' * texts)}</details>"


def _values(given: Tensor | str, columns: bool) -> list[str]:
    """Return the cells of an input: one for each column, or one for all values or the text."""
    if isinstance(given, str):
        return [given]
    values = [f"{value:.4g}" for value in given.reshape(-1)[:_COLUMNS].tolist()]
    return values if columns else [" ".join(values)]
