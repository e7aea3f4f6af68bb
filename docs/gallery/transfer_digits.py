"""
Transfer
========

Transfer from the digits 0 to 4 with all labels to the digits 5 to 9 with two labels per class.

β determines the weight of the source: 0 remembers it, 1 forgets it.
"""

import refprior as rp

short = {"steps": 100, "ema": 0.95, "evaluate_every": 100}
found = {}
for beta in (0.5, 1.0):
    recipe = rp.recipes.override(
        rp.recipes.digits_transfer(), {**short, "method.beta": beta}
    )
    found[f"β = {beta:g}"] = run = rp.train(recipe)
    print(
        f"β = {beta:g}: {100 * run.evaluate().accuracy:.1f} % of the test images of 5 to 9"
    )

# %%

# Figure: Ten labels of the target, and the accuracy of the ensembles for two values of β
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, figsize=(6.6, 2.8), layout="constrained", width_ratios=(1.3, 1)
)
task = run.task
order = task.labeled.labels.argsort()
sheet = task.labeled.inputs[order, 0]
left.imshow(
    sheet.reshape(5, 2, 8, 8).permute(1, 2, 0, 3).reshape(16, 40), cmap="gray_r"
)
left.set(xticks=[], yticks=[], title="all labels of the target")
names = list(found)
scores = [100 * trained.evaluate().accuracy for trained in found.values()]
right.barh(names, scores, color="#0072B2")
right.set(xlim=(80, 100), xlabel="test accuracy, %")
right.invert_yaxis()
plt.show()

# %%
# This is one seed with a sixth of the recipe's steps, so small differences are not meaningful. :doc:`Results
# </results>` has five seeds, superclasses of CIFAR-100, and MNIST without target labels; :doc:`Transfer </transfer>`
# has the equations.
