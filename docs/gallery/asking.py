"""
Active labeling
===============

Start with one label per class, and query ten more at a time. Which rows should a person label?

``suggest`` returns typical rows of clusters without a label. ``warm_start`` continues from the current particles.
"""

import numpy as np
from sklearn.datasets import load_digits

import refprior as rp

X, truth = load_digits(return_X_y=True)


def asked(choose, draw: int) -> list[float]:
    """Accuracy on all rows after each round of ten labels."""
    random = np.random.default_rng(draw)
    y = np.full(len(X), -1)
    first = [random.choice(np.flatnonzero(truth == c)) for c in range(10)]
    y[first] = truth[first]
    clf = rp.ReferencePriorClassifier(random_state=draw, warm_start=True, steps=60).fit(
        X, y
    )
    found = [(clf.predict(X) == truth).mean()]
    for _ in range(3):
        rows = choose(clf, y, random)
        y[rows] = truth[rows]  # a person answers
        found.append((clf.fit(X, y).predict(X) == truth).mean())
    return found


def at_random(clf, y, random):
    return random.choice(np.flatnonzero(y == -1), 10, replace=False)


def suggested(clf, y, random):
    return clf.suggest(X, budget=10)


rules = {"at random": at_random, "suggest": suggested}
curves = {
    name: np.array([asked(rule, draw) for draw in range(2)]) * 100
    for name, rule in rules.items()
}
for name, curve in curves.items():
    print(f"{name}: {' → '.join(f'{value:.1f}' for value in curve.mean(0))} %")

# %%

# Figure: Accuracy over the number of labels, chosen at random and by suggest; thin
# lines are single draws
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, curve), color, style in zip(
    curves.items(), ("#0072B2", "#D55E00"), ("--", "-"), strict=True
):
    ax.plot(range(10, 41, 10), curve.T, color=color, lw=0.7, alpha=0.6, ls=style)
    ax.plot(range(10, 41, 10), curve.mean(0), color=color, lw=2.5, label=name, ls=style)
ax.set(xlabel="labels", ylabel="accuracy, %", xticks=range(10, 41, 10))
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()

# %%
# These are two draws on one data set. The gain is not general: on embeddings of CIFAR-10, random queries were as good
# over five draws, and queries of the most uncertain rows were worse than both
# (:ref:`measured <embeddings:What the particles are for>`). With few labels, the particles do not doubt their common
# errors.
#
# For run folders, use the commands ``refprior suggest runs/mine --budget 10``, then
# ``refprior answer runs/mine 3 5 … --train runs/mine-2``.
