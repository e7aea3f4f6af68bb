"""Draw docs/figures/rules.png, the first picture of the README: python docs/figures/rules.py."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import refprior as rp
from refprior._style import RC, SERIES

LABELED = 120
COLUMNS = 4


def dominoes(random: np.random.Generator) -> Any:
    """Return labels, labeled images of two digits that agree, the pool, and what its left and right digits say."""
    images, digit = load_digits(return_X_y=True)

    def draw(cue: Any, zero: int, one: int) -> Any:
        return images[[random.choice(np.flatnonzero(digit == d)) for d in np.where(cue == 1, one, zero)]]

    label = random.integers(0, 2, LABELED)
    left, right = random.integers(0, 2, (2, 1000))
    labeled = np.hstack([draw(label, 0, 1), draw(label, 3, 8)])
    return label, labeled, np.hstack([draw(left, 0, 1), draw(right, 3, 8)]), left, right


def chip(ax: Any, answer: int) -> None:
    """Write A or B in a colored box."""
    box = {"boxstyle": "round,pad=0.3,rounding_size=0.4", "color": SERIES[answer]}
    ax.text(0.5, 0.5, f"  {'AB'[answer]}  ", color="white", weight="bold", ha="center", va="center", bbox=box)
    ax.axis("off")


def clearest(rows: Any, chosen: Any) -> Any:
    """Return the two of the chosen rows that are closest to their mean."""
    distance = np.linalg.norm(rows[chosen] - rows[chosen].mean(0), axis=1)
    return chosen[distance.argsort()[:2]]


def main() -> None:
    """Fit the classifier of the gallery page, and draw what its rules say about unlabeled images."""
    label, labeled, pool, left, right = dominoes(np.random.default_rng(0))
    X, y = np.vstack([labeled, pool]), np.append(label, np.full(len(pool), -1))
    method = rp.ReferencePrior.underspecified()
    clf = rp.ReferencePriorClassifier(method, particles=16, random_state=0).fit(X, y)
    rules = clf.rules(pool)
    answers = rules.log_p[:2].argmax(-1).numpy()
    given = np.concatenate([clearest(labeled, np.flatnonzero(label == a)) for a in (0, 1)])
    asked = np.concatenate([clearest(pool, np.flatnonzero((left == a) & (right != a))) for a in (0, 1)])
    weights = (f"rule {n + 1}: {100 * rules.weights[n]:.0f} %" for n in (0, 1))
    names = (f"{LABELED} labels,\nall correct", "", "no label", *weights)
    with plt.rc_context({**RC, "font.size": 10.5}):
        figure, axes = plt.subplots(5, COLUMNS, figsize=(5.2, 3.1), height_ratios=(1.2, 0.45, 1.5, 0.45, 0.45))
        figure.subplots_adjust(left=0.2, right=0.99, top=1, bottom=0.01, hspace=0.08, wspace=0.1)
        for row, picked, rows in ((axes[0], given, labeled), (axes[2], asked, pool)):
            for ax, i in zip(row, picked, strict=True):
                ax.imshow(np.hstack(rows[i].reshape(2, 8, 8)), cmap="gray_r", interpolation="bicubic")
                ax.set(xticks=[], yticks=[])
                ax.grid(visible=False)
                ax.spines[["top", "right"]].set_visible(True)
        for row, picked, found in ((axes[1], given, label), (axes[3], asked, answers[0]), (axes[4], asked, answers[1])):
            for ax, i in zip(row, picked, strict=True):
                chip(ax, found[i])
        for row, name in zip(axes, names, strict=True):
            place = row[0].get_position()
            figure.text(0.01, (place.y0 + place.y1) / 2, name, va="center")
        figure.savefig(Path(__file__).with_suffix(".png"), dpi=200, metadata={"Software": ""})
    before = (clf.predict(pool) == right).mean()
    ask = clf.suggest(pool, budget=4, about="rule")
    clf.given(pool[ask], right[ask])
    print(rules)
    print(f"{100 * before:.1f} % before, {100 * (clf.predict(pool) == right).mean():.1f} % after {len(ask)} answers")


if __name__ == "__main__":
    main()
