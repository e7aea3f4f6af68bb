"""
Few labels on a table
=====================

Classify 178 wines from three vineyards with two labels each. The classifier also learns from the unlabeled rows.

Like many real tables, this one has an identifier, a categorical column, and missing values in 10 % of its cells. The
classifier accepts the data frame as it is.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import refprior as rp

X, truth = load_wine(return_X_y=True, as_frame=True)
truth = truth.to_numpy()
X["hue"] = np.array(["low", "medium", "high"])[np.digitize(X["hue"], [0.8, 1.1])]
X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
X.insert(0, "id", np.arange(len(X)))
columns = rp.data.Columns.fit(X)
print(columns.kinds, "; dropped:", dict(columns.left_out))
numbers = StandardScaler().fit_transform(columns(X))  # for logistic regression


def accuracies(draw: int) -> list[float]:
    random = np.random.default_rng(draw)
    known = np.concatenate(
        [random.permutation(np.flatnonzero(truth == c))[:2] for c in (0, 1, 2)]
    )
    y = np.full(len(truth), -1)
    y[known] = truth[known]
    few = LogisticRegression().fit(numbers[known], truth[known])
    all_rows = rp.ReferencePriorClassifier(random_state=0).fit(X, y)
    return [
        100 * (model.predict(rows[y == -1]) == truth[y == -1]).mean()
        for model, rows in ((few, numbers), (all_rows, X))
    ]


found = np.array([accuracies(draw) for draw in range(4)])
for name, column in zip(
    ("logistic regression", "reference prior"), found.T, strict=True
):
    mean, deviation = column.mean(), column.std(ddof=1)
    print(
        f"{name}: {mean:.1f} ± {deviation:.1f} %, each draw {column.round(1).tolist()}"
    )

# %%

# Figure: Accuracy of four draws of six labels, a line from logistic regression to the
# reference prior each
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for row in found:
    ax.plot([0, 1], row, color="#0072B2", marker="o", alpha=0.8)
ax.set(
    xticks=[0, 1],
    xticklabels=["logistic regression\n(6 rows)", "reference prior\n(178 rows)"],
    xlim=(-0.3, 1.3),
)
ax.set_ylabel("accuracy, %")
ax.grid(axis="y", alpha=0.3)
plt.show()

# %%
# The result depends strongly on the draw of six labels, so there are four draws. If the classes are clusters, as
# here, the pool reduces this variance. With more labels the difference is smaller: on a table of satellite measurements,
# 77.9 ± 2.1 % against 74.6 ± 3.0 % with 4 labels per class, and 82.4 ± 0.4 % against 81.6 ± 1.6 % with 25
# (:ref:`measured <embeddings:Measured>`).
#
# With fewer than eight labels, the inputs are principal components; with more, ``fit`` chooses them.
#
# This table was selected to show the gain. On scikit-learn's breast cancer table, which was tried first, logistic
# regression was a point better.
#
# On the command line, with empty cells for missing labels:
# ``refprior fit table.csv --target kind --out runs/table``.
