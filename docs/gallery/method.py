"""
A custom method
===============

A method is a frozen dataclass of a few lines, without a base class and without registration.

In this example, a weak and a strong view of an image should get the same prediction (similar to the Π-model of Laine
and Aila, 2017). The fields are the hyperparameters, ``needs`` declares the requirements, and the call computes the
loss.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import refprior as rp


@dataclass(frozen=True)
class TwoViews:
    weight: float = 3.0
    needs: ClassVar[rp.Needs] = rp.Needs(views=("weak", "strong"))

    def __call__(self, step: rp.Step) -> rp.Loss:
        views = step.batch.views
        labeled, one, two = step.predict(
            step.batch.labeled, views["weak"], views["strong"]
        )  # (K, images, C) each
        fit = rp.losses.supervised(labeled, step.batch.labels).total
        differ = (one.exp().detach() - two.exp()).square().sum(-1).mean()
        return rp.Loss.of(
            fit + step.progress * self.weight * differ, cross_entropy=fit, differ=differ
        )


# %%
# It trains like any other method, with any number of particles, checkpoints and reports:

recipe = rp.recipes.override(
    rp.recipes.digits_ssl(labels=50), {"steps": 100, "ema": 0.95, "evaluate_every": 20}
)
methods = {
    "supervised": rp.Supervised(),
    "two views": TwoViews(),
    "reference prior": rp.ReferencePrior(),
}
runs = {
    name: rp.train(replace(recipe, method=method)) for name, method in methods.items()
}
for name, run in runs.items():
    print(f"{name}: {100 * run.evaluate().accuracy:.1f} % of 600 test images")

# %%

# Figure: Test accuracy over training of supervised learning, the method of this page,
# and the reference prior
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
for (name, run), color, style in zip(
    runs.items(), ("#0072B2", "#D55E00", "#009E73"), ("--", "-", "-."), strict=True
):
    records = [record for record in run.history if record.evaluation]
    ax.plot(
        [r.step for r in records],
        [100 * r.evaluation.accuracy for r in records],
        style,
        color=color,
        label=name,
    )
ax.set(xlabel="step", ylabel="test accuracy, %")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()

# %%
# From a file ``mine.py`` with a function ``recipe``, you can train it on the command line:
# ``refprior sweep mine.py:recipe --set method.weight=1,3,10 --out runs/weight``. :ref:`Custom methods <own:A method>`
# lists the fields of ``Needs`` and ``Step``.
