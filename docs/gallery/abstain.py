"""
Uncertainty and abstention
==========================

A model that may abstain is more accurate on the rows that it answers. How much more?

The uncertainty of an ensemble has two parts. *Within*: every particle finds the row ambiguous. *Between*: the
particles disagree, which more labels could resolve. Their sum ranks the rows.
"""

import numpy as np
from sklearn.datasets import load_digits

import refprior as rp

X, truth = load_digits(return_X_y=True)
y = np.full(len(X), -1)
known = np.random.default_rng(0).permutation(len(X))[:60]
y[known] = truth[known]
clf = rp.ReferencePriorClassifier(random_state=0).fit(X, y)

unsure = clf.uncertainty(X)
order = unsure.total.argsort()  # most certain first
right = (clf.predict(X) == truth)[order]
for share in (0.5, 0.7, 0.9, 1.0):
    correct = 100 * right[: int(share * len(X))].mean()
    print(f"most certain {share:4.0%}: {correct:5.1f} % correct")

# %%

# Figure: Accuracy on the answered rows over their share, and the six images with the
# least certain predictions
import matplotlib.pyplot as plt

figure = plt.figure(figsize=(6.6, 3), layout="constrained")
curve, sheet = figure.subfigures(1, 2, width_ratios=(1.2, 1))
ax = curve.subplots()
answered = np.arange(50, len(X) + 1)
ax.plot(
    100 * answered / len(X), 100 * right.cumsum()[49:] / answered, color="#0072B2", lw=2
)
ax.set(xlabel="answered rows, %", ylabel="accuracy on them, %")
ax.grid(alpha=0.3)
predicted = clf.predict(X)
for ax, i in zip(sheet.subplots(2, 3).flat, order[::-1][:6], strict=True):
    ax.imshow(X[i].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{truth[i]} as {predicted[i]}")
sheet.suptitle("least certain: true class as predicted", fontsize=10)
plt.show()

# %%
# Which rows should a model answer? ``predict_set`` returns the classes that the labels do not rule out. The true class
# is in about 90 % of the sets, on average over draws of the labels: with 60 labels, a single draw may miss this by
# several points (its docstring states the guarantee). Answer the rows with one class, and send the others to a person.

sets = clf.predict_set(X[y == -1], coverage=0.9)
inside = sets[np.arange(len(sets)), truth[y == -1]]
alone = sets.sum(1) == 1
print(f"{100 * inside.mean():.0f} % of the sets contain the true class")
print(f"{100 * alone.mean():.0f} % of the rows have a set of one class")
print(f"{100 * inside[alone].mean():.1f} % of these are correct")

# %%
# MAPIE computes such sets from held-out labels, here 200. ``predict_set`` uses the labels of ``fit``, each with
# particles that have not learned it.

from mapie.classification import SplitConformalClassifier

free = np.flatnonzero(y == -1)
held_out, rest = free[:200], free[200:]
split = SplitConformalClassifier(clf, confidence_level=0.9, prefit=True)
split.conformalize(X[held_out], truth[held_out])
for name, found in {
    "predict_set, no label": clf.predict_set(X[rest], coverage=0.9),
    "MAPIE, 200 labels": split.predict_set(X[rest])[1][:, :, 0],
}.items():
    inside = found[np.arange(len(rest)), truth[rest]]
    print(
        f"{name}: {100 * inside.mean():.1f} % of the sets contain the true class, "
        f"{found.sum(1).mean():.2f} classes on average"
    )

# %%
# The probabilities improve by calibration on held-out labels:

predictor = clf.predictor_
calibrated = predictor.calibrated(
    rp.data.task_from_arrays((X[held_out], truth[held_out]), X).labeled
)
for name, model in {"before": predictor, "after": calibrated}.items():
    p = model.predict_proba(X[rest])
    loss = -np.log(p[np.arange(len(rest)), truth[rest]]).mean()
    print(f"{name}: negative log-likelihood {loss:.3f} nats")

# %%

calibrated

# %%
# The largest probability ranks rows about as well as the total uncertainty; disagreement alone is worse
# (:ref:`measured <embeddings:What the particles are for>`).
